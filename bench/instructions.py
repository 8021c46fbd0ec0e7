#!/usr/bin/env python3
"""instructions.py - how many instructions one pair of malloc and free takes, counted exactly

The driver (`patterns --pattern pingpong --instructions N`) runs twice under callgrind, with two
lengths; the difference of the counts, divided by the difference of the pairs, holds nothing but the
loop and the two calls. Callgrind replaces no allocator, and the driver's answer names the library
that it called, which is checked.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))
from allocators import PEERS, InPlace, allocator_named  # noqa: E402
from freehold_lab.allocators import Allocator  # noqa: E402
from freehold_lab.places import Failed, last_line  # noqa: E402
from freehold_lab.workloads import answer_of  # noqa: E402

SHORT, LONG = 100000, 300000
# The fast path gains whole instructions. Slow paths are spread over many pairs and move
# the count by fractions.
GOLDEN_SLACK = 0.5
SKIPPED = 77


def profile(command, allocator):
    """Callgrind's profile of a run, and the run's answer."""
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder, "out"), Path(folder, "log")
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--log-file={log}",
             *command],
            env=allocator.environment(), capture_output=True, text=True, timeout=300)
        if run.returncode != 0 or not out.is_file():
            told = run.stderr + (log.read_text() if log.is_file() else "")
            raise Failed(
                f"{allocator.name}: callgrind ended with {run.returncode}: {last_line(told)}")
        return out.read_text(), answer_of(run.stdout, allocator)


def total(text):
    """All instructions of a profile."""
    return int(re.search(r"^totals: (\d+)", text, re.M).group(1))


def per_pair(program, allocator, pattern="pingpong"):
    """Instructions of one pair under `allocator`, the driver's loop included."""
    command = [str(program), "--pattern", pattern, "--instructions"]
    short, long = (total(profile([*command, str(pairs)], allocator)[0]) for pairs in (SHORT, LONG))
    return (long - short) / (LONG - SHORT)


def linked(programs):
    """freehold as a part of the executable: nothing is preloaded, and malloc is
    found in the program itself."""
    program = Path(programs, "patterns.linked")
    return InPlace("freehold, linked", program) if program.is_file() else None


def all_counts(programs, allocators, pattern="pingpong", say=lambda text: None):
    """Instructions per pair by name. One that cannot be counted is told to `say` and left out."""
    counts, own = {}, linked(programs)
    runs = [(allocator, Path(programs, "patterns")) for allocator in allocators]
    for allocator, program in [*runs, *([(own, own.path)] if own else [])]:
        try:
            counts[allocator.name] = per_pair(program, allocator, pattern)
        except (Failed, subprocess.TimeoutExpired, ValueError) as failure:
            say(str(failure))
    return counts


def golden(path, machine):
    """The expected counts for this machine and compiler: name -> number."""
    expected = {}
    for line in Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == machine:
            expected[" ".join(words[2:])] = float(words[1])
    return expected


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/bench", metavar="DIR",
                        help="the built workloads (default %(default)s)")
    parser.add_argument("--library", default=os.environ.get("FREEHOLD_SO", "build/libfreehold.so"),
                        metavar="PATH", help="freehold (default %(default)s)")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), metavar="NAME[=PATH]",
                        help="what else to count; none: nothing (default: %(default)s)")
    parser.add_argument("--pattern", default="pingpong",
                        help="another pattern of `patterns` (default %(default)s)")
    parser.add_argument("--check", type=float, metavar="N",
                        help="fail if freehold takes more than N, either way")
    parser.add_argument("--golden", metavar="FILE",
                        help="fail if freehold takes more than FILE says")
    parser.add_argument("--compiler", default="any",
                        help="which of the golden figures hold, as in GNU-12.2.0")
    options = parser.parse_args()

    machine = f"{platform.machine()}:{options.compiler.rsplit('.', 2)[0]}"
    expected = golden(options.golden, machine) if options.golden else {}
    if options.golden and not expected:
        print(f"{options.golden} has no figure for {machine}")
        return SKIPPED
    try:
        peers = ([] if options.peers == ["none"]
                 else [allocator_named(text) for text in options.peers])
        counts = all_counts(options.programs, [Allocator("freehold", options.library), *peers],
                            options.pattern, say=lambda text: print(text, file=sys.stderr))
    except FileNotFoundError as missing:
        print(f"cannot run {missing.filename}: is it installed?", file=sys.stderr)
        return 2
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 2

    print(f"instructions per pair of malloc and free, {options.pattern}, the loop included")
    failures = 0
    for name, count in counts.items():
        limit = expected[name] + GOLDEN_SLACK if name in expected else None
        if options.check is not None and name.startswith("freehold"):
            limit = options.check
        verdict = ("" if limit is None
                   else f"   at most {limit:g}: {'yes' if count <= limit else 'NO'}")
        failures += verdict.endswith("NO")
        print(f"  {name:<18} {count:8.2f}{verdict}")
        if name in expected and count < expected[name] - GOLDEN_SLACK:
            print(f"  {name} needs fewer than {options.golden} says: lower the figure there")
    missing = [name for name in expected or ["freehold"] if name not in counts]
    for name in missing:
        print(f"  {name:<18} was not counted")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
