#!/usr/bin/env python3
"""Builds the documentation site, and checks every link in it: ./dev site

usage: tools/site.py FOLDER

The pages are those of the repository, in the same folders, so that their links hold. A source that
a page links to becomes a page too. The site goes to FOLDER/VERSION, with the reference of the
header, by doxygen, in api/. Needs what packaging/site/requirements.txt pins, and doxygen."""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SITE = os.path.join(SOURCE, "packaging", "site")
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")
TOP = ["README.md", "docs/tour.md", "docs/promises.md", "docs/options.md", "docs/statistics.md",
       "docs/insight.md", "docs/benchmarks.md", "docs/design.md", "docs/concurrency.md",
       "src/README.md", "packaging/README.md", "CONTRIBUTING.md"]

def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()

def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

def version():
    header = read(os.path.join(SOURCE, "include/freehold/freehold.h"))
    return ".".join(re.findall(r"#define FH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

# ---- the pages -----------------------------------------------------------------------------------

def page_of(path):
    """The page that stands for a file or folder of the repository, and the text it has if it is not
    one of Markdown."""
    full = os.path.join(SOURCE, path)
    if os.path.isdir(full):
        if os.path.exists(os.path.join(full, "README.md")):
            return path + "/README.md", None
        names = "\n".join("- `%s`" % name for name in sorted(os.listdir(full)))
        return path + "/README.md", "# %s\n\n%s\n" % (path, names)
    if path.endswith((".md", ".png")):
        return path, None
    kind = {".h": "c", ".c": "c", ".py": "python", ".toml": "toml"}.get(os.path.splitext(path)[1],
                                                                        "text")
    return path + ".md", "# %s\n\n````%s\n%s\n````\n" % (path, kind, read(full))

def staged(into):
    """Copies each page that can be reached from those of TOP, and what it links to."""
    todo, done = list(TOP), set()
    while todo:
        page = todo.pop(0)
        if page in done:
            continue
        done.add(page)
        if page.endswith(".png"):
            os.makedirs(os.path.dirname(os.path.join(into, page)), exist_ok=True)
            shutil.copy(os.path.join(SOURCE, page), os.path.join(into, page))
            continue
        folder = os.path.dirname(page)

        def linked(found):
            path = os.path.normpath(os.path.join(folder, found.group(1)))
            target, text = page_of(path)
            if text is not None:
                write(os.path.join(into, target), text)
                done.add(target)
            todo.append(target)
            return os.path.relpath(target, folder or ".")
        write(os.path.join(into, page), LINK.sub(linked, read(os.path.join(SOURCE, page))))
    return done

def title_of(path):
    return re.search(r"^# (.*)$", read(path), re.M).group(1).replace("`", "")

def navigation(stage, pages):
    decisions = sorted(p for p in pages if p.startswith("docs/decisions/"))
    others = sorted(p for p in pages if re.match(r"docs/[^/]*\.md$", p) and p not in TOP)
    yield "nav:"
    for path in [*TOP, *others]:
        yield '  - "%s": %s' % (title_of(os.path.join(stage, path)).replace('"', "'"), path)
    yield '  - "Interface": api.md'
    yield "  - Decisions:"
    for path in decisions:
        yield '      - "%s": %s' % (title_of(os.path.join(stage, path)).replace('"', "'"), path)

# ---- links ---------------------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """The names that can be linked to in a page, and what it links to or loads."""
    def __init__(self, path):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(read(path))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names.update(filter(None, (given.get("id"), given.get("name"))))
        self.links += [(tag, given[key]) for key in ("href", "src") if given.get(key)]

def broken_links(site):
    """Each link of a page that leads nowhere, and whatever a page would load from elsewhere."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(site) for name in names
             if name.endswith(".html")]
    pages = {path: Page(path) for path in paths}
    for path, page in sorted(pages.items()):
        for tag, link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if tag != "a" and parts.scheme not in ("data", "javascript"):
                    yield "%s loads %s" % (path, link)
                continue
            target = os.path.normpath(os.path.join(
                site if parts.path.startswith("/") else os.path.dirname(path),
                urllib.parse.unquote(parts.path).lstrip("/"))) if parts.path else path
            if os.path.isdir(target):
                target = os.path.join(target, "index.html")
            name = urllib.parse.unquote(parts.fragment)
            if not os.path.exists(target):
                # a page of "not found" is shown at any address
                if os.path.basename(path) != "404.html":
                    yield "%s links to %s" % (path, link)
            elif name and target in pages and name not in pages[target].names | {"__top"}:
                yield "%s links to %s, which has no such heading" % (path, link)
    if len(pages) < 20:
        yield "%s has only %d pages" % (site, len(pages))

# ---- all of it -----------------------------------------------------------------------------------

def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tools/site.py FOLDER")
    site = os.path.join(os.path.abspath(sys.argv[1]), version())
    stage = os.path.join(os.path.abspath(sys.argv[1]), "stage")
    for folder in (site, stage):
        shutil.rmtree(folder, ignore_errors=True)
    pages = staged(os.path.join(stage, "pages"))
    write(os.path.join(stage, "pages", "api.md"),
          "# Interface\n\n[The reference](api/freehold_8h.html) of freehold.h, by its comments.\n")
    os.makedirs(os.path.join(stage, "pages", "api"))
    doxyfile = read(os.path.join(SITE, "Doxyfile")) + "\n".join([
        "", "INPUT = " + os.path.join(SOURCE, "include"), "PROJECT_NUMBER = " + version(),
        "STRIP_FROM_PATH = " + os.path.join(SOURCE, "include"),
        "OUTPUT_DIRECTORY = " + stage, "HTML_OUTPUT = pages/api", ""])
    subprocess.run(["doxygen", "-"], input=doxyfile, text=True, check=True)
    write(os.path.join(stage, "mkdocs.yml"), "\n".join([
        "site_name: freehold " + version(), "docs_dir: pages", "site_dir: " + site,
        read(os.path.join(SITE, "mkdocs.yml")),
        *navigation(os.path.join(stage, "pages"), pages), ""]))
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f",
                    os.path.join(stage, "mkdocs.yml")], check=True)
    broken = list(broken_links(site))
    if broken:
        sys.exit("\n".join(["site: %d broken links" % len(broken), *broken[:50]]))
    print("site: %s, every link leads somewhere" % os.path.join(site, "index.html"))

if __name__ == "__main__":
    main()
