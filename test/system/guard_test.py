"""Guards (option guard_interval): what a program gets to see that runs into one, in the release
build, the checked one and a static program."""
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

PROBE = support.program("guard_probe")
STACK = r"( \S+\+0x[0-9a-f]+| 0x[0-9a-f]+)+"
ALLOCATED = r"; allocated by thread \d+ at%s" % STACK
FREED = r"; freed by thread \d+ at%s" % STACK


class Guards(unittest.TestCase):
    OPTIONS = "guard_interval:1"

    def run_probe(self, *words, options=OPTIONS):
        """Of each kind of program."""
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            yield support.run([PROBE, *words], support.preloaded(library, options))
        environment = dict(os.environ, FREEHOLD_OPTIONS=options)
        yield support.run([PROBE + ".static", *words], environment)

    def check_fault(self, pattern, *words):
        for result in self.run_probe(*words):
            self.assertEqual(result.returncode, -signal.SIGSEGV, result.stderr)
            self.assertRegex(result.stderr, r"\Afreehold: %s\n\Z" % pattern)

    def test_an_overflow_is_told_with_its_distance_and_the_stack_of_malloc(self):
        for size, at, behind in ((64, 64, 1), (100, 112, 13), (100, 1000, 901), (16, 20, 5),
                                 (4080, 4082, 3), (100000, 100000, 1)):
            self.check_fault(
                r"overflow by %d bytes? behind a block of %d bytes at 0x[0-9a-f]+: 0x[0-9a-f]+ "
                r"in thread \d+%s" % (behind, size, ALLOCATED), "over", str(size), str(at))

    def test_an_underflow_is_told_likewise(self):
        for before in (1, 2, 16, 4000):
            self.check_fault(
                r"underflow by %d bytes? before a block of 100 bytes at 0x[0-9a-f]+: 0x[0-9a-f]+ "
                r"in thread \d+%s" % (before, ALLOCATED), "under", "100", str(before))

    def test_a_use_after_free_is_told_with_both_stacks_and_threads(self):
        for size in (1, 100, 20000):
            self.check_fault(r"use after free of a block of %d bytes? at (0x[0-9a-f]+): \1 in "
                             r"thread \d+%s%s" % (size, ALLOCATED, FREED), "freed", str(size))

    def test_in_the_secure_grade_a_block_has_the_size_that_was_asked_for(self):
        secure = os.path.join(os.path.dirname(support.LIBRARY), "libfreehold-secure.so")
        for size in ("1", "100", "20000"):
            result = support.run([PROBE, "freed", size], support.preloaded(secure, self.OPTIONS))
            self.assertRegex(result.stderr,
                             r"\Afreehold: use after free of a block of %s bytes? at " % size)

    def test_the_stacks_name_the_program(self):
        result = next(self.run_probe("freed", "100"))
        allocated, freed = re.search(r"; allocated(.*); freed(.*)", result.stderr).groups()
        self.assertIn(" guard_probe+0x", allocated)
        self.assertIn(" guard_probe+0x", freed)
        offset = re.search(r" guard_probe\+(0x[0-9a-f]+)", freed)[1]
        where = support.run(["addr2line", "-f", "-e", PROBE, offset]).stdout
        self.assertIn("free_it", where)

    def test_what_was_written_beside_a_block_is_told_when_it_is_freed(self):
        for result in self.run_probe("beside", "100"):
            self.assertEqual(result.returncode, -signal.SIGABRT)
            self.assertRegex(result.stderr, r"\Afreehold: overflow noticed at free of a block of "
                             r"100 bytes at 0x[0-9a-f]+: 0x[0-9a-f]+ in thread \d+%s%s\n"
                             r"freehold: overflow noticed at free: 0x[0-9a-f]+ in free\(\)\n\Z"
                             % (ALLOCATED, FREED))

    def test_a_double_free_is_told_with_both_stacks(self):
        for result in self.run_probe("twice", "100"):
            self.assertEqual(result.returncode, -signal.SIGABRT)
            self.assertRegex(result.stderr, r"\Afreehold: double free of a block of 100 bytes at "
                             r"(0x[0-9a-f]+): \1 in thread \d+%s%s\nfreehold: double free: \1 in "
                             r"free\(\)\n\Z" % (ALLOCATED, FREED))

    def test_a_block_of_no_bytes_is_told_too(self):
        self.check_fault(r"access to a block of no bytes: 0x[0-9a-f]+", "nothing")
        for result in self.run_probe("nothing", options=""):
            self.assertEqual((result.returncode, result.stderr), (-signal.SIGSEGV, ""))

    def test_a_fault_elsewhere_or_a_signal_that_was_sent_ends_the_program_as_ever(self):
        for how in ("plain", "sent"):
            for result in self.run_probe("elsewhere", how):
                self.assertEqual((result.returncode, result.stderr), (-signal.SIGSEGV, ""))

    def test_a_handler_of_the_programs_own_takes_the_place_of_ours(self):
        for words in (("elsewhere", "own"), ("own", "64")):
            for result in self.run_probe(*words):
                self.assertEqual((result.returncode, result.stdout), (5, "own handler\n"))

    def test_a_signal_that_was_sent_and_is_ignored_leaves_the_guards(self):
        command = "trap '' SEGV && exec %s sent 100" % PROBE
        result = support.run(["sh", "-c", command], support.preloaded(options=self.OPTIONS))
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertIn("freehold: use after free of a block of 100 bytes", result.stderr)

    def test_a_child_of_fork_has_the_guards_of_its_parent(self):
        for result in self.run_probe("child", "100"):
            self.assertEqual(result.returncode, 7)
            self.assertIn("use after free of a block of 100 bytes", result.stderr)

    def test_ten_thousand_in_turn_leave_no_mappings(self):
        for result in self.run_probe("turns"):
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertLess(abs(int(result.stdout)), 20)

    def test_live_ones_take_two_mappings_each_up_to_a_limit(self):
        for result in self.run_probe("many"):
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertGreater(int(result.stdout), 500)
            self.assertLess(int(result.stdout), 1060)

    def test_where_the_region_cannot_be_had_the_program_runs_without(self):
        """The region has 128 MiB of addresses."""
        command = "ulimit -v 130000 && exec %s twice 100" % PROBE
        result = support.run(["sh", "-c", command], support.preloaded(options=self.OPTIONS))
        self.assertEqual(result.returncode, -signal.SIGABRT)
        line = r"freehold: double free: (0x[0-9a-f]+) in free\(\); its block has \d+ bytes at \1\n"
        self.assertRegex(result.stderr, r"\A" + line + r"\Z")


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
