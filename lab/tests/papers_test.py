"""papers_test.py - the tables and figures that are laid out as those of papers, from data whose
answers are known: each cell is compared"""

import itertools
import json
import math
import re
import tomllib
from pathlib import Path

import numpy
import pytest
from scipy import stats

from freehold_lab import drawing, experiment, machine, pictures, report, tables
from freehold_lab.allocators import Allocator, libc_path
from freehold_lab.analysis import frame
from freehold_lab.store import Store
from freehold_lab.workloads import all_workloads

QUIET = {"load": 0.1, "steal": 0.0, "foreign_share": 0.0, "frequency": None, "temperature": None}
NAMES = ("libc", "math", "resolve")


@pytest.fixture(scope="module")
def libraries():
    folder = Path(libc_path()).parent
    return [Allocator(name, str(path)) for name, path in
            zip(NAMES, (libc_path(), folder / "libm.so.6", folder / "libresolv.so.2"))]


def shipped(name, **replaced):
    """A shipped experiment with other numbers of replicates."""
    workloads = all_workloads(build=False)
    text = experiment.find(name).read_text()
    for key, value in replaced.items():
        start = text.index(f"\n{key} = ") + 1
        text = text[:start] + f"{key} = {value}" + text[text.index("\n", start):]
    return experiment.parse(tomllib.loads(text), text, name, workloads)


def filled(path, plan, allocators, costs_of, figures_of=lambda *_: {}):
    """A results file of runs that were never run: their costs are `costs_of` cell, allocator and
    replicate."""
    store = Store(path)
    store.begin(plan, 5, "0", machine.description(), "freehold-lab run made", allocators, {})
    names = [allocator.name for allocator in allocators]
    with store.base:
        for number, (replicate, cell, order) in enumerate(plan.plan(names, 5)):
            for position, name in enumerate(order):
                costs = {"user": 0.1, "system": 0.1, "integral": 1.0, "faults": 10,
                         **costs_of(cell, name, replicate)}
                figures = figures_of(cell, name, replicate)
                store.add_run(number, 0, position, cell, replicate, name, "ok", QUIET, costs,
                              figures.get("figure", costs["wall"]), figures)
            store.end_block(number, 0, "")
    store.close()
    return path


def tables_of(path, folder):
    report.write(path, folder, with_png=False, study=folder / "study.md")
    return json.loads((folder / "report.json").read_text())["tables"]


# ---- the study of 2014 ---------------------------------------------------------------------------

LEVELS = {"NA": [250000, 500000, 1000000], "SA": ["16..64", "256..1024"], "NT": [1, 2, 3, 4],
          "NP": [1, 2, 3, 4]}
SPREAD = {"wall": 0.002, "peak": 3000.0, "kept": 500.0}
OFFSETS = (-1, 0, 1)                        # of the replicates that count, in spreads
# rows, columns, as the paper numbers them
TABLES = {"wall-by-np-sa-nt": ("wall", ["SA", "NT"], ["NP"]),
          "wall-by-np-na-nt": ("wall", ["NA", "NT"], ["NP"]),
          "peak-by-na-sa": ("peak", ["SA"], ["NA"]), "peak-by-nt-np": ("peak", ["NP"], ["NT"]),
          "peak-by-nt-sa": ("peak", ["SA"], ["NT"]), "peak-by-np-sa": ("peak", ["SA"], ["NP"]),
          "kept-by-na-sa": ("kept", ["SA"], ["NA"]), "kept-by-nt-np": ("kept", ["NP"], ["NT"])}


def truth(response, name, level):
    """What a cell was given. Time is straight in NA for all but `math`. Processors are of no matter
    to the time of `resolve`. Memory depends on them by so little that some cells are alike."""
    large, blocks = level["SA"] != "16..64", level["NA"] / 1e6
    if response != "wall":
        bytes_of = 4e6 * blocks * (9 if large else 1)
        return (bytes_of + 1000 * level["NT"] * (level["NT"] > 2) + 300 * level["NP"]) * (
            0.6 if response == "kept" else 1)
    seconds = 0.1 + blocks * (2.5 if large else 1)
    if name == "math":
        seconds += 0.4 * blocks ** 2
    crowd = 0 if name == "resolve" else 0.001 * level["NT"] * (level["NP"] - 1) * (2 + large)
    return seconds + crowd


