"""programs.py - a wide list of programs under freehold, their output compared with that under libc

A case does fixed work with one program and returns what came out. It is run twice, with libc's
malloc and with freehold; it passes when both runs end well, give the same output, and freehold was
there in the processes of the second. The cases stand in tools/cases, their inputs in lab/work.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from cases import CASES
from cases.case import Run
from running import (ROOT, Failed, Progress, Workplace, check_preload, library, name_of,
                     print_table, stop_everything)

EXAMPLE = """examples:
  ./dev programs                      all of them
  ./dev programs redis perl           two
  ./dev programs --json programs.json
exit code: 0 all passed, 1 one did not, 2 wrong usage
Outputs that differ are kept in build/programs."""
KEEP = ROOT / "build" / "programs"


def launcher(preloaded, place):
    """The library and the words that start a program with it: freehold's own
    command, for the library that it finds. Copies, because some servers run as users
    who may not enter the checkout."""
    copy = Path(shutil.copy(preloaded, place))
    copy.chmod(0o755)
    if preloaded != (ROOT / "build" / "libfreehold.so").resolve():
        return copy, ["env", f"LD_PRELOAD={copy}"]
    command = ROOT / "build" / "freehold"
    if not command.is_file():
        raise SystemExit(f"{command}: no such command; build it with ./dev build")
    return copy, [shutil.copy(command, place), "run", "--"]


def difference(name, one, other):
    """Where two outputs part, in one line; both are kept."""
    KEEP.mkdir(parents=True, exist_ok=True)
    (KEEP / f"{name}.libc").write_text(one)
    (KEEP / f"{name}.preloaded").write_text(other)
    for number, (a, b) in enumerate(zip(one.splitlines(), other.splitlines()), 1):
        if a != b:
            return f"line {number} is {b[:60]!r}, with libc {a[:60]!r}"
    return f"{len(other.splitlines())} lines, with libc {len(one.splitlines())}"


def run_case(case, launch, mapped, place):
    """One row of the table."""
    row = {"name": case.name, "passed": False, "why": "", "seconds_libc": None, "seconds": None,
           "processes": 0, "with_library": 0}
    outputs = []
    for key, words in (("seconds_libc", []), ("seconds", launch)):
        folder = place / "case"
        folder.mkdir()
        folder.chmod(0o777)
        run = Run(folder, place / "ld", words, mapped if words else None)
        start = time.monotonic()
        try:
            outputs.append(run.text_of(case.work(run)))
        except (Failed, subprocess.SubprocessError, OSError) as problem:
            row["why"] = f"{'' if words else 'with libc: '}{problem}"
            return row
        finally:
            row[key] = time.monotonic() - start
            run.close()
            stop_everything()
            row["processes"], row["with_library"] = run.processes()
            shutil.rmtree(folder, ignore_errors=True)
    if not outputs[0].strip():
        row["why"] = "the case gave no output to compare"
    elif outputs[0] != outputs[1]:
        row["why"] = "output differs: " + difference(case.name, *outputs)
    elif row["with_library"] == 0:
        row["why"] = "the library was in none of its processes"
    elif case.main and not run.had_library(case.main):
        row["why"] = (f"the library was not in {case.main} itself, "
                      f"only in {run.names_with_library()}")
    else:
        row["passed"] = True
    return row


def packages_of(cases):
    return sorted({package for case in cases for package in case.packages})


def choose(parser, names):
    for name in names:
        if name not in CASES:
            parser.error(f"no case {name}; there are {', '.join(CASES)}")
    return [CASES[name] for name in names or CASES]


def seconds(value):
    return "-" if value is None else f"{value:.1f}"


def main():
    parser = argparse.ArgumentParser(prog="./dev programs", epilog=EXAMPLE,
                                     description=__doc__.split(" - ")[1].split("\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help=f"which (all): {', '.join(CASES)}")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results there as well")
    parser.add_argument("--library", metavar="SO",
                        help="preload this allocator instead (build/libfreehold.so)")
    parser.add_argument("--packages", action="store_true",
                        help="only print the Debian packages that the cases need")
    wanted = parser.parse_args()
    chosen = choose(parser, wanted.program)
    if wanted.packages:
        print(*packages_of(chosen))
        return 0

    preloaded = library(wanted.library)
    check_preload(preloaded)
    progress, rows = Progress(), []
    with Workplace() as place:
        mapped, launch = launcher(preloaded, place)
        for number, case in enumerate(chosen, 1):
            progress.say(f"{number} of {len(chosen)}: {case.name}")
            rows.append(run_case(case, launch, mapped, place))
            if not rows[-1]["passed"]:
                progress.clear()
                print(f"programs: {case.name}: {rows[-1]['why']}", file=sys.stderr)
    progress.clear()
    name = name_of(preloaded)
    print_table(["program", "result", "s, libc", f"s, {name}", "processes", f"with {name}"],
                [[r["name"], "passed" if r["passed"] else "FAILED", seconds(r["seconds_libc"]),
                  seconds(r["seconds"]), r["processes"], r["with_library"]] for r in rows], left=2)
    failed = sum(not row["passed"] for row in rows)
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    if wanted.json:
        wanted.json.write_text(json.dumps({"library": name, "programs": rows}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
