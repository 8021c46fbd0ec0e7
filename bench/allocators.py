"""allocators.py - what freehold is measured beside: Debian's packages, and what a
program has anyway

Calls:   freehold_lab, out of lab/: how a library is put under a program, and the proof that it
         serves malloc there. Of that package only what the standard library is enough for may be
         used in bench/: nothing installs the rest.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))
from freehold_lab import allocators, peers  # noqa: E402
from freehold_lab.places import Failed  # noqa: E402

# The packages of the peers and their libraries, in the order of the tables.
PACKAGES = {
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2"),
    "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
}
PEERS = ("libc", *PACKAGES)
# What the proof does not use of a peer: 2.0.9 gives blocks that are not aligned. No
# workload of the page calls it.
KNOWN_FAULTS = {"mimalloc": ("aligned_alloc",)}


class InPlace(allocators.Allocator):
    """What serves a program without being preloaded: the C library, or an allocator that is linked
    in. Its `path` is the file that malloc has to come from."""

    def settings(self):
        return dict(self.variables)


def allocator_named(text):
    """A peer by its name, or any library: NAME=PATH[,VARIABLE=VALUE...]"""
    if "=" in text:
        return allocators.allocator_named(text)
    if text == "libc":
        path = allocators.libc_path()
        return InPlace(text, path, {}, allocators.owner_version(path))
    if text not in PACKAGES:
        raise Failed(f"{text}: not one of {', '.join(PEERS)}; say where it is: {text}=PATH")
    package, library = PACKAGES[text]
    try:
        path = peers.library_of(package, library)
    except Failed as problem:
        raise Failed(f"{text}: {problem}") from None
    if path is None:
        raise Failed(f"{text}: no {library} here; Debian's package is {package}")
    return allocators.allocator_named(f"{text}={path}")
