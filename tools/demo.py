"""demo.py - real programs on real input, each with libc's malloc and with freehold, in one table"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from running import (ROOT, WORK, Failed, Progress, Workplace, check_preload, ended, last_line, libc,
                     library, name_of, print_table, wait_until)

EXAMPLE = """examples:
  ./dev demo                          the whole table
  ./dev demo perl g++ --rounds 5      two programs, five rounds
  ./dev demo --json demo.json         the same numbers for a program
exit code: 0 measured, 1 a program failed, 2 wrong usage"""
PYTHON = "/usr/bin/python3"
MEMORY_CALLS = {"mmap", "munmap", "mremap", "madvise", "brk"}
LIMIT = 120  # seconds that one run may take


class Program:
    """A command line that is measured as a whole; `prepare` makes its input, once,
    under the system's malloc."""

    def __init__(self, name, prepare):
        self.name, self.prepare = name, prepare

    def start(self, place):
        self.place = place
        self.command = self.prepare(place)

    def run(self, before):
        """Runs the command with the words `before` in front of it; returns the seconds, if
        they are its own matter."""
        done = subprocess.run([*before, *self.command], cwd=self.place, stdin=subprocess.DEVNULL,
                              timeout=LIMIT,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              start_new_session=True)
        if done.returncode != 0:
            raise Failed(f"{shlex.join(map(str, self.command[:2]))}: {ended(done.returncode)}: "
                         f"{last_line(done.stderr)}")
        self.stderr = done.stderr


