"""tapes.py - recorded programs as workloads: the tapes of tapes/, which its README.md describes

The table there is read here too: names of workloads, and what they are about.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from freehold_lab import replay
from freehold_lab.places import PACKAGE, Failed
from freehold_lab.workloads import BenchProgram, Figure

FOLDER = PACKAGE / "tapes"


@dataclass(frozen=True)
class Tape:
    """A row of the table."""
    name: str
    about: str
    calls: int
    allocations: int
    asked: int                              # bytes
    peak: int                               # bytes that were asked for and live, at most
    threads: int
    at_once: int

    @property
    def path(self):
        return FOLDER / f"{self.name}.tape.xz"


class Recorded(BenchProgram):
    """The workload `replay` with a tape, which is unpacked when it first runs."""

    def __init__(self, tape, programs):
        super().__init__(f"tape-{tape.name}", Path(programs, "replay"),
                         f"the calls of {tape.about}, once more (recorded by freehold)",
                         Figure("ns", "ns"), {"touch": "pages"})
        self.tape = tape

    def missing(self):
        return super().missing() or ("" if self.tape.path.is_file() else f"no {self.tape.path}")

    def command(self, parameters):
        unpacked, _ = replay.tape_of(self.tape.path, None)
        return [*super().command(parameters), "--tape", str(unpacked)]


def read_table(text):
    """The rows of the table in a README: | `name` | about | numbers ... |."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`([\w+-]+)`", cells[0])
        if line.startswith("|") and name:
            if len(cells) != 8:
                raise Failed(f"{FOLDER / 'README.md'}: row {name[1]} has not 8 columns")
            rows.append(Tape(name[1], cells[1], *(int(n.replace(",", "")) for n in cells[2:])))
    return rows


def shipped():
    return read_table((FOLDER / "README.md").read_text())


def workloads(programs):
    """Every shipped tape as a workload; the folder `programs` has the built ones."""
    found = [Recorded(tape, programs) for tape in shipped()]
    return {workload.name: workload for workload in found}
