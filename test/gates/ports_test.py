#!/usr/bin/env python3
"""The library for systems that are not at hand: FreeBSD and macOS, compiled by zig's compiler,
which brings their headers. Nothing of it is run. usage: ports_test.py [CLASS...]"""
import concurrent.futures
import glob
import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support

OWN_ZIG = os.path.join(support.SOURCE, "build", "zig", "bin", "python")   # of ./dev test-ports
NM = next((tool for tool in ["llvm-nm", *(os.path.basename(p) for p in
                                          sorted(glob.glob("/usr/bin/llvm-nm-*")))]
           if support.has(tool)), None)
TARGETS = ("x86_64-freebsd", "aarch64-freebsd", "x86_64-macos", "aarch64-macos")

def zig():
    if os.access(OWN_ZIG, os.X_OK):
        return [OWN_ZIG, "-m", "ziglang"]
    return ["zig"] if shutil.which("zig") else None

def names_of(path, *flags):
    result = support.run([NM, "--defined-only", *flags, path])
    assert result.returncode == 0, result.stderr
    return {line.split()[-1] for line in result.stdout.splitlines()
            if re.search(r" [A-TV-Z] \S+$", line)}

def declared():
    """The functions of the header."""
    text = re.sub(r"/\*.*?\*/", "", support.read("include/freehold/freehold.h"), flags=re.S)
    return set(re.findall(r"^FH_API [^;]*?\b(fh_\w+)\(", text, re.M))

@unittest.skipUnless(zig() and NM, "no compiler for FreeBSD and macOS: ./dev test-ports has it")
class Ports(unittest.TestCase):
    OF_LINUX = re.compile(r"__libc_|__posix_|mallinfo2?$|malloc_(info|stats|trim)$|mallopt$|"
                          r"dlopen$|FREEHOLD_|__st(art|op)_")
    OF_LINKER = {"__start_freehold_layout", "__stop_freehold_layout"}
    OF_FREEBSD = {"mallocx", "rallocx", "xallocx", "sallocx", "dallocx"}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.shared, cls.static = {}, {}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cls.said = dict(zip(TARGETS, pool.map(cls.build, TARGETS)))

    @classmethod
    def build(cls, target):
        """Both libraries; what the compiler and the linker said."""
        cc, where = [*zig(), "cc", "-target", target], os.path.join(cls.folder.name, target)
        cls.shared[target], cls.static[target] = where + ".shared", where + ".a"
        # a program may have fh_options, which macOS looks for when it loads the library
        late = ["-Wl,-undefined,dynamic_lookup"] if "macos" in target else []
        said = ""
        for command in ([*cc, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unknown-attributes",
                         "-Wno-ignored-attributes", "-fPIC", "-fvisibility=hidden",
                         "-fno-sanitize=all", "-c", "src/all.c", "-o", where + ".o"],
                        [*cc, "-shared", *late, where + ".o", "-o", cls.shared[target]],
                        [*zig(), "ar", "rcs", cls.static[target], where + ".o"]):
            result = support.run(command, os.environ, 600, cwd=support.SOURCE)
            said += result.stdout + result.stderr
        return said

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_it_compiles_without_a_warning(self):
        self.assertEqual(self.said, dict.fromkeys(TARGETS, ""))

    def test_freebsd_has_the_names_that_linux_has_and_its_own(self):
        linux = {re.sub("@.*", "", name) for name in names_of(support.LIBRARY, "-D")}
        wanted = {n for n in linux if not self.OF_LINUX.match(n)} | self.OF_FREEBSD
        self.assertGreater(len(wanted), 100)
        for target in TARGETS[:2]:
            names = names_of(self.shared[target], "-D") - self.OF_LINKER
            self.assertEqual(wanted ^ names, set(), target)
            self.assertEqual(wanted - names_of(self.static[target]), set(), target)

    def test_macos_has_the_functions_of_the_header_and_no_name_of_its_libc(self):
        wanted = {"_" + name for name in declared()}
        self.assertGreater(len(wanted), 50)
        for target in TARGETS[2:]:
            for names in (names_of(self.shared[target], "-g"), names_of(self.static[target], "-g")):
                self.assertEqual(wanted - names, set(), target)
                self.assertEqual(names & {"_malloc", "_free", "_realloc", "_malloc_size"}, set())

if __name__ == "__main__":
    support.main(sys.modules[__name__])
