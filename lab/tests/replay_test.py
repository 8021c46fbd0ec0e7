"""The commands `replay` and `graph`: what they take, and what they say."""

import json
import lzma
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from freehold_lab import graph, replay
from freehold_lab.allocators import library
from freehold_lab.cli import main
from freehold_lab.places import Failed


def test_a_file_that_is_neither_a_trace_nor_a_tape_is_refused_by_its_name(tmp_path, capsys):
    other = tmp_path / "other"
    other.write_text("something else")
    for name, message in ((other, "neither a trace nor a tape"), (tmp_path / "none", "no such")):
        assert main(["replay", str(name)]) == 1
        assert message in capsys.readouterr().err


def test_a_compressed_tape_is_taken_as_the_tape_that_it_holds(tmp_path):
    plain = tmp_path / "plain.tape"
    plain.write_bytes(replay.TAPE + b"calls")
    packed = tmp_path / "packed.tape.xz"
    replay.write_tape(plain, packed)
    assert lzma.decompress(packed.read_bytes()) == plain.read_bytes()
    tape, said = replay.tape_of(packed, None)
    assert Path(tape).read_bytes() == plain.read_bytes() and said == {}
    damaged = tmp_path / "damaged.xz"
    damaged.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(Failed, match="damaged.xz"):
        replay.tape_of(damaged, None)


def test_the_fastest_allocator_stands_first_and_ratios_are_to_the_best_of_each_column():
    def run(seconds, peak):
        return {"seconds": seconds, "processor_seconds": seconds, "peak": peak}

    lines = replay.summary({"slow": [run(4.0, 1 << 20), run(2.0, 1 << 20), run(3.0, 1 << 20)],
                            "large": [run(1.5, 4 << 20)]}).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["large", "slow"]
    assert lines[2].split()[1:3] == ["1.500", "1.00"] and lines[2].endswith("4.00")
    assert lines[3].split()[1:3] == ["3.000", "2.00"] and lines[3].endswith("1.00")
    assert "2.000 to 4.000" in lines[3]


def test_a_row_of_the_picture_has_the_address_of_its_range():
    said = {"ranges": [[0x10000, 0x40000, 0], [0x80000, 0xa0000, 3]], "row": 0x10000}
    assert [graph.address_of(said, row) for row in range(5)] == [0x10000, 0x20000, 0x30000,
                                                                 0x80000, 0x90000]


def test_columns_stand_for_milliseconds_or_calls():
    said = {"ns": 4_000_000, "events": 100}
    assert graph.steps(said, SimpleNamespace(by="time", columns=4)) == [1, 2, 3, 4]
    assert graph.steps(said, SimpleNamespace(by="calls", columns=2)) == [50, 100]


def test_places_without_a_block_so_far_are_told_from_empty_ones(monkeypatch, tmp_path):
    def fake(command, _):
        Path(command[2]).write_bytes(bytes([0, 255, 1, 128]))
        return json.dumps({"rows": 2, "row": 65536, "ranges": [[0, 131072, 0]], "cut": False})

    monkeypatch.setattr(graph, "watch", fake)
    monkeypatch.setattr(graph, "native", lambda name: name)
    _, grid = graph.grid_of(SimpleNamespace(trace=tmp_path, columns=2, rows=2, by="time"))
    assert grid == [[-1, 0], [254, 127]]


def test_the_scale_begins_with_white_for_what_was_never_used():
    marks = graph.scale()
    assert marks[0] == [0, graph.NEVER] and marks[-1][0] == 1
    assert [at for at, _ in marks] == sorted(at for at, _ in marks)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Of a program of the repository's page about insight."""
    folder = tmp_path_factory.mktemp("trace")
    source = Path(__file__).resolve().parents[2] / "examples" / "peak.c"
    subprocess.run(["cc", "-O2", "-pthread", source, "-o", folder / "peak"], check=True)
    variables = {"LD_PRELOAD": str(library()), "FREEHOLD_OPTIONS": f"trace:{folder}/peak.trace"}
    subprocess.run([folder / "peak", "80000"], env=variables, check=True,
                   stdout=subprocess.DEVNULL)
    return folder / "peak.trace"


def test_the_page_of_a_trace_loads_by_itself_and_shows_a_part_alone(
        trace, tmp_path, browser, opens_by_itself):
    page = tmp_path / "peak.html"
    assert main(["graph", str(trace), "--png", "--columns", "300", "--rows", "200", "--out",
                 str(page)]) == 0
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    opens_by_itself(page)
    ask = "return document.querySelector('.js-plotly-plot')"
    cells = browser.execute_script(ask + ".data[0].z")
    assert {len(row) for row in cells} == {300} and len(cells) <= 200
    assert max(max(row) for row in cells) > 200 and min(min(row) for row in cells) == -1
    whole = browser.execute_script(ask + ".layout.xaxis.range")
    drag = "const p = document.querySelector('.js-plotly-plot');" \
        "return Plotly.relayout(p, {'xaxis.range': [1, 2]}).then(() => p.layout.xaxis.range)"
    assert browser.execute_script(drag) == [1, 2] != whole


def test_a_trace_of_which_only_the_figures_are_wanted(trace, capsys):
    assert main(["graph", str(trace), "--json", "--columns", "40", "--by", "calls"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["live"]) == 40 and {len(row) for row in said["shares"]} == {40}
    assert max(said["live"]) > 30_000_000 > 5 * said["live"][-1]


def test_a_trace_that_is_cut_short_is_drawn_and_said(trace, tmp_path, capsys):
    cut = tmp_path / "cut.trace"
    cut.write_bytes(trace.read_bytes()[:-1000])
    assert main(["graph", str(cut), "--json", "--columns", "40"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["cut"] and "cut short" in output.err


def test_a_trace_becomes_a_tape_that_is_smaller(trace, tmp_path, capsys):
    tape = tmp_path / "peak.tape.xz"
    assert main(["replay", str(trace), "--tape", str(tape)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["threads"], said["cut"], said["lost"]) == (9, False, 0)
    assert said["peak"] > 30_000_000
    assert tape.stat().st_size < trace.stat().st_size / 4
    packed, _ = replay.tape_of(tape, None)
    assert Path(packed).read_bytes().startswith(replay.TAPE)
