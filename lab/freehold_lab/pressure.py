"""pressure.py - the tables of runs under a limit of memory: who completes, how the others end, and
what it cost"""

import json
import re

import pandas

from freehold_lab.tables import Table

COMPLETES, OUTCOMES = "completes", ("killed", "no memory", "too slow", "fails")
NO_MEMORY = re.compile(r"malloc\(\d+\) failed|memory|bad_alloc", re.I)
TOO_SLOW = re.compile(r"still running after|not ready after|does not end")


def outcome(ended, group):
    """How a run under a limit ended. `killed`: the kernel ended one of its processes. `no memory`:
    it was refused memory, and said so. `too slow`: not within the time limit. `fails`: the rest."""
    if ended == "ok":
        return COMPLETES
    if group.get("killed"):
        return "killed"
    if TOO_SLOW.search(ended):
        return "too slow"
    return "no memory" if NO_MEMORY.search(ended) else "fails"


def frame(results):
    """One row a run under a limit, those that did not complete too."""
    cells = {cell.key: cell for cell in results.plan.cells()}
    order, rows = list(cells), []
    for run in sorted(results.limited, key=lambda run: (order.index(run["cell"]),
                                                        results.names.index(run["allocator"]))):
        cell, group = cells[run["cell"]], json.loads(run["figures"])["group"]
        rows.append({"workload": cell.unlimited.key, "limit": cell.memory,
                     "allocator": run["allocator"], "bytes": group.get("limit"),
                     "outcome": outcome(run["ended"], group), "wall": run["wall"],
                     "major": group.get("major"), "met": group.get("met")})
    return pandas.DataFrame(rows)


def of_results(results):
    """All tables; none where no memory was limited."""
    runs = frame(results)
    if not len(runs):
        return
    names = [name for name in results.names if name in set(runs.allocator)]
    cells = pandas.MultiIndex.from_frame(runs[["workload", "limit"]].drop_duplicates())
    shares = runs.assign(done=runs.outcome == COMPLETES).pivot_table(
        index=["workload", "limit"], columns="allocator", values="done")
    whole = (shares == 1).loc[cells, names]     # is a cell completed in all runs?
    yield totals_table(runs, whole, names)
    yield tightest_table(whole, results.needs, names)
    yield outcome_table(runs, names)
    yield cell_table(runs)


def totals_table(runs, whole, names):
    tightest = whole[whole.any(axis=1)].sort_index(level="limit").groupby("workload").head(1)
    counts = runs.groupby(["allocator", "outcome"]).size().unstack(fill_value=0)
    rows = [{"allocator": name, "cells completed": int(whole[name].sum()), "cells": len(whole),
             "at the tightest": int(tightest[name].sum()), "workloads": len(tightest),
             **{how: int(counts.get(how, pandas.Series()).get(name, 0)) for how in OUTCOMES}}
            for name in names]
    return Table("pressure-totals", "Under a limit of memory: who completes",
                 "A cell is a workload at a limit; it is completed if all of its runs are. At the "
                 "tightest: of the workloads, those of which this allocator completes the tightest "
                 "cell that anybody completes. Then runs: killed by the kernel; ended for want of "
                 "memory; not done within the time limit; failed otherwise.",
                 pandas.DataFrame(rows))


def tightest_table(whole, needs, names):
    rows = []
    for workload, mine in whole.groupby("workload", sort=False):
        limits = mine.droplevel("workload").sort_index(ascending=False)
        peaks = needs.get(workload, {})
        least = min(peaks, key=peaks.get, default="")
        enough = limits.astype(int).cummin() == 1   # from the widest limit on
        rows.append({"workload": workload, "least need, bytes": peaks.get(least), "of": least,
                     **{name: min(enough.index[enough[name]], default="none") for name in names}})
    return Table("pressure-tightest", "The tightest limit that is enough",
                 "In multiples of the least need, which is the least of the allocators' peaks "
                 "without a limit. All runs completed at this limit and at all wider ones.",
                 pandas.DataFrame(rows))


def outcome_table(runs, names):
    rows = []
    for (workload, limit), mine in runs.groupby(["workload", "limit"], sort=False):
        rows.append({"workload": workload, "limit": limit, "bytes": mine.bytes.max(),
                     **{name: words(mine.outcome[mine.allocator == name]) for name in names}})
    return Table("pressure-outcomes", "Who completes at which limit",
                 "Limits in multiples of the least need. Where some runs completed: how many.",
                 pandas.DataFrame(rows))


def words(outcomes):
    done = int((outcomes == COMPLETES).sum())
    if 0 < done < len(outcomes):
        return f"{done} of {len(outcomes)}"
    return outcomes.mode().iloc[0] if len(outcomes) else "not run"


def cell_table(runs):
    rows = []
    for (workload, limit, name), mine in runs.groupby(["workload", "limit", "allocator"],
                                                      sort=False):
        done = mine[mine.outcome == COMPLETES]
        rows.append({"workload": workload, "limit": limit, "allocator": name, "runs": len(mine),
                     COMPLETES: len(done),
                     **{how: int((mine.outcome == how).sum()) for how in OUTCOMES},
                     "wall, s": done.wall.mean(), "major faults": done.major.mean(),
                     "limit met": mine.met.mean()})
    return Table("pressure-cells", "Runs under a limit",
                 "Time and major faults: means of the runs that completed. Limit met: how often a "
                 "charge was refused at first, the mean of all runs; mostly the kernel found pages "
                 "that it could drop.", pandas.DataFrame(rows), fold="Runs under a limit of memory")
