"""statistics_test.py - the statistics give the published answers, and find what is
there and little else"""

import numpy
import pandas
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.power import TTestIndPower
from statistics_data import LOOMS, PLANTS, SILICON, SILVER, TEETH, frame_of, small

from freehold_lab.analysis import anova, power, ratios, slope, tukey


def row(analysis, source):
    return analysis.table.set_index("source").loc[source]


# ---- published answers ---------------------------------------------------------------------------

# Data, F, between, within as certified, and the digits that double precision leaves of
# data with many in common.
NIST = [
    ("SiRstv", SILICON, 1.18046237440255, 5.11462616000000e-02, 2.16636560000000e-01, 1e-9),
    ("AtmWtAg", SILVER, 1.59467335677930e+01, 3.63834187500000e-09, 1.04951729166667e-08, 1e-4),
    ("SmLs01", small(1, 10), 2.10000000000000e+01, 1.68, 1.80, 1e-9),
    ("SmLs02", small(1, 100), 2.01000000000000e+02, 1.608e+01, 1.80e+01, 1e-9),
    ("SmLs03", small(1, 1000), 2.00100000000000e+03, 1.6008e+02, 1.80e+02, 1e-9),
    ("SmLs04", small(1000000, 10), 2.10000000000000e+01, 1.68, 1.80, 1e-6),
    ("SmLs05", small(1000000, 100), 2.01000000000000e+02, 1.608e+01, 1.80e+01, 1e-6),
]


@pytest.mark.parametrize("name, samples, f, between, within, tolerance", NIST,
                         ids=[case[0] for case in NIST])
def test_the_analysis_of_variance_gives_what_nist_certifies(name, samples, f, between, within,
                                                            tolerance):
    found = anova.analyse(frame_of(samples, "treatment"), "y", ["treatment"], is_log=False)
    assert row(found, "treatment")["F"] == pytest.approx(f, rel=tolerance)
    assert row(found, "treatment")["sum of squares"] == pytest.approx(between, rel=tolerance)
    assert row(found, "residuals")["sum of squares"] == pytest.approx(within, rel=tolerance)


def test_two_factors_and_their_interaction_give_the_published_tooth_growth_table():
    found = anova.analyse(frame_of(TEETH, "supp", "dose"), "y", ["supp", "dose"], is_log=False)
    for source, df, squares, f in (("supp", 1, 205.35, 15.572), ("dose", 2, 2426.43, 92.000),
                                   ("supp × dose", 2, 108.32, 4.107)):
        assert row(found, source)["df"] == df
        assert row(found, source)["sum of squares"] == pytest.approx(squares, abs=0.005)
        assert row(found, source)["F"] == pytest.approx(f, abs=0.0005)
    assert row(found, "residuals")["sum of squares"] == pytest.approx(712.11, abs=0.005)
    assert row(found, "supp × dose")["p"] == pytest.approx(0.02186, abs=0.000005)
    assert found.is_balanced


def test_tukey_gives_the_published_differences_of_plant_growth():
    found = tukey.compare(PLANTS)
    found["p"] = tukey.probabilities(found)
    published = {("ctrl", "trt1"): (-0.371, -1.0622161, 0.3202161, 0.3908711),
                 ("ctrl", "trt2"): (0.494, -0.1972161, 1.1852161, 0.1979960),
                 ("trt1", "trt2"): (0.865, 0.1737839, 1.5562161, 0.0120064)}
    for pair in found.itertuples():
        found_here = (pair.difference, pair.low, pair.high, pair.p)
        assert found_here == pytest.approx(published[pair.one, pair.other], abs=2e-6)
    assert tukey.letters({name: numpy.mean(values) for name, values in PLANTS.items()}, found) == {
        "trt1": "a", "ctrl": "ab", "trt2": "b"}


