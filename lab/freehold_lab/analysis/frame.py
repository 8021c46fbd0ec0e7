"""frame.py - the runs of a results file as a data frame

One row a run that counts: replicates that are discarded and runs that failed are not in it. `time`
is what a speed is compared by: see `time_of`.
"""

import json
import re
import tomllib
from dataclasses import dataclass

import pandas

from freehold_lab import experiment
from freehold_lab.places import Failed
from freehold_lab.runner import COUNTED
from freehold_lab.store import Store, is_pressed
from freehold_lab.workloads import all_workloads

SECONDS = {"s": 1, "ns": 1e-9}
PERCENTILE = re.compile(r"_p\d|_max$")


@dataclass
class Results:
    """A results file, read."""
    path: object
    plan: experiment.Experiment
    begun: dict                             # seed, machine, command ...
    workloads: dict
    runs: pandas.DataFrame
    allocators: list                        # records, in order
    left_out: dict
    failed: list                            # (cell, allocator, why)
    notes: list
    attempts: list                          # at blocks: Store.attempts
    counts: dict                            # (cell, allocator) -> Store.counts
    limited: list                           # of Store.runs(): all under a limit of memory
    needs: dict                             # Store.needs

    @property
    def names(self):
        return [allocator["name"] for allocator in self.allocators]

    def part(self, name):
        """The runs of one part of the experiment."""
        return self.runs[self.runs.part == name]

    def figure_of(self, name):
        """The main figure of the workload of a part, a workloads.Figure."""
        return next(self.workloads[part.workload].figure
                    for part in self.plan.parts if part.name == name)


def read(path):
    store = Store(path)
    try:
        begun = store.experiment()
        if begun is None:
            raise Failed(f"{path}: no experiment was begun in it")
        workloads = all_workloads(build=False)
        plan = experiment.parse(tomllib.loads(begun["file"]), begun["file"], str(path), workloads)
        rows = store.runs()
        failed = sorted({(row["cell"], row["allocator"], row["ended"])
                         for row in rows if row["ended"] != "ok"
                         and not is_pressed(row["ended"], json.loads(row["figures"]))})
        counted = [row for row in rows if row["replicate"] >= plan.discard]
        kept = [row for row in counted if row["ended"] == "ok"]
        limited = [row for row in counted if "group" in json.loads(row["figures"])]
        if not kept:
            raise Failed(
                f"{path}: no run to report: {len(rows)} runs, {len(failed)} failed, the first "
                         f"{plan.discard} of each cell are discarded")
        runs = pandas.DataFrame(kept).drop(columns=["ended"])
        counts = store.counts()
        runs["time"] = [time_of(row, workloads[row["workload"]].figure) for row in kept]
        for name in COUNTED:
            runs[name] = [counts.get((row["cell"], row["allocator"]), {}).get(name)
                          for row in kept]
        runs["rate"] = [rate_of(row, workloads[row["workload"]].figure) for row in kept]
        runs["kept"] = [json.loads(row["figures"]).get("resident") for row in kept]
        return Results(path, plan, begun, workloads, in_order(runs, plan, store),
                       store.allocators(), store.left_out(), failed, store.notes(),
                       store.attempts(plan.disturbance), counts, limited, store.needs())
    finally:
        store.close()


def in_order(runs, plan, store):
    """Cells as the experiment has them, allocators as they were named, then replicates:
    tables and pictures follow."""
    cells = {cell.key: n for n, cell in enumerate(plan.cells())}
    names = {allocator["name"]: n for n, allocator in enumerate(store.allocators())}
    order = pandas.DataFrame({"cell": runs.cell.map(cells), "allocator": runs.allocator.map(names),
                              "replicate": runs.replicate})
    return runs.loc[order.sort_values(list(order)).index].reset_index(drop=True)


def time_of(row, figure):
    """Seconds, or what stands for them, by which the speed of a run is compared. `row` is one of
    Store.runs(), `figure` the workload's. The figure itself where that is a time or a rate of the
    work. Else (a percentile of latency, memory) the time of one operation that the program says,
    without set-up, pauses and time limits. Else wall time."""
    if row["figure"] is not None and figure.unit in SECONDS and not PERCENTILE.search(figure.key):
        return row["figure"] * SECONDS[figure.unit]
    if row["figure"] and not figure.lower_is_better:
        return 1 / row["figure"]
    each = json.loads(row["figures"]).get("ns")
    return each * SECONDS["ns"] if each else row["wall"]


def rate_of(row, figure):
    """Operations a second: the figure itself where it is one, else from what the program counted in
    the time of its work. None where neither is there."""
    if figure.unit == "1/s":
        return row["figure"]
    figures = json.loads(row["figures"])
    counted = figures.get("operations"), figures.get("seconds")
    return counted[0] / counted[1] if all(counted) else None


def with_factors(runs):
    """The runs of one part with a column for each factor; and the factors' names."""
    levels = pandas.DataFrame([json.loads(text) for text in runs.levels], index=runs.index)
    return runs.join(levels), list(levels.columns)
