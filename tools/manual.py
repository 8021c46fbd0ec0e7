#!/usr/bin/env python3
"""Writes the manual pages and the completions of shells into a folder.

usage: tools/manual.py COMMAND FOLDER

Nothing is written twice: freehold(1) is what COMMAND, the command as it was built, says of itself,
freehold.conf(5) its table of options, freehold(3) the comments of the header. The date is that of
the release, in packaging/debian/changelog."""
import email.utils
import json
import os
import re
import subprocess
import sys
import textwrap

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERBS = ["top", "stats", "why", "map", "profile", "set", "trim", "inspect", "trace"]
GROUPS = {1: "User Commands", 3: "Library Functions Manual", 5: "File Formats Manual"}

def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()

def release():
    """Version and day."""
    found = re.match(r"freehold \(([\d.]+)\).*?\n -- [^\n]*>  ([^\n]+)",
                     read("packaging/debian/changelog"), re.S)
    return found.group(1), email.utils.parsedate_to_datetime(found.group(2)).strftime("%Y-%m-%d")

# ---- roff ----------------------------------------------------------------------------------------

def plain(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)

def prose(text):
    """What stands in backticks is a name."""
    lines = textwrap.wrap(" ".join(text.split()), 70, break_on_hyphens=False,
                          break_long_words=False)
    return re.sub(r"`([^`]*)`", r"\\fI\1\\fR", plain("\n".join(lines)))

def paragraph(text):
    return ".PP\n" + prose(text) + "\n" if text.strip() else ""

def code(text):
    return ".PP\n.nf\n" + plain(text.rstrip("\n")) + "\n.fi\n" if text.strip() else ""

def item(name, text):
    return ".TP\n\\fB%s\\fR\n%s\n" % (plain(name), prose(text))

def page(name, section, what, body):
    version, day = release()
    body = re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", body, flags=re.M)
    return ('.\\" written by tools/manual.py\n.TH %s %d "%s" "freehold %s" "%s"\n.SH NAME\n'
            "%s \\- %s\n%s" % (name.upper(), section, day, version, GROUPS[section], name, what,
                               body))

# ---- the command ---------------------------------------------------------------------------------

def said_by(command, *arguments):
    return subprocess.run([command, *arguments], stdout=subprocess.PIPE, text=True,
                          env={"PATH": os.environ["PATH"]}, check=True).stdout

def of_help(text):
    """A page of help as a manual has it: usage, then by their indent text, flags and examples."""
    usage, rest = re.match(r"(freehold[^\n]*\n(?: {12,}[^\n]*\n)*)(.*)", text, re.S).groups()
    yield "\\fB%s\\fR\n" % plain(" ".join(usage.split()))
    for part in re.split(r"\n\n|\n(?=\S)|\n(?=  --)", rest):
        flag = re.match(r"  (--.*?) {2,}(.*)", part, re.S)
        head, _, example = part.partition("\n  freehold")
        if flag:
            yield item(*flag.groups())
        elif example:
            yield paragraph(head + ":") + code(re.sub(r"^  ", "", part[len(head) + 1:],
                                                      flags=re.M))
        else:
            yield paragraph(part)

def of_command(command, options):
    general = said_by(command, "help")
    run = re.search(r"^  freehold run .*\n((?: {6}.*\n)+)", general, re.M)
    yield ".SH SYNOPSIS\n"
    lines = re.findall(r"^  (freehold .*?)(?: {3,}.*)?$",
                       general.split("Examples")[0], re.M)
    yield ".br\n".join("\\fB%s\\fR\n" % plain(line) for line in lines)
    yield ".SH DESCRIPTION\n" + prose("It is " + general.split("\n")[0].split(": ", 1)[1]) + ".\n"
    yield ".SS freehold run\n" + prose("It " + run.group(1).strip()) + ".\n"
    yield paragraph("Each option of freehold.conf(5) is a flag:")
    for option in options:
        yield item("--%s %s" % (option["name"].replace("_", "-"), option["range"]), option["what"])
    for verb in VERBS:
        yield ".SS freehold %s\n" % verb + "".join(of_help(said_by(command, verb, "--help")))
    yield ".SH EXAMPLES\n" + code(re.sub(r"^  ", "", re.search(
        r"^Examples\n((?:  .*\n)+)", general, re.M).group(1), flags=re.M))
    yield ".SH EXIT STATUS\n" + prose(general[general.index("Exit codes of run"):]) + "\n"
    yield ".SH SEE ALSO\nfreehold(3), freehold.conf(5), ld.so(8)\n"

