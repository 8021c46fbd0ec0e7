"""runner_test.py - nothing measured is lost, and what goes wrong ends in a clear line"""

import json

import pytest

from freehold_lab import machine
from freehold_lab.places import Failed
from freehold_lab.runner import Runner, Setting, summary
from freehold_lab.store import Store


@pytest.fixture
def bench(tmp_path, workloads, allocators):
    """Carries an experiment out in one results file; its store, and what was said."""
    def carry_out(plan, seed=1, store=None, chosen=allocators):
        store = store or Store(tmp_path / "results.sqlite")
        said = []
        setting = Setting(plan, chosen, {}, seed, ["freehold-lab", "run", "test"])
        failed = Runner(store, setting, workloads, said.append).run()
        return store, failed, said
    return carry_out


def doing(what, to="libm.so"):
    return [{"workload": "fake", "parameters": {"do": what, "to": to}}]


def test_every_run_is_kept_with_its_costs_and_surroundings(make, bench):
    store, failed, _ = bench(make(replicates=3,
                                  parts=[{"workload": "fake", "factors": {"size": [1, 2]}}]))
    rows = store.runs()
    assert len(rows) == 3 * 2 * 3 and not failed
    assert {row["figure"] for row in rows} == {11.0, 12.0}
    for row in rows:
        assert row["ended"] == "ok" and row["wall"] > 0
        assert row["peak"] > 100000 and row["faults"] > 0
        assert row["load"] is not None and row["foreign_share"] >= 0
    assert store.experiment()["seed"] == 1 and store.experiment()["machine"]["kernel"]
    assert len({row["position"] for row in rows}) == 3


WRONG = {"crash": "killed by SIGSEGV", "lie": "malloc came from /lib/other.so",
         "fail": "exit code 3: no memory left", "babble": "no JSON line but 'hello"}


@pytest.mark.parametrize("what, told", WRONG.items(), ids=WRONG)
def test_an_allocator_that_goes_wrong_is_named_and_costs_the_others_nothing(make, bench, what,
                                                                            told):
    store, failed, said = bench(make(replicates=4, parts=doing(what)))
    assert list(failed) == [("fake", "math")] and all(told in how for how in failed["fake", "math"])
    assert [line.endswith("not run there again") for line in said if told in line] == [False, True]
    assert [row["allocator"] for row in store.runs() if row["ended"] != "ok"] == ["math"] * 2
    fine = sorted(row["allocator"] for row in store.runs() if row["ended"] == "ok")
    assert fine == ["libc"] * 4 + ["resolve"] * 4


LIMITED = {"replicates": 3, "parts": [{
    "workload": "fake", "parameters": {"do": "hog", "to": "libm.so"},
    "factors": {"limit": {"memory": [4]}}}]}


def test_the_least_need_is_the_least_peak_and_what_a_limit_ends_is_no_failure(make, bench, limits):
    """Of three allocators one needs 60 MB more than the others."""
    store, failed, said = bench(make(**LIMITED))
    peaks = store.needs()["fake"]
    assert set(peaks) == {"libc", "math", "resolve"} and peaks["math"] > 60e6
    assert peaks["libc"] < 10e6 and not failed
    given = {json.loads(row["figures"])["group"]["limit"] for row in store.runs()}
    assert given == {int(4 * min(peaks.values()))}
    ends = {(row["allocator"], row["ended"] == "ok") for row in store.runs()}
    assert ends == {("libc", True), ("resolve", True), ("math", False)}
    killed = [json.loads(row["figures"])["group"] for row in store.runs()
              if row["allocator"] == "math"]
    assert len(killed) == 3 and all(group["killed"] and group["met"] for group in killed)
    assert summary(store).endswith("0 failed runs, 3 ended by a limit of memory")
    assert not any("math" in line for line in said)


def test_needs_are_measured_once(make, bench, monkeypatch, limits):
    plan = make(**{**LIMITED, "replicates": 1})
    store, _, _ = bench(plan)
    runs = stopping_after(0, monkeypatch, None)
    bench(plan, store=store)
    assert not runs


