"""order.py - which functions of the library small programs execute: the list by which its
build puts them side by side

The system maps 16 pages around the one that is touched. So functions that are spread over the
file cost a small program more memory than all else that the library does.
"""

import re
from collections import Counter
from pathlib import Path

from freehold_lab import peers
from freehold_lab.allocators import library
from freehold_lab.experiment import part_names
from freehold_lab.places import Failed, write
from freehold_lab.programs import PROGRAMS
from freehold_lab.progress import say
from freehold_lab.valgrind import Profiled

HEAD = """# What small programs execute, the most common first; order.cmake reads it. Made by
# `./dev lab order --out cmake/order.txt`: functions that at least {least} of {count} tools call.
"""


def add(command):
    command.add_argument("--library", metavar="SO", help="default: build/libfreehold.so")
    command.add_argument("--least", type=int, default=1, metavar="N",
                         help="leave out what fewer tools call (1)")
    command.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")


def functions(profile, path):
    """The names of the library's functions in callgrind's profile. What the compiler made of a
    function counts as that."""
    found, is_ours = set(), False
    for line in profile.splitlines():
        if line.startswith("ob="):
            is_ours = line.endswith(Path(path).name)
        elif line.startswith("fn=") and is_ours:
            name = re.match(r"fn=(?:\(\d+\) ?)?([A-Za-z_]\w*)", line)
            if name and not name[1].startswith("__"):
                found.add(name[1])
    return found


def listed(counts, least, count):
    names = sorted((name for name in counts if counts[name] >= least),
                   key=lambda name: (-counts[name], name))
    return HEAD.format(least=least, count=count) + "".join(f"{name}\n" for name in names)


def command(options):
    ours, counts, ran = peers.freehold(library(options.library)), Counter(), 0
    for name in part_names("small"):
        if reason := PROGRAMS[name].missing():
            say(f"{name}: left out: {reason}")
            continue
        with Profiled(ours, "callgrind", "--compress-strings=no", "--compress-pos=no") as launch:
            PROGRAMS[name].run(launch, {})
            counts.update(functions(launch.costs["profile"], ours.path))
        ran += 1
    if not counts:
        raise Failed("no tool ran, or callgrind saw no function of the library")
    text = listed(counts, options.least, ran)
    if options.out:
        write(options.out, text)
    else:
        print(text, end="")
    return 0
