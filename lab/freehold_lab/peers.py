"""peers.py - the allocators that freehold is compared with: from package registries,
by name and pinned version

Owns:    CACHE/crates (sources), CACHE/peers (builds), CACHE/peers.json (what is
         there and was verified).
Calls:   cargo (fetches the crates that carry C and C++ sources; nothing of theirs in Rust
         is built), cmake, apt-get.
"""

import json
import os
import platform
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from freehold_lab.allocators import Allocator, allocator_named, libc_path, owner_version
from freehold_lab.machine import commit
from freehold_lab.places import PACKAGE, Failed, cache, command_path, configure, must

SOURCES = PACKAGE / "peer_sources"
# Google's per-CPU mode wants the restartable sequence that glibc 2.35 and newer
# register for themselves.
NO_RSEQ = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


@dataclass(frozen=True)
class Peer:
    name: str
    release: str                            # the allocator's own version
    crate: str = ""                         # the crate that carries its source, or ...
    package: str = ""                       # ... Debian's package with its version, and ...
    library: str = ""                       # ... the file that it puts into the library folder
    variables: dict = field(default_factory=dict)
    is_extra: bool = False                  # takes part only where it is named


PEERS = {peer.name: peer for peer in (
    Peer("libc", platform.libc_ver()[1]),
    Peer("mimalloc3", "3.3.2", crate="libmimalloc-sys"),
    Peer("mimalloc2", "2.3.2", crate="libmimalloc-sys"),
    Peer("snmalloc", "0.7.6", crate="snmalloc-sys"),
    Peer("jemalloc", "5.3.1", crate="tikv-jemalloc-sys"),
    Peer("tcmalloc-google", "of June 2025", crate="libtcmalloc-sys", variables=NO_RSEQ),
    Peer("hardened-malloc", "of July 2026", crate="hardened-malloc-sys"),
    Peer("mimalloc3-secure", "3.3.2", crate="libmimalloc-sys", is_extra=True),
    Peer("snmalloc-checks", "0.7.6", crate="snmalloc-sys", is_extra=True),
    Peer("hoard", "3.13.0", crate="hoard-sys", is_extra=True),
    Peer("rpmalloc", "1.4.3", crate="rpmalloc-sys"),
    Peer("gperftools", "2.10", package="libtcmalloc-minimal4=2.10-1",
         library="libtcmalloc_minimal.so.4"),
    Peer("tbbmalloc", "2021.8", package="libtbbmalloc2=2021.8.0-2+deb12u1",
         library="libtbbmalloc_proxy.so.2"),
)}


# What `freehold-lab bench` compares with: what a program has anyway, and Debian's packages.
DEBIAN = {peer.name: peer for peer in (
    PEERS["libc"],
    Peer("jemalloc", "", package="libjemalloc2", library="libjemalloc.so.2"),
    Peer("mimalloc", "", package="libmimalloc2.0", library="libmimalloc.so.2"),
    Peer("tcmalloc", "", package="libtcmalloc-minimal4", library="libtcmalloc_minimal.so.4"),
)}


def debian(text):
    """One of these by its name, or any library: NAME=PATH[,VARIABLE=VALUE...]"""
    if "=" in text:
        return allocator_named(text)
    if text not in DEBIAN:
        raise Failed(f"{text}: not one of {', '.join(DEBIAN)}; say where it is: {text}=PATH")
    peer = DEBIAN[text]
    path = library_of(peer.package, peer.library) if peer.package else libc_path()
    if path is None:
        raise Failed(f"{text}: no {peer.library} here; Debian's package is {peer.package}")
    return allocator_named(f"{text}={path}")


def freehold(path):
    return Allocator("freehold", path, {}, commit())


def chosen(names):
    for name in names:
        if name not in PEERS:
            raise Failed(f"no peer {name}; there are {', '.join(PEERS)}")
    return [PEERS[name] for name in names or usual(PEERS)]


def usual(names):
    """Those that take part without being named."""
    return [name for name in names if not PEERS[name].is_extra]


