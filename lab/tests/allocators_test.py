"""allocators_test.py - no library is measured that does not really serve malloc"""

import json
import subprocess
import tomllib

import pytest

from freehold_lab import allocators, peers, releases
from freehold_lab.allocators import Allocator, allocator_named, libc_path
from freehold_lab.places import Failed
from freehold_lab.workloads import Figure

FORWARD = """#include <stddef.h>
extern void *__libc_malloc(size_t); extern void __libc_free(void *);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t); extern void *__libc_memalign(size_t, size_t);
#define has_%s 1
#if !has_crash && !has_hang
void *malloc(size_t n) { return __libc_malloc(n); }
#elif has_hang
void *malloc(size_t n) { for (volatile size_t i = n;; i++) {} }
#else
void *malloc(size_t n) { *(volatile char *)n = 1; return 0; }
#endif
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
#if !has_leak
void free(void *p) { __libc_free(p); }
#endif
#if !has_slant
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
#else
void *aligned_alloc(size_t a, size_t n) { return (char *)__libc_memalign(a, n + 16) + 16; }
#endif
int posix_memalign(void **p, size_t a, size_t n) { return (*p = __libc_memalign(a, n)) ? 0 : 12; }
#if has_version
int mi_version(void) { return 30302; }
#endif
#if has_threads
_Bool MallocExtension_Internal_GetPerCpuCachesActive(void) { return 0; }
#endif
"""


@pytest.fixture
def library(tmp_path):
    """A library whose malloc family is libc's, with one fault."""
    def built(fault):
        source, made = tmp_path / f"{fault}.c", tmp_path / f"lib{fault}.so"
        source.write_text(FORWARD % fault)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", str(source), "-o",
                        str(made)], check=True)
        return Allocator(fault, str(made))
    return built


def test_libc_proves_itself():
    Allocator("libc", libc_path()).verify()


def test_a_library_with_a_whole_family_proves_itself(library):
    assert library("nothing").verify()["malloc"].endswith("libnothing.so")


FAULTS = {"leak": "free came from .*libc", "crash": "ends with -11 under it",
          "slant": "aligned_alloc does not work",
          "threads": "tcmalloc is not in its per-CPU mode; .* wants "
                     "GLIBC_TUNABLES=glibc.pthread.rseq=0"}


@pytest.mark.parametrize("fault, told", FAULTS.items(), ids=FAULTS)
def test_a_fault_is_found_and_told(library, fault, told):
    with pytest.raises(Failed, match=f"{fault}: .*{told}"):
        library(fault).verify()


def test_a_function_that_is_spared_is_found_but_not_used(library, monkeypatch):
    monkeypatch.setitem(allocators.SPARED, "slant", ("aligned_alloc",))
    assert library("slant").verify()["aligned_alloc"].endswith("libslant.so")


def test_a_library_that_hangs_is_told(library):
    with pytest.raises(Failed, match="hang: a program that uses malloc hangs under it"):
        library("hang").verify(limit=2)


def test_a_library_without_malloc_is_not_taken_for_one(allocators):
    with pytest.raises(Failed, match="math: malloc came from .*libc.*, not from .*libm"):
        allocators[1].verify()


def test_a_file_that_is_no_library_is_not_taken_for_one(tmp_path):
    file = tmp_path / "libtext.so"
    file.write_text("this is no library\n")
    with pytest.raises(Failed, match="text: malloc came from .*libc"):
        Allocator("text", str(file)).verify()


def test_a_missing_file_is_told():
    with pytest.raises(Failed, match="hoard: there is no /no/where.so"):
        allocator_named("hoard=/no/where.so")


@pytest.mark.parametrize("text", ["hoard", "=path", "hoard=", "hoard=/lib/x.so,VALUE"])
def test_a_name_without_a_path_is_told(text):
    with pytest.raises(Failed, match="want NAME=PATH, then VARIABLE=VALUE"):
        allocator_named(text)


def test_variables_come_with_the_library():
    made = allocator_named(f"mine={libc_path()},A=1,B=x=y")
    assert made.settings() == {"LD_PRELOAD": made.path, "A": "1", "B": "x=y"}


