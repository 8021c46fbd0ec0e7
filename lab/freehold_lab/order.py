"""order.py - which functions of the library small programs execute: the list by which its
build puts them side by side

The system maps 16 pages around the one that is touched. So functions that are spread over the
file cost a small program more memory than all else that the library does.
"""

import re
import subprocess
from bisect import bisect_right
from collections import Counter
from pathlib import Path

from freehold_lab import peers
from freehold_lab.allocators import library
from freehold_lab.experiment import part_names
from freehold_lab.places import Failed, write
from freehold_lab.programs import PROGRAMS
from freehold_lab.progress import say
from freehold_lab.valgrind import Profiled

FEW = 4                                     # tools
HEAD = """# What small programs execute, the most common first; order.cmake reads it. Made by
# `./dev lab order --out cmake/order.txt`: functions that at least {least} of {count} tools call.
# NAME.hot: not what the compiler split off as unlikely.
"""


def add(command):
    command.add_argument("--library", metavar="SO", help="default: build/libfreehold.so")
    command.add_argument("--least", type=int, default=1, metavar="N",
                         help="leave out what fewer tools call (1)")
    command.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")


def symbols(path):
    """(first address, end, name) of each function, in order. NAME.cold is what the compiler split
    off NAME as unlikely."""
    text = subprocess.run(["nm", "-nS", path], check=True, capture_output=True, text=True).stdout
    return [(int(at, 16), int(at, 16) + int(size, 16), name) for at, size, name
            in re.findall(r"^(\S+) (\S+) [tTwW] (\S+)$", text, re.M)]


def executed(profile, path):
    """(function, address) of what callgrind saw executed of the library. What the compiler made of
    a function counts as that, and a jump into the middle of NAME.cold as NAME."""
    found, is_ours, name = [], False, None
    for line in profile.splitlines():
        if line.startswith("ob="):
            is_ours = line.endswith(Path(path).name)
        elif line.startswith("fn="):
            name = re.match(r"fn=(?:\(\d+\) ?)?((?!operator|__)[A-Za-z_]\w*)", line)
        elif is_ours and name and line.startswith("0x"):
            found.append((name[1], int(line.split()[0], 16)))
    return found


def functions(profile, path):
    """The names of the library's functions in callgrind's profile."""
    known, found, firsts = symbols(path), executed(profile, path), {}
    for name, at in found:
        firsts[name] = min(at, firsts.get(name, at))
    bases = Counter(firsts[name] - at for at, _, name in known if name in firsts)
    cold = [part for part in known if part[2].endswith(".cold")]
    if not bases or not cold:
        return set(firsts)
    base = bases.most_common(1)[0][0]
    starts = [at for at, _, _ in cold]
    for _, at in found:
        first, end, name = cold[bisect_right(starts, at - base) - 1]
        if first <= at - base < end:
            firsts[f"{name.split('.')[0]}.cold"] = at
    return set(firsts)


def listed(counts, least, count, path):
    """Of those that as many tools call, or that a few do, the smallest come first."""
    sizes = {name: end - at for at, end, name in symbols(path)}
    names = sorted((name for name in counts if counts[name] >= least and "." not in name),
                   key=lambda name: (-max(counts[name], FEW), sizes.get(name, 0), name))
    marks = {name.split(".")[0]: ".hot" for name in sizes if name.endswith(".cold")
             and counts[f"{name.split('.')[0]}.cold"] < least}
    return HEAD.format(least=least, count=count) + "".join(
        f"{name}{marks.get(name, '')}\n" for name in names)


def command(options):
    ours, counts, ran = peers.freehold(library(options.library)), Counter(), 0
    for name in part_names("small"):
        if reason := PROGRAMS[name].missing():
            say(f"{name}: left out: {reason}")
            continue
        with Profiled(ours, "callgrind", "--dump-instr=yes", "--compress-strings=no",
                      "--compress-pos=no") as launch:
            PROGRAMS[name].run(launch, {})
            each = [functions(profile, ours.path) for profile in launch.costs["profiles"]]
            counts.update(set().union(*each))
        ran += 1
    if not counts:
        raise Failed("no tool ran, or callgrind saw no function of the library")
    text = listed(counts, options.least, ran, ours.path)
    if options.out:
        write(options.out, text)
    else:
        print(text, end="")
    return 0
