"""bench.py - `./dev bench`: the experiment `bench` with freehold and Debian's allocators, as tables
of medians, and what it is held against"""

import json
import os
from pathlib import Path
from statistics import median, quantiles

from freehold_lab import experiment, peers
from freehold_lab.allocators import library, proved
from freehold_lab.goals import GOALS, best_peer, goal_is_met, goal_value, middle
from freehold_lab.places import Failed, repository
from freehold_lab.progress import say
from freehold_lab.runner import Setting, carry_out
from freehold_lab.store import Store
from freehold_lab.text import positive, shown, table
from freehold_lab.workloads import Figure, all_workloads

# Where not the workload's main figure is shown.
FIGURES = {"burst-background": Figure("excess_later", "bytes")}


def add(command):
    command.add_argument("--rounds", type=positive, metavar="N", help="default 5; 2 with --quick")
    command.add_argument("--only", action="append", default=[], metavar="TEXT",
                         help="parts whose name contains TEXT; may be repeated")
    command.add_argument("--allocators", nargs="*", default=list(peers.DEBIAN),
                         metavar="NAME[=PATH[,VAR=VALUE]]",
                         help="what freehold is compared with (default: %(default)s)")
    command.add_argument("--quick", action="store_true", help="fewer rounds, and less memory where "
                         "that is measured: a first impression, not figures to quote")
    command.add_argument("--library", metavar="PATH", help="freehold (build/libfreehold.so)")
    command.add_argument("--seed", type=int, metavar="N",
                         help="of the order of runs (default: by chance; recorded)")
    command.add_argument("--results", metavar="FILE", type=Path,
                         help="all runs, for `freehold-lab report` (build/bench.sqlite)")
    command.add_argument("--json", metavar="FILE", type=Path,
                         help="figures and goals for a program to read")
    command.add_argument("--show", action="store_true",
                         help="measure nothing: tables of the runs that are there")
    command.add_argument("--list", action="store_true", help="the parts and what they are")


def plan_of(options, workloads):
    plan = experiment.load(experiment.find("bench"), workloads)
    plan.replicates = options.rounds or (2 if options.quick else plan.replicates)
    plan.select(options.only)
    for part in plan.parts if options.quick else ():
        part.parameters = {**workloads[part.workload].quick, **part.parameters}
    plan.text += f"\n# {plan.replicates} rounds{', quick' if options.quick else ''}\n"
    return plan


def is_shrunk(part, workloads, is_quick):
    """Does a quick run measure less of it? What is always short is not shrunk."""
    return is_quick and not part.quick and bool(workloads[part.workload].quick)


def results_of(store):
    """part -> allocator -> the figures of each run."""
    found = {}
    for run in store.runs():
        if run["ended"] == "ok":
            by_name = found.setdefault(run["part"], {})
            by_name.setdefault(run["allocator"], []).append(json.loads(run["figures"]))
    return found


def spread(rows, figure):
    """Half the distance between the quartiles, over the median."""
    values = [row[figure] for row in rows or [] if figure in row]
    if len(values) < 2 or median(values) == 0:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / abs(median(values))


def figures_table(results, names, figures, with_ratio, shrunk=()):
    """The figure of each part under each allocator, with its spread, and freehold's ratio to the
    best peer."""
    rows = []
    for part, figure in figures.items():
        by_name = results.get(part, {})
        row = [part + (" (shrunk)" if part in shrunk else "")]
        for name in names:
            value, wide = (how(by_name.get(name), figure.key) for how in (middle, spread))
            row.append(shown(value, figure.unit)
                       + (f" ±{wide * 100:.0f}%" if wide is not None and wide >= 0.005 else ""))
        if with_ratio:
            own, best = middle(by_name.get("freehold"), figure.key), best_peer(by_name, figure.key)
            row.append(f"{own / best:.2f}" if own is not None and best else "-")
        rows.append(row)
    return table(["part", *names, *(["freehold / best peer"] if with_ratio else [])], rows)


