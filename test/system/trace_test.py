"""Event traces: what `freehold trace` says is what a known program has done."""
import json
import lzma
import os
import platform
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

PROBE = support.program("trace_probe")
TRACE_CHUNK, CHUNK_MARK = 64 << 10, 0x43544846
SYNC, MALLOC, FREE, DELETE, DESTROY, LEAVE, OF_HEAP = 1, 2, 5, 9, 10, 11, 32
COMMAND = os.path.join(os.path.dirname(support.LIBRARY), "freehold")


def varint(n):
    low = n & 127
    return bytes([low]) if n < 128 else bytes([low | 128]) + varint(n >> 7)


def begin(number, serial, ns):
    return bytes([SYNC]) + varint(number) + varint(serial) + varint(ns)


def chunk_of(records):
    return struct.pack("<4I", CHUNK_MARK, 16 + len(records), 0, 0) + records


def step_to(address, last):
    step = (address >> 4) - (last >> 4)
    return varint(step * 2 if step >= 0 else -step * 2 - 1)


def trace_of(threads):
    """A trace of (number, events) for each serial, as support/trace.h describes it. An event is
    (ns, kind, address, size), and perhaps the first-class heap."""
    chunks = [struct.pack("<8s4I3Q", b"fh-trace", 2, TRACE_CHUNK, 1, 4096, 0, 0, 0)]
    for serial, (number, events) in enumerate(threads, 1):
        before, last, last_heap = events[0][0], 0, 0
        records = begin(number, serial, before)
        for ns, kind, address, size, *heap in events:
            records += bytes([kind | OF_HEAP * len(heap)]) + varint((ns - before) % 2**64)
            before = ns
            if kind in (DELETE, DESTROY):
                heap, address = [address], None
            elif kind != LEAVE:
                records += step_to(address, last)
                records += varint(size) if kind == MALLOC else b""
                last = address
            for one in heap:
                records += step_to(one, last_heap)
                last_heap = one
            if len(records) > TRACE_CHUNK - 100:
                chunks.append(chunk_of(records))
                records, last, last_heap = begin(number, serial, before), 0, 0
        chunks.append(chunk_of(records))
    return b"".join(chunk.ljust(TRACE_CHUNK, b"\0") for chunk in chunks)


