"""interaction.py - factors against each other for one allocator: means with Tukey's letters over
the whole table, and which interactions there are

A cell of such a table is a combination of levels of some factors, the others averaged. Two cells
anywhere in the table that share a letter are not shown to differ.
"""

import numpy
import pandas

from freehold_lab.analysis import anova, tukey


def crossed(runs, response, rows, columns, analysis):
    """One row a combination of `rows`, with a mean and letters for each combination of `columns`.
    `runs` are one allocator's. The frame's columns are pairs of (combination, "mean" or
    "letters")."""
    runs = runs.dropna(subset=[response])
    keys = [*rows, *columns]
    samples = {key: numpy.log(values) if analysis.is_log else values
               for key, values in runs.groupby(keys, sort=False)[response]}
    marks = tukey.letters({key: values.mean() for key, values in samples.items()},
                          tukey.compare(samples, analysis.mean_square, analysis.degrees))
    means = runs.groupby(keys, sort=False)[response].mean()
    found = {}
    for key in samples:
        row, column = key[:len(rows)], key[len(rows):]
        found.setdefault((column, "mean"), {})[row] = means[key]
        found.setdefault((column, "letters"), {})[row] = marks[key]
    table = pandas.DataFrame(found)
    table.index.names = rows
    return table


def by_allocator(runs, response, factors):
    """allocator -> its own anova.Analysis over the factors; without those that have too few runs
    for one."""
    found = {name: anova.analyse(mine, response, factors)
             for name, mine in runs.groupby("allocator", sort=False)}
    return {name: analysis for name, analysis in found.items() if analysis is not None}


def probabilities(analyses, pooled=None):
    """One row a factor or interaction, with p for each allocator. `pooled` is the analysis of all
    allocators together: its p beside them."""
    columns = {name: analysis.table.set_index("source").p for name, analysis in analyses.items()}
    if pooled is not None:
        columns["all together"] = pooled.table.set_index("source").p
    table = pandas.DataFrame(columns)
    first = next(iter(analyses.values())).table.source
    order = [source for source in first if source != "residuals"]
    return table.reindex(order).rename_axis("source").reset_index()