def goals_rows(results, parts, shrunk):
    """What is wanted, how the figure comes about, the figure, its limit, the verdict."""
    rows = []
    for goal in GOALS:
        if goal.part not in (*parts, "*"):
            continue
        value = goal_value(goal, results)
        verdict = "met" if value is not None and goal_is_met(goal, value) else "SHORT"
        if value is None or goal.part in shrunk:
            verdict = "not measured" if value is None else "shrunk: not judged"
        rows.append([goal.what, goal.kind, shown(value, goal.unit), shown(goal.limit, goal.unit),
                     verdict])
    return rows


def disturbances(runs):
    if not runs:
        return "Nothing was measured."
    loads, steals = ([run[key] for run in runs] for key in ("load", "steal"))
    return (f"Load average at the start of the runs: median {median(loads):.1f}, at most "
            f"{max(loads):.1f}. Processor time taken by the hypervisor: at most "
            f"{max(steals) * 100:.0f} % of one run.")


def write(options, plan, store, workloads):
    """All tables on standard output, and the same as JSON."""
    results, names = results_of(store), [each["name"] for each in store.allocators()]
    shrunk = [part.name for part in plan.parts if is_shrunk(part, workloads, options.quick)]
    figures = {part.name: FIGURES.get(part.name, workloads[part.workload].figure)
               for part in plan.parts}
    speed = {part.name: figures[part.name] for part in plan.parts if part.quick}
    timed = {part.name: Figure("processor_ns", "ns") for part in plan.parts
             if part.quick and workloads[part.workload].program.name != "patterns"}
    memory = {name: figure for name, figure in figures.items() if name not in speed}
    goals = goals_rows(results, figures, shrunk)
    for title, chosen, with_ratio in (
            ("Speed: nanoseconds (us, ms where it says so)", speed, True),
            ("Processor time of the same, all threads together", timed, True),
            ("Memory and counts", memory, False)):
        if chosen:
            print(f"{title}\n\n{figures_table(results, names, chosen, with_ratio, shrunk)}\n")
    print(f"Goals\n\n{table(['goal', 'how', 'measured', 'at most', ''], goals)}\n")
    print("\n".join([disturbances(store.runs()), *store.notes()]
                    + [f"left out: {name}: {why}" for name, why in store.left_out().items()]))
    if options.json:
        keys = ("goal", "how", "measured", "limit", "verdict")
        options.json.write_text(json.dumps({
            "experiment": store.experiment(), "allocators": store.allocators(),
            "left_out": store.left_out(), "notes": store.notes(), "results": results,
            "goals": [dict(zip(keys, row)) for row in goals]}, indent=1, default=str) + "\n")


def command(options):
    path = options.results or repository() / "build" / "bench.sqlite"
    workloads = all_workloads(build=not (options.list or options.show))
    plan = plan_of(options, workloads)
    if options.list:
        for part in plan.parts:
            print(f"{part.name:<22} {workloads[part.workload].about.splitlines()[0]}")
        return 0
    if options.show:
        if not path.is_file():
            raise Failed(f"{path}: no such file")
        return finish(options, plan, Store(path), workloads)
    found, left_out = proved([lambda: peers.freehold(library(options.library)),
                              *(lambda text=text: peers.debian(text)
                                for text in options.allocators)])
    store = Store(path, fresh=True)
    setting = Setting(plan, found, left_out, options.seed, ["freehold-lab", "run", "bench"])
    say(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors")
    code = carry_out(store, setting, workloads, say)
    write(options, plan, store, workloads)
    store.close()
    return code or (1 if left_out else 0)


def finish(options, plan, store, workloads):
    done = {run["part"] for run in store.runs()}
    plan.parts = [part for part in plan.parts if part.name in done]
    write(options, plan, store, workloads)
    store.close()
    return 0
