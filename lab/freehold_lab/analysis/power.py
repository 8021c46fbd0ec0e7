"""power.py - how small a difference the replicates of an experiment could have shown

Chance hides what is smaller. The measure is Tukey's test as `ratios.verdicts` uses it: of
logarithms, over all allocators of a cell, at 5 % for all pairs together.
"""

import functools

import numpy
import pandas
from scipy import optimize, stats

from freehold_lab.analysis import tukey

WANTED = 0.80                               # of the experiments find the difference
NODES, WEIGHTS = numpy.polynomial.legendre.leggauss(200)        # Gauss's, of an integral


def power(difference, groups, degrees, runs):
    """The share of experiments in which Tukey's test finds a difference of two means, which is
    given in standard deviations of one run. Over what the measured deviation can be, as a share of
    the true one; scipy's noncentral t has no answer for many a difference."""
    range_of_t = tukey.critical(groups, degrees) / numpy.sqrt(2)
    shift = difference * numpy.sqrt(runs / 2)
    low, high = stats.chi.ppf([1e-13, 1 - 1e-13], degrees) / numpy.sqrt(degrees)
    deviations = (low + high) / 2 + NODES * (high - low) / 2
    density = stats.chi.pdf(deviations * numpy.sqrt(degrees), degrees) * numpy.sqrt(degrees)
    found = (stats.norm.sf(range_of_t * deviations - shift)
             + stats.norm.cdf(-range_of_t * deviations - shift))
    return float((WEIGHTS * density * found).sum() * (high - low) / 2)


@functools.lru_cache(maxsize=None)
def detectable(groups, degrees, runs, wanted=WANTED):
    """The smallest difference, in standard deviations of one run, that is found so often."""
    if groups < 2 or degrees < 1 or runs < 1:
        return numpy.nan
    most = 1.0
    while power(most, groups, degrees, runs) < wanted:
        most *= 2
    return optimize.brentq(lambda d: power(d, groups, degrees, runs) - wanted, 0, most)


def by_part(runs, response):
    """One row a part: replicates, spread of one run within its cells, and what they hide, in the
    cell in the middle and in the worst."""
    rows = []
    for part, mine in runs[runs[response] > 0].groupby("part", sort=False):
        cells = [cell_of(cell, response) for _, cell in mine.groupby("cell", sort=False)]
        frame = pandas.DataFrame([cell for cell in cells if cell])
        if len(frame):
            rows.append({"part": part, "cells": len(frame), "runs": int(frame.runs.min()),
                         "spread": frame.spread.median(), "hidden": frame.hidden.median(),
                         "hidden at worst": frame.hidden.max()})
    return pandas.DataFrame(rows)


def cell_of(cell, response):
    """Of one cell: runs of an allocator, spread as a share, the smallest difference that is found,
    as a share. None where nothing was repeated or there is nothing to compare with."""
    samples = [numpy.log(values) for _, values in cell.groupby("allocator")[response]]
    mean_square, degrees = tukey.pooled(samples)
    if degrees == 0 or len(samples) < 2:
        return None
    runs, spread = min(map(len, samples)), numpy.sqrt(mean_square)
    hidden = spread * detectable(len(samples), degrees, runs)
    return {"runs": runs, "spread": numpy.expm1(spread), "hidden": numpy.expm1(hidden)}
