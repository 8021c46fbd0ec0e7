"""What `freehold stats`, `why`, `map`, `top`, `profile` and `inspect` find in other processes."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

COMMAND = os.path.join(os.path.dirname(support.LIBRARY), "freehold")
PROBE = support.program("outside_probe")
STATIC_PROBE = support.program("outside_probe.static")
PAGE = 4096


YAMA = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
  va_end(more);
  if (strcmp(path, "/proc/sys/kernel/yama/ptrace_scope") != 0)
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  int file = memfd_create("scope", 0);
  return write(file, "1\n", 2) == 2 && lseek(file, 0, SEEK_SET) == 0 ? file : -1;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags) {
  (void)pid, (void)to, (void)to_count, (void)from, (void)from_count, (void)flags;
  errno = EPERM;
  return -1;
}
"""

# The target goes a step when the first page of its is to be brought to the command.
STEP = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags) {
  static int steps;
  char line[8];
  if (to->iov_base == from->iov_base && steps++ == 0 &&
      (write(atoi(getenv("STEP_TO")), "b", 1) != 1 ||
       read(atoi(getenv("STEP_FROM")), line, sizeof line) != sizeof line))
    _exit(99);
  return syscall(SYS_process_vm_readv, pid, to, to_count, from, from_count, flags);
}
"""

# The target ends before the look at its memory with this number. How many there were is written.
KILL = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int looks;
static __attribute__((destructor)) void say(void) {
  FILE *file = fopen(getenv("LOOKS"), "w");
  fprintf(file, "%d", looks);
  fclose(file);
}
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags) {
  ssize_t got;
  if (++looks == atoi(getenv("KILL_AT"))) kill(pid, SIGKILL);
  do got = syscall(SYS_process_vm_readv, pid, to, to_count, from, from_count, flags);
  while (got > 0 && looks == atoi(getenv("KILL_AT")));
  return got;
}
"""


class Target:
    """A process to look into; it ends with the `with`."""

    def __init__(self, *arguments, probe=PROBE, library=support.LIBRARY, options="", prefix=(),
                 files=(), **more):
        self.process = subprocess.Popen(
            [*prefix, probe, *map(str, arguments)], env=support.preloaded(library, options),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=files, **more)
        self.pid = str(self.process.pid)
        assert self.process.stdout.readline() == "ready\n"
        self.own = json.loads(self.process.stdout.readline() or "null")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


ASKED_TAKEN = 6


class Request:
    """What a process is asked: src/support/asked.h."""

    def __init__(self, pid, text):
        self.memory = open(f"/proc/{pid}/mem", "r+b", 0)
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
            ranges = re.findall(r"(\w+)-(\w+) rw", maps.read())
        mark = int(pid).to_bytes(4, sys.byteorder) + text + b"\0"
        for start, end in ranges:
            self.memory.seek(int(start, 16))
            found = self.memory.read(int(end, 16) - int(start, 16)).find(mark)
            if found >= 0:
                self.at = int(start, 16) + found - 24
                return
        raise AssertionError(f"{text} is asked of nobody")

    def word(self):
        self.memory.seek(self.at)
        return int.from_bytes(self.memory.read(8), sys.byteorder)

    def set_word(self, word):
        self.memory.seek(self.at)
        self.memory.write(word.to_bytes(8, sys.byteorder))

    def text(self):
        self.memory.seek(self.at + 28)
        return self.memory.read(64).split(b"\0")[0]


def outside(*arguments, **more):
    return support.run([COMMAND, *map(str, arguments)], timeout=120, **more)


