"""pressure_test.py - the tables of runs under a limit of memory and of memory over a day, from data
whose answers are known: each cell is compared"""

import json

import pytest
from scipy import stats

from freehold_lab import experiment, machine, pictures, pressure, report, tables
from freehold_lab.analysis import frame
from freehold_lab.drawing import Palette
from freehold_lab.store import Store
from freehold_lab.workloads import all_workloads

QUIET = {"load": 0.1, "steal": 0.0, "foreign_share": 0.0, "frequency": None, "temperature": None}
PLAN = """
name = "made"
about = "made up"
replicates = 2
[[parts]]
workload = "uma-test"
factors = { limit = { memory = [1.1, 2] } }
[[parts]]
workload = "random-20k"
factors = { limit = { memory = [1.1, 2] } }
"""
DAY = """
name = "made"
about = "made up"
replicates = 2
[[parts]]
workload = "day"
"""
KILLED = ("uma-test: killed by SIGKILL: no message", {"killed": 1, "met": 50, "major": 9})
REFUSED = ("uma-test: exit code 3: bench: malloc(64) failed", {"killed": 0, "met": 3, "major": 1})
SLOW = ("uma-test: still running after 60 s", {"killed": 0, "met": 9000, "major": None})
FAILS = ("uma-test: exit code 1: cannot say", {"killed": 0, "met": 2, "major": 0})
FINE = ("ok", {"killed": 0, "met": 4, "major": 2})
EASY = ("ok", {"killed": 0, "met": 0, "major": 0})
# (part, limit) -> allocator -> how its two runs end; libc needs least in both.
ENDS = {("uma-test", 1.1): {"libc": (FINE, FINE), "math": (KILLED, REFUSED),
                            "resolve": (FINE, KILLED)},
        ("uma-test", 2): {"libc": (EASY, EASY), "math": (EASY, EASY), "resolve": (SLOW, SLOW)},
        ("random-20k", 1.1): {"libc": (FAILS, FAILS), "math": (KILLED, KILLED),
                              "resolve": (SLOW, KILLED)},
        ("random-20k", 2): {"libc": (EASY, EASY), "math": (KILLED, KILLED),
                            "resolve": (FINE, FINE)}}
NEEDS = {"uma-test": {"libc": 1000, "math": 1500, "resolve": 1200},
         "random-20k": {"libc": 3000, "math": 9000, "resolve": 4000}}


def filled(tmp_path, text, allocators, run_of):
    """A results file of runs that were never run: `run_of` cell, allocator and replicate says how
    one ended, its wall time and its figures."""
    file = tmp_path / "made.toml"
    file.write_text(text)
    plan = experiment.load(file, all_workloads(build=False))
    store = Store(tmp_path / "made.sqlite")
    store.begin(plan, 5, "0", machine.description(), "freehold-lab run made", allocators, {})
    for number, (replicate, cell, order) in enumerate(plan.plan([a.name for a in allocators], 5)):
        for position, name in enumerate(order):
            ended, wall, figures = run_of(cell, name, replicate)
            costs = {"wall": wall, "user": 0.1, "system": 0.1, "peak": 1e6, "integral": 1e6,
                     "faults": 10}
            store.add_run(number, 0, position, cell, replicate, name, ended, QUIET, costs,
                          figures.get("ratio"), figures)
        store.end_block(number, 0, "")
    return store, tmp_path / "made.sqlite"


@pytest.fixture
def results(tmp_path, allocators):
    def run_of(cell, name, replicate):
        ended, told = ENDS[cell.part, cell.memory][name][replicate]
        need = min(NEEDS[cell.part].values())
        return ended, replicate + 1, {"group": {"limit": int(cell.memory * need), **told}}
    store, path = filled(tmp_path, PLAN, allocators, run_of)
    for part, peaks in NEEDS.items():
        for name, peak in peaks.items():
            store.insert("need", cell=part, allocator=name, peak=peak)
    assert set(store.failed()) == set()
    store.close()
    return path


def found(results):
    return {table.name: table.frame for table in pressure.of_results(frame.read(results))}


def test_who_completes_at_which_limit(results):
    assert found(results)["pressure-outcomes"].to_dict("records") == [
        {"workload": "uma-test", "limit": 1.1, "bytes": 1100, "libc": "completes",
         "math": "killed", "resolve": "1 of 2"},
        {"workload": "uma-test", "limit": 2, "bytes": 2000, "libc": "completes",
         "math": "completes", "resolve": "too slow"},
        {"workload": "random-20k", "limit": 1.1, "bytes": 3300, "libc": "fails",
         "math": "killed", "resolve": "killed"},
        {"workload": "random-20k", "limit": 2, "bytes": 6000, "libc": "completes",
         "math": "killed", "resolve": "completes"}]