def test_tukey_with_the_mean_square_of_a_model_gives_the_published_warp_breaks():
    """R's example: TukeyHSD(aov(breaks ~ wool + tension), "tension"): without an interaction."""
    frame = frame_of(LOOMS, "wool", "tension")
    squares = anova.table_of(*fit_additive(frame)).set_index("source")
    residuals = squares.loc["residuals"]
    samples = {name: values.to_numpy()
               for name, values in frame.groupby("tension", sort=False)["y"]}
    found = tukey.compare(samples, residuals["mean square"], residuals["df"])
    found["p"] = tukey.probabilities(found)
    published = {("L", "M"): (-10.0, -19.35342, -0.6465793, 0.0336262),
                 ("L", "H"): (-14.722222, -24.07564, -5.3688015, 0.0011218),
                 ("M", "H"): (-4.722222, -14.07564, 4.6311985, 0.4474210)}
    for pair in found.itertuples():
        found_here = (pair.difference, pair.low, pair.high, pair.p)
        assert found_here == pytest.approx(published[pair.one, pair.other], abs=5e-6)


def fit_additive(frame):
    model = ols("y ~ C(f0, Sum) + C(f1, Sum)",
                frame.rename(columns={"wool": "f0", "tension": "f1"})).fit()
    return model, {"wool": "f0", "tension": "f1"}


# ---- letters -------------------------------------------------------------------------------------

def letters_of(means, *different):
    """The letters when the named pairs differ and no other does."""
    pairs = [{"one": one, "other": other,
              "differs": one + other in different or other + one in different}
             for n, one in enumerate(means) for other in list(means)[:n]]
    return tukey.letters(means, pandas.DataFrame(pairs))


def test_all_share_a_letter_when_nothing_differs():
    assert letters_of({"p": 1, "q": 2, "r": 3}) == {"p": "a", "q": "a", "r": "a"}


def test_letters_of_a_chain_overlap():
    marks = letters_of({"p": 1, "q": 2, "r": 3, "s": 4}, "pr", "ps", "qs")
    assert marks == {"p": "a", "q": "ab", "r": "bc", "s": "c"}


def test_each_has_its_own_letter_when_all_differ():
    assert letters_of({"r": 3, "q": 2, "p": 1}, "pq", "pr", "qr") == {"p": "a", "q": "b", "r": "c"}


def test_two_share_a_letter_exactly_when_they_do_not_differ():
    chance = numpy.random.default_rng(7)
    for _ in range(50):
        samples = {name: chance.normal(chance.integers(0, 4), 1, 6) for name in "pqrstuv"}
        found = tukey.compare(samples)
        marks = tukey.letters({name: values.mean() for name, values in samples.items()}, found)
        for pair in found.itertuples():
            assert bool(set(marks[pair.one]) & set(marks[pair.other])) != pair.differs


# ---- simulated data ------------------------------------------------------------------------------

def cell_of(chance, means, replicates=8, spread=0.05):
    """Runs of one cell: log-normal."""
    return pandas.DataFrame([
        {"part": "p", "cell": "c", "replicate": n, "allocator": name,
         "time": mean * numpy.exp(chance.normal(0, spread))}
        for name, mean in means.items() for n in range(replicates)])


def test_false_findings_stay_near_five_per_cent_of_all_cells():
    chance = numpy.random.default_rng(11)
    alike = dict.fromkeys("pqrstu", 1.0)
    tables = [tukey.grouped(cell_of(chance, alike), "time", is_log=True) for _ in range(1000)]
    found = numpy.mean([table.letters.nunique() > 1 for table in tables])
    assert 0.03 < found < 0.07


def test_false_findings_of_the_analysis_of_variance_stay_near_five_per_cent():
    chance = numpy.random.default_rng(12)
    design = pandas.DataFrame([(a, b) for a in "pqr" for b in "xy" for _ in range(5)],
                              columns=["allocator", "threads"])
    found = []
    for _ in range(400):
        design["y"] = chance.normal(10, 1, len(design))
        found.append(anova.analyse(design, "y", ["allocator", "threads"],
                                   is_log=False).table.p.dropna() < 0.05)
    shares = numpy.mean(found, axis=0)
    assert len(shares) == 3 and (shares > 0.02).all() and (shares < 0.085).all()


def test_a_difference_of_a_quarter_is_found_and_has_its_sign():
    chance = numpy.random.default_rng(13)
    for _ in range(50):
        cell = cell_of(chance, {"base": 1.0, "fast": 0.75, "slow": 1.25, "same": 1.0})
        marks = ratios.verdicts(cell, "time", "base")
        assert (marks["fast"][0], marks["slow"][0]) == (ratios.WIN, ratios.LOSS)