def write_core(pid, path):
    """A core file as Linux writes it: the notes PRPSINFO and FILE, then each range that can be
    read. Pages of zeros become holes."""
    ranges, files = [], []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            where, rights, offset, _, _, *name = line.split(maxsplit=5)
            start, end = (int(x, 16) for x in where.split("-"))
            if name and name[0].startswith("/"):
                files.append((start, end, int(offset, 16) // PAGE, name[0].strip()))
            if rights[0] == "r" and not (name and name[0].startswith("[v")):
                ranges.append((start, end, rights))

    def note(kind, text):
        head = struct.pack("<III8s", 5, len(text), kind, b"CORE\0")
        return head + text + b"\0" * (-len(text) % 4)

    info = struct.pack("<4bQ2I4i16s80s", 0, 0, 0, 0, 0, 0, 0, int(pid), 1, 1, 1,
                       b"outside_probe", b"")
    table = struct.pack("<QQ", len(files), PAGE)
    table += b"".join(struct.pack("<QQQ", *f[:3]) for f in files)
    table += b"".join(f[3].encode() + b"\0" for f in files)
    notes = note(3, info) + note(0x46494c45, table)
    head = 64 + 56 * (len(ranges) + 1)
    at = -(-(head + len(notes)) // PAGE) * PAGE
    parts = struct.pack("<IIQQQQQQ", 4, 0, head, 0, 0, len(notes), 0, 4)
    with open(path, "wb") as core, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end, rights in ranges:
            flags = 4 | 2 * (rights[1] == "w") | (rights[2] == "x")
            size = end - start
            parts += struct.pack("<IIQQQQQQ", 1, flags, at, start, 0, size, size, PAGE)
            done = start
            while done < end:
                size = min(1 << 20, end - done)
                memory.seek(done)
                data = memory.read(size)
                for page in range(0, size, PAGE):
                    if data[page:page + PAGE].strip(b"\0"):
                        core.seek(at + done - start + page)
                        core.write(data[page:page + PAGE])
                done += size
            at += end - start
        core.truncate(at)
        core.seek(0)
        core.write(struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 4, 62, 1, 0, 64,
                               0, 0, 64, 56, len(ranges) + 1, 0, 0, 0))
        core.write(parts + notes)


class Outside(unittest.TestCase):
    maxDiff = None
    # nothing, or what was not there when it was to be read
    LACKS = (r"\A(freehold: .* changed while it was read, 3 times: \d+ pages are not there, and "
             r"the figures lack what was in them\n)*\Z")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="freehold-outside-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def refused(self, *arguments, code=1, **more):
        """The one line that says why."""
        result = outside(*arguments, **more)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertRegex(result.stderr, r"\Afreehold: .*\n\Z")
        return result.stderr

    def shim(self, text):
        """A library that stands before libc."""
        source, shim = self.path("shim.c"), self.path("shim.so")
        with open(source, "w", encoding="ascii") as file:
            file.write(text)
        built = support.run([support.COMPILER, "-shared", "-fPIC", "-o", shim, source])
        self.assertEqual(built.returncode, 0, built.stderr)
        return shim

    def compare(self, found, own):
        """All but the name, and what changes in a process that waits: times, faults, pages."""
        moving = {"freehold", "elapsed_ms", "user_ms", "system_ms", "minor_faults", "major_faults",
                  "peak_resident", "resident", "metadata"}
        self.assertEqual({k: v for k, v in found.items() if k not in moving},
                         {k: v for k, v in own.items() if k not in moving})
        self.assertLess(abs(found["resident"] - own["resident"]), 1 << 20)

    def test_statistics_are_those_that_the_process_has_of_itself(self):
        with Target("still") as target:
            found = json.loads(outside("stats", "--json", target.pid).stdout)
        self.compare(found, target.own)

    def test_a_count_never_falls_while_a_heap_gives_up_what_it_counted(self):
        """A heap counts up to 65,535 blocks of a class, and moves half of that elsewhere. It does
        all that it does here between the look at the library and the look at the heap."""
        shim = self.shim(STEP)
        with Target("wait") as target:
            pipes = target.process.stdin.fileno(), target.process.stdout.fileno()
            environment = support.preloaded(shim)
            environment["STEP_TO"], environment["STEP_FROM"] = map(str, pipes)
            os.write(pipes[0], b"b")
            self.assertEqual(os.read(pipes[1], 8), b"stepped\n")
            found = []
            for _ in range(20):
                result = outside("stats", "--json", target.pid, environment=environment,
                                 pass_fds=pipes)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                stats = json.loads(result.stdout)
                rows = {c["block_size"]: c["allocated"] for c in stats["classes"]}
                self.assertEqual(sum(rows.values()), stats["total"]["allocated"])
                found.append(rows[48])
        for steps, allocated in enumerate(found, 2):
            self.assertLess(abs(allocated - steps * 8000), 2000, found)

    def test_the_debug_library_and_a_static_program_are_read_too(self):
        for more in ({"library": support.DEBUG_LIBRARY}, {"probe": STATIC_PROBE, "library": None}):
            with self.subTest(**more), Target("still", **more) as target:
                self.compare(json.loads(outside("stats", "--json", target.pid).stdout), target.own)

    def test_a_process_that_is_stopped_is_read_and_stays_stopped(self):
        with Target("still") as target:
            os.kill(target.process.pid, signal.SIGSTOP)
            found = json.loads(outside("stats", "--json", target.pid).stdout)
            with open(f"/proc/{target.pid}/stat", encoding="utf-8") as stat:
                self.assertEqual(stat.read().split()[2], "T")
        self.compare(found, target.own)

    def seen(self, *verb):
        """What a command says that has nothing to complain of."""
        result = outside(*verb)
        self.assertEqual((result.returncode, result.stderr), (0, ""), verb)
        return result.stdout

    def check_every_command(self, name, own):
        """Of what does not change: the figures are its own, and two looks see the same."""
        self.compare(json.loads(self.seen("stats", "--json", name)), own)
        why = self.seen("why", "--rows", "1", name)
        self.assertRegex(why, r"allocated by\n +storm( |\n)")
        self.assertRegex(self.seen("top", "--frames", "1", name), r"\n +large +\d+ ")
        self.assertRegex(self.seen("map", name), r"\nwindow 0x\w+, .* mapped\n")
        for verb in (("map",), ("stats", "--prometheus")):
            before, after = ([line for line in self.seen(*verb, name).splitlines()
                              if not re.search("_ms_|faults|resident", line)] for _ in range(2))
            self.assertEqual(before, after)
        for kind in ("heap", "blocks", "lifetimes"):
            self.seen("profile", "--kind", kind, "--out", self.path(kind), name)
            self.assertGreater(os.path.getsize(self.path(kind)), 500)

    def test_every_command_reads_a_process_that_hangs_in_the_middle_of_its_calls(self):
        """16 threads, each interrupted wherever it is by a handler that never returns."""
        with Target("hung", 16, options="profile_interval:16K") as target:
            self.check_every_command(target.pid, target.own)
            os.kill(target.process.pid, signal.SIGSTOP)
            self.check_every_command(target.pid, target.own)
            write_core(target.pid, self.path("core"))
        self.check_every_command(self.path("core"), target.own)
        self.assertIn("allocated by", self.seen("inspect", self.path("core")))

    def test_addresses_that_the_command_has_itself_are_no_obstacle(self):
        fixed = ("setarch", "-R")
        with Target("still", prefix=fixed) as target:
            result = support.run([*fixed, COMMAND, "stats", "--json", target.pid])
            self.assertEqual(result.stderr, "")
            self.compare(json.loads(result.stdout), target.own)

    def test_threads_that_never_rest_are_read_all_the_same(self):
        with Target("storm", 8, options="profile_interval:64K") as target:
            for what in (("stats",), ("why",), ("map",), ("profile", "--out", self.path("p"))) * 3:
                result = outside(*what, target.pid)
                self.assertEqual(result.returncode, 0, what)
                self.assertRegex(result.stderr, self.LACKS, what)

    def test_32_threads_that_never_rest_are_read_in_little_time(self):
        """Of the processor: a busy machine does not lengthen that."""
        with Target("storm", 32, options="profile_interval:64K") as target:
            for what in (["stats"], ["why"], ["map"], ["profile", "--out", self.path("p")],
                         ["top", "--frames", "3", "--interval", "0.05"]):
                command = subprocess.Popen([COMMAND, *what, target.pid], stderr=subprocess.PIPE,
                                           stdout=subprocess.DEVNULL, text=True)
                errors = command.stderr.read()
                _, status, used = os.wait4(command.pid, 0)
                command.returncode = status
                command.stderr.close()
                self.assertEqual(status, 0, errors)
                self.assertRegex(errors, self.LACKS)
                self.assertLess(used.ru_utime + used.ru_stime, 30 if "top" in what else 10, what)

    def test_what_is_not_there_after_some_looks_is_left_out_and_counted(self):
        """The list of arenas of a stopped process leads to addresses where there is nothing."""
        symbols = support.run(["nm", support.LIBRARY]).stdout
        offset = int(re.search(r"^(\w+) \w arena_list$", symbols, re.M)[1], 16)
        with Target("still") as target:
            os.kill(target.process.pid, signal.SIGSTOP)
            with open(f"/proc/{target.pid}/maps", encoding="utf-8") as maps:
                base = next(int(line.split("-")[0], 16) for line in maps
                            if os.path.realpath(support.LIBRARY) in line)
            with open(f"/proc/{target.pid}/mem", "wb", 0) as memory:
                memory.seek(base + offset)
                memory.write(struct.pack("<Q", 1 << 44))
            for what in ("stats", "why", "map"):
                result = outside(what, target.pid)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stderr, self.LACKS)
                self.assertNotEqual(result.stderr, "")

    def test_a_process_that_ends_while_it_is_read_gives_all_or_an_error(self):
        """At any moment: every sixteenth of the way."""
        environment = support.preloaded(self.shim(KILL))
        environment["LOOKS"] = self.path("looks")
        for verb in ("why", "stats", "map"):
            codes, looks = [], 0
            for part in range(17):
                environment["KILL_AT"] = str(looks * part // 16)
                with Target("sparse", options="profile_interval:64K") as target:
                    result = outside(verb, target.pid, environment=environment)
                codes.append(result.returncode)
                expected = r"\A(freehold: .*\n){%d}\Z" % result.returncode
                self.assertRegex(result.stderr, expected, (verb, part))
                self.assertEqual(result.stdout == "", result.returncode == 1, (verb, part))
                with open(self.path("looks"), encoding="ascii") as file:
                    looks = looks or int(file.read())
            self.assertEqual(codes[:2], [0, 1], codes)

    def test_a_core_file_says_what_the_process_did(self):
        with Target("sparse", options="profile_interval:8K") as target:
            alive = outside("why", target.pid).stdout
            write_core(target.pid, self.path("core"))
        self.compare(json.loads(outside("stats", "--json", self.path("core")).stdout), target.own)
        result = outside("inspect", self.path("core"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("pin_entry", result.stdout)
        sparse = r"blocks of 1024: \S+ free in (\d+) slabs, of which (\d+) are"
        self.assertEqual(re.search(sparse, result.stdout).groups(),
                         re.search(sparse, alive).groups())

    def test_the_kernels_own_core_file_is_read(self):
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as pattern:
            if pattern.read().strip() != "core":
                self.skipTest("core files go elsewhere here")
        with Target("still", prefix=("sh", "-c", f'cd {self.folder.name}; ulimit -c unlimited; '
                                     'exec "$0" "$@"')) as target:
            target.process.send_signal(signal.SIGABRT)
            target.process.wait()
        cores = [name for name in os.listdir(self.folder.name) if name.startswith("core")]
        found = json.loads(outside("stats", "--json", self.path(cores[0])).stdout)
        self.compare(found, target.own)

    def test_why_names_the_function_whose_blocks_keep_sparse_slabs(self):
        with Target("sparse", options="profile_interval:8K") as target:
            text = outside("why", "--rows", "1", target.pid).stdout
        row = re.search(r"blocks of 1024: \S+ free in (\d+) slabs, of which (\d+) are", text)
        slabs, sparse = map(int, row.groups())
        self.assertGreater(sparse, 500)
        self.assertGreater(sparse, slabs * 0.9)
        first = text.split("allocated by\n")[1].split("\n")[0]
        self.assertRegex(first, r"^ +pin_entry( \(outside_probe\.c:\d+\))?$")
        parts = dict((name, float(share)) for share, name in
                     re.findall(r"([\d.]+)%  +(\S.*)", text.split("what would")[0]))
        self.assertGreater(parts["free blocks in slabs with live ones"], 50)
        within = parts["of that, in slabs of which less than a quarter is live"]
        self.assertAlmostEqual(sum(parts.values()) - within, 100, delta=3)

    def test_why_counts_free_pages_between_large_blocks_and_says_what_lowers_them(self):
        with Target("gaps", options="purge_budget:64M") as target:
            text = outside("why", target.pid).stdout
        for part in "in live blocks", "free pages between large blocks of up to 128 KiB":
            size = re.search(rf"([\d.]+)M +[\d.]+%  {part}\n", text).group(1)
            self.assertAlmostEqual(float(size), 500 * 10 * 4096 / 2**20, delta=1.5)
        self.assertRegex(text, r"[\d.]+M  freehold trim \d+, or malloc_trim\(0\) in it")

    def test_why_names_who_holds_what_lives_in_cpp_without_what_templates_were_given(self):
        probe = support.program("outside_names")
        with Target(probe=probe, options="profile_interval:16K") as target:
            text = outside("why", "--rows", "2", target.pid).stdout
        lives = text.split("whose live blocks are most, by the samples\n")[1]
        rows = re.findall(r"^ +(\S+[KM]) in \d+ samples?, from .* old, allocated by\n"
                          r" +(.*) \(outside_names.cc:\d+\)$", lives, re.M)
        self.assertEqual([name for _, name in rows],
                         ["shop::cache_t<...>::add(unsigned long)",
                          "shop::operator<<(shop::cache_t<...>&, unsigned long)"])
        found = float(rows[0][0][:-1])    # MiB; some 190 samples, five deviations
        self.assertAlmostEqual(found, 3000 * 1024 / 2 ** 20, delta=1.1)

    def test_a_process_that_runs_samples_from_now_on_and_then_no_more(self):
        with Target("storm", 2) as target:
            self.assertIn("--start", self.refused("profile", target.pid))
            started = outside("profile", "--start", "--interval", "16K", target.pid).stdout
            self.assertIn("samples one block in about 16.0K from now on", started)
            text, soon = "", time.monotonic() + 60
            while not re.search(r"allocated by\n +storm\b", text):
                self.assertLess(time.monotonic(), soon, text)
                text = outside("why", target.pid).stdout
            self.assertIn("samples no more", outside("profile", "--stop", target.pid).stdout)
            written = outside("profile", "--out", self.path("p"), target.pid)
            self.assertEqual((written.returncode, written.stdout), (0, ""))
            self.assertGreater(os.path.getsize(self.path("p")), 100)

    def test_an_option_of_a_process_that_runs_is_set_if_it_may_be(self):
        with Target("storm", 2) as target:
            for value, before in (("7", "50"), ("9", "7")):
                self.assertIn(f"purge_delay_ms:{value} from now on; it was {before}\n",
                              outside("set", f"purge-delay-ms:{value}", target.pid).stdout)
            for setting, why in (("magazine:1G", "'1G' is not in 0..64M"),
                                 ("background:on", "is read when a program starts, and not later"),
                                 ("profile_interval:8K", "profile --start --interval BYTES"),
                                 ("nothing:1", "there is no option 'nothing'"),
                                 ("magazine", "needs a value: magazine:VALUE")):
                self.assertIn(why, self.refused("set", setting, target.pid, code=2))
            self.assertIn("takes an option and a target",
                          self.refused("set", target.pid, code=2))

    def test_who_does_not_call_does_not_answer_and_may_do_it_later(self):
        with Target("wait") as target:
            for verb in (["set", "magazine:0"], ["trim"], ["profile", "--start"]):
                result = outside(*verb, "--wait", "0.1", target.pid)
                self.assertEqual((result.returncode, result.stdout), (3, ""))
                *replaced, last = result.stderr.splitlines()
                self.assertIn("has not answered for 0.1 s", last)
                self.assertEqual("this one takes its place" in "".join(replaced),
                                 verb[0] != "set")
            target.process.stdin.write("b")
            target.process.stdin.flush()
            self.assertEqual(target.process.stdout.readline(), "stepped\n")
            found = outside("profile", "--out", self.path("p"), target.pid)
            self.assertEqual(found.returncode, 0, found.stderr)     # the last request was met

    def test_a_request_that_a_thread_is_answering_is_waited_for(self):
        with Target("wait") as target:
            outside("set", "magazine:0", "--wait", "0.1", target.pid)
            request = Request(target.pid, b"magazine")
            number = request.word() >> 32
            request.set_word(number << 32 | ASKED_TAKEN)
            next_one = subprocess.Popen([COMMAND, "set", "purge_delay_ms:3", "--wait", "60",
                                         target.pid], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.5)
            self.assertEqual((request.text(), request.word() >> 32), (b"magazine", number))
            request.set_word(0)
            while next_one.poll() is None:
                target.process.stdin.write("b")
                target.process.stdin.flush()
                self.assertEqual(target.process.stdout.readline(), "stepped\n")
                time.sleep(0.1)
            self.assertEqual((next_one.returncode, next_one.stderr.read()), (0, ""))
            self.assertIn("purge_delay_ms:3 from now on", next_one.stdout.read())

    def test_one_command_asks_at_a_time(self):
        with Target("wait") as target, open(f"/proc/{target.pid}/stat", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("is being asked by another command",
                          self.refused("set", "magazine:0", "--wait", "0.1", target.pid))

    def test_a_request_that_a_thread_never_answered_makes_way_for_the_next(self):
        with Target("wait") as target:
            outside("set", "magazine:0", "--wait", "0.1", target.pid)
            Request(target.pid, b"magazine").set_word(7 << 32 | ASKED_TAKEN)
            result = outside("set", "purge_delay_ms:3", "--wait", "0.1", target.pid)
            self.assertEqual(result.returncode, 3)
            self.assertIn("had not answered an earlier request: this one takes its place",
                          result.stderr)
            self.assertNotEqual(Request(target.pid, b"purge_delay_ms").word() >> 32, 7)

    def test_free_memory_of_a_process_that_runs_goes_back_when_it_is_asked_for(self):
        with Target("gaps") as target:
            asked = subprocess.Popen([COMMAND, "trim", target.pid], stdout=subprocess.PIPE,
                                     text=True)
            while asked.poll() is None:
                target.process.stdin.write("b")
                target.process.stdin.flush()
                self.assertEqual(target.process.stdout.readline(), "stepped\n")
                time.sleep(0.25)
            sizes = re.search(r": ([\d.]+)M in memory, before that ([\d.]+)M\n",
                              asked.communicate()[0])
        self.assertLess(float(sizes[1]), float(sizes[2]) - 10)

    def test_a_profile_from_outside_is_the_one_that_the_process_writes(self):
        own = os.open(self.path("own"), os.O_RDWR | os.O_CREAT)
        with Target("still", options="profile_interval:4K",
                    prefix=("sh", "-c", f'exec "$0" "$@" 3<&{own}'), files=(own,)) as target:
            target.process.stdin.write("p")
            target.process.stdin.flush()
            self.assertEqual(target.process.stdout.readline(), "written\n")
            result = outside("profile", "--out", self.path("found"), target.pid)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(self.path("found"), "rb") as found, open(self.path("own"), "rb") as written:
            self.assertEqual(found.read(), written.read())

    def test_a_profile_goes_behind_what_its_file_has_and_nothing_of_it_is_lost(self):
        """Standard output is the caller's; a file is replaced only by a whole profile."""
        path = self.path("all")
        with Target("still", options="profile_interval:4K") as target:
            for mode in "ab":
                with open(path, "wb") as out:
                    out.write(b"earlier")
                with open(path, "ab" if mode == "a" else "r+b") as out:
                    out.seek(0, os.SEEK_END)
                    done = subprocess.run([COMMAND, "profile", "--out", "-", target.pid],
                                          stdout=out, check=False)
                self.assertEqual(done.returncode, 0)
                with open(path, "rb") as out:
                    self.assertRegex(out.read(), rb"(?s)\Aearlier.{100}")
        with Target("still") as target:
            self.refused("profile", "--out", path, target.pid)    # it does not sample
        self.assertGreater(os.path.getsize(path), 100)

    def test_a_name_that_is_no_text_reaches_no_terminal(self):
        name = self.path("p\x1b[31m")
        shutil.copy(PROBE, name)
        with Target("storm", 1, probe=name) as target:
            found = outside("why", target.pid)
        self.assertIn("p?[31m", found.stdout)
        self.assertNotIn("\x1b", found.stdout)

    def test_the_map_has_each_slice_once(self):
        with Target("sparse") as target:
            text = outside("map", target.pid).stdout
            page = self.path("map.html")
            self.assertEqual(outside("map", "--page", page, target.pid).returncode, 0)
        rows = re.findall(r"^ +0x[0-9a-f]+ (.*)$", text, re.M)
        letters = "".join(rows)
        self.assertTrue(letters.startswith("m"))
        self.assertFalse(set(letters) - set("0123456789Ll=-.m "), letters)
        self.assertGreater(sum(letters.count(tenth) for tenth in "012"), 500)
        with open(page, encoding="utf-8") as file:
            html = file.read()
        self.assertIn("slices:'" + "m" * 35, html)
        self.assertNotRegex(html, r"https?://|src=")
        names, = re.findall(r"^const names=\{(.*?)\};", html, re.M | re.S)
        legend = text[text.index("\n"):text.index("window 0x")]
        for letter in set(re.findall(r"[ ;\n](\S): ", legend)) - {"9"}:    # "0 to 9: a slab"
            self.assertIn(f"'{letter}':", names)

    def test_top_shows_rates_and_ends_with_the_process(self):
        with Target("storm", 2) as target:
            frames = outside("top", "--frames", "3", "--interval", "0.1", target.pid).stdout
            rates = re.findall(r"blocks/s (\d+|-),", frames)
            self.assertEqual((len(rates), rates[0]), (3, "-"))
            self.assertGreater(min(int(n) for n in rates[1:]), 0)
            self.assertEqual(re.findall(r"(?:mmap|madvise|faults)/s (-)[,\n]", frames), ["-"] * 3)
            top = subprocess.Popen([COMMAND, "top", "--interval", "0.1", target.pid], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            top.stdout.readline()
        _, errors = top.communicate(timeout=60)
        self.assertEqual(top.returncode, 0)
        self.assertRegex(errors, r"\Afreehold: .* has ended\n\Z")

    def test_the_rates_of_top_are_of_the_time_between_two_frames(self):
        """Together they are no more blocks than there were from before the first to behind the
        last: an interval is never shorter than was asked for."""
        def allocated(pid):
            return json.loads(outside("stats", "--json", pid).stdout)["total"]["allocated"]

        with Target("storm", 2) as target:
            before = allocated(target.pid)
            frames = outside("top", "--frames", "4", "--interval", "0.5", target.pid).stdout
            after = allocated(target.pid)
        rates = [int(n) for n in re.findall(r"blocks/s (\d+|-),", frames)[1:]]
        self.assertEqual(len(rates), 3)
        self.assertLessEqual(sum(rates) * 0.5, after - before + 4 * 32768)
        self.assertGreater(sum(rates) * 0.5, (after - before) / 100)

    def test_top_draws_on_a_terminal_and_q_ends_it(self):
        here, there = pty.openpty()
        with Target("still") as target:
            environment = dict(os.environ, TERM="xterm", LINES="40", COLUMNS="120")
            with subprocess.Popen([COMMAND, "top", "--interval", "0.1", target.pid], stdin=there,
                                  stdout=there, stderr=subprocess.PIPE, env=environment) as top:
                shown = b""
                while b"outside_probe" not in shown or b"thread" not in shown:
                    shown += os.read(here, 4096)
                os.write(here, b"q")
                while top.poll() is None:
                    if select.select([here], [], [], 0.1)[0]:
                        os.read(here, 4096)
                self.assertEqual((top.returncode, top.stderr.read()), (0, b""))
        os.close(here)
        os.close(there)

    def test_prometheus_reads_every_statistic_and_its_type(self):
        with Target("still") as target:
            text = outside("stats", "--prometheus", target.pid).stdout
        types = dict(re.findall(r"^# TYPE (\S+) (gauge|counter)$", text, re.M))
        for line in text.splitlines():
            if not line.startswith("#"):
                labels = r'(\{size="\d+"\}|\{path="\w+"(,quantile="[\d.]+")?\})?'
                self.assertRegex(line, r"^freehold_\w+" + labels + r" \d+$")
                self.assertIn(re.match(r"\w+", line)[0], types)
        self.assertEqual(types["freehold_live_bytes"], "gauge")
        for name, kind in types.items():
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
        plain = {re.sub("^freehold_|_total$", "", name) for name in types}
        for name in set(target.own) - {"freehold", "total", "classes", "by_heap"}:
            self.assertTrue({name, name + "_bytes"} & plain, name)

    def test_reading_a_process_brings_no_page_of_it_into_memory(self):
        def resident(pid):
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                return int(re.search(r"^Rss: +(\d+)", file.read(), re.M)[1])

        with Target("sparse", options="profile_interval:64K") as target:
            found = []
            for verb in ("why", "stats", "map", "why"):
                before = resident(target.pid)
                text = outside(verb, target.pid).stdout
                self.assertLess(abs(resident(target.pid) - before), 200)
                found += re.findall(r"in memory (\S+),", text)
        self.assertEqual(found[0], found[1])

    def test_a_process_is_meant_where_a_file_has_its_name(self):
        with Target("still") as target:
            with open(self.path("outside_probe"), "w", encoding="ascii"):
                pass
            result = outside("stats", "outside_probe", cwd=self.folder.name)
            alone = support.run(["pgrep", "-c", "-x", "outside_probe"]).stdout.strip() == "1"
            if alone:
                self.assertEqual((result.returncode, result.stderr), (0, ""))
            else:
                self.assertIn("give one's number", result.stderr)
            self.assertIn(target.pid, support.run(["pgrep", "-x", "outside_probe"]).stdout)

    def test_of_two_in_a_process_the_one_that_serves_malloc_is_read_and_the_other_named(self):
        plug = self.path("plug.so")
        built = support.run([support.COMPILER, "-shared", "-Wl,-Bsymbolic", "-o", plug,
                             support.OBJECT])
        self.assertEqual(built.returncode, 0, built.stderr)
        served = os.path.realpath(support.LIBRARY)
        named = f"has freehold 2 times: this is that of '{served}', not of '{plug}'\n"
        with Target("sparse", library=f"{support.LIBRARY}:{plug}") as target:
            for name in (target.pid, self.path("core")):
                result = outside("stats", "--json", name)
                write_core(target.pid, self.path("core"))
                self.assertRegex(result.stderr, r"\Afreehold: .*\n\Z")
                self.assertIn(named, result.stderr)
                self.compare(json.loads(result.stdout), target.own)

    def test_another_layout_is_refused_and_named(self):
        with open(support.LIBRARY, "rb") as file:
            library = bytearray(file.read())
        version = library.index(b"freehold layout\0") + 16
        field = library.index(b"heap_t.binned\0") + 56
        for at, change, message in ((version, 1, "layout 0; this command reads .*, layout 1"),
                                    (version, 6, "layout 7; this command reads .*, layout 1"),
                                    (field, 8, "'heap_t.binned' is otherwise: use the command "
                                               "that came with /")):
            changed = bytearray(library)
            changed[at] ^= change
            path = self.path("libfreehold.so")
            with open(path, "wb") as file:
                file.write(changed)
            with self.subTest(message), Target("still", library=path) as target:
                for verb in (["stats"], ["why"], ["map"], ["profile"], ["top"],
                             ["trace", "--start"], ["trace", "--stop"]):
                    self.assertRegex(self.refused(*verb, target.pid), message)
                write_core(target.pid, self.path("core"))
                self.assertRegex(self.refused("inspect", self.path("core")), message)
            os.remove(path)

    def test_the_secure_grade_is_refused_and_what_has_its_figures_named(self):
        for name in ("secure", "bounds"):
            library = os.path.join(os.path.dirname(support.LIBRARY), f"libfreehold-{name}.so.1")
            with self.subTest(name), Target("wait", library=library) as target:
                for verb in ("stats", "top", "map", "why", "profile", "trace --stop"):
                    line = self.refused(*verb.split(), target.pid)
                    self.assertIn(f"has the secure grade ('{os.path.realpath(library)}')", line)
                    self.assertIn("FREEHOLD_OPTIONS=stats:exit, or fh_stats_get", line)

    def test_what_cannot_be_read_is_refused_with_one_line(self):
        with subprocess.Popen(["sleep", "60"]) as other:
            self.assertIn("no freehold in sleep", self.refused("why", other.pid))
            self.assertIn("no freehold in sleep", self.refused("trace", "--start", other.pid))
            other.kill()
        self.assertIn("there is no process 999999999", self.refused("why", "999999999"))
        self.assertIn("there is no process 'no-such'", self.refused("why", "no-such"))
        self.assertIn("cannot be read: No such file", self.refused("why", "/no/such/core"))
        for name in ("/dev/null", self.folder.name):
            self.assertIn("is no core file: no plain file at all", self.refused("stats", name))
        self.assertIn("cannot be read: Not a directory", self.refused("stats", __file__ + "/core"))
        self.assertIn("no core file", self.refused("inspect", __file__))
        self.assertIn("not a core file", self.refused("inspect", COMMAND))
        with Target("still") as target:
            write_core(target.pid, self.path("core"))
            self.assertIn("does not sample", self.refused("profile", target.pid))
            self.assertIn("is no process", self.refused("trace", "--start", self.path("core")))
            shutil.copy(COMMAND, self.path("freehold"))
            os.chmod(self.folder.name, 0o755)
            if os.geteuid() == 0:
                for verb in (["stats"], ["trace", "--start"]):
                    stranger = subprocess.run(
                        [self.path("freehold"), *verb, target.pid], user=65534, group=65534,
                        capture_output=True, text=True, check=False)
                    self.assertEqual(stranger.returncode, 1)
                    self.assertIn("no permission to read process", stranger.stderr)
        for size in (1 << 20, 5000, 100):
            os.truncate(self.path("core"), size)
            self.assertIn("is truncated", self.refused("inspect", self.path("core")))

    def test_where_the_kernel_forbids_it_the_line_says_how_to_allow_it(self):
        """A kernel with Yama, as far as the command sees."""
        shim = self.shim(YAMA)
        with Target("still") as target:
            for verb in (["stats"], ["why"], ["map"], ["profile"], ["top"], ["trace", "--start"]):
                told = self.refused(*verb, target.pid, environment=support.preloaded(shim))
                self.assertEqual(told, f"freehold: no permission to read process {target.pid}: as "
                                 "root, or after 'sysctl kernel.yama.ptrace_scope=0' (now 1)\n")

    def test_a_core_file_of_nonsense_is_refused_too(self):
        most, head = 2**64 - 1, 64 + 56
        file_note = struct.pack("<III8sQQ", 5, 2**32 - 1, 0x46494c45, b"CORE\0", 1 << 26, 1)
        info_note = struct.pack("<III8s", 5, 2**32 - 1, 3, b"CORE\0")
        for count, section, offset, size, notes in (
                (1, 0, head, 40, file_note), (1, 0, head, 20, info_note),
                (1, 0, 1, most, b""), (1, 0, most - 9, 99, b""),
                (2**16 - 1, head, 0, 0, b"\xff" * 64)):
            with open(self.path("core"), "wb") as core:
                core.write(struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 4, 62, 1,
                                       0, 64, section, 0, 64, 56, count, 0, 0, 0))
                core.write(struct.pack("<IIQQQQQQ", 4, 0, offset, 0, 0, size, 0, 4) + notes)
            self.refused("inspect", self.path("core"))

    def test_a_program_with_raised_privileges_takes_no_request_and_shows_nothing_to_its_user(self):
        """Set-user-ID and set-group-ID, with capabilities of its file where these can be given."""
        if os.geteuid() != 0:
            self.skipTest("needs root: to make a set-uid program and to run it as another user")
        os.chmod(self.folder.name, 0o777)
        if os.statvfs(self.folder.name).f_flag & os.ST_NOSUID:
            self.skipTest("the temporary folder's file system ignores the set-uid bit")
        nobody, probe, command = {"user": 65534, "group": 65534}, self.path("probe"), self.path("c")
        shutil.copy(COMMAND, command)
        for kind in ("u+s", "g+s", "capability"):
            shutil.copy(STATIC_PROBE, probe)
            os.chmod(probe, 0o755)
            if kind == "capability":
                given = support.run(["setcap", "cap_net_raw+ep", probe]) if support.has("setcap") \
                    else None
                if given is None or given.returncode != 0:
                    continue
            else:
                support.run(["chmod", kind, probe])
            wishes = ",".join((f"trace:{self.path('t')}", f"profile:{self.path('p')}", "stats:exit",
                               "profile_interval:1K", f"profile_signal:{int(signal.SIGUSR2)}",
                               "verbose:on", "fill:both", "no_such:1"))
            with self.subTest(kind), Target("storm", 1, probe=probe, library=None, options=wishes,
                                            **nobody, stderr=subprocess.PIPE) as target:
                refusal = self.refused("trace", "--start", "--out", self.path("w"), target.pid)
                self.assertIn("is set-user-ID or the like: it takes no requests", refusal)
                self.assertIn("does not sample", self.refused("profile", target.pid))
                for verb in (["stats"], ["trace", "--start"]):
                    stranger = support.run([command, *verb, target.pid], **nobody)
                    self.assertEqual((stranger.returncode, stranger.stdout), (1, ""))
                    self.assertIn("no permission to read process", stranger.stderr)
                target.process.send_signal(signal.SIGUSR2)    # for which there is no handler
                self.assertEqual(target.process.wait(), -signal.SIGUSR2)
                self.assertEqual(target.process.stderr.read(), "")
                self.assertEqual(sorted(os.listdir(self.folder.name)), ["c", "probe"])

    def test_a_full_disk_is_said(self):
        with Target("still", options="profile_interval:64K") as target:
            self.assertIn("'/dev/full'", self.refused("profile", "--out", "/dev/full", target.pid))
            self.assertIn("'/dev/full'", self.refused("map", "--page", "/dev/full", target.pid))
            with open("/dev/full", "w", encoding="ascii") as full:
                for said in (["stats", target.pid], ["top", "--frames", "2", target.pid], ["help"],
                             ["why", "--help"], ["trace", "--help"], ["run", "--help"]):
                    result = subprocess.run([COMMAND, *said], stdout=full, stderr=subprocess.PIPE,
                                            text=True, check=False)
                    self.assertEqual(result.returncode, 1, said)
                    self.assertRegex(result.stderr, r"\Afreehold: standard output: .*\n\Z")

    def test_bad_use_is_told_from_the_rest(self):
        for arguments in ((), ("1", "2"), ("--no-such", "1")):
            for verb in ("stats", "why", "map", "top", "profile", "inspect"):
                self.refused(verb, *arguments, code=2)
        for arguments in (("why", "--rows", "x", "1"), ("top", "--interval", "0", "1"),
                          ("profile", "--kind", "x", "1"), ("profile", "--kind")):
            self.refused(*arguments, code=2)

    def test_run_refuses_a_name_that_no_option_can_have(self):
        long = "x" * 1100
        for name, told in ((long, "is not in 1..1023 bytes"), ("/" + long, "is not in 1..1023"),
                           ("", "'' is not in"), ("a,b", "has a comma, which ends an option")):
            for option in ("--trace", "--profile"):
                line = self.refused("run", option, name, "--", "true", code=2)
                self.assertIn(told, line)
                self.assertLess(len(line), 200)

    def test_each_command_explains_itself(self):
        for verb in ("stats", "why", "map", "top", "profile", "set", "trim", "inspect",
                     "trace --start", "trace",
                     "options", "run"):
            result = outside(*verb.split(), "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for word in (f"freehold {verb} ", r"Example(: |s\n)", "Exit codes( of run)?: "):
                self.assertRegex(result.stdout, word)


class Page(unittest.TestCase):
    """What docs/insight.md shows of its programs: from outside, and without a restart."""

    def start(self, name, *arguments):
        program = subprocess.Popen(
            [support.program("example_" + name), *arguments], stdout=subprocess.PIPE, text=True,
            env=support.preloaded(options="profile_interval:64K"))
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        return program

    def why(self, program):
        """A program that has just been started may not have the library yet."""
        found, soon = outside("why", "--rows", "1", program.pid), time.monotonic() + 60
        while "no freehold in" in found.stderr and time.monotonic() < soon:
            found = outside("why", "--rows", "1", program.pid)
        self.assertEqual(found.returncode, 0, found.stderr)
        return found.stdout

    def test_the_stack_that_keeps_a_fragmented_heap_is_named(self):
        program = self.start("fragmented")
        self.assertEqual(program.stdout.readline(), "waiting\n")
        text = self.why(program)
        row = re.search(r"\n  blocks of 1536: \S+M free in (\d+) slabs, of which .*\n"
                        r" +\S+ in \d+ samples?, from .* old, allocated by\n +(\w+)", text)
        self.assertIsNotNone(row, text)
        self.assertEqual(row[2], "write_audit")
        self.assertGreater(int(row[1]), 200)
        share = re.search(r"([\d.]+)%  free blocks in slabs with live ones", text)
        self.assertGreater(float(share[1]), 25)

    def test_a_leak_of_16_threads_is_named_while_it_grows(self):
        program, held, soon = self.start("leak", "50000000"), [], time.monotonic() + 120
        while len(held) < 3 or held[-1] < 2 * held[0]:
            self.assertLess(time.monotonic(), soon, held)
            lives = self.why(program).split("whose live blocks are most, by the samples\n")[1]
            row = re.search(r"\A +([\d.]+)M in \d+ samples?, from .* old, allocated by\n"
                            r" +(\w+).*\n +serve\b", lives)
            if row:
                self.assertEqual(row[2], "remember_session")
                held.append(float(row[1]))


if __name__ == "__main__":
    support.main(sys.modules[__name__])
