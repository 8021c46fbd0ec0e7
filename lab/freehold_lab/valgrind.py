"""valgrind.py - what repeats to the last instruction: instructions of single calls and of the
workloads themselves, cache misses of real programs

Three commands. Valgrind replaces no allocator, and what it runs says which library it called, or
that library was tried in a child before.
"""

import json
import platform
import re
import sys
from collections import Counter
from math import exp, log
from pathlib import Path

from freehold_lab import peers
from freehold_lab.allocators import Allocator, LinkedIn, library, proved
from freehold_lab.launch import Launch
from freehold_lab.places import LIST, Failed, command_path, repository
from freehold_lab.programs import PROGRAMS
from freehold_lab.progress import say
from freehold_lab.text import one_of, table
from freehold_lab.workloads import Count, answer_of, read_list

LIMIT = 600                                 # seconds that one run may take
SKIPPED = 77


class Profiled(Launch):
    """A run in a tool of valgrind; its costs are the profiles of all its processes."""

    def __init__(self, allocator, tool, *options):
        super().__init__(allocator, LIMIT)
        self.tool, self.options = tool, options

    def around(self, user):
        return ["env", *self.settings(user), "valgrind", f"--tool={self.tool}",
                "--trace-children=yes", *self.options,
                f"--{self.tool}-out-file={self.folder}/profile.%p",
                f"--log-file={self.folder}/log.%p"]

    def servers(self, process):
        return [process.pid]

    def take_costs(self):
        texts = [path.read_text() for path in sorted(self.folder.glob("profile.*"))]
        profiles = [text for text in texts if text]     # none of a process that was killed
        if not profiles:
            raise Failed(f"{self.allocator.name}: {self.tool} wrote no profile")
        self.costs = {"profiles": profiles}


def profile(command, allocator):
    """Callgrind's profile of a workload, and its answer."""
    with Profiled(allocator, "callgrind") as launch:
        answer = answer_of(launch.program(*command), allocator)
        return "".join(launch.costs["profiles"]), answer


# ---- instructions of a pair of malloc and free ---------------------------------------------------

SHORT, LONG = 100000, 300000
# The fast path gains whole instructions. Slow paths are spread over many pairs and move
# the count by fractions.
GOLDEN_SLACK = 0.5


def total(text):
    """All instructions of a profile."""
    return int(re.search(r"^totals: (\d+)", text, re.M).group(1))


def per_pair(program, allocator, pattern="pingpong"):
    """Instructions of one pair under `allocator`, the driver's loop included. The difference of two
    lengths holds nothing but the loop and the two calls."""
    command = [program, "--pattern", pattern, "--instructions"]
    short, long = (total(profile([*command, pairs], allocator)[0]) for pairs in (SHORT, LONG))
    return (long - short) / (LONG - SHORT)


def linked(programs):
    """freehold as a part of the executable: nothing is preloaded, and malloc is
    found in the program itself."""
    program = Path(programs, "patterns.linked")
    return LinkedIn("freehold, linked", program) if program.is_file() else None


class Instructions(Count):
    def missing(self):
        return super().missing() or ("" if command_path("valgrind") else "no command valgrind")

    def run(self, launch, parameters):
        counts = {"count": per_pair(self.program, launch.allocator)}
        own = linked(build()) if launch.allocator.name == "freehold" else None
        return {**counts, "linked": per_pair(own.path, own)} if own else counts


def golden(path, machine):
    """The expected counts for this machine and compiler: name -> number."""
    expected = {}
    for line in Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == machine:
            expected[" ".join(words[2:])] = float(words[1])
    return expected


def build():
    """Where freehold's own build has the workloads."""
    return repository() / "build" / "bench"


def add_programs(command):
    command.add_argument("--programs", type=Path, metavar="DIR",
                         help="the built workloads (default: build/bench)")
    command.add_argument("--library", metavar="PATH",
                         help="freehold (default: build/libfreehold.so)")