# ---- the options ---------------------------------------------------------------------------------

def of_options(options):
    page_text = read("docs/options.md")
    intro = page_text[page_text.index("\nOptions are"):page_text.index("| option |")]
    yield ".SH DESCRIPTION\n"
    for part in re.split(r"\n\n|\n(?=\d\. )", intro.strip()):
        number = re.match(r"(\d\.) (.*)", part, re.S)
        yield item(*number.groups()) if number else paragraph(part)
    yield ".SH OPTIONS\n"
    for option in options:
        yield item("%s:%s" % (option["name"], option["range"]), "%s. Set %s." % (
            option["what"].rstrip("."), "at start" if option["set"] == "start" else "at any time"))
    yield (".SH FILES\n" + item("/etc/freehold.conf", "A symbolic link whose target is the text of "
                                "options for every program of the machine."))
    yield ".SH EXAMPLES\n" + code("ln -s thp:never,background:on /etc/freehold.conf\n"
                                  "FREEHOLD_OPTIONS=stats:exit freehold run -- ls")
    yield ".SH SEE ALSO\nfreehold(1), freehold(3)\n"

# ---- the header ----------------------------------------------------------------------------------

def of_header():
    text = read("include/freehold/freehold.h")
    head, text = text.split("*/", 1)
    yield ".SH SYNOPSIS\n.nf\n#include <freehold/freehold.h>\n\ncc program.c \\-lfreehold\n.fi\n"
    yield ".SH DESCRIPTION\n"
    for part in re.split(r"\n \*\n", head[head.index("\n *\n") + 4:]):
        for piece in re.split(r"\n \*   (?=[A-Z]\w+ {2,})", "\n" + part):
            label = re.match(r"([A-Z]\w+) {2,}(.*)", piece, re.S)
            words = re.sub(r"\n \*", "\n", label.group(2) if label else piece)
            yield item(label.group(1), words) if label else paragraph(
                re.sub(r"^\s*\*", "", words))
    for title, part in re.findall(r"^/\* ---- (.*?) -+ \*/\n(.*?)(?=^/\* ----|^#ifdef|\Z)", text,
                                  re.M | re.S):
        yield ".SS %s\n" % plain(title.capitalize())
        part = re.sub(r"/\* clang-format \w+ \*/\n|^#.*\n", "", part, flags=re.M)
        for comment, declared in re.findall(r"^/\* (.*?) \*/\n(.*?)(?=^/\*|\Z)", part, re.M | re.S):
            declared = re.sub(r" FH_(MALLOC|SIZE\([^)]*\))|FH_API |\n  FH_SIZE\([^)]*\)", "",
                              declared)
            yield code(declared.strip("\n")) + paragraph(re.sub(r"\n \*", "\n", comment))
    yield ".SH SEE ALSO\nfreehold(1), freehold.conf(5), malloc(3)\n"

# ---- all of it -----------------------------------------------------------------------------------

def completion(name, options):
    flags = ["--" + option["name"].replace("_", "-") for option in options]
    words = ["%s:%s" % (flag, option["range"]) for flag, option in zip(flags, options)
             if re.fullmatch(r"\w+(\|\w+)+", option["range"])]
    return (read("packaging/completion/" + name).replace("@FLAGS@", " ".join(flags))
            .replace("@WORDS@", " ".join(words)))

def main():
    if len(sys.argv) != 3:
        sys.exit("usage: tools/manual.py COMMAND FOLDER")
    command, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    options = json.loads(said_by(command, "options", "--json"))["options"]
    os.makedirs(folder, exist_ok=True)
    for name, text in {
            "freehold.1": page("freehold", 1, "run programs on a memory allocator, look into them",
                               "".join(of_command(command, options))),
            "freehold.3": page("freehold", 3, "a lock-free general-purpose memory allocator",
                               "".join(of_header())),
            "freehold.conf.5": page("freehold.conf", 5, "options of the allocator freehold",
                                    "".join(of_options(options))),
            "freehold.bash": completion("freehold.bash", options),
            "_freehold": completion("_freehold", options)}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

if __name__ == "__main__":
    main()
