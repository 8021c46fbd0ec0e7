"""group.py - a control group around a run: how much memory its processes may have, and what the
kernel did when they wanted more

Owns:    a folder below /sys/fs/cgroup. It is gone when the `with` is left, by whatever path; that
         of a laboratory which was killed goes when the next one makes its own.
"""

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from freehold_lab.places import Broken

ROOT = Path("/sys/fs/cgroup")
NAME = "freehold-lab-"


@dataclass(frozen=True)
class Version:
    limit: str                              # the file of the limit
    swap: str                               # that of swap, or of both, where it is counted
    has_both: bool
    killed: str
    met: str
    met_label: str


VERSION_1 = Version("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", True,
                    "memory.oom_control", "memory.failcnt", "")
VERSION_2 = Version("memory.max", "memory.swap.max", False, "memory.events", "memory.events",
                    "max ")
PAGE = 4096


class Group:
    """A group whose processes may have `limit` bytes of memory, and no swap. What counts is what
    the kernel charges them with: their own pages, and what it holds for them (page tables, stacks).
    Pages of files count, too, for the first who touches them; it drops these before it refuses.
    Raises Broken where no such group can be made."""

    def __init__(self, limit, root=ROOT):
        self.limit, self.root = int(limit), Path(root)

    def __enter__(self):
        parent, self.version = self.controller()
        for left in parent.glob(f"{NAME}*"):
            if not Path("/proc", left.name.removeprefix(NAME)).exists():
                with suppress(OSError):
                    left.rmdir()
        self.folder = parent / f"{NAME}{os.getpid()}"
        try:
            self.folder.mkdir()
            self.bound()
            return self
        except BaseException as problem:
            with suppress(OSError):
                self.folder.rmdir()
            if not isinstance(problem, OSError):
                raise
            raise Broken(f"no memory limits here: {problem.filename or self.folder}: "
                         f"{problem.strerror}; making a control group wants root") from None

    def __exit__(self, *_):
        self.remove()

    def controller(self):
        """The folder in which groups are made, and which version's files they have."""
        first = self.root / "memory"
        if (first / VERSION_1.limit).exists():
            return first, VERSION_1
        with suppress(OSError):
            if "memory" in (self.root / "cgroup.controllers").read_text().split():
                (self.root / "cgroup.subtree_control").write_text("+memory")
                return self.root, VERSION_2
        raise Broken(f"no memory limits here: {self.root} has no memory controller, of version 1 "
                     "or 2, that may be used")

    def bound(self):
        (self.folder / self.version.limit).write_text(str(self.limit))
        swap = self.folder / self.version.swap
        if swap.exists():
            # A page more than memory: else a charge fails there first, and is not counted.
            swap.write_text(str(self.limit + PAGE if self.version.has_both else 0))

    def number(self, name, label):
        """The number behind the label in a file of the group; 0 where there is none."""
        with suppress(OSError):
            found = re.search(rf"^{label}(\d+)$", (self.folder / name).read_text(), re.M)
            return int(found[1]) if found else 0
        return 0

    def told(self):
        """What the kernel did, as figures of a run: how many processes it `killed`, and how often a
        charge `met` the limit. Most often it then finds pages that it can drop."""
        return {"limit": self.limit, "killed": self.number(self.version.killed, "oom_kill "),
                "met": self.number(self.version.met, self.version.met_label)}

    def remove(self, patience=10.0):
        """Its processes have ended; the kernel may need a moment to let go of them."""
        end = time.monotonic() + patience
        while True:
            try:
                return self.folder.rmdir()
            except OSError as problem:
                if time.monotonic() > end:
                    raise Broken(f"{self.folder} cannot be removed: {problem.strerror}") from None
            time.sleep(0.01)
