"""pages.py - where the memory of a small program is when it ends: by mapping, with libc's malloc
and with freehold
"""

import re
from pathlib import Path

from freehold_lab import peers
from freehold_lab.allocators import LinkedIn, libc_path, library
from freehold_lab.experiment import part_names
from freehold_lab.launch import Launch
from freehold_lab.places import Failed
from freehold_lab.programs import PROGRAMS
from freehold_lab.text import one_of, table

LIMIT = 60                                  # seconds
WINDOW = 1 << 30                            # freehold's arenas lie in aligned ones, below libc's


def add(command):
    command.add_argument("program", nargs="+", type=one_of(part_names("small")),
                         help=f"which: {', '.join(part_names('small'))}")
    command.add_argument("--library", metavar="SO", help="default: build/libfreehold.so")


def mappings(smaps):
    """(first address, name, KiB in memory, KiB of them written to) of each mapping."""
    found = []
    for line in smaps.splitlines():
        head = re.match(r"([0-9a-f]+)-[0-9a-f]+ \S{4} \S+ \S+ \d+\s*(.*)$", line)
        size = re.match(r"(Rss|Anonymous):\s+(\d+) kB", line)
        if head:
            found.append([int(head[1], 16), head[2], 0, 0])
        elif size:
            found[-1][2 if size[1] == "Rss" else 3] = int(size[2])
    return found


def kinds(smaps):
    """What lies behind a file's data without a name is its zeroed data. kind -> (KiB, written)."""
    sums, before = {}, ""
    for address, name, resident, written in mappings(smaps):
        kind = Path(name).name
        if not kind and before.endswith((".so", ".so.6", ".so.2")):
            kind = f"{before}, zeroed"
        elif not kind:
            kind = "arenas" if address // WINDOW < 0x7000 and address % WINDOW < WINDOW // 64 \
                else "other anonymous"
        before = Path(name).name
        have = sums.get(kind, (0, 0))
        sums[kind] = (have[0] + resident, have[1] + written)
    return sums


def command(options):
    both = [LinkedIn("libc", libc_path()), peers.freehold(library(options.library))]
    for name in options.program:
        if reason := PROGRAMS[name].missing():
            raise Failed(reason)
        seen = []
        for allocator in both:
            with Launch(allocator, LIMIT) as launch:
                PROGRAMS[name].run(launch, {})
                seen.append(kinds((launch.folder / "report.smaps").read_text()))
        rows = [[kind, *(str(figure) for each in seen for figure in each.get(kind, (0, 0)))]
                for kind in sorted({*seen[0], *seen[1]},
                                   key=lambda kind: -max(each.get(kind, (0,))[0] for each in seen))
                if any(each.get(kind, (0,))[0] for each in seen)]
        sums = [str(sum(pair[i] for pair in each.values())) for each in seen for i in (0, 1)]
        print(f"{name}, KiB when it ends\n\n" + table(
            ["mapping", "libc", "written", "freehold", "written"], [*rows, ["sum", *sums]]) + "\n")
    return 0
