"""check.py - `./dev programs`: real programs under freehold, their output compared with that under
libc

A program does fixed work twice, with libc's malloc and with freehold. It passes when both runs end
well, give the same output, and the second's processes had freehold.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from freehold_lab.allocators import Allocator, libc_path, library, name_of
from freehold_lab.launch import Launch
from freehold_lab.places import Failed, repository
from freehold_lab.programs import PROGRAMS
from freehold_lab.progress import Progress, clear, say
from freehold_lab.text import one_of, table

LIMIT = 900                                 # seconds that one run of one program may take
CHECKS = {name: program for name, program in PROGRAMS.items() if program.check}


def add(command):
    command.add_argument("program", nargs="*", type=one_of(CHECKS),
                         help=f"which (all): {', '.join(CHECKS)}")
    command.add_argument("--json", metavar="FILE", type=Path,
                         help="write the results there as well")
    command.add_argument("--library", metavar="SO",
                         help="preload this allocator instead (build/libfreehold.so)")
    command.add_argument("--packages", action="store_true",
                         help="only print the Debian packages that the programs need")


class Traced(Launch):
    """A run whose output is compared. With a folder `traces` the dynamic linker notes there for
    each process what it initialised: the proof that the library was there."""

    def __init__(self, allocator, words, folder, traces=None):
        super().__init__(allocator, LIMIT, folder=folder)
        self.words, self.traces = words, traces

    def around(self, user):
        ours = [f"{name}={value}" for name, value in os.environ.items() if name[:9] == "FREEHOLD_"]
        debug = ["LD_DEBUG=libs", f"LD_DEBUG_OUTPUT={self.traces}/ld"] if self.traces else []
        return ["env", *ours, *debug, *self.words]

    def take_costs(self):
        pass

    def servers(self, process):
        return [process.pid]

    def traced(self):
        """For each process, the executables it ran and whether the library was
        initialised in it."""
        for trace in self.traces.glob("ld.*"):
            text = trace.read_text(errors="replace")
            programs = {Path(line.split("initialize program: ")[1]).name
                        for line in text.splitlines() if "initialize program: " in line}
            yield programs, f"calling init: {self.allocator.path}" in text


def runs_of(preloaded, place):
    """The two ways to run a program. freehold's own command starts it with the library that it
    finds by its soname, if that is the one. Copies, because some servers run as users who may not
    enter the checkout."""
    build = repository() / "build"
    link = build / "libfreehold.so"
    is_built = preloaded == link.resolve()
    copy = Path(shutil.copy(preloaded, place / (os.readlink(link) if is_built else preloaded.name)))
    copy.chmod(0o755)
    words = [f"LD_PRELOAD={copy}"]
    if is_built:
        if not (build / "freehold").is_file():
            raise Failed(f"{build}/freehold: no such command; build it with ./dev build")
        words = [shutil.copy(build / "freehold", place), "run", "--"]
    folder, traces = place / "case", place / "ld"
    libc = Allocator("libc", libc_path())   # preloaded: redis is linked with another allocator
    return (("seconds_libc", lambda: Traced(libc, [f"LD_PRELOAD={libc.path}"], folder)),
            ("seconds", lambda: Traced(Allocator(name_of(copy), copy), words, folder, traces)))


def text_of(output):
    parts = output if isinstance(output, (list, tuple)) else [output]
    return "\n".join(p.decode(errors="backslashreplace") if isinstance(p, bytes) else str(p)
                     for p in parts)


def difference(name, one, other):
    """Where two outputs part, in one line; both are kept."""
    keep = repository() / "build" / "programs"
    keep.mkdir(parents=True, exist_ok=True)
    (keep / f"{name}.libc").write_text(one)
    (keep / f"{name}.preloaded").write_text(other)
    for number, (a, b) in enumerate(zip(one.splitlines(), other.splitlines()), 1):
        if a != b:
            return f"line {number} is {b[:60]!r}, with libc {a[:60]!r}"
    return f"{len(other.splitlines())} lines, with libc {len(one.splitlines())}"


def run_case(case, ways, traces):
    """One row of the table."""
    row = {"name": case.name, "passed": False, "why": "", "seconds_libc": None, "seconds": None,
           "processes": 0, "with_library": 0}
    outputs, seen = [], []
    for key, way in ways:
        shutil.rmtree(traces, ignore_errors=True)
        traces.mkdir()
        traces.chmod(0o1777)
        start = time.monotonic()
        try:
            with way() as launch:
                outputs.append(text_of(case.check(launch)))
        except (Failed, subprocess.SubprocessError, OSError) as problem:
            row["why"] = f"{'with libc: ' if key == 'seconds_libc' else ''}{problem}"
            return row
        finally:
            row[key] = time.monotonic() - start
    seen = list(launch.traced())
    with_library = [programs for programs, has in seen if has]
    row["processes"], row["with_library"] = len(seen), len(with_library)
    names = sorted(set().union(*with_library))
    if not outputs[0].strip():
        row["why"] = "there was no output to compare"
    elif outputs[0] != outputs[1]:
        row["why"] = "output differs: " + difference(case.name, *outputs)
    elif not with_library:
        row["why"] = "the library was in none of its processes"
    elif case.main not in names:
        row["why"] = f"the library was not in {case.main} itself, only in {', '.join(names)}"
    else:
        row["passed"] = True
    return row


def seconds(value):
    return "-" if value is None else f"{value:.1f}"


def command(options):
    chosen = [CHECKS[name] for name in options.program or CHECKS]
    if options.packages:
        print(*sorted({package for case in chosen for package in case.check_packages}))
        return 0
    preloaded = library(options.library)
    Allocator(name_of(preloaded), preloaded).verify()
    progress, rows = Progress("programs", len(chosen)), []
    with tempfile.TemporaryDirectory(prefix="freehold-lab-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        ways = runs_of(preloaded, Path(place))
        for case in chosen:
            progress.show(case.name)
            rows.append(run_case(case, ways, Path(place, "ld")))
            progress.step()
            if not rows[-1]["passed"]:
                say(f"{case.name}: {rows[-1]['why']}")
    clear()
    name = name_of(preloaded)
    print(table(["program", "result", "s, libc", f"s, {name}", "processes", f"with {name}"],
                [[r["name"], "passed" if r["passed"] else "FAILED", seconds(r["seconds_libc"]),
                  seconds(r["seconds"]), r["processes"], r["with_library"]] for r in rows], left=2))
    failed = sum(not row["passed"] for row in rows)
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    if options.json:
        options.json.write_text(json.dumps({"library": name, "programs": rows}, indent=1) + "\n")
    return 1 if failed else 0
