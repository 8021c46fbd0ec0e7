"""ratios.py - every allocator against a base: ratios with bootstrap intervals,
geometric means, wins and losses

A ratio is that of geometric means, below 1 when the allocator needs less than the base. Runs of one
block ran side by side, so they are compared in pairs. Tukey's test on the logarithms over all
allocators of the cell says whether a ratio is a win or a loss, so that many allocators make no
false findings. The intervals are each for itself.
"""

import itertools
import math
import warnings
import zlib

import numpy
import pandas
from scipy import stats
from statsmodels.stats.multitest import multipletests

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
    """allocator -> (win, loss or no difference shown; p, corrected for all pairs of the cell)."""
    positive = cell[cell[response] > 0]
    samples = {name: numpy.log(values)
               for name, values in positive.groupby("allocator", sort=False)[response]}
    if base not in samples or len(samples) < 2:
        return {}
    compared = tukey.compare(samples)
    mine = compared[(compared.one == base) | (compared.other == base)]
    found = {}
    # no p where nothing varies at all, or nothing was repeated
    probabilities = numpy.nan_to_num(tukey.probabilities(mine), nan=1.0)
    for pair, p in zip(mine.itertuples(), probabilities):
        name = pair.other if pair.one == base else pair.one
        more = pair.difference if pair.one == base else -pair.difference
        found[name] = (NONE if not pair.differs else LOSS if more > 0 else WIN, p)
    return found


def by_cell(runs, response, base, is_counted=False):
    """One row a cell and allocator: ratio, interval, verdict; and the resampled logarithms for
    `overall`. What was only counted once has no chance in it to be tested against."""
    rows, resampled = [], {}
    for (part, cell), group in runs.dropna(subset=[response]).groupby(["part", "cell"], sort=False):
        marks = (dict.fromkeys(group.allocator, (COUNTED, numpy.nan)) if is_counted
                 else verdicts(group, response, base))
        for name, logs in log_ratios(group, response, base).items():
            if len(logs) == 0 or name not in marks:
                continue
            # each by a seed of its own: `overall` takes the cells' chances as independent
            (low, high), drawn = bootstrap(logs, zlib.crc32(f"{part} {cell} {name}".encode()))
            resampled[part, cell, name] = drawn
            rows.append({"part": part, "cell": cell, "allocator": name, "response": response,
                         "ratio": numpy.exp(logs.mean()), "low": numpy.exp(low),
                         "high": numpy.exp(high), "pairs": len(logs), "verdict": marks[name][0],
                         "p": marks[name][1]})
    return pandas.DataFrame(rows), resampled


def overall(ratios, resampled):
    """One row an allocator: the geometric mean over the parts of what it has over their cells, with
    its interval. And how many cells are wins and losses when all of them are judged together."""
    rows = []
    for name, mine in ratios.groupby("allocator", sort=False) if len(ratios) else ():
        parts = [numpy.mean([resampled[part, cell, name] for cell in group.cell], axis=0)
                 for part, group in mine.groupby("part", sort=False)]
        logs = [numpy.log(group.ratio).mean() for _, group in mine.groupby("part", sort=False)]
        low, high = numpy.quantile(numpy.mean(parts, axis=0),
                                   [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        count = corrected(mine).value_counts()
        rows.append({"allocator": name, "ratio": numpy.exp(numpy.mean(logs)), "low": numpy.exp(low),
                     "high": numpy.exp(high), "parts": len(parts), "cells": len(mine),
                     "wins": count.get(WIN, 0),
                     "losses": count.get(LOSS, 0), "no difference shown": count.get(NONE, 0)})
    return pandas.DataFrame(rows)


def corrected(mine, level=0.05):
    """The verdicts of one allocator's cells when chance may make one of them at all in 5 % of
    experiments: Holm's step-down of their p (1979)."""
    tested = mine.verdict != COUNTED
    if not tested.any():
        return mine.verdict
    found, *_ = multipletests(mine.p[tested], level, method="holm")
    ratio = mine.ratio[tested]
    shown = numpy.where(~found, NONE, numpy.where(ratio > 1, LOSS, WIN))
    return mine.verdict.where(~tested, pandas.Series(shown, index=ratio.index).reindex(mine.index))


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
    that are alike each is somewhat above 1: see `chosen_apart`."""
    rows = []
    for name in table.columns if len(table.columns) > 1 else ():
        ratio = (table[name] / table.drop(columns=name).min(axis=1)).dropna()
        if len(ratio):
            rows.append({"allocator": name, "ratio": stats.gmean(ratio), "parts": len(ratio),
                         "best in": int((ratio <= 1).sum()), "furthest": ratio.max(),
                         "where": ratio.idxmax()})
    return pandas.DataFrame(rows)


MOST_SPLITS = 300


def halves(replicates, seed=1):
    """Ways to split so many replicates in two: all of them, or some by chance where there are very
    many. Index arrays of one half."""
    size = replicates // 2
    if math.comb(replicates, size) <= MOST_SPLITS:
        return [list(chosen) for chosen in itertools.combinations(range(replicates), size)]
    chance = numpy.random.default_rng(seed)
    return [chance.choice(replicates, size, replace=False) for _ in range(MOST_SPLITS)]


def chosen_apart(runs, response):
    """allocator -> its ratio to the best of the others, when that is chosen in one half of the
    replicates and compared in the other. It is the mean over many splits, of logarithms, over the
    parts. An allocator that is as good as the best of the others is at 1 or, where the choice errs,
    below. In a part, only those are compared that came through all runs of it. NaN where a part has
    fewer than two replicates."""
    logs = {}
    for part, mine in runs[runs[response] > 0].groupby("part", sort=False):
        wide = mine.assign(log=numpy.log(mine[response])).pivot_table(
            index="allocator", columns=["replicate", "cell"], values="log").dropna()
        for name, value in of_part_apart(wide).items():
            logs.setdefault(name, []).append(value)
    return {name: numpy.exp(numpy.mean(values)) for name, values in logs.items()}


def of_part_apart(wide):
    """The logarithms of one part; `wide` has a row an allocator, columns (replicate, cell)."""
    replicates = wide.columns.get_level_values("replicate")
    numbers = replicates.unique()
    if len(wide) < 2 or len(numbers) < 2:
        return dict.fromkeys(wide.index, numpy.nan)
    table, found = wide.to_numpy(), []
    for half in halves(len(numbers)):
        is_half = replicates.isin(numbers[half])
        for here in (is_half, ~is_half):
            choosing, comparing = table[:, here].mean(axis=1), table[:, ~here].mean(axis=1)
            order = numpy.argsort(choosing, kind="stable")
            best = numpy.where(order[0] == numpy.arange(len(table)), order[1], order[0])
            found.append(comparing - comparing[best])
    return dict(zip(wide.index, numpy.mean(found, axis=0)))
