"""slope.py - does time grow in a straight line with a factor, and how steeply?"""

import numpy
import pandas
import statsmodels.api as sm
from scipy import stats


def slope(x, y):
    """Of the line through all points, with its 95 % interval, and p of the test of fit. A small one
    says that the means of the levels do not lie on a line (it needs three levels and repeated
    runs)."""
    x, y = numpy.asarray(x, float), numpy.asarray(y, float)
    line = sm.OLS(y, sm.add_constant(x)).fit()
    low, high = line.conf_int(0.05)[1]
    return {"slope": line.params[1], "low": low, "high": high, "intercept": line.params[0],
            "r_squared": line.rsquared, "p_not_straight": lack_of_fit(x, y, line.ssr),
            "levels": len(set(x))}


def lack_of_fit(x, y, residual):
    levels = numpy.unique(x)
    pure = sum(((y[x == level] - y[x == level].mean()) ** 2).sum() for level in levels)
    between, within = len(levels) - 2, len(y) - len(levels)
    if between < 1 or within < 1 or pure == 0:
        return float("nan")
    return stats.f.sf((residual - pure) / between / (pure / within), between, within)


def by_allocator(runs, factor, others, response="wall"):
    """One row an allocator and combination of the other factors."""
    rows = []
    for keys, group in runs.dropna(subset=[response]).groupby(["allocator", *others], sort=False):
        if group[factor].nunique() > 1:
            rows.append({**dict(zip(["allocator", *others], keys)),
                         **slope(group[factor], group[response])})
    return pandas.DataFrame(rows)
