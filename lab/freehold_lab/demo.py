"""demo.py - `./dev demo`: real programs on real input, each with libc's malloc and with freehold,
in one table"""

import json
import os
import statistics
from pathlib import Path

from freehold_lab import experiment
from freehold_lab.allocators import Allocator, LinkedIn, libc_path, library, name_of
from freehold_lab.launch import Launch
from freehold_lab.places import Failed
from freehold_lab.programs import PROGRAMS
from freehold_lab.progress import say
from freehold_lab.runner import Runner, Setting
from freehold_lab.store import Store
from freehold_lab.text import one_of, positive, table
from freehold_lab.workloads import all_workloads

PARTS = experiment.part_names("demo")
SMALL = experiment.part_names("small")
# title, key, what is one, how it is shown
COLUMNS = [("time, s", "seconds", 1, "{:.2f}"), ("peak resident, MiB", "peak_kib", 1024, "{:.1f}"),
           ("page faults", "faults", 1, "{:.0f}"), ("system calls", "system_calls", 1, "{:.0f}"),
           ("of them mmap, brk ...", "memory_calls", 1, "{:.0f}")]
COLUMNS_OF_SMALL = [("peak resident, KiB", "peak_kib", 1, "{:.0f}"),
                    ("private at the end, KiB", "private_kib", 1, "{:.0f}"), *COLUMNS[2:]]


def add(command):
    command.add_argument("program", nargs="*", type=one_of([*PARTS, *SMALL]),
                         help=f"which ({', '.join(PARTS)}), or: {', '.join(SMALL)}")
    command.add_argument("--small", action="store_true",
                         help="tools that need a few MB in all instead")
    command.add_argument("--rounds", type=positive, default=3,
                         help="runs of each; the median counts (3)")
    command.add_argument("--json", metavar="FILE", type=Path,
                         help="write the results there as well")
    command.add_argument("--library", metavar="SO",
                         help="compare this allocator instead (build/libfreehold.so)")


def results_of(store):
    """program -> allocator -> medians and counts."""
    runs, counts, found = [run for run in store.runs() if run["ended"] == "ok"], store.counts(), {}
    for run in runs:
        same = [r for r in runs if (r["cell"], r["allocator"]) == (run["cell"], run["allocator"])]
        count = counts.get((run["cell"], run["allocator"]), {})
        found.setdefault(run["part"], {})[run["allocator"]] = {
            "seconds": statistics.median(json.loads(r["figures"])["seconds"] for r in same),
            "cpu_seconds": statistics.median(r["user"] + r["system"] for r in same),
            "peak_kib": statistics.median(r["peak"] for r in same) / 1024,
            "private_kib": statistics.median(
                json.loads(r["figures"]).get("private", 0) for r in same) / 1024,
            "faults": statistics.median(r["faults"] for r in same),
            **({"system_calls": count["system_calls"], "memory_calls": count["calls"]}
               if count else {})}
    return found


def shown(results, base, ours, columns):
    """One line a program; three columns a quantity: with libc, with ours, ours / libc."""
    groups, head, rows, ratios = [""], ["program"], [], {key: [] for _, key, _, _ in columns}
    for title, *_ in columns:
        groups += [title, "", ""]
        head += [base, ours, "ratio"]
    for name, result in results.items():
        row = [name]
        for _, key, unit, text in columns:
            one, other = (result.get(allocator, {}).get(key) for allocator in (base, ours))
            if one is None or other is None:
                row += ["-", "-", "-"]
                continue
            ratios[key].append(other / one)
            row += [text.format(one / unit), text.format(other / unit), f"{other / one:.2f}"]
        rows.append(row)
    mean = ["geometric mean"]
    for values in ratios.values():
        mean += ["", "", f"{statistics.geometric_mean(values):.2f}" if values else "-"]
    return table(head, [*rows, mean], groups=groups)


def statistics_of(name, allocator, options):
    """What freehold itself says of one of the programs; other libraries have no such option."""
    with Launch(allocator, 120, variables={"FREEHOLD_OPTIONS": options}) as launch:
        PROGRAMS[name].run(launch, {})
        errors = launch.folder / ("errors" if name != "redis" else "server.log")
        return errors.read_text(errors="replace").rstrip()


def command(options):
    path = library(options.library)
    caller = os.environ.get("FREEHOLD_OPTIONS")
    ours = Allocator(name_of(path), path, {"FREEHOLD_OPTIONS": caller} if caller else {})
    ours.verify()
    is_small = options.small or any(name in SMALL for name in options.program)
    if others := [name for name in options.program if is_small and name not in SMALL]:
        raise Failed(f"{', '.join(others)}: not one of the small programs, which run by themselves")
    chosen = experiment.load(experiment.find("small" if is_small else "demo"),
                             workloads := all_workloads(build=False))
    chosen.replicates = options.rounds
    chosen.parts = [part for part in chosen.parts
                    if not options.program or part.name in options.program]
    # the loader's work for a preloaded libc would differ by as many calls as are of interest
    libc = (LinkedIn if is_small else Allocator)("libc", libc_path())
    store = Store(":memory:")
    failed = Runner(store, Setting(chosen, [libc, ours], {}, None, ["demo"]), workloads, say).run()
    found = results_of(store)
    results = {part.name: found[part.name] for part in chosen.parts if part.name in found}
    print(f"{os.cpu_count()} processors, {options.rounds} rounds in random order, medians; ratio "
          f"below 1: {ours.name} needs less\n")
    print(shown(results, "libc", ours.name, COLUMNS_OF_SMALL if is_small else COLUMNS))
    if ours.name == "freehold" and not failed and not is_small:
        name = "perl" if "perl" in results else next(iter(results))
        settings = ",".join(filter(None, [caller, "stats:exit"]))
        print(f"\n{ours.name}'s statistics of {name} (FREEHOLD_OPTIONS={settings}):\n\n"
              f"{statistics_of(name, ours, settings)}")
    if options.json:
        options.json.write_text(json.dumps({"library": ours.name, "rounds": options.rounds,
                                            "programs": results}, indent=1) + "\n")
    return 1 if failed else 0
