"""tukey.py - Tukey's honestly significant difference, and the letters that sum it up

Two means that share a letter are not shown to differ, at 5 % for all pairs together. After a
factorial analysis the residuals' mean square of the whole model is the measure of chance.
"""

import functools
import itertools

import numpy
import pandas
from scipy import stats

LEVEL = 0.05


@functools.lru_cache(maxsize=None)
def critical(groups, degrees):
    """The studentized range that chance exceeds in 5 % of all cases."""
    return stats.studentized_range.ppf(1 - LEVEL, groups, degrees)


def pooled(samples):
    """Mean square within the samples, and its degrees of freedom."""
    degrees = sum(len(sample) - 1 for sample in samples)
    within = sum(((sample - sample.mean()) ** 2).sum() for sample in samples)
    return within / degrees if degrees else 0.0, degrees


def compare(samples, mean_square=None, degrees=None):
    """Every pair of the named samples (name -> array): difference, interval, p, whether it is shown
    to differ. Tukey and Kramer's form, for samples of different sizes too."""
    names = list(samples)
    arrays = {name: numpy.asarray(values, float) for name, values in samples.items()}
    if mean_square is None:
        mean_square, degrees = pooled(list(arrays.values()))
    rows = []
    for one, other in itertools.combinations(names, 2):
        difference = arrays[other].mean() - arrays[one].mean()
        error = numpy.sqrt(mean_square / 2 * (1 / len(arrays[one]) + 1 / len(arrays[other])))
        margin = critical(len(names), degrees) * error if degrees else numpy.inf
        rows.append({"one": one, "other": other, "difference": difference,
                     "low": difference - margin,
                     "high": difference + margin, "error": error,
                     "differs": bool(abs(difference) > margin)})
    return pandas.DataFrame(rows).assign(groups=len(names), degrees=degrees)


def probabilities(comparison):
    """p of every pair; apart, because the integral takes its time."""
    with numpy.errstate(divide="ignore", invalid="ignore"):
        ranges = numpy.abs(comparison.difference) / comparison.error
    return stats.studentized_range.sf(ranges, comparison.groups, comparison.degrees)


def letters(means, comparison):
    """name -> letters, 'a' for the smallest mean: the least sets of names without a difference
    among them. A set is split in two at every pair that differs (insert and absorb, after Piepho
    2004)."""
    order = sorted(means, key=means.get)
    sets = [frozenset(order)]
    for pair in comparison[comparison.differs].itertuples():
        split = []
        for group in sets:
            split += ([group - {pair.one}, group - {pair.other}] if {pair.one, pair.other} <= group
                      else [group])
        unique = list(dict.fromkeys(split))
        sets = [group for group in unique if not any(group < other for other in unique)]
    sets.sort(key=lambda group: sorted(order.index(name) for name in group))
    return {name: "".join(letter(n) for n, group in enumerate(sets) if name in group)
            for name in order}


def letter(number):
    """a ... z, then A ... Z, then numbered."""
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return alphabet[number] if number < len(alphabet) else f"[{number}]"


def samples_of(runs, response, is_log):
    return {name: numpy.log(values) if is_log else values
            for name, values in runs.dropna(subset=[response]).groupby("allocator",
                                                                       sort=False)[response]}


def against(runs, response, base, analysis):
    """One row an allocator: how much more than the base it has, the interval that holds for all
    pairs together, and p. On the logarithmic scale: how many times as much."""
    samples = samples_of(runs, response, analysis.is_log)
    others = [name for name in samples if name != base]
    comparison = compare({base: samples[base], **{name: samples[name] for name in others}},
                         analysis.mean_square, analysis.degrees)
    mine = comparison[comparison.one == base]
    scale, what = ((numpy.exp, "times the base") if analysis.is_log
                   else (lambda values: values, "more than the base"))
    return pandas.DataFrame({"allocator": mine.other, what: scale(mine.difference),
                             "low": scale(mine.low),
                             "high": scale(mine.high), "p": probabilities(mine)})


def grouped(runs, response, is_log=False, mean_square=None, degrees=None):
    """One row an allocator: mean (of the response as it is), number of runs and letters,
    the smallest mean first."""
    samples = samples_of(runs, response, is_log)
    if len(samples) < 2:
        return None
    comparison = compare(samples, mean_square, degrees)
    marks = letters({name: values.mean() for name, values in samples.items()}, comparison)
    means = runs.groupby("allocator")[response].mean()
    return pandas.DataFrame({"allocator": list(marks), "mean": [means[name] for name in marks],
                             "letters": list(marks.values()),
                             "runs": [len(samples[name]) for name in marks]})


def by_level(runs, response, factor, analysis):
    """For every level of `factor` the allocators' means with letters: a column pair a
    level, one row an allocator."""
    columns = {}
    for level, part in runs.groupby(factor, sort=False):
        table = grouped(part, response, analysis.is_log, analysis.mean_square, analysis.degrees)
        if table is not None:
            columns[level] = table.set_index("allocator")
    wide = pandas.DataFrame({(f"{factor} = {level}", key): table[key]
                             for level, table in columns.items()
                             for key in ("mean", "letters")})
    return wide.sort_values(wide.columns[0]) if len(wide.columns) else wide