def costs(cell, name, replicate):
    level = {factor: level.value for factor, level in cell.levels}
    offset = 50 if replicate == 0 else OFFSETS[replicate - 1]       # the first is discarded
    return {response: truth(response, name, level) + offset * SPREAD[response]
            for response in ("wall", "peak")}


def kept(cell, name, replicate):
    level = {factor: level.value for factor, level in cell.levels}
    return {"resident": truth("kept", name, level) + OFFSETS[replicate - 1] * SPREAD["kept"]}


@pytest.fixture(scope="module")
def study(tmp_path_factory, libraries):
    folder = tmp_path_factory.mktemp("study")
    path = filled(folder / "made.sqlite", shipped("seed-2014", replicates=4, discard=1),
                  libraries, costs, kept)
    return path, tables_of(path, folder / "page")


def cells_of(factors):
    return [dict(zip(factors, chosen))
            for chosen in itertools.product(*(LEVELS[factor] for factor in factors))]


def mean_of(response, name, fixed):
    others = cells_of([factor for factor in LEVELS if factor not in fixed])
    return numpy.mean([truth(response, name, {**fixed, **other}) for other in others])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("table", TABLES)
def test_each_cell_of_an_interaction_table_has_its_mean_and_its_letters(study, table, name):
    response, rows, columns = TABLES[table]
    found, column = {}, columns[0]
    for row in study[1][f"uma-test-{table}-{name}"]:
        for level in LEVELS[column]:
            head = f"{column} = {drawing.text_of_level(level)}"
            found[*(row[factor] for factor in rows), level] = (row[head], row[f"{head}, letters"])
    cells = cells_of(rows + columns)
    assert set(found) == {tuple(cell.values()) for cell in cells}
    means = {tuple(cell.values()): mean_of(response, name, cell) for cell in cells}
    for key, mean in means.items():
        assert found[key][0] == pytest.approx(mean, rel=1e-9)
    # Every cell of the design has the three offsets, so the mean square is the spread's.
    runs = 96 * len(OFFSETS) / len(cells)
    margin = (stats.studentized_range.ppf(0.95, len(cells), 96 * 2)
              * SPREAD[response] / math.sqrt(runs))
    for one, other in itertools.combinations(means, 2):
        shares = bool(set(found[one][1]) & set(found[other][1]))
        assert shares == (abs(means[one] - means[other]) <= margin)
    assert found[min(means, key=means.get)][1].startswith("a")


def square_of(response, name, factors):
    """The sum of squares of an interaction of a balanced design, from the means of its margins."""
    total = 0.0
    for cell in cells_of(factors):
        effect = sum((-1) ** (len(factors) - size)
                     * mean_of(response, name, {factor: cell[factor] for factor in chosen})
                     for size in range(len(factors) + 1)
                     for chosen in itertools.combinations(factors, size))
        total += effect ** 2
    return total * 96 * len(OFFSETS) / len(cells_of(factors))


@pytest.mark.parametrize("name", NAMES)
def test_each_allocator_has_its_own_analysis_of_variance(study, name):
    own = {row["source"]: row for row in study[1]["uma-test-wall-own-p"]}
    whole = {row["source"]: row for row in study[1][f"uma-test-wall-own-{name}"]}
    assert whole["residuals"]["mean square"] == pytest.approx(SPREAD["wall"] ** 2, rel=1e-6)
    for factors in (["NA"], ["NP", "NT"], ["NP", "NT", "SA"], ["NP", "NT", "NA"]):
        source = next(source for source in own if set(source.split(" × ")) == set(factors))
        square = square_of("wall", name, factors)
        degrees = math.prod(len(LEVELS[factor]) - 1 for factor in factors)
        p = stats.f.sf(square / degrees / SPREAD["wall"] ** 2, degrees, 96 * 2)
        assert own[source][name] == pytest.approx(p, abs=1e-9)
        assert whole[source]["p"] == own[source][name]
        assert (own[source][name] > 0.9) == (name == "resolve" and factors != ["NA"]
                                             or factors == ["NP", "NT", "NA"])
    assert set(own["NA"]) == {"source", *NAMES, "all together"}


def whole_mean(response, name):
    return numpy.mean([truth(response, name, cell) for cell in cells_of(list(LEVELS))])


