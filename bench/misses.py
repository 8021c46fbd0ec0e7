#!/usr/bin/env python3
"""misses.py - data cache misses of real programs under freehold and others, by cachegrind's model

Each program runs once under each allocator in cachegrind, which replaces no allocator and models
two caches of a given size (a first level of 32 KiB in 8 ways, a last level of 2 MiB in 16 ways,
lines of 64 bytes). The counts repeat but for what a program takes from the addresses that it is
given, so one run is enough. Before that each library is tried in a child: it must really serve
malloc there.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))
from allocators import KNOWN_FAULTS, PEERS, allocator_named  # noqa: E402
from freehold_lab.allocators import Allocator  # noqa: E402
from freehold_lab.places import Failed, last_line  # noqa: E402

CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=2097152,16,64")
LIMIT = 600  # seconds for one program under cachegrind

TREE = """
import random
random.seed(1)
class Node:
    def __init__(self, key): self.key, self.left, self.right = key, None, None
root, table = Node(0.5), {}
for i in range(30000):
    at, key = root, random.random()
    while True:
        side = "left" if key < at.key else "right"
        if getattr(at, side) is None:
            setattr(at, side, Node(key))
            break
        at = getattr(at, side)
    table[str(i)] = [i] * (i % 20)
    if i % 3 == 0: table.pop(str(i // 2), None)
"""
WORDS = """
srand(1); my %seen;
for my $i (1 .. 150000) { push @{$seen{int(rand(20000)) . "x" x ($i % 40)}}, "word $i"; }
my $n = 0; for my $k (sort keys %seen) { $n += @{$seen{$k}}; delete $seen{$k} if $n % 2; }
"""
LINES = """
BEGIN { srand(1); for (i = 0; i < 200000; i++) { k = int(rand() * 30000); t[k] = t[k] " " i
        if (length(t[k]) > 60) t[k] = "" } for (k in t) n += length(t[k]); print n }
"""
ROWS = """
CREATE TABLE t (a INTEGER, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t SELECT i * 7919 % 20011, 'row ' || i FROM n;
CREATE INDEX i ON t (b);
SELECT count(*), sum(x) FROM (SELECT a % 1000 AS g, count(*) AS x FROM t GROUP BY g ORDER BY x);
"""
# The same work each time, and all of it by malloc: python3 has an allocator of its own.
SETTINGS = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
# Real programs that allocate much, by name: the command, and what it reads.
PROGRAMS = {
    # not whatever PATH has: that may be a script which starts another
    "python3, a tree and a table": ([sys.executable, "-S", "-c", TREE], ""),
    "perl, a table of lists": (["perl", "-e", WORDS], ""),
    "awk, strings that grow": (["awk", LINES], ""),
    "sqlite3, a table and an index": (["sqlite3", "-batch", ":memory:"], ROWS),
}


def counts(command, text, allocator):
    """Cachegrind's totals of a run, by the names of its events."""
    with tempfile.TemporaryDirectory() as folder:
        out, log_file = Path(folder, "out"), Path(folder, "log")
        run = subprocess.run(
            ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES,
             f"--cachegrind-out-file={out}", f"--log-file={log_file}", *command],
            input=text, env=allocator.environment(SETTINGS),
            capture_output=True, text=True, timeout=LIMIT)
        if run.returncode != 0 or not out.is_file():
            raise Failed(f"{allocator.name}: {command[0]} under cachegrind ended with "
                         f"{run.returncode}: {last_line(run.stderr)}")
        profile = out.read_text()
    events = re.search(r"^events: (.*)$", profile, re.M).group(1).split()
    totals = re.search(r"^summary: (.*)$", profile, re.M).group(1).split()
    return dict(zip(events, map(int, totals), strict=True))


def misses(totals):
    """Of data, reading and writing: in the first level, and of these in the last."""
    return {"first level": totals["D1mr"] + totals["D1mw"],
            "last level": totals["DLmr"] + totals["DLmw"]}


def table(results, level):
    """A line for each program, in thousands, and the ratios to the best of the others."""
    names = list(dict.fromkeys(name for row in results.values() for name in row))
    width = max(map(len, results), default=0)
    yield f"misses in the {level}, thousands"
    yield " " * width + "".join(f"{name:>12}" for name in names) + "   freehold / best other"
    logs = []
    for program, row in results.items():
        figures = {name: row[name][level] for name in names if name in row}
        others = [figure for name, figure in figures.items() if name != "freehold"]
        line = f"{program:<{width}}" + "".join(
            f"{figures[name] / 1000:12.0f}" if name in figures else f"{'-':>12}" for name in names)
        if others and "freehold" in figures:
            ratio = figures["freehold"] / min(others)
            logs.append(log(ratio))
            line += f"{ratio:12.3f}"
        yield line
    if logs:
        yield f"geometric mean of the ratios: {exp(sum(logs) / len(logs)):.3f}"


def verified(options):
    """freehold and the peers; one that does not serve malloc is told and left out."""
    for text in options.allocators:
        try:
            allocator = allocator_named(text)
            allocator.verify(spared=KNOWN_FAULTS.get(text, ()))
            yield allocator
        except Failed as failure:
            print(f"left out: {failure}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(
        prog="bench/misses.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: ./dev misses --allocators mimalloc jemalloc=/tmp/libjemalloc.so\n"
               "exit code: 0 counted, 1 something could not be counted, 2 usage or set-up")
    parser.add_argument("--library", default=os.environ.get("FREEHOLD_SO", "build/libfreehold.so"),
                        metavar="PATH", help="freehold (default %(default)s)")
    parser.add_argument("--allocators", nargs="*", default=list(PEERS),
                        metavar="NAME[=PATH[,VAR=VALUE]]", help="what else (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="all of cachegrind's totals")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 2
    try:
        freehold = Allocator("freehold", options.library)
        freehold.verify()
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 2

    allocators = [freehold, *verified(options)]
    is_whole = len(allocators) == 1 + len(options.allocators)
    results, totals = {}, {}
    for program, (command, text) in PROGRAMS.items():
        if shutil.which(command[0]) is None:
            print(f"{program}: {command[0]} is not installed", file=sys.stderr)
            is_whole = False
            continue
        results[program], totals[program] = {}, {}
        for allocator in allocators:
            print(f"{program}: {allocator.name}", file=sys.stderr)
            try:
                total = counts(command, text, allocator)
            except (Failed, subprocess.TimeoutExpired) as failure:
                print(failure, file=sys.stderr)
                is_whole = False
                continue
            totals[program][allocator.name] = total
            results[program][allocator.name] = misses(total)
    for level in ("first level", "last level"):
        print("\n".join(table(results, level)) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps(totals, indent=1))
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
