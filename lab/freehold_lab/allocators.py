"""allocators.py - an allocator to measure, and the proof that it really serves a program

Holds:   what is measured under a name is that library: see `verify`, and the runner, which
         asks every workload again.
"""

import functools
import hashlib
import json
import os
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path

from freehold_lab.places import Failed, last_line, native, repository
from freehold_lab.progress import say

FAMILY = ("malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign")
OPERATORS = ("operator new", "operator delete")
# What the proof does not use of a library: Debian's mimalloc 2.0.9 gives blocks that are not
# aligned. No workload that it is measured with calls it.
SPARED = {"mimalloc": ("aligned_alloc",)}
# What the caller's environment could do to an allocator stays out of all runs.
FOREIGN = ("LD_", "MALLOC", "MIMALLOC", "TCMALLOC", "FREEHOLD", "GLIBC_TUNABLES", "RPMALLOC",
           "SNMALLOC", "TBB_")


@dataclass
class Allocator:
    name: str
    path: str
    variables: dict = field(default_factory=dict)
    version: str = ""

    def __post_init__(self):
        self.path = str(Path(self.path).resolve())
        if not Path(self.path).is_file():
            raise Failed(f"{self.name}: there is no {self.path}")

    def settings(self):
        """The variables that put it under a program. libc is preloaded like the others: some
        programs are linked with an allocator of their own."""
        return {"LD_PRELOAD": self.path, **self.variables}

    def environment(self, extra=None):
        """What a program under it gets: nothing of the caller's that could change an allocator."""
        return {**clean_environment(), **self.settings(), **(extra or {})}

    def is_origin(self, file):
        return file != "" and str(Path(file).resolve()) == self.path

    def verify(self, limit=30):
        """Raises Failed unless a child finds the whole family in this library and can use it; else
        its answer. The child is native/probe.cc; what is SPARED has to be there, but is not used. A
        version that is not known yet is what the library itself says."""
        try:
            run = subprocess.run([native("probe"), *SPARED.get(self.name, ())],
                                 env=self.environment(), capture_output=True, text=True,
                                 timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name}: a program that uses malloc hangs under it") from None
        if run.returncode != 0:
            raise Failed(
                f"{self.name}: a program that uses malloc ends with {run.returncode} under it: "
                         f"{last_line(run.stderr)}")
        answer = json.loads(run.stdout)
        for function in FAMILY:
            if not self.is_origin(answer[function]):
                raise Failed(
                    f"{self.name}: {function} came from {answer[function] or 'nowhere'}, not from "
                             f"{self.path}")
        for function in OPERATORS:
            # A library without them is served by libstdc++'s, which call malloc.
            if not self.is_origin(answer[function]) and "libstdc++" not in answer[function]:
                raise Failed(f"{self.name}: {function} came from {answer[function] or 'nowhere'}")
        if answer["per-CPU mode"] is False:
            raise Failed(f"{self.name}: tcmalloc is not in its per-CPU mode; under glibc 2.35 or "
                         "newer it wants "
                         "GLIBC_TUNABLES=glibc.pthread.rseq=0")
        self.version = self.version or answer["version"]
        return answer

    def record(self):
        """What is kept of it with the results."""
        return {**asdict(self), "sha256": hashlib.sha256(Path(self.path).read_bytes()).hexdigest()}


class LinkedIn(Allocator):
    """An allocator that is a part of the program, whose file is its `path`."""

    def settings(self):
        return dict(self.variables)


def proved(makers):
    """The allocators that prove themselves, and why the others did not, by name. A maker returns
    one or raises Failed."""
    found, left_out = [], {}
    for make in makers:
        try:
            made = make()
            made.verify()
        except Failed as problem:
            name, _, reason = str(problem).partition(": ")
            left_out[name] = reason
            say(f"left out: {problem}")
            continue
        if made.name in [other.name for other in found]:
            raise Failed(f"allocator {made.name} is named twice")
        found.append(made)
    if not found:
        raise Failed("no allocator is left")
    return found, left_out


def library(named=None):
    """The file of the allocator under test: what is named, else FREEHOLD_SO, else the one that
    `./dev build` makes."""
    named = named or os.environ.get("FREEHOLD_SO") or repository() / "build" / "libfreehold.so"
    if not Path(named).is_file():
        raise Failed(f"no {named}: run ./dev build, or name the library")
    return Path(named).resolve()


def name_of(path):
    """freehold for libfreehold.so, jemalloc for libjemalloc.so.2: what tables call the library."""
    return path.name.split(".")[0].removeprefix("lib")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


@functools.cache        # dpkg reads the lists of all packages each time
def owner_version(path):
    """The Debian package and version that a file belongs to, if one does."""
    # packages may name files from before /usr was merged
    known_as = [str(path), str(path).removeprefix("/usr")]
    try:
        owners = [subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
                  for name in known_as]
        package = next((owner.stdout.split(": ")[0].split(",")[0]
                        for owner in owners if owner.returncode == 0), None)
        if package is None:
            return ""
        return subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}", package],
                              capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


def libc_path():
    """The C library of this machine, as this interpreter has it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libc.so.6"):
            return line.split()[-1]
    raise Failed(
        "this Python does not use the GNU C library, whose malloc is what others are compared with")


def allocator_named(text):
    """NAME=PATH[,VARIABLE=VALUE...]"""
    name, _, rest = text.partition("=")
    path, *settings = rest.split(",")
    if not name or not path or any("=" not in setting for setting in settings):
        raise Failed(f"{text}: want NAME=PATH, then VARIABLE=VALUE, separated by commas")
    made = Allocator(name, path, dict(setting.split("=", 1) for setting in settings))
    made.version = owner_version(made.path)
    return made