@pytest.mark.parametrize("response", ["wall", "peak", "kept"])
def test_the_groups_over_all_have_means_runs_and_letters(study, response):
    rows = {row["allocator"]: row for row in study[1][f"uma-test-{response}-tukey"]}
    means = {name: whole_mean(response, name) for name in NAMES}
    margin = (stats.studentized_range.ppf(0.95, 3, 3 * 96 * 2) * SPREAD[response]
              / math.sqrt(96 * len(OFFSETS)))
    for name in NAMES:
        assert rows[name]["mean"] == pytest.approx(means[name], rel=1e-9)
        assert rows[name]["runs"] == 96 * len(OFFSETS)
    for one, other in itertools.combinations(NAMES, 2):
        shares = bool(set(rows[one]["letters"]) & set(rows[other]["letters"]))
        assert shares == (abs(means[one] - means[other]) <= margin) == (response != "wall")
    page = (study[0].parent / "page" / "study.md").read_text()
    assert page.count("and the one of all together. Of the logarithm for: none.") == 4


def test_the_table_of_means_has_every_cell(study):
    levels = {cell.key: {factor: level.value for factor, level in cell.levels}
              for cell in frame.read(study[0]).plan.cells()}
    rows = study[1]["uma-test-means"]
    assert len(rows) == len(levels) * len(NAMES) == 288
    for row in rows:
        assert row["runs"] == len(OFFSETS)
        for response in SPREAD:
            assert row[response] == pytest.approx(
                truth(response, row["allocator"], levels[row["cell"]]), rel=1e-9)


def test_straightness_in_the_number_of_allocations_is_tested_for_each_combination(study):
    rows = study[1]["uma-test-slope-table-na"]
    assert len(rows) == 3 * 2 * 4 * 4
    for row in rows:
        x = numpy.repeat(LEVELS["NA"], len(OFFSETS))
        level = {factor: row[factor] for factor in ("SA", "NT", "NP")}
        y = [truth("wall", row["allocator"], {**level, "NA": blocks}) + offset * SPREAD["wall"]
             for blocks in LEVELS["NA"] for offset in OFFSETS]
        assert row["slope"] == pytest.approx(numpy.polyfit(x, y, 1)[0], rel=1e-6)
        assert row["levels"] == 3
        assert (row["p_not_straight"] < 0.001) == (row["allocator"] == "math")


def test_time_over_threads_has_its_slope(study):
    for row in study[1]["uma-test-slope-table-nt"]:
        level = {factor: row[factor] for factor in ("NA", "SA", "NP")}
        y = [truth("wall", row["allocator"], {**level, "NT": threads}) for threads in (1, 2, 3, 4)]
        assert row["slope"] == pytest.approx(numpy.polyfit([1, 2, 3, 4], y, 1)[0], abs=1e-9)
        assert row["low"] < row["slope"] < row["high"]


@pytest.mark.parametrize("response, threads, unit",
                         [("wall", 1, 1e-3), ("wall", 4, 1e-3), ("peak", 1, 1 << 20),
                          ("peak", 4, 1 << 20)])
def test_the_bars_are_single_cells_by_processors_and_allocations(study, response, threads, unit):
    results = frame.read(study[0])
    drawn = {picture.name: picture
             for picture in pictures.of_part(results, "uma-test", drawing.Palette(results.names))}
    picture = drawn[f"uma-test-{response}-cells-sa-16-64-nt-{threads}"]
    assert [trace.name for trace in picture.figure.data] == list(NAMES)
    for trace in picture.figure.data:
        shown = dict(zip(zip(*trace.x), zip(trace.y, trace.error_y.array)))
        assert len(shown) == 12
        for processors in LEVELS["NP"]:
            for blocks in LEVELS["NA"]:
                mean, half = shown[f"NP {processors}", f"NA {blocks:,}"]
                level = {"NP": processors, "NA": blocks, "NT": threads, "SA": "16..64"}
                assert mean * unit == pytest.approx(truth(response, trace.name, level), rel=1e-9)
                interval = stats.t.ppf(0.975, 2) * SPREAD[response] / math.sqrt(3)
                assert half * unit == pytest.approx(interval, rel=1e-6)


