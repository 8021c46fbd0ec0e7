"""Budgets: what a program sees of `memory_soft`, percentages and the limit of its container."""
import os
import platform
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

PROBE = support.program("budget_probe")
MiB = 1 << 20
TAKES = platform.machine() == "x86_64"  # heaps are taken from sleeping threads
VERSION_1 = "/sys/fs/cgroup/memory"
VERSION_2 = "/sys/fs/cgroup/unified"


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def numbers(result):
    return [int(n) for n in result.stdout.split()]


class Container(unittest.TestCase):
    """A real control group of version 1 around another one; the outer has the limit."""

    def setUp(self):
        self.outer = os.path.join(VERSION_1, "freehold-test-%d" % os.getpid())
        self.inner = os.path.join(self.outer, "inner")
        try:
            os.makedirs(self.inner)
        except OSError as error:
            self.skipTest("no control group of version 1 can be made here: %s" % error)
        self.addCleanup(os.rmdir, self.outer)
        self.addCleanup(os.rmdir, self.inner)
        write(os.path.join(self.outer, "memory.limit_in_bytes"), "200M")
        write(os.path.join(self.inner, "memory.limit_in_bytes"), "400M")

    def run_inside(self, *arguments, options=None):
        script = 'echo $$ >"$1"/cgroup.procs; shift; exec "$@"'
        return support.run(["sh", "-c", script, "sh", self.inner, PROBE, *arguments],
                           support.preloaded(options=options))

    def figures(self, mebibytes, options=None):
        result = self.run_inside("figures", str(mebibytes), options=options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return numbers(result)

    def test_the_least_limit_is_found_and_far_from_it_there_is_no_pressure(self):
        limit, pressure, raises, _ = self.figures(20)
        self.assertEqual((limit, pressure, raises), (200 * MiB, 0, 0))

    def test_near_the_limit_there_is_pressure_without_any_option(self):
        limit, pressure, raises, dirty = self.figures(175)
        self.assertEqual((limit, dirty), (200 * MiB, 0))
        self.assertGreaterEqual(pressure, 1)
        self.assertGreaterEqual(raises, 1)

    def test_a_program_that_looks_for_no_container_sees_none(self):
        self.assertEqual(self.figures(175, "container:ignore")[:3], [0, 0, 0])

    def test_a_soft_limit_in_percent_is_of_the_container(self):
        self.assertEqual(self.figures(85, "memory_soft:30%")[1], 2)
        self.assertEqual(self.figures(85, "memory_soft:99%")[1], 0)

    def test_a_hard_limit_in_percent_keeps_the_program_alive(self):
        """It is refused memory at 100 MiB, and would be killed at 200."""
        self.assertEqual(self.run_inside("figures", "300").returncode, -9)
        limit, _, _, _ = self.figures(300, "memory_limit:50%")
        self.assertEqual(limit, 200 * MiB)

    def test_a_program_whose_caches_would_not_fit_completes(self):
        """With all that it would keep of freed memory it is killed."""
        result = self.run_inside("grow", "140", "10", options="container:ignore")
        self.assertEqual(result.returncode, -9)
        result = self.run_inside("grow", "140", "10")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(numbers(result)[2], 1)

    def test_the_program_is_told_and_may_drop_its_caches(self):
        result = self.run_inside("callback", "200", options="memory_soft:50%")
        self.assertEqual(result.returncode, 0, result.stderr)
        near, over, most_over, left = numbers(result)
        self.assertGreaterEqual(over, 3)
        self.assertGreaterEqual(near, over)
        self.assertTrue(0 < most_over < 60 * MiB, most_over)
        self.assertLess(left, 120)


class Files(unittest.TestCase):
    """Files of version 2, as the program sees them: ours are mounted over the kernel's."""

    def run_inside(self, files, mebibytes, options=None):
        try:
            group = tempfile.mkdtemp(prefix="freehold-test-", dir=VERSION_2)
        except OSError as error:
            self.skipTest("no control group of version 2 can be made here: %s" % error)
        self.addCleanup(os.rmdir, group)
        script = ('mount --bind "$1"/cgroup /proc/$$/cgroup && '
                  'mount --bind "$1"/box "$2" || exit 99; shift 2; exec "$@"')
        with tempfile.TemporaryDirectory() as folder:
            box = os.path.join(folder, "box")
            os.mkdir(box)
            write(os.path.join(folder, "cgroup"), "0::/%s\n" % os.path.basename(group))
            for name, text in files.items():
                if text is None:
                    os.mkfifo(os.path.join(box, name))
                else:
                    write(os.path.join(box, name), text)
            result = support.run(["unshare", "-m", "sh", "-c", script, "sh", folder, group, PROBE,
                                  "figures", str(mebibytes)], support.preloaded(options=options))
        if result.returncode == 99:
            self.skipTest("nothing can be mounted here: " + result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        return numbers(result), result.stderr

    def test_limit_and_use_are_read(self):
        files = {"memory.max": "1073741824\n", "memory.high": "max\n"}
        (limit, pressure, _, _), said = self.run_inside(
            {**files, "memory.current": "104857600\n"}, 20)
        self.assertEqual((limit, pressure, said), (1 << 30, 0, ""))

    def test_pages_of_files_that_the_kernel_can_drop_are_no_use(self):
        files = {"memory.max": "1073741824\n", "memory.current": "1073000000\n"}
        (_, pressure, _, _), _ = self.run_inside(files, 20)
        self.assertGreaterEqual(pressure, 1)
        (_, pressure, _, _), _ = self.run_inside(
            {**files, "memory.stat": "anon 4096\ninactive_file 900000000\n"}, 20)
        self.assertEqual(pressure, 0)

    def test_a_torn_file_is_ignored_and_said_in_one_line(self):
        files = {"memory.max": "10737", "memory.current": "104857600\n"}
        (limit, pressure, _, _), said = self.run_inside(files, 20)
        self.assertEqual((limit, pressure), (0, 0))
        self.assertRegex(said, r"\Afreehold: container: [^\n]* is no number; it is ignored\n\Z")
        _, said = self.run_inside(files, 20, "warnings:off")
        self.assertEqual(said, "")

    def test_a_pipe_in_place_of_a_file_holds_nobody_up(self):
        (limit, _, _, _), _ = self.run_inside({"memory.max": None, "memory.current": None}, 20)
        self.assertEqual(limit, 0)


class Sleepers(unittest.TestCase):
    """Threads that each ran through 1 MiB of all sizes, freed it, and sleep."""

    def resident(self, threads, options, *parameters):
        result = support.run([PROBE, "sleepers", str(threads), *parameters],
                             support.preloaded(options=options), timeout=200)
        self.assertEqual(result.returncode, 0, result.stderr)
        resident, in_use = numbers(result)
        self.assertGreaterEqual(in_use, threads)
        return resident

    def test_those_beyond_caching_threads_keep_next_to_nothing(self):
        self.assertLess(self.resident(3000, "caching_threads:32", "0", "1"), 64 * MiB)

    def test_in_the_background_likewise(self):
        self.assertLess(self.resident(1000, "caching_threads:32,background:on", "0", "1"), 48 * MiB)

    def test_by_default_a_thousand_keep_what_they_had(self):
        self.assertLess(self.resident(3000, None, "0", "1"), 1100 * MiB)

    @unittest.skipUnless(TAKES, "heaps are taken on x86-64 alone")
    def test_what_they_keep_is_taken_on_request(self):
        self.assertLess(self.resident(3000, None), 32 * MiB)
        self.assertLess(self.resident(300, None, "300"), 32 * MiB)

    @unittest.skipUnless(TAKES, "heaps are taken on x86-64 alone")
    def test_in_the_background_what_they_keep_is_taken_when_they_have_slept_for_a_while(self):
        self.assertLess(self.resident(1000, "background:on", "0", "150"), 32 * MiB)


class Machine(unittest.TestCase):
    def test_under_pressure_free_pages_go_back_from_between_blocks_that_live(self):
        """One small block lives in each 64 KiB. The pages around it stay if none is to go back."""
        def resident(options):
            result = support.run([PROBE, "scattered", "64"], support.preloaded(options=options))
            self.assertEqual(result.returncode, 0, result.stderr)
            return numbers(result)[0]
        self.assertGreater(resident("container:ignore,purge_delay_ms:-1"), 60 * MiB)
        self.assertLess(resident("container:ignore,memory_soft:20M"), 24 * MiB)

    def test_at_the_hard_limit_each_thread_has_a_slab_for_what_it_has_to_say(self):
        """The one whose own is used up may take of another's. Threads that ask at once may each
        pass the limit by a slab besides."""
        threads, limit = 8, 16 * MiB
        result = support.run([PROBE, "refused", str(threads)],
                             support.preloaded(options="memory_limit:16M"))
        self.assertEqual(result.returncode, 0, result.stderr)
        blocks, _, claimed = numbers(result)
        self.assertGreaterEqual(blocks, threads * 48)
        self.assertTrue(limit <= claimed <= limit + threads * 2 * 65536, claimed)

    def test_wrong_values_are_said_and_stop_nobody(self):
        options = "memory_soft:0%,memory_limit:-1,container:on"
        result = support.run([PROBE, "figures", "1"], support.preloaded(options=options))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("memory_soft: '0%' is not in 0.., 1%..100%; 0 holds\n", result.stderr)
        self.assertIn("memory_limit: '-1' is not in 0.., 1%..100%; 0 holds\n", result.stderr)
        self.assertIn("container: 'on' is not in auto|ignore; auto holds\n", result.stderr)

    def test_small_programs_open_no_file_of_a_container(self):
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        with tempfile.NamedTemporaryFile() as log:
            support.run(["strace", "-f", "-o", log.name, "-e", "trace=openat",
                         PROBE, "figures", "1"], support.preloaded())
            with open(log.name) as file:
                self.assertNotIn("cgroup", file.read())


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