def crate_version(crate):
    pins = tomllib.loads((SOURCES / "Cargo.toml").read_text())["dependencies"]
    return pins[crate].lstrip("=")


def fetch_crates():
    """The crates' sources, checked by cargo against the checksums of Cargo.lock."""
    folder = cache() / "crates"
    lock, done = SOURCES / "Cargo.lock", folder / "done"
    if done.is_file() and done.read_text() == lock.read_text():
        return folder / "vendor"
    if command_path("cargo") is None:
        raise Failed("no cargo to fetch the peers' sources with; Debian 12's package is cargo-web")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(SOURCES / "Cargo.toml", folder)
    shutil.copy(lock, folder)
    (folder / "none.rs").touch()
    must(["cargo", "vendor", "--locked", "--manifest-path", folder / "Cargo.toml",
          folder / "vendor"],
         "fetching the peers' crates")
    shutil.copy(lock, done)
    return folder / "vendor"


def build(peer, jobs):
    """The library of a peer that comes as a crate."""
    folder = cache() / "peers"
    configure(SOURCES, folder, "configuring the peers", f"-DVENDOR={fetch_crates()}")
    must(["cmake", "--build", folder, "--target", peer.name, "--parallel", jobs],
         f"building {peer.name}")
    return folder / "lib" / f"lib{peer.name}.so"


def installed(peer):
    """The library of a peer that comes from Debian; installed by apt-get if it is
    missing and we are root."""
    name = peer.package.split("=")[0]
    if not library_of(name, peer.library):
        if os.getuid() != 0:
            raise Failed(
                f"missing; as root: apt-get install --no-install-recommends {peer.package}")
        must(["apt-get", "install", "-q", "-y", "--no-install-recommends", peer.package],
             f"installing {peer.package}", env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    found = library_of(name, peer.library)
    if not found:
        raise Failed(f"{peer.package} has no {peer.library}")
    return found


def library_of(package, library):
    try:
        files = subprocess.run(["dpkg-query", "-L", package], capture_output=True,
                               text=True).stdout.splitlines()
    except FileNotFoundError:
        raise Failed(
            "no dpkg here: this is no Debian; say where the library is: NAME=PATH") from None
    return next((file for file in files if Path(file).name == library and Path(file).is_file()),
                None)


def make(peer, jobs):
    """The peer as an Allocator that a child has proved."""
    if peer.crate:
        version = f"{peer.release} (crate {peer.crate} {crate_version(peer.crate)})"
        made = Allocator(peer.name, build(peer, jobs), dict(peer.variables), version)
    elif peer.package:
        path = installed(peer)
        made = Allocator(peer.name, path, dict(peer.variables),
                         f"{peer.release} ({owner_version(path)})")
    else:
        path = libc_path()
        made = Allocator(peer.name, path, {},
                         f"{platform.libc_ver()[0]} {peer.release} ({owner_version(path)})")
    made.verify()
    return made


def remembered():
    """The peers that an earlier `make_all` verified, as Allocators by name, in the order
    of the table; libc always."""
    file = cache() / "peers.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    found = {"libc": make(PEERS["libc"], 1)}
    for name in PEERS:
        if name not in found and name in known and Path(known[name]["path"]).is_file():
            found[name] = Allocator(**known[name])
    return found


def make_all(names, jobs, say):
    """Makes each; `say` hears of every one, and why one is left out. The verified and
    the reasons of the others."""
    file = cache() / "peers.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    made, left_out = {}, {}
    for number, peer in enumerate(wanted := chosen(names), 1):
        say(f"{number} of {len(wanted)}: {peer.name} {peer.release}")
        try:
            made[peer.name] = make(peer, jobs)
            say(f"{peer.name}: {made[peer.name].version}: verified")
        except Failed as problem:
            left_out[peer.name] = str(problem).removeprefix(f"{peer.name}: ")
            known.pop(peer.name, None)
            say(f"{peer.name}: left out: {left_out[peer.name]}")
    known |= {name: vars(allocator) for name, allocator in made.items()}
    new = file.with_suffix(".new")
    new.write_text(json.dumps(known, indent=1) + "\n")
    new.replace(file)
    return made, left_out