def test_the_bootstrap_interval_holds_the_true_ratio_about_as_often_as_it_says():
    chance, held = numpy.random.default_rng(14), 0
    for _ in range(300):
        found, _ = ratios.by_cell(cell_of(chance, {"base": 1.0, "other": 1.3}, 12), "time", "base")
        held += found.low[0] <= 1.3 <= found.high[0]
    assert 0.88 < held / 300 < 0.985


def test_the_geometric_mean_weighs_parts_alike_whatever_their_number_of_cells():
    rows = [{"part": part, "cell": cell, "replicate": n, "allocator": name, "time": value}
            for part, cell, value_of in (("p", "p1", 2.0), ("p", "p2", 2.0), ("p", "p3", 2.0),
                                         ("q", "q1", 0.5))
            for name, value in (("base", 1.0), ("other", value_of)) for n in range(3)]
    table = ratios.overall(*ratios.by_cell(pandas.DataFrame(rows), "time", "base"))
    assert table.ratio[0] == pytest.approx(1.0)


def verdict_rows(*rows):
    return pandas.DataFrame(rows, columns=["part", "cell", "allocator", "ratio", "verdict"])


def test_of_many_wins_those_count_that_holms_correction_leaves():
    """Holm's bounds of four are 1.25, 1.67, 2.5 and 5 %."""
    mine = pandas.DataFrame({"ratio": [0.5, 2.0, 0.9, 0.8, 0.7], "p": [0.01, 0.005, 0.04, 0.03, 9],
                             "verdict": [ratios.WIN, ratios.LOSS, ratios.WIN, ratios.WIN,
                                         ratios.COUNTED]}, index=[3, 1, 4, 7, 5])
    assert ratios.corrected(mine).to_dict() == {3: ratios.WIN, 1: ratios.LOSS, 4: ratios.NONE,
                                                7: ratios.NONE, 5: ratios.COUNTED}


@pytest.mark.parametrize("replicates, less", [(3, ratios.WIN), (1, ratios.NONE)])
def test_what_never_varies_is_judged_by_its_difference_and_one_run_not_at_all(replicates, less):
    runs = runs_of({"base": [5.0] * replicates, "same": [5.0] * replicates,
                    "less": [3.0] * replicates})
    table = ratios.overall(*ratios.by_cell(runs, "time", "base")).set_index("allocator")
    assert table.loc["same", ["wins", "losses", ratios.NONE]].tolist() == [0, 0, 1]
    assert table.loc["less", "wins"] == (less == ratios.WIN) and table.loc["less", "losses"] == 0


def test_among_many_workloads_that_are_alike_a_win_is_seldom_counted():
    chance, found, plain = numpy.random.default_rng(19), 0, 0
    for _ in range(40):
        cells = [ratios.verdicts(cell_of(chance, {"base": 1, "same": 1}, 6), "time", "base")["same"]
                 for _ in range(20)]
        mine = pandas.DataFrame(cells, columns=["verdict", "p"]).assign(ratio=1.1)
        found += (ratios.corrected(mine) != ratios.NONE).any()
        plain += (mine.verdict != ratios.NONE).any()
    assert found / 40 < 0.2 and plain / 40 > 0.5


# ---- the best of the others, chosen apart --------------------------------------------------------

def runs_of(table, part="p"):
    """allocator -> its figure in each replicate."""
    return pandas.DataFrame([{"part": part, "cell": "c", "replicate": n, "allocator": name,
                              "time": value}
                             for name, values in table.items() for n, value in enumerate(values)])


def test_the_best_is_chosen_in_one_half_and_compared_in_the_other():
    """P: Q is chosen by the first replicate and compared in the second, 4 to 1; then chosen by the
    second and compared in the first, 1 to 2."""
    found = ratios.chosen_apart(runs_of({"p": [1, 4], "q": [2, 1], "r": [8, 8]}), "time")
    assert found == pytest.approx({"p": 2 ** 0.5, "q": 0.5 ** 0.5, "r": 8 ** 0.5})


