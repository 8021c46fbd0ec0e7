"""The headers for C++ with each compiler, C++ library and standard: memory_hpp_test.cc is compiled,
and run with each grade of the library."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

BUILD = os.path.dirname(support.LIBRARY)
WARNINGS = "-Wall -Wextra -pedantic -Werror -Wno-error=deprecated-declarations".split()

def first_of(*names):
    return next(filter(None, map(shutil.which, names)), None)

class Headers(unittest.TestCase):
    def compile_and_run(self, compiler, *flags):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            subprocess.check_call(
                [compiler, *flags, *WARNINGS, "-Iinclude", "-pthread",
                 "test/system/memory_hpp_test.cc", "-o", program, "-L" + BUILD, "-lfreehold",
                 "-Wl,-rpath," + BUILD], cwd=support.SOURCE)
            for grade in ("", "-secure", "-debug"):
                library = os.path.join(BUILD, "libfreehold%s.so" % grade)
                result = support.run([program], support.preloaded(library=library), timeout=250)
                self.assertEqual((result.returncode, result.stdout), (0, "well\n"), result.stderr)

class Gcc(Headers):
    def test_with_the_oldest_standard_that_they_take(self):
        self.compile_and_run("g++", "-std=c++17")

    def test_with_the_newest_standard(self):
        self.compile_and_run("g++", "-std=c++23")

class Clang(Headers):
    """Part of ./dev bindings, which installs it with both C++ libraries."""
    CLANG = first_of("clang++-16", "clang++", "clang++-14")

    def test_with_libstdcxx_and_each_standard(self):
        for standard in ("17", "20", "2b"):
            with self.subTest(standard=standard):
                self.compile_and_run(self.CLANG, "-std=c++" + standard)

    def test_with_libcxx_and_each_standard(self):
        for standard in ("17", "20", "2b"):
            with self.subTest(standard=standard):
                self.compile_and_run(self.CLANG, "-std=c++" + standard, "-stdlib=libc++")

    def test_gcc_with_the_standard_between(self):
        self.compile_and_run("g++", "-std=c++20")

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
