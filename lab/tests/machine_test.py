"""machine_test.py - what disturbs a measurement is told from what only looks like it"""

import os

import pytest

from freehold_lab import machine
from freehold_lab.machine import Moment

TICK = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture(autouse=True)
def two_processors(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def shares(total, busy, stolen, own):
    """After a while in which the counters went on by so many ticks, `own` of them ours."""
    return Moment(1000 + total, 500 + busy, 7 + stolen, 3.0 + own * TICK,
                  0.0).since(Moment(1000, 500, 7, 3.0, 0.0))


def test_ticks_that_only_round_are_no_disturbance():
    assert shares(total=4, busy=3, stolen=1, own=1.2) == {"steal": 0.0, "foreign": 0.0}


def test_another_program_is_noticed():
    assert shares(total=200, busy=160, stolen=0, own=100)["foreign"] == pytest.approx(0.285)


def test_a_hypervisor_that_takes_time_is_noticed():
    assert shares(total=200, busy=100, stolen=21, own=100)["steal"] == pytest.approx(0.1)


def test_our_own_work_is_no_disturbance():
    before = Moment.now()
    os.system("i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done")
    after = Moment.now()
    assert after.own > before.own and after.total >= before.total
    quiet = Moment(after.total, before.busy + round((after.own - before.own) / TICK), before.stolen,
                   after.own, 0.0)
    assert quiet.since(before)["foreign"] == 0.0


def test_the_machine_is_described_with_what_results_depend_on():
    found = machine.description()
    assert found["processors"] >= 1 and found["libc"].startswith("glibc") and found["kernel"]
    assert found["frequency"] in ("read", "cannot be read here")


def test_caches_are_told_with_the_processors_that_share_them(tmp_path):
    for processor in range(4):
        for index, (level, kind, shared) in enumerate(
                ((1, "Data", f"{processor}"), (2, "Unified", ("0-1", "2-3")[processor // 2]))):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{processor}/cache/index{index}"
            folder.mkdir(parents=True)
            for name, value in (("level", level), ("type", kind), ("size", "32K"),
                                ("coherency_line_size", 64), ("shared_cpu_list", shared)):
                (folder / name).write_text(f"{value}\n")
    assert machine.caches(tmp_path) == [
        {"level": 1, "type": "Data", "size": "32K", "line": "64 bytes",
         "shared by processors": "0; 1; 2; 3"},
        {"level": 2, "type": "Unified", "size": "32K", "line": "64 bytes",
         "shared by processors": "0-1; 2-3"}]
    assert machine.caches(tmp_path / "sys") == []
