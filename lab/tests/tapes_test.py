"""Shipped tapes: each is a workload, an experiment has all of them, and the package as well."""

import lzma
import tomllib
from pathlib import Path

import pytest

from freehold_lab import experiment, tapes
from freehold_lab.places import PACKAGE, Failed, repository
from freehold_lab.workloads import all_workloads

ROWS = tapes.shipped()


def test_every_tape_has_a_row_and_every_row_a_tape():
    assert {tape.path for tape in ROWS} == set(tapes.FOLDER.glob("*.xz")) and len(ROWS) == 5
    assert sum(tape.path.stat().st_size for tape in ROWS) < 12 << 20


@pytest.mark.parametrize("tape", ROWS, ids=lambda tape: tape.name)
def test_a_tape_is_given_unpacked_to_the_program_that_replays_it(tape, tmp_path):
    command = tapes.Recorded(tape, tmp_path).command({"touch": "all"})
    assert command[:3] == [str(tmp_path / "replay"), "--touch", "all"] and command[3] == "--tape"
    assert Path(command[4]).read_bytes() == lzma.decompress(tape.path.read_bytes())


def test_the_experiment_has_every_tape():
    shipped = experiment.load(experiment.find("tapes"), all_workloads(build=False))
    assert {part.workload for part in shipped.parts} == {f"tape-{tape.name}" for tape in ROWS}


def test_what_is_not_there_is_named(tmp_path):
    gone = tapes.Recorded(ROWS[0], tmp_path)
    assert "no program" in gone.missing()
    (tmp_path / "replay").touch()
    assert gone.missing() == ""
    none = tapes.Tape("none", "nothing", 1, 1, 1, 1, 1, 1)
    assert "none.tape.xz" in tapes.Recorded(none, tmp_path).missing()


def test_a_row_of_another_width_is_refused_by_its_name():
    with pytest.raises(Failed, match="row half"):
        tapes.read_table("| name | what |\n| --- | --- |\n| `half` | of a row |\n")


def test_the_package_has_every_file_that_is_no_program_of_python():
    project = tomllib.loads((repository() / "lab" / "pyproject.toml").read_text())
    globs = project["tool"]["setuptools"]["package-data"]["freehold_lab"]
    packed = {path for pattern in globs for path in PACKAGE.glob(pattern)}
    assert {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".py"
            and path.suffix != ".pyc"} == packed
