"""workloads.py - what can be run: the programs of lab/workloads, listed in workloads.toml,
recorded programs, and real ones

A workload has `name`, `about`, `parameters` (with defaults), `quick` (values for a
short run), `figure`, the Debian `packages` that it wants, and `run(launch,
parameters)`, which returns its figures.
"""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from freehold_lab.launch import Counted
from freehold_lab.places import LIST, Failed, repository, workload_programs


@dataclass(frozen=True)
class Figure:
    """The main figure of a workload."""
    key: str
    unit: str = ""
    lower_is_better: bool = True


@dataclass
class BenchProgram:
    """A program of lab/workloads: it prints one JSON line with its figures and with the file that
    malloc came from."""
    name: str
    program: Path
    about: str
    figure: Figure
    parameters: dict
    quick: dict = field(default_factory=dict)
    packages: tuple = ()

    def missing(self):
        return "" if self.program.is_file() else f"no program {self.program}"

    def command(self, parameters):
        """Those that are not given have the values of the list."""
        values = {**self.parameters, **parameters}
        return [str(self.program),
                *(word for name, value in values.items() for word in (f"--{name}", str(value)))]

    def run(self, launch, parameters):
        return answer_of(launch.program(*self.command(parameters)), launch.allocator)


class Count(BenchProgram):
    """What is counted of a workload, in runs of their own."""

    def __init__(self, of, name, about):
        super().__init__(name, of.program, about, Figure("count"), of.parameters)


class SystemCalls(Count):
    def run(self, launch, parameters):
        with Counted(launch.allocator, launch.limit, is_every=True) as counted:
            super().run(counted, parameters)
        return {"count": counted.costs["system_calls"]}


def answer_of(output, allocator):
    """The figures in what a workload printed. Raises Failed if its malloc was not the
    allocator's."""
    output = output if isinstance(output, str) else output.decode(errors="replace")
    try:
        figures = json.loads(output)
        origin = figures["malloc"]
    except (ValueError, KeyError):
        raise Failed(f"no JSON line but {output[:80]!r}") from None
    if not allocator.is_origin(origin):
        raise Failed(f"malloc came from {origin}, not from {allocator.path}")
    return figures


def read_list(file, programs):
    """The workloads of a workloads.toml whose programs lie in the folder `programs`."""
    try:
        table = tomllib.loads(Path(file).read_text())
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise Failed(f"{file}: {problem}") from None
    found = {}
    for entry in table["workload"]:
        try:
            figure = Figure(entry["figure"]["key"], entry["figure"]["unit"],
                            entry["figure"]["better"] == "lower")
            workload = BenchProgram(entry["name"], Path(programs, entry["program"]),
                                    f"{entry['measures']} ({entry['origin']})", figure,
                                    entry["parameters"], entry["quick"])
        except (KeyError, TypeError) as problem:
            raise Failed(f"{file}: workload {entry.get('name', '?')}: "
                         f"{problem} is missing or wrong") from None
        found[workload.name] = workload
    return found


def all_workloads(build=True):
    """Every workload by name; with `build` the programs of lab/workloads are made first."""
    from freehold_lab import tapes
    from freehold_lab.programs import PROGRAMS
    from freehold_lab.valgrind import Instructions
    programs = workload_programs() if build else Path("not-built")
    listed = read_list(repository() / LIST, programs)
    counts = [how(listed[of], name, about)
              for how, of, name, about in (
                  (Instructions, "pingpong", "instructions",
                   "instructions of a pair of malloc and free"),
                  (SystemCalls, "idle", "idle-calls", "system calls of a program that hardly "
                   "allocates")) if of in listed]
    return {**listed, **tapes.workloads(programs), **{count.name: count for count in counts},
            **{name: program for name, program in PROGRAMS.items() if program.work}}
