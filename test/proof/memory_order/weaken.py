#!/usr/bin/env python3
"""Weakens each memory order that is not relaxed, one at a time, and says which check of
memory_order fails then.

An order whose weakening no check notices is stronger than anything here needs. Exit code: 0 if each
is noticed, 2 for wrong arguments. 1 if not, or if a check fails with the orders as they are, or an
order was never executed.

example:
  weaken.py build/test/proof/memory_order/memory_order --write docs/concurrency.md
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
MARK_OF_FAILURE = "/failure"
# and paths: they differ from build to build
ADDRESSES = re.compile(r",? (at|code) (0x[0-9a-f]+|/\S+)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="memory_order, as built by ./dev model")
    parser.add_argument("--write", metavar="FILE",
                        help="replace the table between the markers in FILE")
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
    if "_swap_" in site.split()[2]:
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
    failed = [line
              for line in run(options, "--first", "--weaken", "%s=%s" % (site, weaker))
              if line[0] == "FAILS"]
    file, function, operation = site.replace(MARK_OF_FAILURE, "").split(" ", 2)
    return {
        "file": file, "function": function, "operation": operation,
        "on_failure": site.endswith(MARK_OF_FAILURE), "order": order, "weakened_to": weaker,
        "check": failed[0][1] if failed else None,
        "finds": ADDRESSES.sub("", failed[0][4]) if failed else None,
    }


def table(rows):
    lines = ["| where | operation | weakened to | the check that fails | it finds |",
             "| --- | --- | --- | --- | --- |"]
    for row in rows:
        operation = "`%s`" % row["operation"] + (" when it fails" if row["on_failure"] else "")
        cells = ["`%s`, %s" % (row["function"], row["file"]), operation, row["weakened_to"],
                 row["check"] or "**none**", row["finds"] or ""]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def write_table(path, text):
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    after = rest.split(END)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + text + "\n" + END + after)


def main():
    options = arguments()
    lines = run(options, "--sites")
    broken = [line for line in lines if line[0] == "FAILS"]
    for line in broken:
        print("fails with the orders as they are: %s: %s" % (line[1], line[4]))
    sites = {line[1]: line[2:] for line in lines if line[0] == "site"}
    unused = sorted(site for site, orders in sites.items() if len(orders) < 2)
    for site in unused:
        print("never executed: " + site)
    if broken:
        return 1
    todo = [place for site in sorted(set(sites) - set(unused))
            for place in places(site, *sites[site])]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done, tried in enumerate(pool.map(lambda place: try_place(options, *place), todo), 1):
            rows += tried
            if sys.stderr.isatty():
                print("\r%d of %d places" % (done, len(todo)),
                      end="\n" if done == len(todo) else "", file=sys.stderr)
    print(json.dumps(rows, indent=1) if options.json else table(rows))
    if options.write:
        write_table(options.write, table(rows))
    unnoticed = [row for row in rows if row["check"] is None]
    if unnoticed and not options.json:
        print("%d of %d weakenings are noticed by no check" % (len(unnoticed), len(rows)))
    return 1 if unnoticed or unused else 0


if __name__ == "__main__":
    sys.exit(main())
