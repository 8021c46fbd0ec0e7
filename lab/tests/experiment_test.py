"""experiment_test.py - what an experiment file means, and that a bad one is told with the place"""

import pytest

from freehold_lab import experiment
from freehold_lab.places import Failed
from freehold_lab.workloads import all_workloads

BAD = {
    "no replicates": ({"replicates": 0}, "replicates is 0, has to be 1 or more"),
    "everything discarded": ({"discard": 2}, "nothing would be left"),
    "a key that is none": ({"replicate": 3}, "no key replicate; there are"),
    "a word for a number": ({"replicates": "many"}, "replicates should be of type int, is 'many'"),
    "truth for a number": ({"replicates": True}, "should be of type int"),
    "a response that is none": ({"responses": ["speed"]}, "no response 'speed'; there are wall"),
    "no time": ({"time_limit": 0}, "time_limit is 0"),
    "no parts": ({"parts": []}, "no parts"),
    "a workload that is none": ({"parts": [{"workload": "x"}]},
                                "parts[0]: no workload x; there are fake, gone"),
    "a part without workload": ({"parts": [{}]}, "parts[0]: workload is missing"),
    "a parameter that is none": ({"parts": [{"workload": "fake", "parameters": {"seize": 1}}]},
                                 "parts[0].parameters: no key seize"),
    "a factor that is none": ({"parts": [{"workload": "fake", "factors": {"seize": [1]}}]},
                              "parts[0].factors.seize: no key seize"),
    "a factor without levels": ({"parts": [{"workload": "fake", "factors": {"size": []}}]},
                                "levels has to be"),
    "a level twice": ({"parts": [{"workload": "fake", "factors": {"size": [1, 1]}}]},
                      "a level stands there twice"),
    "two parts of one name": ({"parts": [{"workload": "fake"}] * 2},
                              "two parts have the same name"),
    "no processors": ({"parts": [{"workload": "fake", "factors": {"NP": {"processors": [0]}}}]},
                      'processors has to be "all" or a list'),
    "no memory": ({"parts": [{"workload": "fake", "factors": {"limit": {"memory": [0]}}}]},
                  "memory has to be a list of numbers above 0: multiples of the least need"),
    "calls of runs with little memory": (
        {"responses": ["calls"],
         "parts": [{"workload": "fake", "factors": {"limit": {"memory": [2]}}}]},
        "calls are counted in runs of their own, in which memory is not limited"),
    "a slope over nothing": ({"parts": [{"workload": "fake", "slope": "NA"}]}, "slope names NA"),
    "a table of no factor": (
        {"parts": [{"workload": "fake", "factors": {"size": [1, 2]},
                    "tables": [{"response": "wall", "rows": "size", "columns": "NP"}]}]},
        "parts[0].tables[0]: columns names NP, which is no factor"),
    "bars at a level that is none": (
        {"parts": [{"workload": "fake", "factors": {"size": [1, 2], "threads": [1, 2]},
                    "bars": [{"response": "wall", "fixed": {"size": 3}, "by": "threads"}]}]},
        "parts[0].bars[0]: fixed size = 3: there are 1, 2"),
    "bars that leave a factor out": (
        {"parts": [{"workload": "fake", "factors": {"size": [1, 2], "threads": [1, 2]},
                    "bars": [{"response": "wall", "by": "threads"}]}]},
        "each factor of the part has to be fixed or in `by`"),
    "a curve that is none": (
        {"parts": [{"workload": "fake", "factors": {"size": [1, 2]},
                    "curves": [{"kind": "pie", "response": "wall", "over": "size"}]}]},
        "parts[0].curves[0]: kind has to be line or box, is 'pie'"),
    "a curve over one of two factors": (
        {"parts": [{"workload": "fake", "factors": {"size": [1, 2], "threads": [1, 2]},
                    "curves": [{"kind": "line", "response": "wall", "over": "size"}]}]},
        "size has to be the only factor of the part"),
    "scaled bars of no part": ({"scaled": {"parts": ["gone"]}}, "scaled: no part gone"),
    "two ways to count": ({"responses": ["asked", "system_calls"]},
                          "asked and system_calls are counted in different runs"),
    "a disturbance that is none": ({"disturbance": {"noise": 1}}, "disturbance: no key noise"),
}