class Redis(Program):
    """A server: what counts is the time that a client's fixed load takes, and the
    server's memory."""

    LOAD = ("set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100", 100000)

    def __init__(self):
        super().__init__("redis", None)

    def start(self, place):
        self.place, self.socket = place, place / "redis.sock"
        self.command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                        "--dir", place, "--appendonly", "no", "--maxclients", "200"]

    def run(self, before):
        log, errors = self.place / "redis.log", self.place / "redis.errors"
        with log.open("wb") as out, errors.open("wb") as err:
            server = subprocess.Popen([*before, *self.command], stdout=out, stderr=err,
                                      stdin=subprocess.DEVNULL)
        try:
            wait_until(self.is_ready, "redis-server", alive=lambda: server.poll() is None)
            tests, requests = self.LOAD
            start = time.monotonic()
            self.client("redis-benchmark", "-q", "-t", tests, "-n", str(requests), "-r", "100000",
                        "-d", "200", "-P", "64", "-c", "20")
            seconds = time.monotonic() - start
            subprocess.run(["redis-cli", "-s", self.socket, "shutdown", "nosave"], timeout=LIMIT,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            code = server.wait(LIMIT)
            if code != 0:
                raise Failed(f"redis-server: {ended(code)}: "
                             f"{last_line(log.read_bytes() + errors.read_bytes())}")
            self.stderr = errors.read_bytes()
            return seconds
        finally:
            server.kill()
            server.wait()

    def is_ready(self):
        if not self.socket.exists():
            return False
        ping = subprocess.run(["redis-cli", "-s", self.socket, "ping"], capture_output=True)
        return ping.stdout.strip() == b"PONG"

    def client(self, program, *arguments):
        done = subprocess.run([program, "-s", self.socket, *arguments], capture_output=True,
                              timeout=LIMIT)
        if done.returncode != 0 or b"rror" in done.stdout:
            raise Failed(
                f"{program}: {ended(done.returncode)}: {last_line(done.stderr + done.stdout)}")


def make(script, *arguments):
    subprocess.run([sys.executable, WORK / script, *map(str, arguments)], check=True)


def prepare_ghostscript(place):
    make("document.py", 60, place / "document.ps")
    return ["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r300",
            "-sOutputFile=/dev/null", "document.ps"]


def library_sources(packages):
    """Python's standard library: text that every Debian machine with python3 has."""
    top = Path(sysconfig.get_paths(vars={"installed_base": "/usr", "base": "/usr"})["stdlib"])
    files = [path for package in packages for path in (top / package).glob("*.py")]
    if len(files) < 100:
        raise Failed(
            f"{top}: only {len(files)} Python sources there; the demo reads the standard library")
    return sorted(files)


def prepare_python(place):
    return [PYTHON, WORK / "words.py",
            *library_sources(["", "asyncio", "email", "json", "xml/dom"])]


def prepare_perl(place):
    return ["perl", WORK / "words.pl",
            *library_sources(["", "asyncio", "email", "json", "xml/dom", "unittest"])]


def prepare_compiler(place):
    make("heavy_cpp.py", 6, place / "heavy.cc")
    return ["g++", "-std=c++17", "-O1", "-c", "heavy.cc", "-o", "heavy.o"]


def all_programs():
    return [Redis(), Program("ghostscript", prepare_ghostscript),
            Program("python3", prepare_python),
            Program("perl", prepare_perl), Program("g++", prepare_compiler)]


class Measurer:
    """Knows the two allocators and how to run a program with each."""

    def __init__(self, preloaded, place):
        self.preload = {"libc": libc(), name_of(preloaded): preloaded}
        self.place = place
        self.measure = place / "measure"
        subprocess.run(["cc", "-O2", "-o", self.measure, ROOT / "tools" / "measure.c"], check=True)

    def costs(self, program, allocator):
        report = self.place / "report"
        own = program.run([self.measure, report, f"LD_PRELOAD={self.preload[allocator]}", "--"])
        wall, cpu, peak, faults = report.read_text().split()
        return {"seconds": own or float(wall), "cpu_seconds": float(cpu), "peak_kib": int(peak),
                "faults": int(faults)}

    def system_calls(self, program, allocator):
        """In a run of its own, because tracing makes it slower."""
        counts = self.place / "strace"
        program.run(["strace", "-f", "-c", "-o", counts, "-E",
                     f"LD_PRELOAD={self.preload[allocator]}"])
        calls = {}
        for line in counts.read_text().splitlines():
            words = line.split()
            if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
                calls[words[-1]] = int(words[3])
        if not calls:
            raise Failed("strace counted no system call")
        return {"system_calls": sum(calls.values()),
                "memory_calls": sum(n for name, n in calls.items() if name in MEMORY_CALLS)}


def can_trace():
    done = subprocess.run(["strace", "-f", "-c", "-o", "/dev/null", "true"], capture_output=True)
    return done.returncode == 0


def measure_all(programs, measurer, rounds, progress):
    """Rounds go over both allocators in turn, so that a machine that warms up or
    slows down does so for both."""
    results = {}
    traced = can_trace()
    if not traced:
        progress.clear()
        print("demo: this machine does not let strace trace; system calls are not counted",
              file=sys.stderr)
    for program in programs:
        program.start(measurer.place)
        samples = {allocator: [] for allocator in measurer.preload}
        for number in range(rounds):
            for allocator in measurer.preload:
                progress.say(f"{program.name}: round {number + 1} of {rounds} with {allocator}")
                samples[allocator].append(measurer.costs(program, allocator))
        results[program.name] = {a: {key: statistics.median(s[key] for s in samples[a])
                                     for key in samples[a][0]}
                                 for a in samples}
        for allocator in measurer.preload if traced else ():
            progress.say(f"{program.name}: counting system calls with {allocator}")
            results[program.name][allocator].update(measurer.system_calls(program, allocator))
    return results


COLUMNS = [("time, s", "seconds", "{:.2f}"), ("peak resident, MiB", "peak_kib", "{:.1f}"),
           ("page faults", "faults", "{:.0f}"), ("system calls", "system_calls", "{:.0f}"),
           ("of them mmap, brk ...", "memory_calls", "{:.0f}")]


def show(results, allocators):
    """One line a program; three columns a quantity: with libc, with ours, ours / libc."""
    base, ours = allocators
    groups, head, rows, ratios = [""], ["program"], [], {key: [] for _, key, _ in COLUMNS}
    for title, _, _ in COLUMNS:
        groups += [title, "", ""]
        head += [base, ours, "ratio"]
    for name, result in results.items():
        row = [name]
        for _, key, text in COLUMNS:
            if key not in result[base]:
                row += ["-", "-", "-"]
                continue
            one, other = result[base][key] / scale(key), result[ours][key] / scale(key)
            ratios[key].append(other / one)
            row += [text.format(one), text.format(other), f"{other / one:.2f}"]
        rows.append(row)
    mean = ["geometric mean"]
    for values in ratios.values():
        mean += ["", "", f"{statistics.geometric_mean(values):.2f}" if values else "-"]
    print_table(head, [*rows, mean], groups=groups)


def scale(key):
    return 1024 if key == "peak_kib" else 1


def show_statistics(program, measurer, ours):
    """What freehold itself says of one of the programs; other libraries have no such option."""
    options = ",".join(filter(None, [os.environ.get("FREEHOLD_OPTIONS"), "stats:exit"]))
    program.run(["env", f"LD_PRELOAD={measurer.preload[ours]}", f"FREEHOLD_OPTIONS={options}"])
    if not program.stderr.strip():
        raise Failed(
            f"{program.name} under {ours} with FREEHOLD_OPTIONS={options} printed no statistics")
    print(f"\n{ours}'s statistics of {program.name} (FREEHOLD_OPTIONS={options}):\n")
    print(program.stderr.decode(errors="replace").rstrip())


def main():
    programs = {program.name: program for program in all_programs()}
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split(" - ")[1],
                                     epilog=EXAMPLE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help=f"which (all): {', '.join(programs)}")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median counts (3)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results there as well")
    parser.add_argument("--library", metavar="SO",
                        help="compare this allocator instead (build/libfreehold.so)")
    wanted = parser.parse_args()
    for name in wanted.program:
        if name not in programs:
            parser.error(f"no program {name}; there are {', '.join(programs)}")
    if wanted.rounds < 1:
        parser.error("--rounds must be at least 1")

    preloaded = library(wanted.library)
    check_preload(preloaded)
    chosen = [programs[name] for name in wanted.program or programs]
    progress = Progress()
    with Workplace() as place:
        measurer = Measurer(preloaded, place)
        allocators = list(measurer.preload)
        try:
            results = measure_all(chosen, measurer, wanted.rounds, progress)
            progress.clear()
            print(f"{os.cpu_count()} processors, {wanted.rounds} rounds in turn, medians; ratio "
                  "below 1: "
                  f"{allocators[1]} needs less\n")
            show(results, allocators)
            if allocators[1] == "freehold":
                show_statistics(programs["perl"] if "perl" in results else chosen[0], measurer,
                                allocators[1])
        except (Failed, subprocess.SubprocessError) as problem:
            progress.clear()
            print(f"demo: {problem}", file=sys.stderr)
            return 1
    if wanted.json:
        wanted.json.write_text(json.dumps({"library": allocators[1], "rounds": wanted.rounds,
                                           "programs": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
