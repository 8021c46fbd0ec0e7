"""What the files of packaging say again of the sources: versions, flags of the compiler, licence,
names of options. `./dev packages` builds the packages themselves."""
import ast
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

PLACES = {                                              # the version, as each file writes it
    "packaging/debian/changelog": r"^freehold \((.*?)\)",
    "packaging/rpm/freehold.spec": r"^Version: +(.*)$",
    "packaging/alpine/APKBUILD": r"^pkgver=(.*)$",
    "packaging/vcpkg/ports/freehold/vcpkg.json": r'"version": "(.*?)"',
    "packaging/meson/freehold.wrap": r"^revision = v(.*)$",
    "meson.build": r"^project\(.*?version: '(.*?)'",
    "MODULE.bazel": r'^module\(.*version = "(.*?)"',
}

def version():
    header = support.read("include/freehold/freehold.h")
    return ".".join(re.findall(r"#define FH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

def flags_of_release():
    """Those that change the code, of the release build: not warnings, language or debug level."""
    text = re.search(r"set\(fh_flags (.*?)\)\n", support.read("CMakeLists.txt"), re.S).group(1)
    return set(re.findall(r"(?<=\s)-f[\w-]+(?:=\w+)?", text)) | {"-O2"}

def rows():
    """README.md's table of packages: for whom, the command, what tries it."""
    table = support.read("README.md").split("| for | command | tried by |\n")[1].split("\n\n")[0]
    return [tuple(line.strip("|").split("|")) for line in table.splitlines()[1:]]

def tried(row):
    """The task of ./dev that the row names, and its arguments."""
    task, *rest = re.search(r"`\./dev ([^`]*)`", row[2]).group(1).split()
    return task, rest

def parts(script):
    """What a script can be asked for: its functions try_NAME or part_NAME."""
    return {name.replace("_", "-")
            for name in re.findall(r"^(?:try|part)_(\w+)\(\)", support.read(script), re.M)}

class Packages(unittest.TestCase):
    maxDiff = None

    def test_every_package_has_the_version_of_the_header(self):
        wrong = {path: found for path, pattern in PLACES.items()
                 for found in [re.findall(pattern, support.read(path), re.M)]
                 if found != [version()]}
        self.assertEqual(wrong, {})

    def test_every_folder_of_packaging_is_described(self):
        page = support.read("packaging/README.md")
        for name in os.listdir(os.path.join(support.SOURCE, "packaging")):
            if name not in ("README.md", "__pycache__"):
                self.assertIn("`%s" % name, page)

    def test_each_row_of_the_readme_is_tried_by_a_task_that_exists_and_each_package_has_a_row(self):
        tasks = set(re.findall(r"^#: ([\w-]+) ", support.read("dev"), re.M))
        known = {"packages": parts("packaging/test.sh"), "bindings": parts("bindings/run.sh")}
        named = {task: set() for task in known}
        self.assertGreater(len(rows()), 15)
        for row in rows():
            task, rest = tried(row)
            self.assertIn(task, tasks, row)
            if task in known:
                self.assertEqual(set(rest) - known[task], set(), row)
                named[task].update(rest)
        self.assertEqual(named["packages"], known["packages"])
        whole = re.search(r'^all="(.*)"', support.read("packaging/test.sh"), re.M).group(1)
        self.assertEqual(set(whole.split()), known["packages"])

    def test_what_tries_a_row_finds_its_command(self):
        there = {row[0].strip(): row[1] for row in rows()}
        call = r"\$\((?:sh )?[\w$/.\"]*\brow(?:\.sh\"?)? (?:'(.*?)'|([\w-]+))"
        asked = {a or b for path in ("packaging/test.sh", "bindings/run.sh")
                 for a, b in re.findall(call, support.read(path))}
        self.assertGreater(len(asked), 8)
        for name in asked:
            result = support.run([os.path.join(support.SOURCE, "packaging", "row.sh"), name])
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("`%s`" % result.stdout.strip(), there[name])

    def test_meson_and_bazel_compile_with_the_flags_of_the_release(self):
        wanted = flags_of_release()
        self.assertGreater(len(wanted), 8)
        for path in ("meson.build", "BUILD.bazel"):
            text = support.read(path)
            lost = {flag for flag in wanted
                    if not re.search(r"['\"]%s['\"]" % re.escape(flag), text)}
            self.assertEqual((path, lost), (path, set()))

    def test_debian_says_the_licence_in_the_words_of_the_licence(self):
        said = re.sub(r"^ \.?", "", support.read("packaging/debian/copyright"), flags=re.M)
        licence = support.read("LICENSE").split("\n\n", 2)[2]
        self.assertIn(" ".join(licence.split()), " ".join(said.split()))

    def test_packages_set_only_options_that_exist(self):
        table = support.read("docs/options.md")
        for path in ("packaging/systemd/freehold.conf", "packaging/docker/Dockerfile"):
            for text in re.findall(r"FREEHOLD_OPTIONS=(\S+)", support.read(path)):
                for name in re.findall(r"(\w+):", text):
                    self.assertIn("| `%s` |" % name, table)

    def test_recipes_can_be_read(self):
        json.loads(support.read("packaging/vcpkg/ports/freehold/vcpkg.json"))
        for path in support.sources(".py", folder="packaging"):
            ast.parse(support.read(path))
        for path in support.sources(".sh", "APKBUILD", folder="packaging"):
            result = support.run(["sh", "-n", os.path.join(support.SOURCE, path)])
            self.assertEqual((path, result.returncode, result.stderr), (path, 0, ""))

    def test_options_that_packages_give_to_cmake_exist(self):
        cmake = support.read("CMakeLists.txt")
        given = {name for path in support.sources("", folder="packaging")
                 for name in re.findall(r"-D(FH_\w+)=(?:ON|OFF)", support.read(path))}
        self.assertEqual(sorted(name for name in given if "option(%s " % name not in cmake), [])

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