@pytest.mark.parametrize("change, complaint", BAD.values(), ids=BAD)
def test_a_bad_file_is_told_with_the_place(make, change, complaint):
    with pytest.raises(Failed) as told:
        make(**change)
    assert str(told.value).startswith("test.toml: ") and complaint in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_is_no_toml_is_told_with_the_line(tmp_path, workloads):
    file = tmp_path / "bad.toml"
    file.write_text('name = "x"\nreplicates = = 3\n')
    with pytest.raises(Failed, match="bad.toml.*line 2"):
        experiment.load(file, workloads)


def test_an_unknown_name_lists_what_is_shipped():
    with pytest.raises(Failed, match="no experiment nothing: .*quick.*seed-2014"):
        experiment.find("nothing")


def test_cells_are_all_combinations_of_levels(make):
    factors = {"size": [1, 2, 3], "T": {"parameter": "threads", "levels": [1, 2]},
               "NP": {"processors": [1]},
               "both": {"levels": {"small": {"size": 1}, "large": {"size": 9}}}}
    cells = make(parts=[{"workload": "fake", "factors": factors}]).cells()
    assert len({cell.key for cell in cells}) == 12
    assert {cell.processors for cell in cells} == {1}
    last = dict(cells[-1].parameters)
    assert (last["threads"], last["size"]) == (2, 9)


def test_cells_with_limits_of_memory_have_one_without_in_common(make):
    factors = {"size": [1, 2], "limit": {"memory": [1.1, 2]}}
    cells = make(parts=[{"workload": "fake", "factors": factors}]).cells()
    assert [cell.memory for cell in cells] == [1.1, 2, 1.1, 2]
    assert cells[0].key == "fake: size=1, limit=1.1"
    assert {cell.unlimited.key for cell in cells} == {"fake: size=1", "fake: size=2"}
    assert not cells[0].unlimited.memory


def test_a_level_that_the_machine_lacks_is_told_with_the_option_that_leaves_it_out(make):
    tried = make(parts=[{"workload": "fake", "factors": {"NP": {"processors": [1, 2, 3, 4]}}}])
    tried.fit_processors(4, False)
    with pytest.raises(Failed, match="fake: NP = 3, 4: there are only 2 processors here; "
                                     "--fewer-processors"):
        tried.fit_processors(2, False)
    assert len(tried.cells()) == 4
    tried.fit_processors(2, True)
    assert [cell.processors for cell in tried.cells()] == [1, 2]
    assert tried.text.endswith("# without fake: NP = 3, 4\n")
    with pytest.raises(Failed, match="nothing is left for 0 processors"):
        tried.fit_processors(0, True)


def test_quick_values_give_way_to_those_of_the_part(make):
    part = {"workload": "fake", "quick": True}
    assert dict(make(parts=[part]).cells()[0].parameters) == {"size": 2}
    first = make(parts=[{**part, "parameters": {"size": 5}}]).cells()[0]
    assert dict(first.parameters) == {"size": 5}


def test_every_block_has_every_allocator_once_and_the_order_follows_from_the_seed(make):
    tried = make(replicates=5, parts=[{"workload": "fake", "factors": {"size": [1, 2, 3]}}])
    plan = tried.plan(["p", "q", "r"], 3)
    assert plan == tried.plan(["p", "q", "r"], 3) != tried.plan(["p", "q", "r"], 4)
    assert all(sorted(order) == ["p", "q", "r"] for _, _, order in plan)
    assert len({(replicate, cell.key) for replicate, cell, _ in plan}) == len(plan) == 15
    assert len({tuple(order) for _, _, order in plan}) > 1
    rounds = [tuple(cell.key for replicate, cell, _ in plan if replicate == number)
              for number in range(5)]
    assert len(set(rounds)) > 1


@pytest.mark.parametrize("name", experiment.shipped_names())
def test_what_is_shipped_fits_the_workloads_of_the_repository(name):
    shipped = experiment.load(experiment.find(name), all_workloads(build=False))
    assert shipped.name == name and shipped.about and shipped.cells()


def test_the_published_plan_of_2014_has_its_levels():
    part = experiment.load(experiment.find("seed-2014"), all_workloads(build=False)).parts[0]
    assert [level.value for level in part.factors["NA"]] == [250000, 500000, 1000000]
    assert [level.processors for level in part.factors["NP"]] == [1, 2, 3, 4]
    assert [level.label for level in part.factors["SA"]] == ["16..64", "256..1024"]
    assert [level.value for level in part.factors["NT"]] == [1, 2, 3, 4]