def test_a_failure_under_a_limit_that_was_never_met_is_a_failure(make, bench, limits):
    parts = [{**doing("lie")[0], "factors": {"limit": {"memory": [4]}}}]
    store, failed, said = bench(make(parts=parts))
    assert set(store.needs()["fake"]) == {"libc", "resolve"}
    assert list(failed) == [("fake: limit=4", "math")]
    assert any("malloc came from" in line for line in said)


def test_a_cell_that_nobody_completes_without_a_limit_is_left_out_and_named(make, bench,
                                                                            limits):
    parts = [{**doing("fail", "")[0], "factors": {"limit": {"memory": [2]}}}, {"workload": "fake"}]
    parts[1]["name"] = "other"
    store, failed, said = bench(make(parts=parts))
    assert {row["part"] for row in store.runs()} == {"other"} and not failed
    assert "fake: left out: no allocator completes it without a limit" in store.notes()


def test_a_program_that_hangs_is_ended_at_its_limit(make, bench):
    store, failed, _ = bench(make(parts=doing("hang"), time_limit=1))
    assert failed["fake", "math"] == ["fake: still running after 1 s"] * 2
    assert len([row for row in store.runs() if row["ended"] == "ok"]) == 4


def test_a_missing_program_is_left_out_and_named(make, bench):
    store, failed, said = bench(make(parts=[{"workload": "fake"}, {"workload": "gone"}]))
    assert {row["part"] for row in store.runs()} == {"fake"} and not failed
    assert any(line.startswith("gone: left out: no program") for line in said)
    assert any("gone: left out" in note for note in store.notes())


def test_nothing_to_run_is_a_failure(make, bench):
    with pytest.raises(Failed, match="nothing to run: no program"):
        bench(make(parts=[{"workload": "gone"}]))


def stopping_after(number, monkeypatch, problem):
    """The workload's run of that number raises instead."""
    from freehold_lab.workloads import BenchProgram
    real, runs = BenchProgram.run, []

    def run(self, launch, parameters):
        runs.append(1)
        if len(runs) == number:
            raise problem
        return real(self, launch, parameters)
    monkeypatch.setattr(BenchProgram, "run", run)
    return runs


