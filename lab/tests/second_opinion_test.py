"""second_opinion_test.py - R comes to the same p and the same letters

The laboratory has its models from statsmodels, its ranges from scipy and letters of its own. Here
R does all of it again, with `aov` and `TukeyHSD`: of data with known effects, and by hand of a
file of results: python3 -B lab/tests/second_opinion_test.py lab-results/seed-2014.sqlite
"""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy
import pandas
import pytest

from freehold_lab.analysis import frame, interaction

SCRIPT = Path(__file__).with_name("second_opinion.R")
FACTORS = ["NA", "SA", "NT", "NP"]
TABLES = [("wall", ["SA", "NT"], ["NP"]), ("wall", ["NA", "NT"], ["NP"]), ("peak", ["SA"], ["NA"]),
          ("peak", ["NP"], ["NT"]), ("peak", ["SA"], ["NT"]), ("peak", ["SA"], ["NP"])]
CLOSE = 1e-6                                # of two p of a pair; both integrate


def by_r(runs, response, factors, tables, folder):
    """What R finds: p by (allocator, set of factors), and for each (allocator, table) p by pair."""
    path = folder / "runs.csv"
    columns = {factor: f"F{number}" for number, factor in enumerate(factors)}
    runs[["allocator", response, *factors]].rename(columns={response: "y", **columns}).to_csv(
        path, index=False)
    names = [[columns[factor] for factor in factors if factor in table] for table in tables]
    told = subprocess.run(["Rscript", "--vanilla", SCRIPT, path, ",".join(map(":".join, names)),
                           *columns.values()], check=True, capture_output=True, text=True).stdout
    back, sources, pairs = {short: name for name, short in columns.items()}, {}, {}
    for kind, allocator, source, *rest in (line.split("\t") for line in told.splitlines()):
        key = allocator, frozenset(back[name] for name in source.split(":"))
        if kind == "p":
            sources[key] = float(rest[0])
        else:
            pairs.setdefault(key, {})[frozenset(rest[:2])] = float(rest[2])
    return sources, pairs


def differences(runs, factors, tables, folder):
    """What R finds otherwise than the laboratory, a line each; and how much was compared."""
    found, counts = [], {"p": 0, "pairs": 0}
    for response in dict.fromkeys(table[0] for table in tables):
        own = interaction.by_allocator(runs, response, factors)
        logs = runs.allocator.map(lambda name: own[name].is_log)
        scaled = runs.assign(scaled=numpy.where(logs, numpy.log(runs[response]), runs[response]))
        mine = [table for table in tables if table[0] == response]
        sets = [rows + columns for _, rows, columns in mine]
        sources, pairs = by_r(scaled, "scaled", factors, sets, folder)
        for name, analysis in own.items():
            for row in analysis.table[analysis.table.source != "residuals"].itertuples():
                p = sources[name, frozenset(row.source.split(" × "))]
                counts["p"] += 1
                if not math.isclose(row.p, p, rel_tol=1e-4, abs_tol=1e-290):
                    found.append(f"{response}, {name}, {row.source}: p {row.p:.6g}, R {p:.6g}")
            for _, rows, columns in mine:
                table = interaction.crossed(runs[runs.allocator == name], response, rows, columns,
                                            analysis)
                letters = letters_of(table, rows, columns, factors)
                theirs = pairs[name, frozenset(rows + columns)]
                assert len(theirs) == math.comb(len(letters), 2)
                for pair, p in theirs.items():
                    one, other = pair
                    counts["pairs"] += 1
                    shares = bool(set(letters[one]) & set(letters[other]))
                    if shares != (p >= 0.05) and abs(p - 0.05) > CLOSE:
                        found.append(f"{response}, {name}: {one} and {other} "
                                     f"{'share a' if shares else 'share no'} letter, R {p:.6g}")
    return found, counts