def add_instructions(command):
    add_programs(command)
    command.add_argument("--allocators", nargs="*", default=list(peers.DEBIAN),
                         metavar="NAME[=PATH]", help="what else to count (default: %(default)s)")
    command.add_argument("--pattern", default="pingpong",
                         help="another pattern of `patterns` (default %(default)s)")
    command.add_argument("--check", type=float, metavar="N",
                         help="fail if freehold takes more than N, either way")
    command.add_argument("--golden", metavar="FILE",
                         help="fail if freehold takes more than FILE says")
    command.add_argument("--compiler", default="any",
                         help="which of the golden figures hold, as in GNU-12.2.0")


def command_instructions(options):
    machine = f"{platform.machine()}:{options.compiler.rsplit('.', 2)[0]}"
    expected = golden(options.golden, machine) if options.golden else {}
    if options.golden and not expected:
        print(f"{options.golden} has no figure for {machine}")
        return SKIPPED
    programs = options.programs or build()
    own = linked(programs)
    runs = [(Allocator("freehold", library(options.library)), programs / "patterns"),
            *([(own, own.path)] if own else []),
            *((peers.debian(text), programs / "patterns") for text in options.allocators)]
    print(f"instructions per pair of malloc and free, {options.pattern}, the loop included")
    counted, failures = [], 0
    for allocator, program in runs:
        name = allocator.name
        try:
            count = per_pair(program, allocator, options.pattern)
        except Failed as failure:
            say(str(failure))
            continue
        counted.append(name)
        limit = expected[name] + GOLDEN_SLACK if name in expected else None
        if options.check is not None and name.startswith("freehold"):
            limit = options.check
        verdict = ("" if limit is None
                   else f"   at most {limit:g}: {'yes' if count <= limit else 'NO'}")
        failures += verdict.endswith("NO")
        print(f"  {name:<18} {count:8.2f}{verdict}")
        if name in expected and count < expected[name] - GOLDEN_SLACK:
            print(f"  {name} needs fewer than {options.golden} says: lower the figure there")
    missing = [name for name in expected or ["freehold"] if name not in counted]
    for name in missing:
        print(f"  {name:<18} was not counted")
    return 1 if failures or missing else 0


# ---- what the workloads themselves cost ----------------------------------------------------------

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


def costly_workloads(programs):
    return {name: each for name, each in read_list(repository() / LIST, programs).items()
            if each.program.name in LENGTHS}


def add_costs(command):
    command.add_argument("workload", nargs="*", type=one_of(lambda: costly_workloads("")),
                         help="of workloads.toml (all that have a length that can be set)")
    add_programs(command)
    command.add_argument("--json", action="store_true", help="one object instead of the table")
    command.add_argument("--beside", metavar="PATH",
                         help="another library: how many times as many instructions ours takes")
    command.add_argument("--options", default="", metavar="TEXT",
                         help="what ours runs with, as FREEHOLD_OPTIONS has it")
    command.add_argument("--most", type=float, metavar="RATIO",
                         help="fail if that is more, as a geometric mean")


def print_beside(known, options):
    """Ours over the other, of the driver and the library together."""
    ours = Allocator("freehold", library(options.library), {"FREEHOLD_OPTIONS": options.options})
    other = Allocator("other", library(options.beside))
    logs = []
    for name in options.workload or known:
        costs = [sum(per_operation(known[name], each)) for each in (ours, other)]
        logs.append(log(costs[0] / costs[1]))
        print(f"{name:<22} {costs[0]:10.1f} {costs[1]:10.1f} {exp(logs[-1]):8.4f}", flush=True)
    mean = exp(sum(logs) / len(logs))
    print(f"{'geometric mean':<44} {mean:8.4f}")
    return 1 if options.most and mean > options.most else 0