def test_the_study_page_has_the_tables_and_figures_of_the_paper_and_no_ratios(study):
    page = study[0].parent / "page" / "study.md"
    text = page.read_text()
    for table in TABLES:
        for name in NAMES:
            rows = study[1][f"uma-test-{table}-{name}"]
            cells = [tables.text_of(value, 3) for value in rows[0].values()]
            assert f"\n| {' | '.join(cells)} |\n" in text
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert shown == [f"study-uma-test-{response}-cells-sa-16-64-nt-{threads}.png"
                     for response in ("wall", "peak") for threads in (1, 4)]
    assert all((page.parent / name).read_bytes()[:4] == b"\x89PNG" for name in shown)
    assert "## uma-test: p of factors on execution time" in text and "what chance hides" in text
    assert ", × libc" not in text
    assert f"    ./dev lab report {study[0]} --study {page}" in text


def test_levels_that_were_not_run_are_named_apart(study):
    results = frame.read(study[0])
    part = results.plan.parts[0]
    runs, _ = frame.with_factors(results.part("uma-test"))
    table = tables.design_table(part, 4, runs[runs.NP <= 2]).frame
    assert table.to_dict("records") == [
        {"factor": "NA", "levels": "250,000, 500,000, 1,000,000", "not run": ""},
        {"factor": "SA", "levels": "16..64, 256..1024", "not run": ""},
        {"factor": "NT", "levels": "1, 2, 3, 4", "not run": ""},
        {"factor": "NP", "levels": "1, 2", "not run": "3, 4"}]


# ---- the mail on nmalloc -------------------------------------------------------------------------

def counted(part, name):
    """Of each part and allocator other numbers."""
    seed = 1 + 10 * (part == "calls-50000") + NAMES.index(name)
    return {"calls": seed, "mmap": 1000 * seed, "munmap": seed, "mremap": 0, "brk": 2 * seed,
            "madvise": 3 * seed, "asked": 8000 * seed, "released": 500 * seed,
            "difference": 7500 * seed, "advised": 64 * seed}


def test_the_table_of_mappings_has_what_was_counted(tmp_path, libraries):
    plan = shipped("nmalloc", replicates=2)
    path = filled(tmp_path / "made.sqlite", plan, libraries,
                  lambda cell, name, replicate: {"wall": 1.0, "peak": 1e6,
                                                 "system": 0.25 + 0.5 * replicate})
    store = Store(path)
    for cell in plan.cells():
        for name in NAMES:
            store.add_count(cell, name, counted(cell.part, name))
    store.close()
    found = tables_of(path, tmp_path / "page")
    for part in ("calls-2500", "calls-50000"):
        rows = found[f"{part}-mappings"]
        assert [row["allocator"] for row in rows] == list(NAMES)
        for row in rows:
            count = counted(part, row["allocator"])
            assert row == {
                "cell": part, "allocator": row["allocator"],
                "mmaps / munmaps": f"{count['mmap']:,} / {count['munmap']}",
                "brks": count["brk"], "madvises": count["madvise"],
                "bytes asked": count["asked"], "bytes released": count["released"],
                "difference": count["difference"], "given back by madvise": count["advised"],
                "system time, s": 0.5}
    text = (tmp_path / "page" / "study.md").read_text()
    assert text.count("memory asked of the system and released") == 2 and "× libc" not in text


# ---- the papers of 2006 and 2018 -----------------------------------------------------------------

FACTORS = {"libc": 1.0, "math": 0.5, "resolve": 1.5}
KINDS = ("cca", "cfrac", "gs", "sh6bench", "smlng")


def of_kind(cell, name, replicate):
    """Each part and level has a time and a peak of its own; replicates are 1 % apart."""
    where = KINDS.index(cell.part) + 1 if cell.part in KINDS else 10
    level = next((level.value for _, level in cell.levels), 1)
    size = where * level * FACTORS[name] * (1 + replicate / 100)
    return {"wall": size, "peak": 1e6 / size}


def work_of(cell, name, replicate):
    wall = of_kind(cell, name, replicate)["wall"]
    if cell.workload == "mariadb":
        return {"figure": 1000 / wall}
    return {"operations": 40000000, "seconds": wall, "figure": wall}


def drawn(path, part):
    results = frame.read(path)
    palette = drawing.Palette(results.names)
    return {picture.name: picture for picture in pictures.of_part(results, part, palette)}


@pytest.fixture(scope="module")
def evans(tmp_path_factory, libraries):
    return filled(tmp_path_factory.mktemp("evans") / "made.sqlite",
                  shipped("seed-2006", replicates=3), libraries, of_kind, work_of)


