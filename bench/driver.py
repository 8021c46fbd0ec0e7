#!/usr/bin/env python3
"""driver.py - what the workloads themselves cost, in instructions per operation

    driver.py --programs build/bench --library build/libfreehold.so calloc fifo

Each workload runs twice under callgrind, with two lengths. Counted are all instructions outside the
library that serves malloc: loop, random numbers, what is written into the blocks (libc's memset and
memcpy, those that the library calls among them). The difference of the two, divided by that of the
operations, is free of what happens once. Beside it stands the same for the library.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))
from freehold_lab.allocators import Allocator  # noqa: E402
from freehold_lab.places import Failed  # noqa: E402
from freehold_lab.workloads import read_list  # noqa: E402
from instructions import profile  # noqa: E402

# The option that says how long a program runs, and two lengths that callgrind can bear. Programs
# that run for a time, or whose figure is memory, are not here.
LENGTHS = {
    "calloc": ("pairs", 200, 1000),
    "groups": ("rounds", 2, 8),
    "heapsize": ("rounds", 100, 500),
    "large": ("pairs", 500, 3000),
    "latency": ("pairs", 100, 1000),
    "locality": ("pairs", 10000, 200000),
    "malloctest": ("pairs", 100000, 300000),
    "newdelete": ("pairs", 50000, 300000),
    "patterns": ("instructions", 100000, 500000),
    "prodcons": ("blocks", 20000, 200000),
    "reallocgrow": ("times", 1, 3),
    "scalability": ("blocks", 50000, 300000),
    "threadchurn": ("births", 200, 1000),
    "threadtest": ("rounds", 2, 5),
    "umatest": ("allocations", 20000, 100000),
    "xmalloc": ("batches", 8, 40),
}
# By workload, else by program.
SMALLER = {
    "grow-turns": {"vectors": 8, "top": 2000000},
    "heapsize": {"gib": 0},
    "latency": {"threads": 2},
    "locality": {"blocks": 50000, "walks": 1},
    "reallocgrow": {"vectors": 200},
}


def costs_by_object(text):
    """Instructions of each file that code was loaded from, out of callgrind's profile."""
    names, costs, current, is_call = {}, Counter(), "?", False
    for line in text.splitlines():
        named = re.fullmatch(r"ob=\((\d+)\)(?: (.*))?", line)
        if named:
            current = names.setdefault(named[1], named[2])
        elif line.startswith("calls="):
            is_call = True  # the next line is what the called function took, which is counted there
        elif re.match(r"[\d+*-]", line):
            if not is_call:
                costs[current] += int(line.split()[-1])
            is_call = False
        else:
            named = re.fullmatch(r"cob=\((\d+)\)(?: (.*))?", line)
            if named and named[2]:
                names[named[1]] = named[2]
    return costs


def counted(command, allocator):
    """Operations of a run, instructions outside the allocator's file, and inside."""
    text, answer = profile(command, allocator)
    costs = costs_by_object(text)
    inside = costs.get(allocator.path, 0)
    return answer["operations"], sum(costs.values()) - inside, inside


def per_operation(workload, allocator):
    """Instructions of the driver and of the allocator for one operation of a workload."""
    program = workload.program.name
    name, *lengths = LENGTHS[program]
    runs = []
    for length in lengths:
        smaller = SMALLER.get(workload.name, SMALLER.get(program, {}))
        command = workload.command({**smaller, name: length})
        runs.append(counted(command, allocator))
    operations = runs[1][0] - runs[0][0]
    return [(long - short) / operations for short, long in zip(runs[0][1:], runs[1][1:])]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit code: 0 counted, 1 something could not be counted, 2 usage",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help="of workloads.toml (default: all that have a length that can be set)",
    )
    parser.add_argument(
        "--programs", default="build/bench", metavar="DIR", help="default %(default)s"
    )
    parser.add_argument(
        "--library", default="build/libfreehold.so", metavar="PATH", help="default %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="one object instead of the table")
    options = parser.parse_args()
    listed = read_list(HERE.parent / "lab" / "workloads" / "workloads.toml", options.programs)
    known = {name: w for name, w in listed.items() if w.program.name in LENGTHS}
    unknown = [name for name in options.workloads if name not in known]
    if unknown:
        parser.error(f"{unknown[0]}: not one of {', '.join(known)}")

    results, failures = {}, 0
    for name in options.workloads or known:
        try:
            driver, library = per_operation(known[name], Allocator("freehold", options.library))
        except (Failed, OSError, subprocess.TimeoutExpired) as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            failures += 1
            continue
        results[name] = {"driver": round(driver, 1), "library": round(library, 1)}
        if not options.json:
            print(f"{name:<22} {driver:10.1f} {library:10.1f}", flush=True)
    if options.json:
        print(json.dumps(results))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