def test_the_version_of_a_debian_library_is_its_packages():
    assert allocator_named(f"mine={libc_path()}").version.startswith("libc6 ")


def test_the_version_of_another_library_is_what_it_says_itself(library):
    made = library("version")
    made.verify()
    assert made.version == "3.3.2"
    made.version = "known"
    made.verify()
    assert made.version == "known"


def test_a_version_that_another_library_of_the_process_says_is_not_taken(library, tmp_path):
    saying, silent = library("version"), library("nothing")
    silent.variables = {"LD_PRELOAD": f"{silent.path}:{saying.path}"}
    silent.verify()
    assert silent.version == ""


def test_every_peer_is_pinned_and_has_a_way_to_be_made():
    pins = tomllib.loads((peers.SOURCES / "Cargo.toml").read_text())["dependencies"]
    packages = tomllib.loads((peers.SOURCES / "Cargo.lock").read_text())["package"]
    locked = {package["name"]: package for package in packages}
    targets = (peers.SOURCES / "CMakeLists.txt").read_text()
    for peer in peers.PEERS.values():
        if peer.crate:
            assert pins[peer.crate].startswith("=")
            assert locked[peer.crate]["version"].split("+")[0] == pins[peer.crate].lstrip("=") and \
                len(locked[peer.crate]["checksum"]) == 64
            assert peer.name in targets or peer.name.rstrip("23") in targets
        elif peer.name != "libc":
            assert "=" in peer.package and peer.library


REGISTRIES = {
    "cargo": """case $3 in
      tikv-jemalloc-sys) echo "tikv-jemalloc-sys"; echo "version: 0.7.1+5.3.1 (latest 0.8.0+5.4)" ;;
      hoard-sys) echo "version: 0.0.9" ;;
      rpmalloc-sys) echo "error: could not find it" >&2; exit 101 ;;
      snmalloc-sys) echo "version: $SNMALLOC+abc" ;;
    esac""",
    "apt-cache": """echo "$2:"; echo "  Installed: (none)"; case $2 in
      libtbbmalloc2) echo "  Candidate: 2021.8.0-2+deb12u1" ;;
      *) echo "  Candidate: (none)" ;;
    esac"""}


def test_peers_that_are_behind_their_registries_are_told(monkeypatch, tmp_path):
    for name, body in REGISTRIES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SNMALLOC", peers.crate_version("snmalloc-sys"))
    found = {name: releases.compare(peers.PEERS[name])[2:]
             for name in ("jemalloc", "hoard", "rpmalloc", "snmalloc", "tbbmalloc", "gperftools")}
    assert found["jemalloc"] == ("0.8.0", "behind") and found["hoard"] == ("0.0.9", "behind")
    assert found["snmalloc"] == (peers.crate_version("snmalloc-sys"), "newest")
    assert found["tbbmalloc"] == ("2021.8.0-2+deb12u1", "newest")
    assert found["rpmalloc"][1] == "not known: rpmalloc-sys: error: could not find it"
    assert found["gperftools"][1] == "not known: libtcmalloc-minimal4: apt knows no version"
    monkeypatch.setattr(peers, "PEERS", {"snmalloc": peers.PEERS["snmalloc"]})
    assert releases.command() == 0
    monkeypatch.setenv("SNMALLOC", "99.0")
    assert releases.command() == 1


def test_what_is_remembered_of_libc_is_what_the_machine_has_now(monkeypatch, tmp_path):
    monkeypatch.setenv("FREEHOLD_LAB_CACHE", str(tmp_path))
    old = {"name": "libc", "path": libc_path(), "variables": {},
           "version": "from before an upgrade"}
    (tmp_path / "peers.json").write_text(json.dumps({"libc": old}))
    assert peers.remembered()["libc"].version.startswith("glibc ")


def test_an_unknown_peer_is_told_with_those_there_are():
    with pytest.raises(Failed, match="no peer dlmalloc; there are libc, mimalloc3"):
        peers.chosen(["dlmalloc"])


def test_a_figure_is_better_lower_unless_said_otherwise():
    assert Figure("ns").lower_is_better
