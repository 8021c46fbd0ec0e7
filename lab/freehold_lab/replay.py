"""replay.py - `freehold-lab replay`: a recorded program's calls of malloc, under several allocators

A trace (freehold's option `trace`) is made into a tape, which native/tape.c describes. The workload
`replay` performs the tape's calls with as many threads as there were. Each block is freed by the
thread that freed it then, and not before it was allocated.
"""

import hashlib
import json
import lzma
import os
import statistics
from pathlib import Path

from freehold_lab import experiment
from freehold_lab.allocators import Allocator, libc_path
from freehold_lab.places import Failed, cache, native, watch, workload_programs
from freehold_lab.progress import say
from freehold_lab.runner import Runner, Setting
from freehold_lab.store import Store
from freehold_lab.text import positive, shown, table
from freehold_lab.workloads import BenchProgram, Figure

TRACE, TAPE, COMPRESSED = b"fh-trace", b"fh-tape\0", b"\xfd7zXZ\0"
TOUCHES = ("none", "pages", "all")


def add(command):
    command.add_argument("file", type=Path, metavar="FILE",
                         help="a trace, or a tape, which may be compressed by xz")
    command.add_argument("--tape", type=Path, metavar="OUT",
                         help="only make a tape of the trace; compressed if OUT ends in .xz")
    command.add_argument("--most", type=positive, metavar="N",
                         help="only the first N calls of a trace")
    command.add_argument("--touch", choices=TOUCHES, default="pages",
                         help="what is written to of each new block (pages)")
    command.add_argument("--rounds", type=positive, default=5,
                         help="runs under each allocator, in random order; the median counts (5)")
    command.add_argument("--json", action="store_true", help="for a program to read")


def beginning(path):
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as problem:
        raise Failed(f"{path}: {problem.strerror.lower()}") from None


def kept(path, most, suffix):
    """Where in the cache the tape of this file is, or will be."""
    about = path.stat()
    name = f"{path.resolve()} {about.st_size} {about.st_mtime_ns} {most}"
    folder = cache() / "tapes"
    folder.mkdir(exist_ok=True)
    return folder / (hashlib.sha256(os.fsencode(name)).hexdigest()[:16] + suffix)


def tape_of(path, most):
    """The tape that is meant by a trace, a tape or a compressed tape, and what its maker said."""
    start = beginning(path)
    if start == TAPE:
        return path, {}
    if start[:6] == COMPRESSED:
        tape = kept(path, None, ".tape")
        if not tape.is_file():
            try:
                tape.with_suffix(".part").write_bytes(lzma.decompress(path.read_bytes()))
            except lzma.LZMAError as problem:
                raise Failed(f"{path}: {problem}") from None
            tape.with_suffix(".part").replace(tape)
        return tape_of(tape, most)
    if start != TRACE:
        raise Failed(f"{path}: neither a trace nor a tape")
    tape = kept(path, most, ".tape")
    said = watch([native("tape"), path, tape, *([most] if most else [])], "making a tape")
    return tape, json.loads(said)


def write_tape(tape, out):
    data = tape.read_bytes()
    try:
        out.write_bytes(lzma.compress(data, preset=9) if out.suffix == ".xz" else data)
    except OSError as problem:
        raise Failed(f"{out}: {problem.strerror.lower()}") from None


def plan_of(tape, options):
    """An experiment with the one workload."""
    workload = BenchProgram("replay", workload_programs() / "replay", "a recorded program",
                            Figure("ns", "ns"), {"tape": str(tape), "touch": options.touch})
    about = {"name": "replay", "replicates": options.rounds, "responses": ["wall", "peak"],
             "parts": [{"workload": "replay"}]}
    plan = experiment.parse(about, json.dumps(about), "replay", {"replay": workload})
    plan.disturbance.update(steal=1.0, foreign=1.0, retries=0)
    return plan, {"replay": workload}


def results_of(store, allocators):
    """allocator -> its runs: seconds, processor seconds, peak in bytes."""
    found = {allocator.name: [] for allocator in allocators}
    for run in store.runs():
        if run["ended"] == "ok":
            figures = json.loads(run["figures"])
            found[run["allocator"]].append(
                {"seconds": figures["seconds"], "processor_seconds": figures["processor_seconds"],
                 "peak": figures["peak"]})
    return {name: runs for name, runs in found.items() if runs}


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def summary(results):
    """A line for each allocator, the fastest first."""
    best = {key: min(median(runs, key) for runs in results.values())
            for key in ("seconds", "peak")}
    rows = []
    for name, runs in sorted(results.items(), key=lambda entry: median(entry[1], "seconds")):
        seconds = sorted(run["seconds"] for run in runs)
        rows.append([name, f"{median(runs, 'seconds'):.3f}",
                     f"{median(runs, 'seconds') / best['seconds']:.2f}",
                     f"{seconds[0]:.3f} to {seconds[-1]:.3f}",
                     f"{median(runs, 'processor_seconds'):.3f}",
                     shown(median(runs, "peak"), "bytes"),
                     f"{median(runs, 'peak') / best['peak']:.2f}"])
    return table(["allocator", "time, s", "ratio", "spread", "processor, s", "peak", "ratio"], rows)


def command(options, allocators):
    """`allocators`: what gives those to compare, and why others are left out."""
    tape, said = tape_of(options.file, options.most)
    if said.get("cut") or said.get("lost"):
        say(f"{options.file}: the trace is not whole: {said['lost']} events are lost"
            f"{', and it is cut short' if said['cut'] else ''}")
    if options.tape:
        write_tape(tape, options.tape)
        print(json.dumps(said))
        return 0
    found, left_out = allocators()
    if all(allocator.name != "libc" for allocator in found):
        found.append(Allocator("libc", libc_path()))
    plan, workloads = plan_of(tape, options)
    store = Store(":memory:")
    failed = Runner(store, Setting(plan, found, left_out, None, ["replay"]), workloads, say).run()
    results = results_of(store, found)
    if options.json:
        print(json.dumps({"tape": str(tape), "rounds": options.rounds, "runs": results}, indent=1))
    elif results:
        print(summary(results))
    return 1 if failed or not results else 0
