"""The library as one file, which tools/amalgamate.py makes: it builds alone, and is the library."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import object_test  # noqa: E402
import support  # noqa: E402

SCRIPT = os.path.join(support.SOURCE, "tools", "amalgamate.py")
CONSUMER = os.path.join(support.SOURCE, "test", "system", "install", "consumer.c")
SHARED = ["-O2", "-fPIC", "-fvisibility=hidden", "-DFH_SHARED", "-shared"]

def amalgamate(folder):
    subprocess.check_call([sys.executable, SCRIPT, folder])

class Made(unittest.TestCase):
    """Both files in a folder of their own."""
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = temporary.name
        amalgamate(cls.folder)

    def compile(self, *arguments, compiler=support.COMPILER):
        result = support.run([compiler, *arguments], timeout=250, cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)

    def globals(self, path):
        """Binding, visibility and name of each; what it only needs has the section UND."""
        text = support.run(["readelf", "-sW", path], cwd=self.folder).stdout
        return sorted(re.findall(r" (GLOBAL|WEAK) +(\w+) +(?:\d+|ABS|COM|(UND)) +(\S+)$", text,
                                 re.M))

class Amalgamation(Made):
    def links_and_runs(self, secure):
        grade = "-D%s=" + str(secure)
        self.compile("-O2", "-Wall", "-Wextra", "-Werror", grade % "FH_SECURE", "-c", "freehold.c",
                     "-o", "own.o")
        self.compile("-O1", "-fno-builtin", "-DIS_AMALGAMATION", grade % "IS_SECURE", "-I.",
                     CONSUMER, "own.o", "-o", "consumer")
        self.assertEqual(support.run([os.path.join(self.folder, "consumer")]).returncode, 0)

    def test_it_is_two_files_that_include_no_other_of_ours(self):
        self.assertLessEqual({"freehold.c", "freehold.h"}, set(os.listdir(self.folder)))
        for name in ("freehold.c", "freehold.h"):
            text = support.read(os.path.join(self.folder, name))
            self.assertEqual(re.findall(r'#\s*include\s+".*', text), [])

    def test_its_bytes_depend_on_nothing_but_the_sources(self):
        with tempfile.TemporaryDirectory() as other:
            checkout = os.path.join(other, "elsewhere")
            for name in ("src", "include", "tools"):
                shutil.copytree(os.path.join(support.SOURCE, name), os.path.join(checkout, name))
            shutil.copy(os.path.join(support.SOURCE, "LICENSE"), checkout)
            subprocess.check_call([sys.executable, os.path.join(checkout, "tools/amalgamate.py"),
                                   other], env={"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"})
            for name in ("freehold.c", "freehold.h"):
                self.assertEqual(support.read(os.path.join(other, name)),
                                 support.read(os.path.join(self.folder, name)))

    def test_the_head_of_each_file_has_version_and_licence(self):
        for name in ("freehold.c", "freehold.h"):
            head = support.read(os.path.join(self.folder, name)).split("*/")[0]
            version = re.search(r'" (\d+\.\d+\.\d+)|freehold (\d+\.\d+\.\d+),', head)
            self.assertTrue(version, head)
            licence = re.sub(r"^ \* ?", "", head, flags=re.M)
            self.assertIn(support.read("LICENSE").strip(), licence)

    def test_one_line_of_gcc_builds_it_without_a_warning_and_a_program_runs_on_it(self):
        self.links_and_runs(secure=0)

    def test_a_definition_makes_it_the_secure_grade(self):
        self.links_and_runs(secure=1)

class AmalgamationBuilds(Made):
    def test_one_line_of_clang_builds_it_without_a_warning(self):
        """In a folder where no other file is; gcc does where a program links it."""
        clang = next((c for c in ("clang", "clang-14", "clang-19") if support.has(c)), None)
        self.assertIsNotNone(clang, "no clang: ./dev test installs clang-14")
        for secure in (0, 1):
            with tempfile.TemporaryDirectory() as alone:
                shutil.copy(os.path.join(self.folder, "freehold.c"), alone)
                self.compile("-O2", "-Wall", "-Wextra", "-Werror", "-DFH_SECURE=%d" % secure,
                             "-c", os.path.join(alone, "freehold.c"), "-o",
                             os.path.join(alone, "freehold.o"), compiler=clang)

    def test_its_object_has_the_symbols_of_the_one_that_is_installed(self):
        self.compile(*support.FLAGS, "-c", "freehold.c", "-o", "symbols.o")
        self.assertGreater(len(self.globals("symbols.o")), 100)
        self.assertEqual(self.globals("symbols.o"), self.globals(support.OBJECT))

    def test_the_line_for_a_shared_library_gives_the_golden_instructions(self):
        head = support.read(os.path.join(self.folder, "freehold.c")).split("*/")[0]
        self.assertIn("cc %s freehold.c -o libfreehold.so" % " ".join(SHARED), head)
        self.compile(*SHARED, "freehold.c", "-o", "libfreehold.so")
        library = os.path.join(self.folder, "libfreehold.so")
        wanted = object_test.golden(object_test.compiler_name())
        if not wanted:
            self.skipTest("no line for %s" % object_test.compiler_name())
        def in_any_order(names):  # two may change places, and gaps be filled in another way
            return sorted(n for n in names if not n.startswith("nop"))
        self.assertEqual({name: in_any_order(object_test.instruction_names(name, library))
                          for name in wanted},
                         {name: in_any_order(names) for name, names in wanted.items()})

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
