"""build.py - cases: what a developer's machine does all day"""

import os
import sys

from cases.case import case, digest
from running import ROOT, WORK, Failed

COMPILERS = "gcc g++ libc6-dev make cmake"


@case("git", "git", main="git")
def git(run):
    """gc of a history of some hundred commits over Python's standard library, with
    reads before and after."""
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(run.folder), "GIT_CONFIG_COUNT": "1",
                   "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    stream = run.client(sys.executable, WORK / "history.py", "300")
    repository = run.folder / "history.git"
    at = ["git", "-C", repository]
    run.program("git", "init", "-q", "--bare", repository, environment=environment)
    run.program(*at, "fast-import", "--quiet", give=stream, environment=environment)
    seen = []
    for words in (["log", "--stat", "main"], ["rev-list", "--objects", "--all"]):
        seen.append(digest(run.program(*at, *words, environment=environment)))
    run.program(*at, "gc", "--aggressive", "--prune=now", "--quiet", environment=environment)
    run.program(*at, "fsck", "--strict", "--full", environment=environment)
    for words in (["log", "-p", "--find-renames", "-n", "150", "main"],
                  ["grep", "-n", "-e", "malloc", "main"],
                  ["archive", "--format=tar", "main"], ["shortlog", "-sn", "main"]):
        seen.append(digest(run.program(*at, *words, environment=environment)))
    return seen


@case("gcc", COMPILERS, main="cc1")
def gcc(run):
    """Builds freehold: configure, make, compilers, assembler, linker; the same bytes
    must come out."""
    snapshot, build = run.folder.parent / "snapshot", run.folder / "build"
    if not snapshot.exists():  # once for both runs: somebody may be working in the tree
        snapshot.mkdir()
        run.client("cp", "-R",
                   *(ROOT / part
                     for part in ("CMakeLists.txt", "cmake", "include", "src", "tools")),
                   snapshot)
    run.program("cmake", "-S", snapshot, "-B", build)
    run.program("cmake", "--build", build, "-j", os.cpu_count(), "--target", "freehold_shared",
                "freehold_static", "freehold_debug", "freehold_command")
    libraries = sorted(path for path in build.glob("*freehold*") if path.is_file()
                       and not path.is_symlink())
    if len(libraries) < 4:
        raise Failed(f"the build left {len(libraries)} of 4 files in build/")
    return [f"{path.name} {digest(path.read_bytes())}" for path in libraries]


@case("g++", COMPILERS, main="cc1plus")
def gxx(run):
    """A large translation unit of templates, linked and run."""
    run.client(sys.executable, WORK / "heavy_cpp.py", "5", "heavy.cc")
    run.program("g++", "-std=c++17", "-O2", "-c", "heavy.cc", "-o", "heavy.o")
    run.program("g++", "heavy.o", "-o", "heavy")
    return [digest((run.folder / "heavy.o").read_bytes()), run.program("./heavy")]
