"""ratios.py - every allocator against a base: ratios with bootstrap intervals,
geometric means, wins and losses

A ratio is that of geometric means, below 1 when the allocator needs less than the base. Runs of one
block ran side by side, so they are compared in pairs. Tukey's test on the logarithms over all
allocators of the cell says whether a ratio is a win or a loss, so that many allocators make no
false findings. The intervals are each for itself.
"""

import warnings

import numpy
import pandas
from scipy import stats

from freehold_lab.analysis import tukey

RESAMPLES = 2000
CONFIDENCE = 0.95
WIN, LOSS, NONE, COUNTED = "win", "loss", "no difference shown", "counted once"


def bootstrap(values, seed=1):
    """The interval of the mean and the resampled means; both without width where the
    values do not differ."""
    values = numpy.asarray(values, float)
    if len(values) < 2 or numpy.ptp(values) == 0:
        return (values.mean(), values.mean()), numpy.full(RESAMPLES, values.mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        drawn = stats.bootstrap((values,), numpy.mean, n_resamples=RESAMPLES,
                                confidence_level=CONFIDENCE,
                                method="BCa", rng=numpy.random.default_rng(seed))
    low, high = drawn.confidence_interval
    if not numpy.isfinite([low, high]).all():
        low, high = numpy.quantile(drawn.bootstrap_distribution,
                                   [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return (low, high), drawn.bootstrap_distribution


def log_ratios(cell, response, base):
    """allocator -> logarithms of its ratios to the base, one a replicate in which both ran."""
    wide = cell.pivot_table(index="replicate", columns="allocator", values=response)
    if base not in wide or not (wide[base].dropna() > 0).all():
        return {}
    return {name: numpy.log(wide[name] / wide[base]).dropna()
            for name in dict.fromkeys(cell.allocator)
            if name != base and (wide[name].dropna() > 0).all()}


def verdicts(cell, response, base):
    """allocator -> win, loss or no difference shown."""
    positive = cell[cell[response] > 0]
    samples = {name: numpy.log(values)
               for name, values in positive.groupby("allocator", sort=False)[response]}
    if base not in samples or len(samples) < 2:
        return {}
    found = {}
    for pair in tukey.compare(samples).itertuples():
        if base in (pair.one, pair.other):
            name = pair.other if pair.one == base else pair.one
            more = pair.difference if pair.one == base else -pair.difference
            found[name] = NONE if not pair.differs else LOSS if more > 0 else WIN
    return found


def by_cell(runs, response, base, is_counted=False):
    """One row a cell and allocator: ratio, interval, verdict; and the resampled logarithms for
    `overall`. What was only counted once has no chance in it to be tested against."""
    rows, resampled = [], {}
    for (part, cell), group in runs.dropna(subset=[response]).groupby(["part", "cell"], sort=False):
        marks = (dict.fromkeys(group.allocator, COUNTED) if is_counted
                 else verdicts(group, response, base))
        for name, logs in log_ratios(group, response, base).items():
            if len(logs) == 0 or name not in marks:
                continue
            (low, high), drawn = bootstrap(logs)
            resampled[part, cell, name] = drawn
            rows.append({"part": part, "cell": cell, "allocator": name, "response": response,
                         "ratio": numpy.exp(logs.mean()), "low": numpy.exp(low),
                         "high": numpy.exp(high), "pairs": len(logs), "verdict": marks[name]})
    return pandas.DataFrame(rows), resampled


def overall(ratios, resampled):
    """One row an allocator: the geometric mean over the parts of what it has over their cells, with
    its interval, and how many cells are wins and losses."""
    rows = []
    for name, mine in ratios.groupby("allocator", sort=False) if len(ratios) else ():
        parts = [numpy.mean([resampled[part, cell, name] for cell in group.cell], axis=0)
                 for part, group in mine.groupby("part", sort=False)]
        logs = [numpy.log(group.ratio).mean() for _, group in mine.groupby("part", sort=False)]
        low, high = numpy.quantile(numpy.mean(parts, axis=0),
                                   [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        count = mine.verdict.value_counts()
        rows.append({"allocator": name, "ratio": numpy.exp(numpy.mean(logs)), "low": numpy.exp(low),
                     "high": numpy.exp(high), "parts": len(parts), "cells": len(mine),
                     "wins": count.get(WIN, 0),
                     "losses": count.get(LOSS, 0), "no difference shown": count.get(NONE, 0)})
    return pandas.DataFrame(rows)


def means(ratios, base, names):
    """The geometric mean of every allocator's ratios over the cells of a part. A data frame with a
    row a part and a column for each allocator of `names` that ran at all; that of the base is 1.
    NaN where it did not run."""
    by_part = ratios.assign(log=numpy.log(ratios.ratio)).groupby(["part", "allocator"], sort=False)
    logs = by_part.log.mean()
    table = numpy.exp(logs.unstack("allocator")).reindex(ratios.part.unique()).assign(**{base: 1.0})
    return table[[name for name in names if name in table]]


def marks(ratios):
    """(part, allocator) -> win or loss: where every cell of the part is one. Others are not in
    it."""
    found = {}
    for key, verdict in ratios.groupby(["part", "allocator"], sort=False).verdict:
        if verdict.nunique() == 1 and verdict.iloc[0] in (WIN, LOSS):
            found[key] = verdict.iloc[0]
    return found


def against_best(table):
    """How far from the best of the others an allocator is. `table` is that of `means`. One row an
    allocator: the geometric mean over the parts of its ratio to the smallest of the others. And in
    how many it is the smallest itself, and the part in which it is the furthest away.

    The smallest of several measured figures is on average smaller than the truth, so of allocators
    that are alike each is somewhat above 1."""
    rows = []
    for name in table.columns if len(table.columns) > 1 else ():
        ratio = (table[name] / table.drop(columns=name).min(axis=1)).dropna()
        if len(ratio):
            rows.append({"allocator": name, "ratio": stats.gmean(ratio), "parts": len(ratio),
                         "best in": int((ratio <= 1).sum()), "furthest": ratio.max(),
                         "where": ratio.idxmax()})
    return pandas.DataFrame(rows)
