"""Little memory, refused system calls, other ways to link: the library starts and works.

    limits_test.py [CLASS...]                             the tests
    limits_test.py --table NAME=PATH[,VARIABLE=VALUE]...  what others make of the same limits

An empty path is libc."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

PROBE = support.program("limits_probe")
KiB = 1024
STEPS = range(16, 1025, 16)      # MiB


def limited(kibibytes, mode, name="limits_probe", library=support.LIBRARY, of="-v", options=None):
    """Starts the probe as `ulimit -v` would let a shell start it, or -d: RLIMIT_DATA."""
    env = support.preloaded(library, options=options)
    preload = env.pop("LD_PRELOAD", "")
    return support.run(["sh", "-c", 'ulimit "$1" "$2"; shift 2; LD_PRELOAD="$1" exec "$2" "$3"',
                        "sh", of, str(kibibytes), preload, support.program(name), mode], env)


class AddressSpace(unittest.TestCase):
    def test_it_works_under_ulimit_v_65536(self):
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            for mode in ("small", "mixed", "maps", "first", "threads"):
                with self.subTest(mode=mode, library=os.path.basename(library)):
                    result = limited(65536, mode, library=library)
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_most_of_64_MB_can_be_used(self):
        code = ("import ctypes\n"
                "c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p\n"
                "n = 0\n"
                "while c.malloc(1000): n += 1\n"
                "print(n)")
        result = limited_python(code, 65536 + 200 * KiB)
        self.assertEqual(result.returncode, 0, result.stderr)
        # of 260 MB, python and its libraries taken off
        self.assertGreater(int(result.stdout), 100000)

    def test_static_programs_start_with_less(self):
        for kibibytes in (65536, 16384, 8192):
            with self.subTest(kibibytes=kibibytes):
                result = limited(kibibytes, "small", "limits_probe.static", None)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_big_blocks_grow_by_no_more_addresses_than_are_missing(self):
        # 3,540 MB at the end, and 300 that one of them left to an arena
        result = limited(4000 * KiB, "grow")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_where_little_of_the_address_space_is_free_most_of_that_can_be_used(self):
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            with self.subTest(library=os.path.basename(library)):
                result = support.run([PROBE, "filled"], support.preloaded(library))
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_threads_that_reach_the_limit_at_once_lose_nothing_of_it(self):
        result = limited(600 * KiB, "crowd")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_was_trimmed_can_be_mapped_by_others(self):
        result = limited(700 * KiB, "others")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_is_free_is_kept_where_the_system_would_not_give_it_again(self):
        result = support.run([PROBE, "hoard"], support.preloaded())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_programs_start_under_any_limit_under_which_libc_starts_them(self):
        for kibibytes in range(4096, 65536, 4096):
            if limited(kibibytes, "first", library=None).returncode != 0:
                continue
            with self.subTest(kibibytes=kibibytes):
                result = limited(kibibytes + 4096, "small")
                self.assertEqual(result.returncode, 0, result.stderr)


def limited_python(code, kibibytes):
    env = support.preloaded()
    preload = env.pop("LD_PRELOAD")
    return support.run(["sh", "-c", 'ulimit -v "$1"; LD_PRELOAD="$2" exec "$3" -c "$4"', "sh",
                        str(kibibytes), preload, sys.executable, code], env)


class Shrinking(unittest.TestCase):
    def test_a_block_becomes_smaller_where_there_is_no_memory_for_a_copy(self):
        secure = os.path.join(os.path.dirname(support.LIBRARY), "libfreehold-secure.so")
        for library, of, options in (
                (support.LIBRARY, "-v", None), (support.LIBRARY, "-d", None), (secure, "-v", None),
                (secure, "-v", "realloc_moves:on"), (secure, "-v", "fill:both")):
            with self.subTest(of=of, library=os.path.basename(library), options=options):
                result = limited(200000, "shrink", library=library, of=of, options=options)
                self.assertEqual(result.returncode, 0, result.stderr)


class Steps(unittest.TestCase):
    """Limits of the process from 16 MiB to 1 GiB, a step every 16 MiB. Calls work or are refused,
    and all but a constant part of the limit can be used."""

    def each(self, of, overhead):
        for mebibytes in STEPS:
            for mode in ("mixed", "most"):
                with self.subTest(mebibytes=mebibytes, mode=mode):
                    result = limited(mebibytes * KiB, mode, of=of)
                    self.assertEqual(result.returncode, 0, result.stderr)
            first, second = had(result)
            with self.subTest(mebibytes=mebibytes):
                self.assertGreaterEqual(first, mebibytes - overhead)
                self.assertGreaterEqual(second, first)

    def test_of_address_space(self):
        self.each("-v", overhead=14)

    def test_of_data(self):
        self.each("-d", overhead=11)

    def test_of_data_in_the_secure_grade(self):
        """Pages that it closes do not count in this limit until they are opened. What was had once
        can be had again, over and over, but for a tenth."""
        secure = os.path.join(os.path.dirname(support.LIBRARY), "libfreehold-secure.so")
        for mebibytes in STEPS[3::8]:
            with self.subTest(mebibytes=mebibytes):
                result = limited(mebibytes * KiB, "most", library=secure, of="-d")
                self.assertEqual(result.returncode, 0, result.stderr)
                first, second = had(result)
                self.assertGreaterEqual(10 * second, 9 * first)
                result = limited(mebibytes * KiB, "again", library=secure, of="-d")
                self.assertEqual(result.returncode, 0, result.stderr)


def had(result):
    """MiB that `most` could have, at first and once more."""
    return [int(n) for n in result.stdout.split()[1:3]]


class Setting(unittest.TestCase):
    """Runs alone: it changes a setting of the whole machine, and puts it back."""
    FILE = None

    def write(self, value):
        with open(self.FILE, "w") as file:
            file.write(value)

    def setUp(self):
        with open(self.FILE) as file:
            self.before = file.read().strip()
        try:
            self.write(self.before)
        except OSError as error:
            self.skipTest("%s cannot be set here: %s" % (self.FILE, error))
        self.addCleanup(self.write, self.before)


class MapCount(Setting):
    FILE = "/proc/sys/vm/max_map_count"

    def test_it_works_with_a_thousand_mappings_and_where_others_have_them_all(self):
        self.write("1000")
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            for mode in ("small", "mixed", "threads", "maps", "mapped"):
                with self.subTest(mode=mode, library=os.path.basename(library)):
                    result = support.run([PROBE, mode], support.preloaded(library))
                    self.assertEqual(result.returncode, 0, result.stderr)


class Overcommit(Setting):
    FILE = "/proc/sys/vm/overcommit_memory"

    def test_it_works_with_each_policy(self):
        for policy in ("0", "1", "2"):
            self.write(policy)
            for mode in ("small", "mixed", "threads", "maps"):
                with self.subTest(policy=policy, mode=mode):
                    result = support.run([PROBE, mode], support.preloaded())
                    self.assertEqual(result.returncode, 0, result.stderr)
            result = support.run([PROBE, "mixed"], support.preloaded(support.DEBUG_LIBRARY))
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_strict_accounting_charges_little_for_an_idle_program(self):
        self.write("2")
        # KiB: no gigabyte of reserved space is charged
        self.assertLess(min(self.charged() for _ in range(10)), 120 * KiB)

    def charged(self):
        """KiB that the machine has charged with an idle program beyond those without; other
        programs of the machine come and go"""
        result = support.run([sys.executable, "-c", "print(open('/proc/meminfo').read())"],
                             support.preloaded())
        self.assertEqual(result.returncode, 0, result.stderr)
        with open("/proc/meminfo") as file:
            outside = file.read()
        within, without = (int(re.search(r"Committed_AS:\s*(\d+)", text).group(1))
                           for text in (result.stdout, outside))
        return within - without


class FailingCalls(unittest.TestCase):
    """The kernel refuses the k-th call of a kind, or all from the k-th on: NULL and ENOMEM,
    or it works all the same."""

    def setUp(self):
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        probe = support.run(["strace", "-o", "/dev/null", "-e", "trace=mmap", "true"])
        if probe.returncode != 0:
            self.skipTest("strace may not trace here: " + probe.stderr)
        self.name = support.program("limits_probe.static")   # no loader whose own calls would fail

    def strace(self, *arguments, mode="small"):
        with tempfile.NamedTemporaryFile() as log:
            result = support.run(["strace", "-f", "-o", log.name, *arguments, self.name, mode])
            if result.returncode != 0 and "main" not in result.stdout:
                # the C library gave up before main, as it does when its own malloc fails
                result.returncode = 0
            return result, log.read().decode(errors="replace")

    def count(self, call, mode):
        _, log = self.strace("-e", "trace=" + call, mode=mode)
        return len(re.findall(r"\b%s\(" % call, log))

    def check(self, call, when, mode, error="ENOMEM"):
        with self.subTest(call=call, when=when, mode=mode, error=error):
            result, log = self.strace("-e", "trace=" + call, "-e",
                                      "inject=%s:error=%s:when=%s" % (call, error, when), mode=mode)
            self.assertEqual(result.returncode, 0, "%s\n%s" % (result.stderr, log[-600:]))

    def each(self, call, mode, most, error="ENOMEM"):
        count = self.count(call, mode)
        step = max(1, count // most)
        for k in range(1, count + 1, step):
            self.check(call, str(k), mode, error)
            self.check(call, "%d+" % k, mode, error)
        return count

    def test_mmap(self):
        self.assertGreater(self.each("mmap", "small", 60), 0)

    def test_mmap_with_threads(self):
        self.each("mmap", "mixed", 12)

    def test_madvise(self):
        for error in ("ENOMEM", "EINVAL", "EAGAIN"):
            self.each("madvise", "mixed", 12, error)

    def test_munmap(self):
        for error in ("ENOMEM", "EINVAL"):
            self.each("munmap", "small", 12, error)
            self.each("munmap", "mixed", 8, error)

    def test_mremap(self):
        self.each("mremap", "small", 12)
        self.each("mremap", "mixed", 8)

    def test_mprotect(self):
        count = self.count("mprotect", "small")
        for k in range(1, count + 1):
            result, _ = self.strace("-e", "trace=mprotect", "-e",
                                    "inject=mprotect:error=ENOMEM:when=%d" % k)
            self.assertIn(result.returncode, (0, 127), "the C library itself may refuse to start")

    def test_calls_that_only_inform(self):
        """Neither the page size nor the clock nor a random number is worth dying for."""
        for call in ("getrandom", "readlink", "clock_gettime", "prctl", "mincore", "membarrier",
                     "sched_getaffinity", "openat", "read"):
            for error in ("ENOSYS", "EPERM"):
                self.check(call, "1+", "small", error)


class OtherLinkings(unittest.TestCase):
    MODES = ("small", "mixed", "threads", "maps", "first")

    def check(self, name):
        for mode in self.MODES:
            with self.subTest(mode=mode):
                result = support.run([support.program(name), mode])
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_static(self):
        self.check("limits_probe.static")

    def test_static_pie(self):
        self.check("limits_probe.static-pie")

    def test_musl_static(self):
        self.musl()
        self.check("limits_probe.musl")

    def test_first_use_in_threads_and_handlers_at_once(self):
        """Under musl a thread starts without an allocation, so that the very first calls
        of the process coincide."""
        self.musl()
        for i in range(300):
            result = support.run([support.program("limits_probe.musl"), "first"])
            self.assertEqual(result.returncode, 0, "start %d: %s" % (i, result.stderr))

    def musl(self):
        if not os.environ.get("MUSL_GCC", "").endswith("musl-gcc"):
            self.skipTest("musl-gcc is not installed")
        self.assertTrue(os.path.exists(support.program("limits_probe.musl")),
                        "freehold.o does not link with musl")


class Mappings(unittest.TestCase):
    def test_fewer_than_200_under_a_mixed_load(self):
        for options in (None, "purge_delay_ms:0", "thp:always", "arena_step:64K"):
            with self.subTest(options=options):
                result = support.run([PROBE, "maps"], support.preloaded(options=options))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertLess(int(result.stdout.split()[-1]), 200)

    def test_blocks_of_their_own_mapping_are_given_back(self):
        result = support.run([PROBE, "small"], support.preloaded(options="stats:json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('"huge_live":0', result.stderr.replace(" ", ""))


# ---- other libraries -----------------------------------------------------------------------------

def attempt(start, *arguments, **more):
    """How a run of the probe ended; None if it hung, or began with another library than was
    meant."""
    try:
        result = start(*arguments, **more)
    except subprocess.TimeoutExpired:
        return None
    return None if "cannot be preloaded" in result.stderr else result


def is_well(result):
    return result is not None and result.returncode == 0


def under_steps(library, of):
    """At how many steps a mixed load of eight threads ends well. Then of the steps at which the
    program starts: how many MiB of a limit cannot be had, the mean and the most. At how many of
    them there is less to be had once all was freed."""
    def at_each(mode):
        return [(m, attempt(limited, m * KiB, mode, library=library, of=of)) for m in STEPS]
    well = sum(is_well(result) for _, result in at_each("threads"))
    found = [(m, *had(result)) for m, result in at_each("most") if is_well(result)]
    lost = [m - first for m, first, _ in found]
    return [well, "%.0f" % (sum(lost) / len(lost)) if lost else "-", max(lost, default="-"),
            sum(second < first for _, first, second in found)]


def table(libraries):
    heads = [of + column for of in ("addresses: ", "data: ")
             for column in ("ends well", "lost", "lost at most", "less once freed")]
    print("| | " + " | ".join([*heads, "mappings"]) + " |\n|" + " --- |" * (len(heads) + 2))
    for text in libraries:
        name, _, library = text.partition("=")
        library, *variables = library.split(",")
        os.environ.update(variable.split("=", 1) for variable in variables)
        maps = attempt(support.run, [PROBE, "maps"], support.preloaded(library))
        cells = [*under_steps(library, "-v"), *under_steps(library, "-d"),
                 maps.stdout.split()[-1] if is_well(maps) else "-"]
        print("| %s |" % name, " | ".join(map(str, cells)), "|", flush=True)
        for variable in variables:
            del os.environ[variable.split("=", 1)[0]]


if __name__ == "__main__" and sys.argv[1:2] == ["--table"]:
    table(sys.argv[2:])
elif __name__ == "__main__":
    support.main(sys.modules["__main__"])
