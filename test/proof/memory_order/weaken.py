#!/usr/bin/env python3
"""Weakens each memory order that is not relaxed, one at a time, and says which check of
memory_order fails then.

An order whose weakening no check notices is stronger than anything here needs. Exit code: 0 if each
is noticed, 2 for wrong arguments. 1 if not, or if a check fails with the orders as they are, or an
order was never executed.

examples:
  weaken.py build/test/proof/memory_order/memory_order --write docs/concurrency.md
  weaken.py build/test/proof/memory_order/memory_order --write docs/concurrency.md --only '^slab.c'
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

BEGIN = "<!-- weakening: written by test/proof/memory_order/weaken.py -->"
END = "<!-- end of weakening -->"
WEAKER = {"seq_cst": ["acq_rel"], "acq_rel": ["acquire", "release"], "acquire": ["relaxed"],
          "release": ["relaxed"]}
BRIEFLY = ["--bound", "1", "--random", "3000"]
MARK_OF_FAILURE, ON_FAILURE = "/failure", " when it fails"
HEAD = ["| where | operation | weakened to | the check that fails | it finds |",
        "| --- | --- | --- | --- | --- |"]
LINE = re.compile(r"\| `(.*?)`, (.*?) \| `(.*?)`(%s)? \|" % ON_FAILURE)
# and paths: they differ from build to build
ADDRESSES = re.compile(r",? (at|code) (0x[0-9a-f]+|/\S+)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="memory_order, as built by ./dev model")
    parser.add_argument("--write", metavar="FILE",
                        help="replace the table between the markers in FILE")
    parser.add_argument("--only", metavar="PATTERN", type=re.compile, default=re.compile(""),
                        help="those places that it is found in, as memory_order --sites prints "
                             "them; --write leaves the other rows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--bound", default="2", help="as for memory_order")
    parser.add_argument("--random", default="20000", help="as for memory_order")
    return parser.parse_args()


def run(options, *more):
    command = [options.program, "--bound", options.bound, "--random", options.random, *more]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit("weaken.py: %s ends with %d" % (" ".join(command), result.returncode))
    return [line.split("\t") for line in result.stdout.splitlines()]


def weaker_orders(site, order):
    """The orders just below. A load knows no release."""
    is_load = "_load_" in site.split()[2] or site.endswith(MARK_OF_FAILURE)
    return ["acquire"] if is_load and order == "seq_cst" else list(WEAKER.get(order, []))


def places(site, order, failure):
    """Where there is an order to be weakened: a swap that fails has one of its own."""
    yield site, order
    if "_cas_" in site.split()[2]:
        yield site + MARK_OF_FAILURE, failure


def try_place(options, site, order):
    """The orders just below `order`; and below those that no check notices, the next ones."""
    rows, tried = [], set()
    left = weaker_orders(site, order)
    while left:
        weaker = left.pop(0)
        if weaker in tried:
            continue
        tried.add(weaker)
        rows.append(try_one(options, site, order, weaker))
        if rows[-1]["check"] is None:
            left += weaker_orders(site, weaker)
    return rows


def try_one(options, site, order, weaker):
    for more in BRIEFLY, []:                        # most are noticed at once
        lines = run(options, "--first", "--weaken", "%s=%s" % (site, weaker), *more)
        failed = [line for line in lines if line[0] == "FAILS"]
        if failed:
            break
    file, function, operation = site.replace(MARK_OF_FAILURE, "").split(" ", 2)
    return {
        "file": file, "function": function, "operation": operation,
        "on_failure": site.endswith(MARK_OF_FAILURE), "order": order, "weakened_to": weaker,
        "check": failed[0][1] if failed else None,
        "finds": ADDRESSES.sub("", failed[0][4]) if failed else None,
    }


def lines_of(rows):
    for row in rows:
        operation = "`%s`" % row["operation"] + (ON_FAILURE if row["on_failure"] else "")
        cells = ["`%s`, %s" % (row["function"], row["file"]), operation, row["weakened_to"],
                 row["check"] or "**none**", row["finds"] or ""]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def place_of(line):
    """The place that a row of the table is about."""
    function, file, operation, failure = LINE.match(line).groups()
    return " ".join((file, function, operation.replace("\\|", "|"))) + (
        MARK_OF_FAILURE if failure else "")


def table(lines):
    return "\n".join([*HEAD, *sorted(lines, key=place_of)])


def write_table(path, new, is_kept):
    """The new lines, and those of the old ones whose place is kept."""
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    old, after = rest.split(END)
    kept = [line for line in old.strip().split("\n")[len(HEAD):] if is_kept(place_of(line))]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + table(kept + new) + "\n" + END + after)


def main():
    options = arguments()
    lines = run(options, "--sites")
    broken = [line for line in lines if line[0] == "FAILS"]
    for line in broken:
        print("fails with the orders as they are: %s: %s" % (line[1], line[4]))
    sites = {}
    for _, site, *orders in (line for line in lines if line[0] == "site"):
        if len(orders) == 2 or site not in sites:   # a header's stands there for each file
            sites[site] = orders
    wanted = sorted(filter(options.only.search, sites))
    unused = [site for site in wanted if len(sites[site]) < 2]
    for site in unused:
        print("never executed: " + site)
    if broken:
        return 1
    todo = [place for site in wanted if site not in unused for place in places(site, *sites[site])]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done, tried in enumerate(pool.map(lambda place: try_place(options, *place), todo), 1):
            rows += tried
            if sys.stderr.isatty():
                print("\r%d of %d places" % (done, len(todo)),
                      end="\n" if done == len(todo) else "", file=sys.stderr)
    new = list(lines_of(rows))
    print(json.dumps(rows, indent=1) if options.json else table(new))
    if options.write:
        write_table(options.write, new, lambda place: not options.only.search(place)
                    and place.replace(MARK_OF_FAILURE, "") in sites)
    unnoticed = [row for row in rows if row["check"] is None]
    if unnoticed and not options.json:
        print("%d of %d weakenings are noticed by no check" % (len(unnoticed), len(rows)))
    return 1 if unnoticed or unused else 0


if __name__ == "__main__":
    sys.exit(main())
