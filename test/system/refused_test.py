"""Whole programs whose k-th mmap, munmap, mremap, madvise or mprotect the kernel refuses, or all
from the k-th on. With sampling on, also the calls by which a profile is written.

A program works as ever, or says that memory is out; it never crashes, hangs, or gives another
answer. By itself this tries a few values of k for each call; FREEHOLD_SWEEP=all tries every one. A
class is one program, and a test of its own."""
import os
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

SWEEP_ALL = os.environ.get("FREEHOLD_SWEEP") == "all"
SAMPLES = 6                                   # of k for one call, without SWEEP_ALL
# What programs, libc and the loader say when they got no memory.
OUT_OF_MEMORY = re.compile(r"memory|alloc|error while loading shared libraries", re.I)
LOADED = support.OPTIONS_LINK                 # the library asks for it when it starts


class Refused:
    """A program that is run again and again; `command` is set by each class."""
    library = support.LIBRARY
    options = ""
    command = None

    @classmethod
    def setUpClass(cls):
        if not support.has("strace") or not os.access(cls.command[0], os.X_OK):
            raise unittest.SkipTest("strace or %s is not installed" % cls.command[0])
        cls.expected = cls.run_with()
        assert cls.expected.returncode == 0, cls.expected.stderr

    @classmethod
    def run_with(cls, *strace):
        with tempfile.NamedTemporaryFile() as log:
            preload = ["-E", "LD_PRELOAD=" + cls.library] if cls.library else []
            preload += ["-E", "FREEHOLD_OPTIONS=" + cls.options] if cls.options else []
            result = support.run(["strace", "-f", "-o", log.name, *preload,
                                  *(strace or ["-e", "trace=mmap"]), *cls.command], timeout=120)
            result.log = log.read().decode(errors="replace")
            return result

    def judge(self, result):
        """None, or what is wrong with how the program ended."""
        if "freehold:" in result.stderr:
            return "freehold reported misuse"
        if result.returncode == 0 and result.stdout == self.expected.stdout:
            return None
        # a shell goes on when a child was refused
        if not OUT_OF_MEMORY.search(result.stderr + result.stdout):
            return "it ended with %d, another answer, and does not say why" % result.returncode
        if result.returncode < 0 and result.returncode != -signal.SIGABRT:
            return "it crashed with signal %d" % -result.returncode
        return None

    def numbers(self, call):
        """The first and the last of these calls that come after the library was loaded: the
        loader may crash by itself."""
        log = self.run_with("-e", "trace=%s,readlinkat" % call).log
        before, _, after = log.partition(LOADED)
        assert after, "the library did not start"
        first = before.count(call + "(") + 1
        return first, first + after.count(call + "(") - 1

    def sweep(self, call):
        first, last = self.numbers(call)
        count = last + 1 - first
        step = 1 if SWEEP_ALL else max(1, -(-count // SAMPLES))
        worked = 0
        for k in range(first, last + 1, step):
            for when in ("%d" % k, "%d+" % k):
                with self.subTest(call=call, when=when):
                    result = self.run_with("-e", "trace=" + call, "-e",
                                           "inject=%s:error=ENOMEM:when=%s" % (call, when))
                    wrong = self.judge(result)
                    self.assertIsNone(wrong,
                                      "%s\n%s\n%s" % (wrong, result.stderr[-600:],
                                                      result.log[-600:]))
                    worked += result.returncode == 0
        print("\n%s: %d calls; it worked in %d runs of those in which one or more were refused" % (
            call, count, worked))
        return worked

    def test_mmap(self):
        self.sweep("mmap")

    def test_munmap(self):
        self.sweep("munmap")

    def test_mremap(self):
        self.sweep("mremap")

    def test_madvise(self):
        self.assertGreater(self.sweep("madvise"), 0)

    def test_mprotect(self):
        self.sweep("mprotect")


class Driver(Refused, unittest.TestCase):
    command = [support.program("limits_probe"), "small"]

    def judge(self, result):
        """How many calls it was refused is a part of its answer."""
        if result.returncode == 0 and "refused" in result.stdout:
            return None
        return super().judge(result)


class Python(Refused, unittest.TestCase):
    command = ["/usr/bin/python3", "-I", "-S", "-c", """
import json
record = {str(i): "x" * (i % 700) for i in range(4000)}
text = json.dumps(record)
block = bytearray(40 << 20)
block += b"y" * (30 << 20)
del block[100:]
print(len(text), json.loads(text) == record, len(block))
"""]


class Sqlite(Refused, unittest.TestCase):
    command = ["/usr/bin/sqlite3", "-batch", ":memory:", """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
  INSERT INTO t SELECT i, hex(zeroblob(i % 300)) FROM n;
CREATE INDEX u ON t(b);
SELECT count(*), sum(length(b)), length(group_concat(b)), length(zeroblob(60000000)) FROM t;
"""]


class Bash(Refused, unittest.TestCase):
    command = ["/bin/bash", "--norc", "-c", """
set -e -o pipefail
LC_ALL=C
for ((i = 0; i < 2000; i++)); do names[i]=name$i; done
text=$(printf '%s\\n' "${names[@]}" | sort -r -S 40M --parallel=2)
text+=$text$text$text$text
echo ${#text} ${#names[@]}
"""]


class Profile(Refused, unittest.TestCase):
    """The program goes on, and its profile is whole, or missing with one line that says so."""
    command = [support.program("profile_probe"), "grow", "10"]
    MISTAKE = re.compile(r"freehold: profile '.*': .*\n")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="freehold-refused-")
        cls.path = os.path.join(cls.folder.name, "profile")
        cls.options = "profile:%s,profile_interval:1K,profile_signal:12" % cls.path
        super().setUpClass()
        assert cls.take_profile(), "there is no profile"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def take_profile(cls):
        """Was it there? False: part of it was."""
        if not os.path.exists(cls.path):
            return None
        with open(cls.path, "rb") as file:
            text = file.read()
        os.remove(cls.path)
        return b"sampled calls whose stack is not known" in text          # the last string

    def judge(self, result):
        profile, said = self.take_profile(), self.MISTAKE.search(result.stderr)
        rest = self.MISTAKE.sub("", result.stderr)
        if profile is False:
            return "half a profile has its name"
        if result.returncode == -signal.SIGABRT and "mmap(" in result.log:
            return None                                           # the program has no memory
        if (result.returncode, result.stdout, rest) != (0, self.expected.stdout, ""):
            return "it ended with %d, or said something else" % result.returncode
        if profile is None and not said and "write(" not in result.log:
            return "there is no profile, and it does not say why"
        return None

    def test_the_calls_by_which_a_profile_is_written(self):
        for call in ("openat", "read", "write", "process_vm_readv", "newfstatat", "close",
                     "renameat2", "rt_sigaction"):
            self.assertGreater(self.sweep(call), 0)

    def test_what_cannot_be_renamed_is_removed_or_stays_unfinished(self):
        for call, left in (("renameat2", []), ("unlinkat", [r"profile\.part\d+\.0"])):
            more = ["-e", "inject=renameat2:error=EIO", "-e", "inject=%s:error=EIO" % call]
            result = self.run_with("-e", "trace=renameat2,unlinkat", *more)
            self.assertIn("the file cannot be written", result.stderr)
            names = os.listdir(self.folder.name)
            self.assertEqual(len(names), len(left))
            self.assertTrue(all(map(re.fullmatch, left, names)))


class Memory(unittest.TestCase):
    def test_what_cannot_be_unmapped_is_given_back_all_the_same(self):
        code = """
import re
for round in range(24):
    block = bytearray(600 << 20)
    block[:64 << 20] = b"x" * (64 << 20)
    del block
print(re.search(r"VmRSS:\\s*(\\d+)", open("/proc/self/status").read()).group(1))
"""
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        result = support.run(["strace", "-o", "/dev/null", "-E", "LD_PRELOAD=" + support.LIBRARY,
                              "-e", "trace=munmap", "-e",
                              "inject=munmap:error=ENOMEM:when=1+", "/usr/bin/python3", "-I", "-S",
                              "-c", code], timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(int(result.stdout), 256 * 1024)

    def test_one_refusal_to_populate_is_no_reason_not_to_ask_again(self):
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        asked = {error: self.asked_to_populate(error) for error in ("EINTR", "EINVAL")}
        self.assertGreater(asked["EINTR"], 3)
        self.assertEqual(asked["EINVAL"], 1)              # a kernel that does not know it

    def asked_to_populate(self, error):
        with tempfile.NamedTemporaryFile() as log:
            result = support.run(["strace", "-f", "-X", "raw", "-o", log.name, "-E",
                                  "LD_PRELOAD=" + support.LIBRARY, "-E",
                                  "FREEHOLD_OPTIONS=populate:64K,thp:auto", "-e", "trace=madvise",
                                  "-e", "inject=madvise:error=%s" % error,
                                  *Python.command], timeout=120)
            self.assertEqual(result.returncode, 0, result.stderr)
            return len(re.findall(r", 0x17\)", log.read().decode()))


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
