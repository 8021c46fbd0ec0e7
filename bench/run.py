#!/usr/bin/env python3
"""run.py - freehold beside other allocators: speed, memory, and what is held against the goals

Every round runs each workload once under each allocator, the workloads in random order and the
allocators of one workload in random order one after another, so that what disturbs the machine
disturbs all alike. Shown are medians over the rounds. Before anything is measured each library is
tried in a child: it must really serve malloc there; one that does not is named and left out. The
goals stand in suite.py.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))
import instructions  # noqa: E402
import report  # noqa: E402
from allocators import KNOWN_FAULTS, PEERS, allocator_named  # noqa: E402
from freehold_lab import machine  # noqa: E402
from freehold_lab.allocators import Allocator, clean_environment  # noqa: E402
from freehold_lab.launch import ended  # noqa: E402
from freehold_lab.places import Failed, last_line, must  # noqa: E402
from freehold_lab.workloads import answer_of  # noqa: E402
from suite import WORKLOADS  # noqa: E402

TIMEOUT = 180


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit code: 0 measured, 1 something could not be measured, 2 usage, 130 stopped")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 5; 2 with --quick")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="workloads whose name contains TEXT; may be repeated")
    parser.add_argument("--allocators", nargs="*", default=list(PEERS),
                        metavar="NAME[=PATH[,VAR=VALUE]]",
                        help="what freehold is compared with (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and less memory "
                        "where that is measured: a first impression, not figures to quote")
    parser.add_argument("--library", metavar="PATH",
                        default=os.environ.get("FREEHOLD_SO") or ROOT / "build/libfreehold.so",
                        help="freehold (default: build/libfreehold.so)")
    parser.add_argument("--programs", metavar="DIR",
                        help="built workloads (default: build/bench, built if need be)")
    parser.add_argument("--seed", type=int, metavar="N",
                        help="of the order of runs (default: by chance; recorded)")
    parser.add_argument("--json", metavar="FILE", default=ROOT / "build/bench.json",
                        help="all results (default: build/bench.json)")
    parser.add_argument("--markdown", metavar="FILE",
                        help="the page (default: build/bench.md for a full run, else none)")
    parser.add_argument("--png", metavar="FILE", help="the picture (default: beside the page)")
    parser.add_argument("--show", metavar="FILE",
                        help="measure nothing: tables, page and picture of an earlier --json")
    parser.add_argument("--list", action="store_true",
                        help="names of the workloads and what they are")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 2 if options.quick else 5
    if options.rounds < 1:
        parser.error("--rounds has to be 1 or more")
    options.workloads = [w for w in WORKLOADS if not options.only
                         or any(text in w.name for text in options.only)]
    if not options.workloads:
        parser.error(f"no workload's name contains {' or '.join(options.only)}; see --list")
    is_full = not options.quick and not options.only and not options.show
    if options.markdown is None and is_full:
        options.markdown = ROOT / "build/bench.md"
    if options.png is None and options.markdown:
        options.png = Path(options.markdown).with_suffix(".png")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    return options


def say(text):
    print(text, file=sys.stderr, flush=True)


def build():
    """The workloads, in the build folder that the library comes from."""
    if not (ROOT / "build/CMakeCache.txt").is_file():
        raise Failed(
            "no build folder: run ./dev build first, or name built workloads with --programs")
    must(["cmake", "-S", ROOT, "-B", ROOT / "build"], "configuring the build")
    must(["cmake", "--build", ROOT / "build", "--target", "bench", "--parallel"],
         "building the workloads")
    return ROOT / "build/bench"


def verified(options):
    """The allocators that prove themselves, and why the others did not."""
    found, left_out = [], {}
    for make in [lambda: Allocator("freehold", options.library),
                 *(lambda text=text: allocator_named(text) for text in options.allocators)]:
        try:
            allocator = make()
            allocator.verify(probe=options.programs / "probe",
                             spared=KNOWN_FAULTS.get(allocator.name, ()))
            if allocator.name in [other.name for other in found]:
                raise Failed(f"{allocator.name}: named twice")
            found.append(allocator)
        except Failed as failure:
            name, _, reason = str(failure).partition(": ")
            left_out[name] = reason
            say(f"bench: left out: {failure}")
    return found, left_out


class Runner:
    """Runs one workload under one allocator at a time and keeps what came of it."""

    def __init__(self, options):
        self.programs = options.programs
        self.quick = options.quick
        self.results = {}           # workload -> allocator -> a row for each round
        self.failures = {}          # (workload, allocator) -> reason
        self.child = None

    def run_one(self, workload, allocator):
        before = machine.Moment.now()
        try:
            row = {"callgrind": self.count_instructions, "strace": self.count_calls,
                   "": self.measure}[workload.tool](
                workload, allocator)
        except Failed as failure:
            self.failures[workload.name, allocator.name] = str(failure)
            return
        row |= {"load": before.load, "steal": machine.Moment.now().since(before)["steal"]}
        self.results.setdefault(workload.name, {}).setdefault(allocator.name, []).append(row)

    def command(self, workload):
        return workload.command(self.programs, self.quick)

    def environment(self, workload, allocator):
        return allocator.environment({"FREEHOLD_OPTIONS": workload.options} if workload.options
                                     else None)

    def finish(self, command, environment):
        """The answer of a program that has to end well."""
        self.child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        try:
            answer, errors = self.child.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.communicate()
            raise Failed(f"no end within {TIMEOUT} seconds") from None
        if self.child.returncode != 0:
            raise Failed(f"{ended(self.child.returncode)}: {last_line(errors)}")
        return answer

    def measure(self, workload, allocator):
        answer = self.finish(self.command(workload), self.environment(workload, allocator))
        return answer_of(answer, allocator)

    def count_calls(self, workload, allocator):
        with tempfile.NamedTemporaryFile("r") as trace:
            given = [f"-E{name}={value}" for name, value in allocator.settings().items()]
            try:
                self.finish(["strace", "-f", "-qq", "-o", trace.name, *given,
                             *self.command(workload)],
                            clean_environment())
            except FileNotFoundError:
                raise Failed("strace is not installed") from None
            lines = trace.read().splitlines()
        return {"count": sum("(" in line and "resumed>" not in line for line in lines)}

    def count_instructions(self, workload, allocator):
        if self.results.get(workload.name, {}).get(allocator.name):
            return {}               # exact: once is enough
        try:
            row = {"count": instructions.per_pair(self.programs / "patterns", allocator)}
            own = instructions.linked(self.programs) if allocator.name == "freehold" else None
            if own:
                row["linked"] = instructions.per_pair(own.path, own)
        except FileNotFoundError:
            raise Failed("valgrind is not installed") from None
        return row

    def stop(self):
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait()


def plan(options, allocators):
    """All runs in their order: (round, workload, allocator)."""
    rng = random.Random(options.seed)
    runs = []
    for turn in range(options.rounds):
        for workload in rng.sample(options.workloads, len(options.workloads)):
            fitting = [a for a in allocators if not workload.freehold_only or a.name == "freehold"]
            runs += [(turn, workload, allocator) for allocator in rng.sample(fitting, len(fitting))]
    return runs


class Progress:
    """One line that is written over on a terminal; elsewhere a line now and then."""

    def __init__(self, total):
        self.total, self.start, self.told = total, time.monotonic(), 0.0
        self.is_terminal = sys.stderr.isatty()

    def show(self, done, what):
        now = time.monotonic()
        if not self.is_terminal and now - self.told < 15 and 0 < done < self.total:
            return
        self.told = now
        left = (now - self.start) / done * (self.total - done) if done else None
        text = (f"bench: {done}/{self.total} {what:<32}"
                + (f" {left / 60:.1f} min left" if left is not None else ""))
        print(f"\r\033[K{text}" if self.is_terminal else text, end="" if self.is_terminal else "\n",
              file=sys.stderr, flush=True)

    def end(self):
        if self.is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def main():
    options = arguments()
    if options.list:
        for workload in WORKLOADS:
            print(f"{workload.name:<18} {workload.what}")
        return 0
    if options.show:
        return show(options)
    try:
        options.programs = Path(options.programs).resolve() if options.programs else build()
        allocators, left_out = verified(options)
    except (Failed, OSError) as failure:
        say(f"bench: {failure}")
        return 2
    if not allocators:
        say("bench: nothing is left to measure")
        return 2

    say(f"bench: seed {options.seed}, load {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors")
    runner, runs, stopped = Runner(options), plan(options, allocators), False
    progress = Progress(len(runs))
    start = machine.Moment.now()
    try:
        for done, (_, workload, allocator) in enumerate(runs):
            progress.show(done, f"{workload.name} {allocator.name}")
            runner.run_one(workload, allocator)
        progress.end()
    except KeyboardInterrupt:
        runner.stop()
        progress.end()
        stopped = True
        say("bench: stopped; what was measured until here:")

    record = {
        "command": "./dev bench" + "".join(f" {word}" for word in sys.argv[1:]),
        "seed": options.seed, "rounds": options.rounds, "quick": options.quick, "stopped": stopped,
        "machine": machine.description(), "commit": machine.commit(ROOT),
        "disturbance": machine.Moment.now().since(start),
        "allocators": {allocator.name: allocator.record() for allocator in allocators},
        "left_out": left_out,
        "failures": {f"{workload} {name}": reason
                     for (workload, name), reason in runner.failures.items()},
        "results": runner.results,
    }
    return finish(options, record)


def show(options):
    """The results of an earlier run. The page is written only where one is named."""
    try:
        record = json.loads(Path(options.show).read_text())
    except (OSError, ValueError) as problem:
        say(f"bench: {options.show}: {problem}")
        return 2
    options.workloads = [w for w in options.workloads if w.name in record["results"]]
    return write(options, record)


def finish(options, record):
    """Everything that is written when the runs are over; the results first, so that
    they cannot be lost."""
    Path(options.json).parent.mkdir(parents=True, exist_ok=True)
    Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    say(f"bench: all results in {options.json}")
    if record["stopped"]:
        options.markdown = options.png = None
    code = write(options, record)
    return 130 if record["stopped"] else code


def write(options, record):
    """Tables to the terminal, and the page and the picture if they are wanted."""
    print(report.text(record, options.workloads))
    if options.png:
        problem = report.picture(record, options.workloads, options.png)
        if problem:
            say(f"bench: no picture: {problem}")
            options.png = None
    if options.markdown:
        Path(options.markdown).write_text(report.page(record, options.workloads, options.png))
        say(f"bench: wrote {options.markdown}")
    return 1 if record["failures"] or record["left_out"] else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