def test_choosing_apart_takes_the_bias_out_of_the_ratio_to_the_best():
    chance = numpy.random.default_rng(20)
    runs = pandas.concat(runs_of({name: numpy.exp(chance.normal(0, 0.05, 10)) for name in "pqrstu"},
                                 part) for part in range(40))
    means = runs.pivot_table(index="part", columns="allocator", values="time")
    biased = ratios.against_best(means).ratio
    apart = list(ratios.chosen_apart(runs, "time").values())
    assert (biased > 1.01).all() and numpy.mean(apart) == pytest.approx(1, abs=0.004)


def test_one_replicate_cannot_be_split():
    assert numpy.isnan(list(ratios.chosen_apart(runs_of({"p": [1], "q": [2]}), "time").values())
                       ).all()


# ---- what chance hides ---------------------------------------------------------------------------

def test_the_power_for_two_is_that_of_students_test():
    """Cohen's example: half a standard deviation, 64 of each, 80 %."""
    assert power.power(0.5, 2, 126, 64) == pytest.approx(0.80, abs=0.005)
    for runs, difference in ((5, 1.0), (10, 0.8), (20, 2.0)):
        theirs = TTestIndPower().power(difference, runs, 0.05)
        assert power.power(difference, 2, 2 * runs - 2, runs) == pytest.approx(theirs, abs=1e-6)
    assert power.detectable(2, 126, 64) == pytest.approx(
        TTestIndPower().solve_power(nobs1=64, alpha=0.05, power=0.8), abs=1e-6)


@pytest.mark.parametrize("groups", [2, 5, 8, 14, 16])
def test_every_design_has_its_power_and_that_of_the_noncentral_t_where_scipy_has_it(groups):
    """scipy's has none at fourteen allocators of five runs each."""
    for runs in (2, 3, 5, 6, 10, 12, 40):
        degrees = groups * (runs - 1)
        hidden = power.detectable(groups, degrees, runs)
        bound, shift = tukey.critical(groups, degrees) / 2 ** 0.5, hidden * (runs / 2) ** 0.5
        theirs = stats.nct.sf(bound, degrees, shift) + stats.nct.cdf(-bound, degrees, shift)
        assert power.power(hidden, groups, degrees, runs) == pytest.approx(0.8, abs=1e-9)
        assert numpy.isnan(theirs) or theirs == pytest.approx(0.8, abs=1e-9)
    assert power.detectable(groups, 1, 2) > power.detectable(groups, 2, 2) > 0


def test_what_is_said_to_be_hidden_is_found_in_four_of_five_experiments():
    chance = numpy.random.default_rng(21)
    size = numpy.exp(0.05 * power.detectable(4, 28, 8))
    cells = [cell_of(chance, {"base": 1, "same": 1, "more": size, "alike": 1}) for _ in range(300)]
    found = [ratios.verdicts(cell, "time", "base")["more"][0] == ratios.LOSS for cell in cells]
    assert 0.73 < numpy.mean(found) < 0.87


def test_the_table_of_what_is_hidden_has_the_spread_that_was_put_in():
    """Logarithms that are a tenth apart on both sides of their mean."""
    runs = runs_of({name: numpy.exp([-0.1, 0, 0.1]) for name in "pqr"})
    row = power.by_part(runs, "time").iloc[0]
    assert row["runs"] == 3 and row["spread"] == pytest.approx(numpy.expm1(0.1))
    assert row["hidden"] == pytest.approx(numpy.expm1(0.1 * power.detectable(3, 6, 3)))
    assert power.by_part(runs_of({"p": [1], "q": [2]}), "time").empty


RATIOS = verdict_rows(("p", "p1", "fast", 0.5, ratios.WIN), ("p", "p1", "slow", 2.0, ratios.LOSS),
                      ("p", "p2", "fast", 0.125, ratios.WIN), ("p", "p2", "slow", 2.0, ratios.NONE),
                      ("q", "q1", "fast", 2.0, ratios.LOSS))


def test_a_workloads_ratio_is_the_geometric_mean_of_its_cells():
    table = ratios.means(RATIOS, "base", ["slow", "base", "fast", "absent"])
    assert list(table.columns) == ["slow", "base", "fast"] and list(table.index) == ["p", "q"]
    assert table.loc["p"].tolist() == pytest.approx([2, 1, 0.25])
    assert table.loc["q", "fast"] == 2 and numpy.isnan(table.loc["q", "slow"])


