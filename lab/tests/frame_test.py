"""frame_test.py - what the speed of a run is compared by"""

import json

import pytest

from freehold_lab.analysis import frame
from freehold_lab.workloads import Figure

TIMES = {
    "a time of the work": (Figure("walk_ns", "ns"), 20.0, {"ns": 5.0}, 20e-9),
    "seconds of the work": (Figure("seconds", "s"), 0.5, {"ns": 5.0}, 0.5),
    "a rate": (Figure("requests_per_second", "1/s", False), 4.0, {}, 0.25),
    "a percentile": (Figure("malloc_p99", "ns"), 9000.0, {"ns": 5.0}, 5e-9),
    "memory of a program that says its time": (Figure("ratio", "ratio"), 1.1, {"ns": 7.0}, 7e-9),
    "memory of a program that does not": (Figure("resident", "bytes"), 4096.0, {}, 3.0),
}


@pytest.mark.parametrize("figure, value, figures, seconds", TIMES.values(), ids=TIMES)
def test_a_speed_is_compared_by_the_time_of_the_work(figure, value, figures, seconds):
    row = {"figure": value, "figures": json.dumps(figures), "wall": 3.0}
    assert frame.time_of(row, figure) == pytest.approx(seconds)
