"""releases.py - which peers are behind the newest release that their registry has

Asks the registries' own clients: `cargo info` and `apt-cache policy`. Nothing is fetched or
changed; what a registry does not tell is named.
"""

import re
import tempfile

from freehold_lab import peers
from freehold_lab.places import Failed, must
from freehold_lab.text import table

BEHIND, NEWEST = "behind", "newest"
CARGO = re.compile(r"^version: (\S+)(?: \(latest (\S+)\))?", re.M)
CANDIDATE = re.compile(r"^  Candidate: (\S+)$", re.M)


def crate_of(name):
    """The newest version of a crate. Not in a folder with a Cargo.toml: that would choose."""
    with tempfile.TemporaryDirectory() as folder:
        found = CARGO.search(must(["cargo", "info", "--quiet", name], name, cwd=folder))
    if not found:
        raise Failed(f"{name}: cargo names no version")
    return (found[2] or found[1]).partition("+")[0]


def package_of(name):
    """The version of a package that apt would install."""
    found = CANDIDATE.search(must(["apt-cache", "policy", name], name))
    if not found or found[1] == "(none)":
        raise Failed(f"{name}: apt knows no version")
    return found[1]


def compare(peer):
    """(what is asked about, the version that is pinned, the newest, a word or why not)."""
    if peer.crate:
        what, pinned, ask = peer.crate, peers.crate_version(peer.crate), crate_of
    else:
        what, pinned = peer.package.split("=")
        ask = package_of
    try:
        newest = ask(what)
    except Failed as problem:
        return what, pinned, "", f"not known: {problem}"
    return what, pinned, newest, NEWEST if newest == pinned else BEHIND


def command():
    """Prints a row for each peer that comes from a registry. The exit code: 0 all are the newest, 1
    one is behind or not known."""
    rows = [(peer.name, *compare(peer)) for peer in peers.PEERS.values()
            if peer.crate or peer.package]
    print(table(("peer", "from", "pinned", "newest", ""), rows, left=5))
    return 0 if all(row[-1] == NEWEST for row in rows) else 1