def letters_of(table, rows, columns, factors):
    """cell, named as R does -> letters."""
    letters = {}
    for row, cells in table.iterrows():
        row = row if isinstance(row, tuple) else (row,)
        for (column, kind), value in cells.items():
            if kind == "letters":
                column = column if isinstance(column, tuple) else (column,)
                level = dict(zip([*rows, *columns], [*row, *column]))
                letters[":".join(str(level[name]) for name in factors if name in level)] = value
    return letters


# ---- data with known effects ---------------------------------------------------------------------

LEVELS = {"NA": [250000, 500000, 1000000], "SA": ["16..64", "256..1024"], "NT": [1, 2, 4],
          "NP": [1, 2]}


@pytest.fixture(scope="module")
def made():
    """Of `plain` NA, SA and NT × NP have an effect, each a little above chance; `product`'s effects
    multiply and its chance does too, so that its logarithm is analysed."""
    chance, rows = numpy.random.default_rng(22), []
    for values in itertools.product(*LEVELS.values()):
        level = dict(zip(LEVELS, values))
        size = level["NA"] / 1e6 * (4 if level["SA"] == "256..1024" else 1)
        crowd = 0.1 * level["NT"] * (level["NP"] == 2)
        for _ in range(6):
            for response in ("wall", "peak"):
                rows.append({"response": response, "allocator": "plain", **level,
                             "y": 10 + 0.2 * size + crowd + chance.normal(0, 0.2)})
                rows.append({"response": response, "allocator": "product", **level,
                             "y": size * numpy.exp(crowd / 2 + chance.normal(0, 0.3))})
    long = pandas.DataFrame(rows)
    wide = long[long.response == "wall"].drop(columns="response").rename(columns={"y": "wall"})
    return wide.assign(peak=long[long.response == "peak"].y.to_numpy())


def test_r_finds_the_same_p_and_the_same_letters(made, tmp_path):
    found, counts = differences(made, FACTORS, TABLES, tmp_path)
    assert not found
    # 15 sources for each of two responses and allocators; 12, 18, 6, 6, 6 and 4 cells a table.
    assert counts == {"p": 60, "pairs": 2 * (66 + 153 + 15 + 15 + 15 + 6)}


def test_the_made_data_have_their_effects_and_some_pairs_near_the_bound(made, tmp_path):
    own = interaction.by_allocator(made, "wall", FACTORS)
    assert {name: analysis.is_log for name, analysis in own.items()} == {
        "plain": False, "product": True}
    sources, pairs = by_r(made[made.allocator == "plain"], "wall", FACTORS,
                          [["SA", "NT", "NP"]], tmp_path)
    for effect in ({"NA"}, {"SA"}, {"NT", "NP"}):
        assert sources["plain", frozenset(effect)] < 1e-3
    near = [p for p in pairs["plain", frozenset({"SA", "NT", "NP"})].values() if 0.001 < p < 0.5]
    assert len(near) >= 5


def test_letters_of_a_wrong_measure_of_chance_are_told(made, tmp_path, monkeypatch):
    honest = interaction.tukey.compare
    monkeypatch.setattr(interaction.tukey, "compare",
                        lambda samples, square, degrees: honest(samples, 2 * square, degrees))
    found, _ = differences(made, FACTORS, TABLES[:1], tmp_path)
    assert any("share a letter" in line for line in found)


def test_a_p_of_other_data_is_told(made, tmp_path, monkeypatch):
    honest = interaction.by_allocator
    monkeypatch.setattr(interaction, "by_allocator", lambda runs, response, factors: honest(
        runs.groupby(["allocator", *factors]).head(5), response, factors))
    found, _ = differences(made, FACTORS, TABLES[:1], tmp_path)
    assert any(line.startswith("wall, plain, NA: p ") for line in found)


def by_hand(path):
    """Compares all tables of a file of results."""
    results = frame.read(path)
    runs, factors = frame.with_factors(results.part("uma-test"))
    found, counts = differences(runs, factors, TABLES, Path(path).parent)
    print("\n".join([*found, f"{path}: {counts['p']} p of {runs.allocator.nunique()} allocators and"
                     f" {counts['pairs']} pairs of cells compared with R's, {len(found)} differ"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(by_hand(sys.argv[1]))
