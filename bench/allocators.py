"""allocators.py - the libraries that are measured, and the proof that each really serves malloc

Owns:    where the peers lie, and how a library is put under a program.
"""

import json
import os
import subprocess
from pathlib import Path

# Debian's packages of the peers, in the order of the tables.
PEERS = {
    "libc": None,
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2"),
    "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
}
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/riscv64-linux-gnu", "/usr/lib64",
           "/usr/lib", "/usr/local/lib")
FAMILY = ("malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign")


class Failed(Exception):
    """Something could not be measured; the message is one line for the person who reads the tables."""


class Allocator:
    """A library to preload (`path`), or what the program has anyway (None)."""

    def __init__(self, name, path, variables=None, origin=None):
        self.name = name
        self.path = str(Path(path).resolve()) if path else None
        self.variables = variables or {}
        self.origin = origin            # the file that malloc must come from, if nothing is preloaded
        if self.path and not Path(self.path).is_file():
            raise Failed(f"{name}: there is no {path}")

    def environment(self, extra=None):
        """What a program gets: nothing of the caller's that could change an allocator."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("LD_", "MALLOC", "MIMALLOC", "TCMALLOC", "FREEHOLD", "GLIBC_TUNABLES"))}
        preload = {"LD_PRELOAD": self.path} if self.path else {}
        return {**kept, **preload, **self.variables, **(extra or {})}

    def check_origin(self, origin):
        """Raises Failed unless `origin`, where a program found its malloc, is this allocator's file."""
        real = str(Path(origin).resolve())
        if self.path or self.origin:
            wanted = self.path or str(Path(self.origin).resolve())
            if real != wanted:
                raise Failed(f"{self.name}: malloc came from {real} instead of {wanted}")
        elif not Path(origin).name.startswith(("libc.", "ld-musl")):
            raise Failed(f"{self.name}: malloc came from {real} instead of libc")

    def verify(self, programs):
        """Raises Failed unless a child that preloads the library finds the whole family there and can use it."""
        try:
            run = subprocess.run([str(Path(programs, "whose"))], env=self.environment(), capture_output=True, text=True,
                                 timeout=30)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name}: a program that calls malloc hangs under it") from None
        if run.returncode != 0:
            reason = run.stderr.strip().splitlines()
            raise Failed(f"{self.name}: a program that calls malloc ends with {run.returncode} under it"
                         + (f": {reason[-1]}" if reason else ""))
        answer = json.loads(run.stdout)
        for function in FAMILY:
            try:
                self.check_origin(answer[function])
            except Failed as failure:
                raise Failed(str(failure).replace("malloc came", f"{function} came")) from None


def peer_path(name):
    """Where Debian puts the library of a peer that is known by name."""
    package, file = PEERS[name]
    for folder in FOLDERS:
        if Path(folder, file).is_file():
            return Path(folder, file)
    raise Failed(f"{name}: no {file} here; Debian's package is {package}")


def allocator_named(text):
    """NAME of a known peer, or NAME=PATH with variables of its own: NAME=PATH,VARIABLE=VALUE..."""
    name, _, rest = text.partition("=")
    if rest:
        path, *settings = rest.split(",")
        if any("=" not in setting for setting in settings):
            raise Failed(f"{text}: after the path come VARIABLE=VALUE, separated by commas")
        return Allocator(name, path, dict(setting.split("=", 1) for setting in settings))
    if name not in PEERS:
        raise Failed(f"{name}: not one of {', '.join(PEERS)}; say where it is: {name}=PATH")
    return Allocator(name, peer_path(name) if PEERS[name] else None)


def allocators_named(texts):
    return [allocator_named(text) for text in texts]
