"""building.py - what a developer's machine does all day"""

import os

from freehold_lab.places import Failed, repository
from freehold_lab.programs.program import compare, digest, made, program

COMPILERS = "gcc g++ libc6-dev make cmake"


@compare("git", "git", "git")
def git(launch):
    """gc of a history of some hundred commits over Python's standard library, with
    reads before and after."""
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(launch.folder), "GIT_CONFIG_COUNT": "1",
                   "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    stream = made(launch, "history.py", 300)
    history = launch.folder / "history.git"
    at = ["git", "-C", history]
    launch.program("git", "init", "-q", "--bare", history, environment=environment)
    launch.program(*at, "fast-import", "--quiet", give=stream, environment=environment)
    seen = []
    for words in (["log", "--stat", "main"], ["rev-list", "--objects", "--all"]):
        seen.append(digest(launch.program(*at, *words, environment=environment)))
    launch.program(*at, "gc", "--aggressive", "--prune=now", "--quiet", environment=environment)
    launch.program(*at, "fsck", "--strict", "--full", environment=environment)
    for words in (["log", "-p", "--find-renames", "-n", "150", "main"],
                  ["grep", "-n", "-e", "malloc", "main"],
                  ["archive", "--format=tar", "main"], ["shortlog", "-sn", "main"]):
        seen.append(digest(launch.program(*at, *words, environment=environment)))
    return seen


@compare("gcc", COMPILERS, "cc1")
def gcc(launch):
    """Builds freehold: configure, make, compilers, assembler, linker; the same bytes
    must come out."""
    snapshot, build = launch.folder.parent / "snapshot", launch.folder / "build"
    if not snapshot.exists():  # once for both runs: somebody may be working in the tree
        snapshot.mkdir()
        launch.client("cp", "-R",
                      *(repository() / part
                        for part in ("CMakeLists.txt", "cmake", "include", "src", "tools")),
                      snapshot)
    launch.program("cmake", "-S", snapshot, "-B", build)
    launch.program("cmake", "--build", build, "-j", os.cpu_count(), "--target", "freehold_shared",
                   "freehold_static", "freehold_debug", "freehold_command")
    libraries = sorted(path for path in build.glob("*freehold*") if path.is_file()
                       and not path.is_symlink())
    if len(libraries) < 4:
        raise Failed(f"the build left {len(libraries)} of 4 files in build/")
    return [f"{path.name} {digest(path.read_bytes())}" for path in libraries]


@program("g++", "g++", "g++", classes=6, level="-O1", quick={"classes": 2})
def gxx(launch, classes, level):
    """g++ compiles a large unit of templates"""
    made(launch, "heavy_cpp.py", classes, "heavy.cc")
    launch.program("g++", "-std=c++17", level, "-c", "heavy.cc", "-o", "heavy.o")


@compare("g++", COMPILERS, "cc1plus")
def gxx_output(launch):
    """The unit, linked and run."""
    gxx(launch, 5, "-O2")
    launch.program("g++", "heavy.o", "-o", "heavy")
    return [digest((launch.folder / "heavy.o").read_bytes()), launch.program("./heavy")]
