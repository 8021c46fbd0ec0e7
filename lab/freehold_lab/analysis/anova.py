"""anova.py - factorial analysis of variance with all interactions

Type III sums of squares with sum-to-zero contrasts; where every cell has the same number of runs,
types I to III agree. The logarithm of the response is taken when the residuals fail a check as they
are, and the model of the logarithms is the likelier one. The likelihoods are those of Box and Cox,
An analysis of transformations (1964), at powers 1 and 0. They weigh shape and spread together, so
that one far run, which hides uneven spread from a test, does not decide.
"""

from dataclasses import dataclass

import numpy
import pandas
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

LEVEL = 0.05


@dataclass
class Checks:
    """Are the residuals normal and equally spread in all cells? Probabilities; small
    ones say no."""
    normal: float
    spread: float

    @property
    def is_possible(self):
        return self.normal == self.normal

    @property
    def are_passed(self):
        return self.normal > LEVEL and self.spread > LEVEL


@dataclass
class Analysis:
    table: pandas.DataFrame                 # source, df, sum of squares, mean square, F, p, share
    is_log: bool
    is_balanced: bool
    checks: Checks
    checks_plain: Checks                    # without the logarithm
    gain: float                             # log-likelihood of the logarithms less that without
    mean_square: float                      # of the residuals
    degrees: float
    left_out: list                          # allocators that are not in every cell

    @property
    def says(self):
        kind = ("type III sums of squares"
                + (", balanced: all types agree" if self.is_balanced else ", unbalanced"))
        scale = "response as measured" if not self.is_log else (
            "logarithm of the response, as the residuals without it have "
            f"p = {self.checks_plain.normal:.2g} and {self.checks_plain.spread:.2g} "
            f"and Box and Cox's log-likelihood grows by {self.gain:.3g}")
        checked = (f"residuals: Shapiro-Wilk p = {self.checks.normal:.2g}, "
                   f"Brown-Forsythe p = {self.checks.spread:.2g}"
                   + ("" if self.checks.are_passed else ", so take small effects with care")
                   if self.checks.is_possible else "too few runs of a cell to check the residuals")
        return f"{kind}; {scale}; {checked}"


def check(residuals, cells):
    """Shapiro and Wilk's test of normality (of at most 5,000 residuals), and Brown and Forsythe's
    of equal spread in all `cells`, a label for each residual. Without probabilities where no two
    cells have three runs that differ."""
    groups = [group for _, group in residuals.groupby(cells) if len(group) > 2 and group.std() > 0]
    if len(groups) < 2:                     # too few runs of a cell to speak of a spread
        return Checks(float("nan"), float("nan"))
    chosen = residuals if len(residuals) <= 5000 else residuals.sample(5000, random_state=1)
    return Checks(stats.shapiro(chosen).pvalue, stats.levene(*groups, center="median").pvalue)


def gain_of_logarithm(plain, logarithmic, values):
    """By how much the log-likelihood of the `values` grows when their logarithms are modelled: the
    models' own, with the logarithm of the transformation's Jacobian, -sum(log y) (Box and Cox
    1964)."""
    return logarithmic.llf - numpy.log(values).sum() - plain.llf


def complete(runs, factors, group="allocator"):
    """Without the members of `group` that are not in every cell; those too."""
    cells = runs.groupby(factors, observed=True).ngroups if factors else 1
    found = (runs.groupby(group)[factors].apply(lambda part: len(part.drop_duplicates())) if factors
             else None)
    missing = [] if found is None else [name for name, number in found.items() if number < cells]
    return runs[~runs[group].isin(missing)], missing


def fit(runs, response, factors, is_log):
    """The full factorial model. Factors are renamed, because formulas allow fewer
    names than people do."""
    names = {factor: f"f{n}" for n, factor in enumerate(factors)}
    data = runs[[response, *factors]].rename(columns={response: "y", **names})
    if is_log:
        data = data.assign(y=numpy.log(data.y))
    terms = "*".join(f"C({name}, Sum)" for name in names.values())
    return ols(f"y ~ {terms}", data).fit(method="qr"), names


def table_of(model, names):
    table = anova_lm(model, typ=3).drop(index="Intercept")
    shown = {f"C({name}, Sum)": factor for factor, name in names.items()}
    sources = [" × ".join(shown[part] for part in source.split(":")) if source != "Residual"
               else "residuals"
               for source in table.index]
    return pandas.DataFrame({
        "source": sources, "df": table["df"].round().astype(int).values,
        "sum of squares": table["sum_sq"].values, "mean square": (table["sum_sq"] / table[
            "df"]).values, "F": table["F"].values, "p": table["PR(>F)"].values,
        "share": (table["sum_sq"] / table["sum_sq"].sum()).values})


def analyse(runs, response, factors, is_log=None):
    """The analysis of `response` over `factors`, allocator among them; None if there
    is too little to analyse."""
    others = [factor for factor in factors if factor != "allocator"]
    runs = runs.dropna(subset=[response])
    runs, left_out = complete(runs, others) if "allocator" in factors else (runs, [])
    sizes = runs.groupby(factors, observed=True).size()
    full = int(numpy.prod([runs[factor].nunique() for factor in factors]))
    if (len(sizes) < full or sizes.max() < 2 or runs[response].nunique() < 2
            or runs[factors[0]].nunique() < 2):
        return None
    factors = [factor for factor in factors if runs[factor].nunique() > 1]
    cells = runs[factors].astype(str).agg("|".join, axis=1)
    models = {False: fit(runs, response, factors, False)}
    if (runs[response] > 0).all():
        models[True] = fit(runs, response, factors, True)
    checks = {scale: check(model.resid, cells) for scale, (model, _) in models.items()}
    gain = (gain_of_logarithm(models[False][0], models[True][0], runs[response])
            if True in models else 0.0)
    if is_log is None:
        is_log = checks[False].is_possible and not checks[False].are_passed and gain > 0
    model, names = models[is_log]
    return Analysis(table_of(model, names), is_log, sizes.nunique() == 1, checks[is_log],
                    checks[False], gain, model.mse_resid, model.df_resid, left_out)
