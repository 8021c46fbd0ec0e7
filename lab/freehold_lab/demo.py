"""demo.py - `./dev demo`: real programs on real input, each with libc's malloc and with freehold,
in one table"""

import json
import os
import statistics
from pathlib import Path

from freehold_lab import experiment
from freehold_lab.allocators import Allocator, libc_path, library, name_of
from freehold_lab.launch import Launch
from freehold_lab.programs import PROGRAMS
from freehold_lab.progress import say
from freehold_lab.runner import Runner, Setting
from freehold_lab.store import Store
from freehold_lab.text import one_of, positive, table
from freehold_lab.workloads import all_workloads

PARTS = experiment.part_names("demo")
# title, key, what is one, how it is shown
COLUMNS = [("time, s", "seconds", 1, "{:.2f}"), ("peak resident, MiB", "peak_kib", 1024, "{:.1f}"),
           ("page faults", "faults", 1, "{:.0f}"), ("system calls", "system_calls", 1, "{:.0f}"),
           ("of them mmap, brk ...", "memory_calls", 1, "{:.0f}")]


def add(command):
    command.add_argument("program", nargs="*", type=one_of(PARTS),
                         help=f"which (all): {', '.join(PARTS)}")
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
            "faults": statistics.median(r["faults"] for r in same),
            **({"system_calls": count["system_calls"], "memory_calls": count["calls"]}
               if count else {})}
    return found


def shown(results, base, ours):
    """One line a program; three columns a quantity: with libc, with ours, ours / libc."""
    groups, head, rows, ratios = [""], ["program"], [], {key: [] for _, key, _, _ in COLUMNS}
    for title, *_ in COLUMNS:
        groups += [title, "", ""]
        head += [base, ours, "ratio"]
    for name, result in results.items():
        row = [name]
        for _, key, unit, text in COLUMNS:
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
    chosen = experiment.load(experiment.find("demo"), workloads := all_workloads(build=False))
    chosen.replicates = options.rounds
    chosen.parts = [part for part in chosen.parts
                    if not options.program or part.name in options.program]
    libc = Allocator("libc", libc_path())
    store = Store(":memory:")
    failed = Runner(store, Setting(chosen, [libc, ours], {}, None, ["demo"]), workloads, say).run()
    found = results_of(store)
    results = {part.name: found[part.name] for part in chosen.parts if part.name in found}
    print(f"{os.cpu_count()} processors, {options.rounds} rounds in random order, medians; ratio "
          f"below 1: {ours.name} needs less\n")
    print(shown(results, "libc", ours.name))
    if ours.name == "freehold" and not failed:
        name = "perl" if "perl" in results else next(iter(results))
        settings = ",".join(filter(None, [caller, "stats:exit"]))
        print(f"\n{ours.name}'s statistics of {name} (FREEHOLD_OPTIONS={settings}):\n\n"
              f"{statistics_of(name, ours, settings)}")
    if options.json:
        options.json.write_text(json.dumps({"library": ours.name, "rounds": options.rounds,
                                            "programs": results}, indent=1) + "\n")
    return 1 if failed else 0
