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

from freehold_lab.places import Failed, last_line, native

FAMILY = ("malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign")
OPERATORS = ("operator new", "operator delete")
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

    def verify(self, limit=30, probe=None, spared=()):
        """Raises Failed unless a child finds the whole family in this library and can use it; else
        its answer. The child is native/probe.cc, which may be built already; what is `spared` has
        to be there, but is not used. A version that is not known yet is what the library itself
        says."""
        try:
            run = subprocess.run([probe or native("probe"), *spared], env=self.environment(),
                                 capture_output=True, text=True, timeout=limit)
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