def test_a_workload_is_won_or_lost_where_every_cell_of_it_is():
    assert ratios.marks(RATIOS) == {("p", "fast"): ratios.WIN, ("q", "fast"): ratios.LOSS}


def test_the_distance_to_the_best_is_that_to_the_best_of_the_others():
    means = ratios.means(RATIOS, "base", ["base", "fast", "slow"])
    table = ratios.against_best(means).set_index("allocator")
    assert table.ratio.tolist() == pytest.approx([(4 * 0.5) ** 0.5, (0.25 * 2) ** 0.5, 8])
    assert table.loc["fast", ["parts", "best in", "furthest", "where"]].tolist() == [2, 1, 2, "q"]
    assert table.loc["slow", ["parts", "best in", "where"]].tolist() == [1, 0, "p"]


def test_the_logarithm_is_taken_when_the_residuals_ask_for_it_and_not_otherwise():
    chance = numpy.random.default_rng(15)
    design = pandas.DataFrame([(a, n) for a in "pqr" for n in (1, 10, 100) for _ in range(10)],
                              columns=["allocator", "size"])
    design["y"] = design["size"] * numpy.exp(chance.normal(0, 0.2, len(design)))
    assert anova.analyse(design, "y", ["allocator", "size"]).is_log
    design["y"] = 10 + design["size"] + chance.normal(0, 1, len(design))
    assert not anova.analyse(design, "y", ["allocator", "size"]).is_log


def test_a_far_run_does_not_hide_that_the_logarithm_is_asked_for():
    """Without it the spread grows with the mean; a few far runs make every cell's spread look alike
    to a test."""
    chance = numpy.random.default_rng(17)
    design = pandas.DataFrame([(a, n) for a in "pqr" for n in (1, 10, 100) for _ in range(6)],
                              columns=["allocator", "size"])
    design["y"] = design["size"] * numpy.exp(chance.normal(0, 0.2, len(design)))
    design.loc[[3, 27], "y"] *= 200
    found = anova.analyse(design, "y", ["allocator", "size"])
    assert found.checks_plain.spread > 0.05 and found.is_log and found.gain > 10


def test_the_gain_of_the_logarithm_is_the_one_of_box_and_coxs_likelihood():
    """For a sample of its own scipy has the same likelihood."""
    sample = pandas.Series(numpy.random.default_rng(18).lognormal(0, 1, 50))
    constant = pandas.DataFrame({"y": sample})
    plain, logarithmic = (ols("y ~ 1", constant.assign(y=y)).fit()
                          for y in (sample, numpy.log(sample)))

    assert anova.gain_of_logarithm(plain, logarithmic, sample) == pytest.approx(
        stats.boxcox_llf(0, sample) - stats.boxcox_llf(1, sample))


def test_an_allocator_that_is_not_in_every_cell_is_left_out_and_named():
    design = pandas.DataFrame([(a, n, v) for a in "pqr" for n in (1, 2) for v in (1.0, 1.1, 1.3)],
                              columns=["allocator", "size", "y"])
    found = anova.analyse(design[(design.allocator != "q") | (design["size"] == 1)], "y",
                          ["allocator", "size"])
    assert found.left_out == ["q"]


def test_slopes_have_their_interval_and_a_bend_is_noticed():
    chance = numpy.random.default_rng(16)
    x = numpy.repeat([1e5, 2e5, 3e5, 4e5], 10)
    straight = slope.slope(x, 0.01 + 5e-8 * x + chance.normal(0, 1e-4, len(x)))
    assert straight["low"] < 5e-8 < straight["high"] and straight["p_not_straight"] > 0.01
    bent = slope.slope(x, 0.01 + 5e-8 * x + 1e-13 * x ** 2 + chance.normal(0, 1e-4, len(x)))
    assert bent["p_not_straight"] < 1e-6


def test_the_slope_of_two_levels_cannot_be_told_from_a_bend():
    assert numpy.isnan(slope.slope([1, 1, 2, 2], [1, 1.1, 2, 2.1])["p_not_straight"])