def trace_of_heaps(heaps, blocks, others):
    """One thread, in which so many blocks live that are no heap's. Heaps of `blocks` each come and
    are destroyed, all at one address. Each frees a block before, and has another at its place.
    After each tenth one is deleted. Its block lives on, at an address of its own."""
    live, first, heap = [(1, MALLOC, 1 << 40 | i << 8, 200) for i in range(others)], 1 << 30, 16
    for i in range(heaps):
        now, own = 2 + i, [first + k * 64 for k in range(blocks)]
        live += [(now, MALLOC, at, 50, heap) for at in own]
        live += [(now, FREE, own[0], 0), (now, MALLOC, own[0], 50, heap), (now, DESTROY, heap, 0)]
        if i % 10 == 0:
            live += [(now, MALLOC, (1 << 35) + i * 16, 10, heap), (now, DELETE, heap, 0)]
    return trace_of([(7, live)])


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="freehold-trace-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def probe(self, what, options=None, library=support.LIBRARY, code=0, **more):
        options = options or "trace:" + self.path("t")
        result = support.run([PROBE, what], support.preloaded(library, options), **more)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def command(self, *arguments, code=0):
        result = support.run([COMMAND, "trace", *arguments])
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def sums(self, name="t", *arguments):
        return json.loads(self.command(self.path(name), "--sum", "--json", *arguments).stdout)

    def events(self, name="t", *arguments):
        text = self.command(self.path(name), "--json", *arguments).stdout
        return [json.loads(line) for line in text.splitlines()]

    def check_known(self, name="t"):
        of_size = [e for e in self.events(name, "--size", "1234")]
        self.assertEqual([e["call"] for e in of_size], ["malloc"] * 1000)
        self.assertEqual([e["size"] for e in self.events(name, "--size", "77777-9999999")
                          if e["call"] == "realloc-to"], [77777 * i for i in range(2, 7)])
        self.assertEqual(len([e for e in self.events(name, "--size", "7777")]), 3)
        self.assertEqual([e["alignment"] for e in self.events(name, "--size", "4321")], [512] * 2)

    def test_a_known_program_is_told_exactly(self):
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            self.probe("known", library=library)
            self.check_known()
            sums = self.sums()
            self.assertEqual((sums["lost"], sums["unknown"], sums["failed"]), (0, 0, 0))
            self.assertEqual(sums["calls"]["realloc"], 5)
            self.assertGreaterEqual(sums["live_bytes"], 12340)
            self.assertGreaterEqual(sums["temporary"], 990)
            allocated = sum(sums["calls"][k] for k in ("malloc", "calloc", "aligned"))
            self.assertEqual(allocated - sums["freed"], sums["live_blocks"])
            self.assertEqual(sums["asked"] - sums["released"], sums["live_bytes"])
            left = [(row["blocks"], row["size"] * row["blocks"]) for row in sums["not_freed"]]
            self.assertEqual(tuple(map(sum, zip(*left))),
                             (sums["live_blocks"], sums["live_bytes"]))
            self.assertEqual(left, sorted(left, key=lambda row: -row[1]))

    def late(self, what, library):
        result = support.run([PROBE, what, self.path("t")], support.preloaded(library, ""))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_a_trace_that_begins_while_threads_work_has_all_of_each_from_its_first_slow_call(self):
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            self.assertEqual(self.late("late", library), "1 0 1\n")
            calls = self.events("t", "--size", "2345")
            serials = {e["serial"] for e in calls}
            self.assertEqual((len(serials), len(calls)), (16, 16 * 1000))
            sums = self.sums()
            self.assertEqual((sums["lost"], sums["late"]), (0, 1))
            self.assertGreaterEqual(sums["unknown"], 16 * 300)    # of 3210 bytes, from before
            self.assertLess(sums["live_blocks"], 1000)
            self.assertIn("begun while it ran", self.command(self.path("t"), "--sum").stdout)

    def test_what_finds_no_room_then_is_said_in_one_line_with_its_path(self):
        result = support.run([PROBE, "full", self.path("t")],
                             support.preloaded(support.LIBRARY, ""))
        self.assertRegex(result.stderr, "^freehold: trace '%s': [0-9]+ events are lost: no room\n$"
                         % re.escape(self.path("t")))

    def test_a_trace_that_begins_late_has_the_first_block_that_the_heap_had_kept(self):
        self.late("kept", support.LIBRARY)
        self.assertEqual(len(self.events("t", "--size", "65432")), 2)

    def test_a_trace_that_cannot_begin_changes_nothing_and_may_be_begun_again(self):
        self.assertEqual(self.late("refused", support.LIBRARY), "0 0 1\n1\n")
        self.assertEqual(len(self.events("t", "--size", "6543")), 1)

    @unittest.skipUnless(platform.machine() == "x86_64", "single steps are those of x86-64")
    def test_a_handler_may_fork_wherever_a_trace_begins_and_both_go_on(self):
        result = support.run([PROBE, "forked", self.path("t")],
                             support.preloaded(support.LIBRARY, ""))
        self.assertEqual(result.returncode, 1, result.stderr)    # the last one was not forked
        processes = result.stdout.split()
        self.assertGreater(len(processes), 50)
        for number, process in enumerate(processes):
            names = [name for name in os.listdir(self.folder.name)
                     if name.split(".")[1] == str(1 + 23 * number)]
            told = [len(self.events(name, "--size", "6543")) for name in names]
            whole = [name for name, count in zip(names, told) if count == 100]
            self.assertEqual(len(whole), 2 if number + 1 < len(processes) else 1, names)
            self.assertEqual(sum(told), 100 * len(whole))    # a child may leave an empty one
            self.assertIn(int(process), {self.sums(name)["process"] for name in whole})

    @unittest.skipUnless(platform.machine() == "x86_64", "single steps are those of x86-64")
    def test_a_thread_may_die_wherever_it_works_on_a_trace_and_the_others_lose_nothing(self):
        """The process is killed afterwards, so each file is as it was at some moment."""
        for what, step in (("begin", 23), ("end", 31), ("record", 131)):
            with self.subTest(what):
                result = support.run([PROBE, "dies-in-" + what, self.path(what)],
                                     support.preloaded(support.LIBRARY, ""), timeout=250)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                count = len(result.stdout.split())
                self.assertGreater(count, 20)
                for number in range(count):
                    name = "%s.%d" % (what, 1 + step * number)
                    of_size = len(self.events(name + ".next", "--size", "6543"))
                    self.assertEqual(of_size, 100, name)
                    self.assertEqual(self.sums(name + ".next")["lost"], 0)
                    if what != "begin":
                        of_size = len(self.events(name, "--size", "6543"))
                        self.assertEqual(of_size, 100 if what == "record" else 0, name)

    def served(self, what="served", **more):
        process = subprocess.Popen([PROBE, what], env=support.preloaded(support.LIBRARY, ""),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def work(self, process):
        process.stdin.write("w")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def ask(self, what, process, *arguments, code=0):
        return self.command(what, *arguments, str(process.pid), code=code)

    def test_a_running_process_is_traced_from_outside_and_then_no_more(self):
        process = self.served()
        soon, name = ("--wait", "0.2"), self.path("t")
        self.assertIn("has not answered", self.ask("--start", process, "--out", name, *soon,
                                                   code=3).stderr)
        self.assertIn("taken back", self.ask("--stop", process, *soon).stdout)
        self.work(process)
        self.assertFalse(os.path.exists(name))
        for name in ("t", "u"):
            self.ask("--start", process, "--out", self.path(name), *soon, code=3)
            self.work(process)
            self.assertIn("has a trace already", self.ask("--start", process, code=1).stderr)
            self.assertIn("has not answered", self.ask("--stop", process, *soon, code=3).stderr)
            self.work(process)
            self.work(process)
            self.assertEqual(len(self.events(name, "--size", "2345")), 1000)
            self.assertEqual(self.sums(name)["lost"], 0)
            self.assertIn("has no trace", self.ask("--stop", process, code=1).stderr)
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
            self.assertNotIn(self.folder.name, maps.read())
        files = [os.readlink(f"/proc/{process.pid}/fd/{n}")
                 for n in os.listdir(f"/proc/{process.pid}/fd")]
        self.assertNotIn(self.folder.name, " ".join(files))

    def test_a_busy_process_answers_at_once_and_says_what_cannot_be_done(self):
        process = self.served("busy")
        bad = self.ask("--start", process, "--out", "/no/such/folder/t", code=1).stderr
        self.assertIn("cannot make '/no/such/folder/t'", bad)
        self.assertIn("is traced to", self.ask("--start", process, "--out", self.path("t")).stdout)
        while len(self.events("t", "--size", "33333")) <= 10:
            pass
        self.assertIn("is traced no more", self.ask("--stop", process).stdout)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        process = self.served("busy", preexec_fn=limit)
        full = self.ask("--start", process, "--out", self.path("full"), code=1).stderr
        self.assertIn("has no room for", full)
        self.assertFalse(os.path.exists(self.path("full")))

    def test_a_trace_of_many_events_is_summed_in_memory_for_what_lives_at_one_moment(self):
        made, few, many = support.program("trace_made"), self.path("few"), self.path("many")
        peaks = []
        for name, events in ((few, 1_000_000), (many, 8_000_000)):
            self.assertEqual(support.run([made, name, "16", str(events), "50000"]).returncode, 0)
            command = subprocess.Popen([COMMAND, "trace", name, "--sum"],
                                       stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(command.pid, 0)
            command.returncode = status
            self.assertEqual(status, 0)
            peaks.append(used.ru_maxrss >> 10)
        self.assertGreater(os.path.getsize(many), 32 << 20)
        self.assertLess(peaks[1], peaks[0] + 4)    # MiB

    def test_events_are_in_the_order_of_time_and_no_block_is_two_at_once(self):
        self.probe("threads")
        last, live = 0, set()
        for e in self.events():
            self.assertGreaterEqual(e["ns"], last)
            last = e["ns"]
            if e["call"] in ("malloc", "calloc", "aligned"):
                self.assertNotIn(e["address"], live)
                live.add(e["address"])
            elif e["call"] == "free":
                live.remove(e["address"])
        self.assertLess(os.path.getsize(self.path("t")), 12 << 20)    # 800 threads
        self.assertEqual(len(self.events("t", "--size", "999")), 40000)

    def test_who_frees_whose_blocks_is_told_of_many_threads_too(self):
        """Each of 500 frees a block of the one before; the last frees one of each."""
        many = 500
        threads = [(7, [(i * 10 + 5, MALLOC, i * 32, 100), (i * 10 + 6, MALLOC, i * 32 + 16, 50),
                        (i * 10 + 15, FREE, i * 32 - 32, 0)][:2 if i == 1 else 3])
                   for i in range(1, many)]
        threads.append((7, [(many * 20, FREE, i * 32 + 16, 0) for i in range(1, many)]))
        with open(self.path("many"), "wb") as file:
            file.write(trace_of(threads))
        pairs = self.sums("many")["freed_by"]
        self.assertEqual(len(pairs), 2 * many - 3)
        self.assertEqual({(p["allocated_by"], p["freed_by"], p["blocks"], p["bytes"])
                          for p in pairs}, {(i, i + 1, 1, 100) for i in range(1, many - 1)} |
                         {(i, many, 1, 50) for i in range(1, many)})

    def test_who_frees_whose_blocks_is_told(self):
        self.probe("others")
        foreign = [p for p in self.sums()["freed_by"] if p["allocated_by"] != p["freed_by"]]
        self.assertEqual([p["blocks"] for p in foreign if p["bytes"] >= 500 * 5432], [500])

    def test_handlers_that_interrupt_lose_nothing(self):
        self.probe("handlers")
        self.assertEqual(len(self.events("t", "--size", "2222")), 300000)
        sums = self.sums()
        self.assertEqual((sums["lost"], sums["unknown"]), (0, 0))
        self.assertGreater(len(self.events("t", "--size", "3333")), 10)

    def test_a_program_that_is_killed_leaves_all_it_did(self):
        self.probe("killed", code=-signal.SIGKILL)
        self.check_known()

    def test_a_child_of_fork_writes_a_file_of_its_own(self):
        child = self.probe("forks").stdout.strip()
        self.check_known()
        self.assertEqual(len(self.events("t", "--size", "54321")), 0)
        self.assertEqual(len(self.events("t." + child, "--size", "54321")), 1)
        child = self.probe("forks", "trace:" + self.path("p.%p")).stdout.strip()
        self.assertEqual(len(self.events("p." + child, "--size", "54321")), 1)

    def test_a_program_that_closes_all_files_is_recorded_on(self):
        self.probe("closes")
        self.assertEqual(len(self.events("t", "--size", "2222")), 100000)

    def test_what_finds_no_room_is_counted_and_said_in_one_line(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300 << 10, 300 << 10))
        result = self.probe("handlers", preexec_fn=limit)
        self.assertRegex(result.stderr, r"^freehold: trace '.*': \d+ events are lost: no room\n$")
        self.assertGreater(self.sums()["lost"], 100000)

    def test_a_file_that_cannot_be_made_is_said_and_what_is_lost_by_that(self):
        os.mkdir(self.path("folder"))
        os.mkfifo(self.path("pipe"))
        for path in ("/no/such/folder/t", self.path("folder"), self.path("pipe")):
            lines = self.probe("known", "trace:" + path).stderr.splitlines()
            self.assertEqual(lines[0], "freehold: trace '%s': the file cannot be made" % path)
            self.assertRegex(lines[1], r"^freehold: trace '.*': \d+ events are lost: no file$")
            self.assertEqual(len(lines), 2)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["folder", "pipe"])

    def test_a_ring_stays_small(self):
        self.probe("handlers", "trace_ring:256K,trace:" + self.path("r"))
        self.assertLess(os.path.getsize(self.path("r")), 2 << 20)
        self.assertGreater(len(self.events("r", "--size", "2222")), 1000)
        frees = [e for e in self.events("r") if e["call"] == "free"]
        self.assertTrue(all(1 <= len(e["frames"]) <= 4 for e in frees))

    def test_a_ring_does_not_stay_in_the_address_space_of_children(self):
        for options in "trace_ring:1M", "trace_ring:1M,trace:" + self.path("c.%p"):
            first, last = map(int, self.probe("generations", options).stdout.split())
            self.assertLess(last - first, (4 << 20) // resource.getpagesize(), options)

    def freed_before(self, result):
        """The process, who freed the block before, where, and who has called now."""
        found = re.search(r"^freehold: (?:double free|invalid pointer): 0x\w+ in free\w*\(\); .*"
                          r"freed \d+ us before by thread (\d+) at trace_probe\S*\+(0x\S+).*"
                          r"; called by thread (\d+) at trace_probe\S*\+0x.*\n$", result.stderr)
        self.assertIsNotNone(found, result.stderr)
        before, where, now = found.groups()
        return result.stdout.strip(), before, int(where, 16), now

    def test_a_ring_says_who_freed_before(self):
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            for how in ("twice", "twice-back", "twice-sized", "twice-gone"):
                result = self.probe(how, "trace_ring:1M", library, code=-signal.SIGABRT)
                process, before, _, now = self.freed_before(result)
                self.assertEqual(before == process, how != "twice", result.stderr)
                self.assertEqual(now == process, how != "twice-back", result.stderr)

    def test_a_ring_of_a_static_program_says_where_the_program_freed_before(self):
        program = support.program("trace_probe.static")
        names = support.run(["nm", "-n", program]).stdout.split("\n")
        places = [(int(line.split()[0], 16), line.split()[2])
                  for line in names if " t " in line.lower()]
        result = support.run([program, "twice"], {"FREEHOLD_OPTIONS": "trace_ring:1M"})
        where = self.freed_before(result)[2]
        self.assertEqual([name for place, name in places if place < where][-1], "free_one")

    def test_it_goes_together_with_other_options(self):
        self.probe("known", "fill:both,realloc_moves:on,caches:off,profile:/dev/null,"
                            "profile_interval:1K,trace:" + self.path("t"))
        self.check_known()

    def test_other_files_are_refused_in_one_line(self):
        self.probe("known")
        with open(self.path("t"), "rb") as file:
            whole = file.read()
        cases = {"text": b"x" * 100000, "empty": b"", "version": whole[:8] + b"\7" + whole[9:]}
        for name, content in cases.items():
            with open(self.path(name), "wb") as file:
                file.write(content)
            result = self.command(self.path(name), code=1)
            self.assertRegex(result.stderr, "^freehold: trace: '.*' is .*\n$")
        with open(self.path("cut"), "wb") as file:
            file.write(whole[:len(whole) - 1000])
        result = self.command(self.path("cut"), code=1)
        self.assertRegex(result.stderr, "^freehold: .*cut short.*\n$")
        self.assertIn("No such file", self.command("/no/such", code=1).stderr)
        os.mkfifo(self.path("pipe"))    # to which nobody writes
        for name in (self.path("pipe"), self.folder.name, "/dev/null"):
            self.assertEqual(self.command(name, code=1).stderr,
                             f"freehold: trace: '{name}' is no plain file\n")

    def test_garbage_in_a_file_never_ends_the_command_otherwise(self):
        self.probe("known")
        with open(self.path("t"), "rb") as file:
            whole = file.read()
        for i in range(200):
            torn = bytearray(whole)
            for k in range(20):
                torn[(i * 7919 + k * 104729) % len(torn)] ^= 1 << (i + k) % 8
            with open(self.path("torn"), "wb") as file:
                file.write(torn)
            code = support.run([COMMAND, "trace", self.path("torn"), "--sum"]).returncode
            self.assertIn(code, (0, 1))

    def test_a_time_that_goes_backwards_is_garbage_too(self):
        with open(self.path("back"), "wb") as file:
            file.write(trace_of([(7, [(1 << 63, MALLOC, 0x1000, 100), (10, FREE, 0x1000, 0)])]))
        for arguments in ([], ["--sum"], ["--sum", "--json"]):
            result = self.command(self.path("back"), *arguments, code=1)
            self.assertRegex(result.stderr, "^freehold: .*something else has written to it\n$")
            self.assertNotIn("free  ", result.stdout)

    def test_threads_that_come_and_go_are_counted_right(self):
        self.probe("turns")
        sums = self.sums()
        self.assertEqual(sums["threads_at_once"], 101)    # and the first thread, which never leaves
        self.assertEqual(len(sums["threads"]), 5101)
        self.assertEqual(sum(thread["ended"] for thread in sums["threads"]), 5100)
        serials = [thread["serial"] for thread in sums["threads"]]
        self.assertEqual(serials[:5001], list(range(1, 5002)))
        self.assertEqual(sorted(serials), list(range(1, 5102)))    # the last 100 come at once
        turns = sums["threads"][1:5001]
        for one, next_one in zip(turns, turns[1:]):
            self.assertLess(one["to_ns"], next_one["from_ns"])
        self.assertIn("threads: 5101, 101 at once, 5100 have ended",
                      self.command(self.path("t"), "--sum").stdout)

    def test_a_number_that_is_used_again_is_another_thread(self):
        """Two at once at most: the first, and one after another with its number. Each frees a block
        of the one before."""
        threads = [(7, [(0, MALLOC, 16, 100), (10 ** 6, LEAVE, 0, 0)])]
        for i in range(1, 300):
            threads.append((7, [(i * 1000, FREE, i * 16, 0),
                                (i * 1000 + 5, MALLOC, i * 16 + 16, 100),
                                (i * 1000 + 900, LEAVE, 0, 0)]))
        with open(self.path("again"), "wb") as file:
            file.write(trace_of(threads))
        sums = self.sums("again")
        self.assertEqual((len(sums["threads"]), sums["threads_at_once"]), (300, 2))
        self.assertEqual((sums["unknown"], sums["live_blocks"], sums["temporary"]), (0, 1, 0))
        self.assertEqual({(pair["allocated_by"], pair["freed_by"]) for pair in sums["freed_by"]},
                         {(i, i + 1) for i in range(1, 300)})
        self.assertEqual({thread["number"] for thread in sums["threads"]}, {7})

    def test_heaps_that_end_take_their_own_blocks_alone_and_no_look_at_all_others(self):
        """30,000 of them beside 300,000 blocks: 10^10 looks, if each end looked at each block."""
        for heaps, others in ((100, 50), (30_000, 300_000)):
            with open(self.path("heaps"), "wb") as file:
                file.write(trace_of_heaps(heaps, 5, others))

            def limit():
                resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            told = support.run([COMMAND, "trace", self.path("heaps"), "--sum", "--json"],
                               preexec_fn=limit)
            self.assertEqual(told.returncode, 0, told.stderr)
            sums = json.loads(told.stdout)
            self.assertEqual((sums["unknown"], sums["freed"]), (0, heaps))
            kept = -(-heaps // 10)
            self.assertEqual(sums["live_blocks"], others + kept)
            self.assertEqual(sums["live_bytes"], others * 200 + kept * 10)
            self.assertEqual(sums["released"], heaps * 6 * 50)

    def test_bad_use_is_told(self):
        for arguments in ([], ["a", "b"], ["--size", "x", "a"], ["--nothing", "a"], ["--start"],
                          ["--start", "--stop", "1"], ["--stop", "--out", "x", "1"],
                          ["--start", "--wait", "x", "1"]):
            result = self.command(*arguments, code=2)
            self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("Example", self.command("--help").stdout)

    def test_a_child_does_not_meet_a_request_that_its_parent_has_not_met(self):
        process = self.served("child-after-signal")
        self.ask("--start", process, "--out", self.path("w"), "--wait", "0.1", code=3)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(), 0)
        self.assertFalse(os.path.exists(self.path("w")))

    def test_a_wish_that_nothing_can_meet_is_told_in_one_line(self):
        self.probe("known")
        for arguments, code, told in (
                (["--size", "5-3"], 2, "A is more than B"),
                (["--from", "2", "--to", "1"], 2, "--from is after --to"),
                (["--thread", str(1 << 32)], 2, "cannot be taken"),
                (["--thread", "2"], 1, "has no thread of that number; --sum lists")):
            for way in ([], ["--sum"], ["--sum", "--json"]):
                result = self.command(self.path("t"), *arguments, *way, code=code)
                self.assertEqual(result.stdout, "")
                self.assertRegex(result.stderr, r"\Afreehold: trace: .*\n\Z")
                self.assertIn(told, result.stderr)

    def test_the_number_that_sums_tell_of_a_thread_is_the_one_that_chooses_its_calls(self):
        self.probe("known")
        rows = self.command(self.path("t"), "--sum").stdout.split("\nserial  number ")[1]
        self.assertEqual(rows.splitlines()[1].split()[0], "1")
        number = rows.splitlines()[1].split()[1]
        chosen = self.sums("t", "--thread", number)
        threads = [(t["serial"], t["number"]) for t in chosen["threads"]]
        self.assertEqual(threads, [(1, int(number))])
        self.assertGreater(chosen["calls"]["malloc"], 1000)

    def test_a_child_that_a_handler_forked_leaves_the_parents_trace_alone(self):
        self.probe("handler-forks")
        sums = self.sums()
        self.assertEqual((sums["unknown"], sums["lost"]), (0, 0))
        self.assertEqual(len({e["thread"] for e in self.events()}), 1)

    def test_an_event_of_a_new_thread_is_not_before_those_of_who_had_its_chunk(self):
        self.probe("threads")
        times = [e["ns"] for e in self.events()]
        self.assertEqual(times, sorted(times))


class Replays(unittest.TestCase):
    """The laboratory's `replay` and `graph` show what the traced program has done."""
    REPLAY = os.path.join(os.path.dirname(support.LIBRARY), "bench", "replay")
    NATIVE = os.path.join(support.SOURCE, "lab", "freehold_lab", "native")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="freehold-replay-")
        cls.maker, cls.drawer = (os.path.join(cls.folder.name, name) for name in ("tape", "graph"))
        for program in (cls.maker, cls.drawer):
            source = os.path.join(cls.NATIVE, os.path.basename(program) + ".c")
            built = support.run([support.COMPILER, "-O1", source, "-o", program])
            assert built.returncode == 0, built.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def make_tape(self, what):
        """What `freehold trace` counts of a run of the probe, and what its tape has."""
        trace, tape = self.path(what), self.path(what + ".tape")
        traced = support.run([PROBE, what], support.preloaded(options="trace:" + trace))
        self.assertEqual(traced.returncode, 0, traced.stderr)
        sums = support.run([COMMAND, "trace", trace, "--sum", "--json"])
        made = support.run([self.maker, trace, tape])
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return json.loads(sums.stdout), json.loads(made.stdout), tape

    def test_a_tape_has_the_calls_of_its_trace(self):
        for what in ("known", "others", "threads"):
            with self.subTest(what):
                sums, made, _ = self.make_tape(what)
                calls = sum(sums["calls"][k] for k in ("malloc", "calloc", "aligned", "realloc"))
                self.assertEqual(made["allocations"], calls)
                self.assertEqual(made["calls"], calls + sums["freed"])
                self.assertEqual((made["unknown"], made["cut"], made["lost"]), (0, False, 0))
                self.assertEqual(made["peak"], sums["peak_bytes"])

    def test_a_replay_ends_with_every_block_freed_once_whatever_allocator_is_under_it(self):
        for what in ("known", "others", "threads"):
            _, made, tape = self.make_tape(what)
            for library in (None, support.LIBRARY, support.DEBUG_LIBRARY):
                for touch in ("none", "all"):
                    with self.subTest(what, library=library, touch=touch):
                        done = support.run([self.REPLAY, "--tape", tape, "--touch", touch],
                                           support.preloaded(library))
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        self.assertEqual(json.loads(done.stdout)["operations"], made["calls"])

    def tape_of(self, threads):
        trace, tape = self.path("made"), self.path("made.tape")
        with open(trace, "wb") as file:
            file.write(trace_of(threads))
        made = support.run([self.maker, trace, tape])
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return json.loads(made.stdout), tape

    def test_a_tape_has_no_more_threads_at_once_than_the_program_had(self):
        sums, made, _ = self.make_tape("turns")
        self.assertEqual((made["threads"], made["at_once"]), (5101, 101))
        self.assertEqual(sums["threads_at_once"], made["at_once"])

    def test_threads_under_one_number_are_replayed_one_after_another(self):
        """6,000 in turn, beside one that runs all the time."""
        threads = [(7, [(0, MALLOC, 16, 100), (10 ** 9, FREE, 16, 0), (10 ** 9 + 1, LEAVE, 0, 0)])]
        for i in range(1, 6001):
            threads.append((7, [(i * 1000, MALLOC, i * 16 + 16, 100),
                                (i * 1000 + 5, FREE, i * 16 + 16, 0),
                                (i * 1000 + 900, LEAVE, 0, 0)]))
        made, tape = self.tape_of(threads)
        self.assertEqual((made["threads"], made["at_once"], made["calls"]), (6001, 2, 12002))
        done = support.run([self.REPLAY, "--tape", tape], support.preloaded(support.LIBRARY))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["operations"], 12002)

    def test_a_slot_that_has_changed_often_is_not_taken_for_itself_earlier(self):
        """Before the second thread's only block, its slot had many others. It waits for them all,
        though it has nothing else to wait for."""
        for times in (8, 16, 100):
            before = 4097 * times
            first = [(i * 10 + j, (MALLOC, FREE)[j], 16, 100) for i in range(before)
                     for j in range(2)]
            second = [(before * 10, MALLOC, 32, 100), (before * 10 + 1, FREE, 32, 0)]
            made, tape = self.tape_of([(7, first + [(before * 10 + 2, MALLOC, 48, 100)]),
                                       (8, second)])
            self.assertEqual((made["at_once"], made["calls"]), (2, before * 2 + 3))
            done = support.run([self.REPLAY, "--tape", tape])
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_thread_ends_where_it_ended_when_it_was_recorded(self):
        """50 threads allocate a block each and stay until the first has freed all of these. So a
        replay has all of them at once."""
        end, its = 10 ** 9, [i * 16 for i in range(1, 51)]
        threads = [(7, [(1, MALLOC, 1 << 20, 100)] + [(end, FREE, address, 0) for address in its])]
        for address in its:
            threads.append((8, [(address, MALLOC, address, 100), (end + address, LEAVE, 0, 0)]))
        made, tape = self.tape_of(threads)
        self.assertEqual((made["threads"], made["at_once"], made["calls"]), (51, 51, 101))
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        seen = self.path("seen")
        done = support.run(["strace", "-f", "-qq", "-e", "trace=exit,clone,clone3", "-o", seen,
                            self.REPLAY, "--tape", tape])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(seen) as file:
            calls = [line.split(None, 1)[1] for line in file if "resumed" not in line]
        are_ends = [call.startswith("exit(") for call in calls]
        self.assertEqual(are_ends[:51], [False] * 51)
        # the process may end before the last of them do
        self.assertEqual(are_ends[51:], [True] * (len(are_ends) - 51))

    def test_shipped_tapes_have_the_calls_and_bytes_that_their_table_says(self):
        folder = os.path.join(support.SOURCE, "lab", "freehold_lab", "tapes")
        with open(os.path.join(folder, "README.md")) as file:
            rows = [[cell.strip(" `\n") for cell in line.split("|")[1:-1]] for line in file
                    if line.startswith("| `")]
        self.assertEqual({row[0] + ".tape.xz" for row in rows},
                         {name for name in os.listdir(folder) if name.endswith(".xz")})
        self.assertEqual(len(rows), 5)
        for name, _, *numbers in rows:
            calls, allocations, asked, peak, threads, at_once = (int(n.replace(",", ""))
                                                                 for n in numbers)
            tape = self.path(name + ".tape")
            with lzma.open(os.path.join(folder, name + ".tape.xz")) as packed, \
                    open(tape, "wb") as file:
                content = packed.read()
                file.write(content)
            self.assertEqual(struct.unpack_from("<8s2I", content)[2], threads, name)
            self.assertEqual(struct.unpack_from("<2I", content, 16)[1], at_once, name)
            for library in (None, support.LIBRARY):
                with self.subTest(name, library=library):
                    done = support.run([self.REPLAY, "--tape", tape], support.preloaded(library))
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    said = json.loads(done.stdout)
                    self.assertEqual((said["operations"], said["asked"]), (calls, asked))
                    self.assertEqual((said["allocations"], said["asked_peak"]),
                                     (allocations, peak))

    def test_a_graph_has_what_lives_where_it_lies(self):
        """The probe's ten blocks of 1234 bytes, and what else it leaves, at the end."""
        for by in ("time", "calls"):
            sums, _, _ = self.make_tape("known")
            made = support.run([self.drawer, self.path("known"), self.path("cells"), "50", "20",
                                by])
            self.assertEqual((made.returncode, made.stderr), (0, ""))
            said = json.loads(made.stdout)
            with open(self.path("cells"), "rb") as file:
                cells = file.read()
            self.assertEqual(len(cells), 50 * said["rows"])
            self.assertLessEqual(said["rows"], 20)
            self.assertEqual(said["live"][-1], sums["live_bytes"])
            self.assertLessEqual(max(said["live"]), sums["peak_bytes"])
            columns = [cells[i:i + said["rows"]] for i in range(0, len(cells), said["rows"])]
            for before, after in zip(columns, columns[1:]):    # a range that was used stays so
                self.assertFalse([row for row, cell in enumerate(before)
                                  if cell != 0 and after[row] == 0])
            shown = sum((cell - 1) * said["row"] / 254 for cell in columns[-1] if cell > 1)
            least = said["live"][-1] - said["rows"] * said["row"] / 254
            self.assertTrue(least <= shown <= said["live"][-1] * 1.2, (least, shown))

    def test_a_picture_of_many_events_needs_no_more_memory_and_says_how_far_it_is(self):
        peaks, trace = [], self.path("many")
        for events in (1_000_000, 9_000_000):
            made = support.run([support.program("trace_made"), trace, "16", str(events), "50000"])
            self.assertEqual(made.returncode, 0)
            with open(self.path("told"), "w+", encoding="ascii") as told:
                command = subprocess.Popen([self.drawer, trace, self.path("cells"), "1200", "600",
                                            "time"], stdout=subprocess.DEVNULL, stderr=told)
                _, status, used = os.wait4(command.pid, 0)
                command.returncode = status
                told.seek(0)
                lines = told.read().splitlines()
            self.assertEqual(status, 0, lines)
            peaks.append(used.ru_maxrss >> 10)
        self.assertLess(peaks[1], peaks[0] + 4)    # MiB
        self.assertEqual(lines, ["graph: 4 million events", "graph: 8 million events",
                                 "graph: 46 %", "graph: 93 %"])

    def test_heaps_that_end_take_their_own_blocks_alone(self):
        for heaps, others in ((100, 50), (30_000, 300_000)):
            with open(self.path("heaps"), "wb") as file:
                file.write(trace_of_heaps(heaps, 5, others))

            def limit():
                resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            kept = -(-heaps // 10)
            for program, more in ((self.maker, []), (self.drawer, ["50", "20", "calls"])):
                done = support.run([program, self.path("heaps"), self.path("made"), *more],
                                   preexec_fn=limit)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                said = json.loads(done.stdout)
                if program == self.maker:      # what lives at the end is freed by nobody
                    self.assertEqual(said["allocations"], others + heaps * 6 + kept)
                    self.assertEqual(said["calls"], said["allocations"] + heaps * 6)
                else:
                    self.assertEqual(said["live"][-1], others * 200 + kept * 10)

    def test_what_is_no_tape_is_refused_with_one_line(self):
        _, _, tape = self.make_tape("known")
        os.truncate(tape, os.path.getsize(tape) - 10)
        for name, message in ((tape, "ends too early"), (PROBE, "no tape"),
                              ("/no/tape", "No such")):
            refused = support.run([self.REPLAY, "--tape", name])
            self.assertNotEqual(refused.returncode, 0)
            self.assertRegex(refused.stderr, r"\Abench: .*%s.*\n\Z" % message)
        for name in (PROBE, "/no/trace"):
            refused = support.run([self.maker, name, self.path("none")])
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, r"\Atape: '.*'.*\n\Z")


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
