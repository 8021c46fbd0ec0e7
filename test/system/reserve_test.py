"""The options reserve_huge_pages, reserve_node and arena_populate: huge pages that the system has
set aside (vm.nr_hugepages, which the test sets and sets back), as a program gets them."""
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

MiB = 1 << 20
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
PROBE = support.program("budget_probe")


def read(path):
    with open(path) as file:
        return file.read()


def write(path, number):
    with open(path, "w") as file:
        file.write(str(number))


def free_pages():
    return int(re.search(r"HugePages_Free: *(\d+)", read("/proc/meminfo")).group(1))


def figures(result):
    """The statistics at exit."""
    return json.loads(re.search(r"^\{.*\}$", result.stderr, re.M | re.S).group(0))


def run(options, *arguments):
    result = support.run([PROBE, *arguments], support.preloaded(options="stats:json," + options))
    return result, figures(result) if result.returncode == 0 else None


class HugePages(unittest.TestCase):
    """Some may be set aside already: by somebody, or by a run of this test that was killed."""
    PAGES = 32

    def setUp(self):
        before = int(read(POOL))
        try:
            write(POOL, before + self.PAGES)
        except OSError as error:
            self.skipTest("no huge pages can be set aside here: %s" % error)
        self.addCleanup(write, POOL, before)
        self.assertEqual(int(read(POOL)), before + self.PAGES)
        self.free = free_pages()

    def test_they_are_taken_and_used_and_go_back_when_the_process_ends(self):
        result, stats = run("reserve_huge_pages:32M", "figures", "24")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(stats["reserved"], 32 * MiB)
        self.assertGreaterEqual(stats["resident"], 32 * MiB)
        if stats["huge_resident"] != 0:                    # before Linux 6.7 nobody knows
            self.assertGreaterEqual(stats["huge_resident"], 32 * MiB)
        self.assertEqual(free_pages(), self.free)

    def test_where_there_are_fewer_those_are_taken_and_the_program_gets_small_pages_too(self):
        wanted = self.free * 2 + 36
        result, stats = run("reserve_huge_pages:1T", "figures", str(wanted))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(stats["reserved"], self.free * 2 * MiB)
        self.assertGreaterEqual(stats["mapped"], wanted * MiB)

    def test_it_says_how_many_it_has_got(self):
        result, _ = run("reserve_huge_pages:6M,verbose:on", "figures", "1")
        self.assertIn("\nfreehold: huge pages reserved: 6M\n", result.stderr)
        result, _ = run("reserve_huge_pages:1T,verbose:on", "figures", "1")
        self.assertIn("\nfreehold: huge pages reserved: %dM\n" % (self.free * 2), result.stderr)

    def test_the_one_node_gives_them_and_a_node_that_is_not_there_gives_none(self):
        for node, got in ((0, 8 * MiB), (999, 0)):
            result, stats = run("reserve_huge_pages:8M,reserve_node:%d" % node, "figures", "20")
            self.assertEqual((result.returncode, stats["reserved"]), (0, got), result.stderr)

    def test_a_child_of_fork_writes_to_pages_of_its_own(self):
        script = ("import os\nx = [bytes([i % 256]) * 5000 for i in range(1000)]\npid = os.fork()\n"
                  "x = [b + b'y' for b in x]\nif pid == 0: os._exit(0)\n"
                  "assert os.waitpid(pid, 0)[1] == 0\n"
                  "assert all(b == bytes([i % 256]) * 5000 + b'y' for i, b in enumerate(x))\n")
        environment = support.preloaded(options="reserve_huge_pages:16M")
        environment["PYTHONMALLOC"] = "malloc"
        result = support.run([sys.executable, "-c", script], environment)
        self.assertEqual(result.returncode, 0, result.stderr)


class NoHugePages(unittest.TestCase):
    def test_where_none_are_set_aside_the_program_runs_without_a_word(self):
        if int(read(POOL)) != 0:
            self.skipTest("somebody has set some aside")
        result = support.run([PROBE, "figures", "10"],
                             support.preloaded(options="reserve_huge_pages:64M"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_wrong_value_is_one_line_and_the_program_runs(self):
        for option in ("reserve_huge_pages:some", "reserve_huge_pages:-2M", "reserve_node:1024",
                       "reserve_node:all", "arena_populate:much"):
            result = support.run([PROBE, "figures", "1"], support.preloaded(options=option))
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (0, 1))
            self.assertIn(option.split(":")[0], result.stderr)


class Populated(unittest.TestCase):
    def test_all_that_is_mapped_is_present(self):
        """A step is half of what is mapped, so much of the last one was never touched."""
        _, lazy = run("thp:never", "figures", "40")
        result, eager = run("thp:never,arena_populate:on", "figures", "40")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(eager["resident"], eager["mapped"] - eager["metadata"])
        self.assertLess(lazy["resident"], lazy["mapped"] - lazy["metadata"] - 4 * MiB)


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