def test_an_interrupted_experiment_goes_on_where_it_stopped(make, bench, monkeypatch):
    plan = make(replicates=3, parts=[{"workload": "fake", "factors": {"size": [1, 2]}}])
    whole = plan.plan(["libc", "math", "resolve"], 1)
    runs = stopping_after(8, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench(plan)
    store, _, said = bench(plan)
    assert len(store.runs()) == 18 and len(runs) == 18 + 1
    assert any("2 of 6 blocks are there; going on" in line for line in said)
    order = [(row["replicate"], row["cell"], row["allocator"]) for row in store.runs()]
    assert order == [(replicate, cell.key, name) for replicate, cell, names in whole
                     for name in names]


def test_a_complete_experiment_runs_nothing_again(make, bench, monkeypatch):
    bench(make())
    runs = stopping_after(0, monkeypatch, None)
    bench(make())
    assert not runs


def test_a_full_disk_ends_in_a_clear_line_and_loses_no_run(make, bench, tmp_path):
    plan = make(replicates=300)
    store = Store(tmp_path / "results.sqlite")
    pages = store.rows("pragma page_count")[0]["page_count"]
    store.base.execute(f"pragma max_page_count = {pages + 4}")
    with pytest.raises(Failed, match="results.sqlite: .*full; all runs before this one are kept"):
        bench(plan, store=store)
    store.close()
    kept = Store(tmp_path / "results.sqlite").runs()
    assert kept and all(row["ended"] == "ok" for row in kept)


def test_what_the_machine_refuses_stops_the_experiment_and_blames_no_allocator(make, bench,
                                                                               workloads):
    workloads["fake"].program.chmod(0o644)
    with pytest.raises(Failed, match="Permission denied"):
        bench(make())
    workloads["fake"].program.chmod(0o755)
    store, failed, _ = bench(make())
    assert len(store.runs()) == 6 and not failed


def test_a_full_temporary_folder_stops_the_experiment_and_blames_no_allocator(make, bench,
                                                                              monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device", "/tmp/x")
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkdtemp", full)
        with pytest.raises(OSError, match="No space left"):
            bench(make())
    assert len(bench(make())[0].runs()) == 6


def test_another_experiment_does_not_go_on_in_the_same_file(make, bench):
    bench(make())
    with pytest.raises(Failed, match="belongs to another experiment"):
        bench(make(replicates=3))


def test_other_allocators_do_not_go_on_in_the_same_file(make, bench, allocators):
    bench(make())
    with pytest.raises(Failed, match="was begun with libc, math, resolve"):
        bench(make(), chosen=allocators[:2])


def test_a_library_that_was_rebuilt_does_not_go_on_in_the_same_file(make, bench, allocators):
    bench(make())
    allocators[1].path = allocators[2].path
    with pytest.raises(Failed, match="math is not the library"):
        bench(make(), chosen=allocators)


class Busy:
    """Another program takes half of the machine, for the first `times` runs."""

    def __init__(self, times):
        self.left = times

    def since(self, _, before):
        self.left -= 1
        return {"steal": 0.0, "foreign": 0.5 if self.left >= 0 else 0.0}


def test_a_disturbed_block_is_run_again_and_said_so(make, bench, monkeypatch):
    busy = Busy(times=3)
    monkeypatch.setattr(machine.Moment, "since", lambda moment, before: busy.since(moment, before))
    store, _, said = bench(make(disturbance={"foreign": 0.1, "retries": 2}))
    assert len(store.runs()) == 6 and len(store.rows("select * from run")) == 9
    assert {row["attempt"] for row in store.runs()} == {0, 1}
    assert not any(row["disturbed"] for row in store.runs())
    assert any("disturbed (50% of processor time used by other programs); again" in line
               for line in said)


def test_a_block_that_is_always_disturbed_is_kept_and_marked(make, bench, monkeypatch):
    busy = Busy(times=1000)
    monkeypatch.setattr(machine.Moment, "since", lambda moment, before: busy.since(moment, before))
    store, _, said = bench(make(replicates=1, disturbance={"foreign": 0.1, "retries": 2}))
    assert {row["attempt"] for row in store.runs()} == {2}
    assert all("50%" in row["disturbed"] for row in store.runs())
    assert any("still disturbed" in line for line in said)


def test_a_block_that_was_interrupted_is_judged_by_all_its_runs(make, bench, monkeypatch):
    busy = Busy(times=1)
    monkeypatch.setattr(machine.Moment, "since", lambda moment, before: busy.since(moment, before))
    plan = make(replicates=1, disturbance={"foreign": 0.1, "retries": 0})
    stopping_after(2, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench(plan)
    store, _, _ = bench(plan)
    reasons = [why for _, why in store.blocks().values()]
    assert reasons == ["50% of processor time used by other programs"]


def test_calls_are_counted_once_for_each_cell_and_allocator(make, bench):
    store, _, _ = bench(make(responses=["wall", "calls"]))
    counts = store.counts()
    assert set(counts) == {("fake", "libc"), ("fake", "math"), ("fake", "resolve")}
    assert all(count["mmap"] > 0 and count["calls"] >= count["mmap"] for count in counts.values())


def test_bytes_that_are_asked_for_are_counted_with_the_calls(make, bench):
    store, _, _ = bench(make(responses=["wall", "asked"]))
    for count in store.counts().values():
        assert count["mmap"] > 0 and count["asked"] >= 4096 * count["mmap"]
        assert count["difference"] == count["asked"] - count["released"]


def test_the_levels_of_a_run_are_kept_as_numbers(make, bench):
    store, _, _ = bench(make(parts=[{"workload": "fake", "factors": {"size": [1, 20]}}]))
    assert {json.loads(row["levels"])["size"] for row in store.runs()} == {1, 20}