def command_costs(options):
    """Instructions outside the library that serves malloc: loop, random numbers, what is written
    into the blocks (libc's memset and memcpy, those that the library calls among them); and inside.
    The difference of two lengths is free of what happens once."""
    known = costly_workloads(options.programs or build())
    if options.beside:
        return print_beside(known, options)
    if options.most:
        raise Failed("--most compares two libraries; name the other one with --beside")
    allocator = Allocator("freehold", library(options.library),
                          {"FREEHOLD_OPTIONS": options.options} if options.options else {})
    results, failures = {}, 0
    for name in options.workload or known:
        try:
            driver, inside = per_operation(known[name], allocator)
        except Failed as failure:
            say(f"{name}: {failure}")
            failures += 1
            continue
        results[name] = {"driver": round(driver, 1), "library": round(inside, 1)}
        if not options.json:
            print(f"{name:<22} {driver:10.1f} {inside:10.1f}", flush=True)
    if options.json:
        print(json.dumps(results))
    return 1 if failures else 0


# ---- data cache misses of real programs ----------------------------------------------------------

# Two caches of a given size, which do not depend on the machine.
CACHES = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=2097152,16,64")
ALLOCATING = ("python3-tree", "perl-table", "awk-strings", "sqlite3-index")
MEASURED = [name for name, program in PROGRAMS.items() if program.work]


def add_misses(command):
    command.add_argument("program", nargs="*", type=one_of(MEASURED), default=None,
                         help=f"any real program (default: {', '.join(ALLOCATING)})")
    command.add_argument("--library", metavar="PATH",
                         help="freehold (default: build/libfreehold.so)")
    command.add_argument("--allocators", nargs="*", default=list(peers.DEBIAN),
                         metavar="NAME[=PATH[,VAR=VALUE]]", help="what else (default: %(default)s)")
    command.add_argument("--json", metavar="FILE", type=Path, help="all of cachegrind's totals")


def totals_of(profiles):
    """The totals of the profiles of all processes, by the names of their events."""
    totals = Counter()
    for text in profiles:
        events = re.search(r"^events: (.*)$", text, re.M).group(1).split()
        figures = re.search(r"^summary: (.*)$", text, re.M).group(1).split()
        totals.update(dict(zip(events, map(int, figures), strict=True)))
    return totals


def misses(totals):
    """Of data, reading and writing: in the first level, and of these in the last."""
    return {"first level": totals["D1mr"] + totals["D1mw"],
            "last level": totals["DLmr"] + totals["DLmw"]}


def misses_rows(results, names, level):
    """For each program its misses in thousands, and the ratio to the best of the others; and the
    ratios' geometric mean."""
    rows, logs = [], []
    for program, totals in results.items():
        figures = {name: misses(each)[level] for name, each in totals.items()}
        others = [figure for name, figure in figures.items() if name != "freehold"]
        ratio = figures["freehold"] / min(others) if others and "freehold" in figures else None
        logs += [log(ratio)] if ratio else []
        rows.append([program, *(f"{figures[name] / 1000:.0f}" if name in figures else "-"
                                for name in names), f"{ratio:.3f}" if ratio else "-"])
    mean = f"{exp(sum(logs) / len(logs)):.3f}" if logs else "-"
    return [*rows, ["geometric mean", *("" for _ in names), mean]]


def command_misses(options):
    """The counts repeat except for what a program takes from the addresses that it is given, so one
    run is enough."""
    allocators, left_out = proved([lambda: peers.freehold(library(options.library)),
                                   *(lambda text=text: peers.debian(text)
                                     for text in options.allocators)])
    results, is_whole = {}, not left_out
    for name in options.program or ALLOCATING:
        program, results[name] = PROGRAMS[name], {}
        for allocator in allocators:
            print(f"{name}: {allocator.name}", file=sys.stderr)
            try:
                if program.missing():
                    raise Failed(program.missing())
                with Profiled(allocator, "cachegrind", *CACHES) as launch:
                    program.run(launch, {})
                    results[name][allocator.name] = totals_of(launch.costs["profiles"])
            except Failed as failure:
                say(f"{name}: {failure}")
                is_whole = False
    names = [allocator.name for allocator in allocators]
    for level in ("first level", "last level"):
        print(f"misses in the {level}, thousands\n\n" + table(
            ["program", *names, "freehold / best other"], misses_rows(results, names, level))
            + "\n")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0 if is_whole else 1