@pytest.mark.parametrize("part, factor, work, unit",
                         [("malloc-test", "threads", 40000000, 1e3),
                          ("mariadb", "clients", 1000, 1)])
def test_boxes_of_a_rate_have_every_run_and_whiskers_to_the_ends(evans, part, factor, work, unit):
    picture = drawn(evans, part)[f"{part}-rate-box-{factor}"]
    for trace in picture.figure.data:
        assert trace.boxpoints is False
        found = sorted(zip(trace.x, trace.y))
        expected = sorted((str(level), work / (10 * level * FACTORS[trace.name] * (1 + n / 100)))
                          for level in {int(x) for x in trace.x} for n in range(3))
        assert [x for x, _ in found] == [x for x, _ in expected]
        assert [y * unit for _, y in found] == pytest.approx([y for _, y in expected])


def test_single_programs_are_scaled_to_the_largest_of_each(evans):
    """The slowest has the least memory here: 1.5 times libc's time, half of which math has."""
    results = frame.read(evans)
    picture = pictures.scaled_to_largest(results, drawing.Palette(results.names))
    bars = {(trace.name, trace.xaxis): dict(zip(trace.x, trace.y)) for trace in picture.figure.data}
    for name, factor in FACTORS.items():
        assert bars[name, "x"] == pytest.approx(dict.fromkeys(KINDS, factor / 1.5))
        assert bars[name, "x2"] == pytest.approx(dict.fromkeys(KINDS, 0.5 / factor))
    assert list(bars["libc", "x"]) == list(KINDS)


def test_the_table_of_single_programs_has_their_means(evans):
    rows = tables.program_table(frame.read(evans)).frame.to_dict("records")
    assert [(row["program"], row["quantity"][:3]) for row in rows] == [
        (kind, what) for kind in KINDS for what in ("run", "max")]
    for row in rows:
        where = KINDS.index(row["program"]) + 1
        assert row["runs"] == 3
        for name, factor in FACTORS.items():
            sizes = [where * factor * (1 + n / 100) for n in range(3)]
            values = sizes if row["quantity"].startswith("run") else [1e6 / s for s in sizes]
            assert row[name] == pytest.approx(sum(values) / 3)


def test_lines_over_threads_have_logarithmic_axes_and_the_means(tmp_path, libraries):
    path = filled(tmp_path / "made.sqlite", shipped("seed-2018", replicates=3, discard=1),
                  libraries, of_kind, work_of)
    for part, response in (("linux-scalability", "wall"), ("threadtest", "wall"),
                           ("larson", "rate")):
        picture = drawn(path, part)[f"{part}-{response}-line-threads"]
        assert picture.figure.layout.xaxis.type == picture.figure.layout.yaxis.type == "log"
        assert picture.figure.layout.yaxis.dtick == "D2"        # no number stands on another
        unit = 1e3 if response == "rate" else 1
        for trace in picture.figure.data:
            assert list(trace.x) == [1, 2, 4, 8, 16, 32]
            walls = [[10 * level * FACTORS[trace.name] * (1 + n / 100) for n in (1, 2)]
                     for level in trace.x]
            means = [numpy.mean([4e7 / wall for wall in two] if response == "rate" else two)
                     for two in walls]
            assert [y * unit for y in trace.y] == pytest.approx(means)


def test_a_study_groups_by_rate_where_rates_are_compared_and_else_by_time(tmp_path, libraries):
    path = filled(tmp_path / "made.sqlite", shipped("seed-2018", replicates=3, discard=1),
                  libraries, of_kind, work_of)
    told = [thing.name for section in report.laid_out(report.sections_of(
        frame.read(path), "libc", drawing.Palette(NAMES))) for thing in section.tables]
    assert [name for name in told if name.endswith("tukey") and "peak" not in name] == [
        "linux-scalability-wall-tukey", "threadtest-wall-tukey", "larson-figure-tukey"]


def test_the_published_plans_have_their_full_size():
    parts = {part.name: part for part in shipped("seed-2018").parts}
    assert parts["linux-scalability"].parameters == {"blocks": 10000000, "size": 16}
    assert parts["threadtest"].parameters == {"rounds": 100, "blocks": 100000}
    assert parts["larson"].parameters["rounds"] * parts["larson"].parameters["slots"] == 10000000
    for part in parts.values():
        assert [level.value for level in part.factors["threads"]] == [1, 2, 4, 8, 16, 32]
