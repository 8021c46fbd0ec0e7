"""pictures_test.py - pictures say what was measured, in units one can read; names are legible"""

import math

import pandas
import pytest
from scipy import stats

from freehold_lab import drawing, pictures
from freehold_lab.workloads import Figure

NAMES = ["libc", "freehold", "other"]


def ratios_of(parts):
    """A table of ratios in which every part has one cell."""
    return pandas.DataFrame([{"part": part, "cell": part, "allocator": name, "ratio": 0.5}
                             for part in parts for name in NAMES[1:]])


def test_few_workloads_are_one_picture_with_a_row_for_each_response():
    drawn = list(pictures.scaled_bars({"time": ratios_of("pqr"), "peak": ratios_of("pqr")}, "libc",
                                      drawing.Palette(NAMES)))
    assert [picture.name for picture in drawn] == ["scaled"] and len(drawn[0].figure.data) == 2 * 2


def test_many_workloads_are_a_picture_for_each_response_and_none_is_missing():
    parts = [f"part-{n}" for n in range(57)]
    drawn = list(pictures.scaled_bars({"time": ratios_of(parts), "peak": ratios_of(parts)}, "libc",
                                      drawing.Palette(NAMES)))
    assert [picture.name for picture in drawn] == ["scaled-time", "scaled-peak"]
    for picture in drawn:
        rows = [trace.x for trace in picture.figure.data if trace.name == "freehold"]
        assert [part for row in rows for part in row] == parts
        lengths = [len(row) for row in rows]
        assert max(lengths) <= pictures.IN_A_ROW and max(lengths) - min(lengths) <= 1


def test_the_interval_of_a_mean_comes_from_the_spread_within_cells():
    """Two cells far apart: their distance is no chance. For one cell it is Student's interval."""
    runs = pandas.DataFrame({"cell": ["p"] * 3 + ["q"] * 3,
                             "y": [1.0, 1.1, 1.2, 100.0, 100.1, 100.2]})
    mean, half = pictures.mean_of_cells(runs, "y")
    assert mean == pytest.approx(50.6) and 0 < half < 0.2
    one = runs[runs.cell == "p"]
    low, high = stats.t.interval(0.95, 2, one.y.mean(), stats.sem(one.y))
    assert pictures.mean_of_cells(one, "y") == pytest.approx((one.y.mean(), (high - low) / 2))


def test_a_process_that_had_just_ended_is_not_seen_as_empty():
    run = {"resident": "[[0.005, 4096], [0.01, 8192], [0.015, 0]]", "wall": 0.014}
    assert pictures.resident_of(run) == [(0, 0), (0.005, 4096), (0.01, 8192), (0.014, 8192)]
    assert pictures.resident_of({"resident": "[]", "wall": 2.0}) == [(0, 0), (2.0, 0)]


def test_units_are_the_largest_in_which_the_middle_is_not_below_one():
    for values, unit, expected in (([0.002, 0.03, 4.0], "s", (1e-3, "ms")),
                                   ([2.0, 3.0], "s", (1, "s")),
                                   ([3e6, 5e6], "bytes", (1 << 20, "MiB")),
                                   ([0.5], "ratio", (1, "ratio")),
                                   ([7.0], "ns", (1, "ns")),
                                   ([0.0], "bytes", (1, "bytes"))):
        assert drawing.scale_of(pandas.Series(values), unit) == expected


def test_over_a_decade_a_logarithmic_axis_has_numbers_for_two_digits_alone():
    assert drawing.log_axis([0.2, 30]) == {"type": "log", "dtick": "D2"}
    assert drawing.log_axis([57, 245]) == drawing.log_axis([0, 57, 245]) == {"type": "log"}


def test_a_workloads_own_figure_is_named():
    assert drawing.axis_title("figure", Figure("ns", "ns")) == "time of one operation, ns"
    assert drawing.axis_title("figure", Figure("walk_ns", "ns")) == "walk, ns"
    assert drawing.axis_title("figure", Figure("ratio", "ratio")) == "ratio"
    assert drawing.axis_title("peak", Figure("ns", "ns")) == "peak resident memory, bytes"


def test_freehold_is_drawn_strongest_and_on_top():
    palette = drawing.Palette(NAMES)
    ours, other = palette.line("freehold"), palette.line("other")
    assert ours["zorder"] > other["zorder"] and ours["line"]["width"] > 2 * other["line"]["width"]


def test_no_two_allocators_look_alike():
    looks = [drawing.Palette(map(str, range(14))).of(str(n)) for n in range(14)]
    assert len({look["color"] for look in looks}) == len({look["symbol"] for look in looks}) == 14


def at(x, y):
    return tuple({"ratio": value, "low": value * 0.99, "high": value * 1.01} for value in (x, y))


def test_a_name_at_the_edge_of_the_picture_is_not_cut_off():
    places = drawing.places_of({"leftmost": at(0.2, 2), "rightmost": at(3, 1)}, 900, 380)
    assert places["leftmost"].endswith("right") and places["rightmost"].endswith("left")


def test_names_of_neighbours_do_not_cover_each_other():
    points = {"jemalloc": at(0.41, 1.44), "rpmalloc": at(0.44, 1.40), "freehold": at(0.40, 1.38),
              "libc": at(1, 1), "last": at(0.2, 3)}
    places = drawing.places_of(points, 900, 380)
    offsets = {name: (left, top) for name, left, top in drawing.PLACES}
    boxes = []
    for name, (x, y) in points.items():
        left, top = offsets[places[name]]
        across = 900 * math.log(x["ratio"]) / (math.log(1.01) - math.log(0.198))
        up = 380 * math.log(y["ratio"]) / (math.log(3.03) - math.log(0.99))
        wide = drawing.LETTER * len(name)
        boxes.append((across + left * wide, -up + top * drawing.LINE, across + (left + 1) * wide,
                      -up + (top + 1) * drawing.LINE))
    assert sum(drawing.overlap(one, other)
               for n, one in enumerate(boxes) for other in boxes[:n]) == 0