def test_the_tightest_limit_that_is_enough(results):
    """resolve completes a run of uma-test at the tighter limit, and none at the wider one."""
    assert found(results)["pressure-tightest"].to_dict("records") == [
        {"workload": "uma-test", "least need, bytes": 1000, "of": "libc", "libc": 1.1, "math": 2,
         "resolve": "none"},
        {"workload": "random-20k", "least need, bytes": 3000, "of": "libc", "libc": 2,
         "math": "none", "resolve": 2}]


def test_how_many_cells_each_completes_and_how_its_other_runs_end(results):
    assert found(results)["pressure-totals"].to_dict("records") == [
        {"allocator": "libc", "cells completed": 3, "cells": 4, "at the tightest": 2,
         "workloads": 2, "killed": 0, "no memory": 0, "too slow": 0, "fails": 2},
        {"allocator": "math", "cells completed": 1, "cells": 4, "at the tightest": 0,
         "workloads": 2, "killed": 5, "no memory": 1, "too slow": 0, "fails": 0},
        {"allocator": "resolve", "cells completed": 1, "cells": 4, "at the tightest": 1,
         "workloads": 2, "killed": 2, "no memory": 0, "too slow": 3, "fails": 0}]


def test_what_runs_cost_under_a_limit(results):
    rows = {(row["workload"], row["limit"], row["allocator"]): row
            for row in found(results)["pressure-cells"].to_dict("records")}
    assert len(rows) == 12
    assert rows["uma-test", 1.1, "resolve"] == {
        "workload": "uma-test", "limit": 1.1, "allocator": "resolve", "runs": 2, "completes": 1,
        "killed": 1, "no memory": 0, "too slow": 0, "fails": 0, "wall, s": 1, "major faults": 2,
        "limit met": 27}
    assert rows["uma-test", 1.1, "libc"]["wall, s"] == 1.5


def test_the_page_has_the_tables_and_time_against_limit(results, tmp_path):
    report.write(results, tmp_path / "page", with_png=False)
    told = json.loads((tmp_path / "page" / "report.json").read_text())
    assert len(told["tables"]["pressure-cells"]) == 12 and told["failed"] == []
    shown = (tmp_path / "page" / "index.html").read_text()
    assert "Who completes at which limit" in shown and "uma-test-wall-by-factor" in shown


def test_the_page_of_a_study_says_who_completes(results, tmp_path):
    report.write(results, tmp_path / "page", with_png=False, study=tmp_path / "study.md")
    shown = (tmp_path / "study.md").read_text()
    for title in ("who completes", "The tightest limit that is enough", "Who completes at which"):
        assert title in shown
    assert "## Runs under a limit" not in shown


def test_an_experiment_without_limits_has_none_of_these_tables(tmp_path, allocators):
    store, path = filled(tmp_path, DAY, allocators, lambda *_: ("ok", 1.0, {}))
    store.close()
    assert not found(path)


# ---- resident over live from phase to phase ------------------------------------------------------

SLOPES = {"libc": (0.5, 0.7), "math": (0.0, 0.0), "resolve": (-0.2, -0.4)}


@pytest.fixture
def day(tmp_path, allocators):
    def run_of(_, name, replicate):
        return "ok", 1.0, {"ratio": 1.2, "ratio_most": 1.5 + replicate, "slope_degrees": 23,
                           "slope": SLOPES[name][replicate], "slope_error": 0.3 + 0.1 * replicate,
                           "ratios": [1.0, 1.5 + replicate, 1.25]}
    store, path = filled(tmp_path, DAY, allocators, run_of)
    store.close()
    return frame.read(path)


def test_the_slope_of_several_runs_has_the_interval_of_all_of_them(day):
    rows = tables.growth_table("day", day.runs).frame.to_dict("records")
    half = stats.t.ppf(0.975, 46) * (0.3 ** 2 + 0.4 ** 2) ** 0.5 / 2
    assert [row["allocator"] for row in rows] == ["libc", "math", "resolve"]
    for row, slope in zip(rows, (0.6, 0.0, -0.3)):
        assert row["slope"] == pytest.approx(slope)
        assert (row["low"], row["high"]) == pytest.approx((slope - half, slope + half))
        assert (row["ratio"], row["most"], row["runs"]) == (1.2, 2.5, 2)


def test_the_ratio_is_drawn_from_phase_to_phase(day):
    drawn = pictures.ratios_of_run("day", day.runs, Palette(day.names)).figure.data
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in drawn] == [
        (name, [1, 2, 3], [1.0, 2.0, 1.25]) for name in ("libc", "math", "resolve")]


def test_workloads_without_ratios_have_neither_table_nor_picture(results):
    runs = frame.read(results).part("uma-test")
    assert tables.growth_table("uma-test", runs) is None
    assert pictures.ratios_of_run("uma-test", runs, None) is None
