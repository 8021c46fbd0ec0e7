"""report_test.py - the page is whole: in a headless browser, without a network,
every allocator, every switch"""

import json
import math
import random
import re

import pandas
import pytest
from selenium.webdriver.common.by import By

from freehold_lab import experiment, machine, report
from freehold_lab.analysis import frame
from freehold_lab.places import Failed
from freehold_lab.store import Store
from freehold_lab.workloads import all_workloads

SPEEDS = {"libc": 1.0, "math": 0.7, "resolve": 1.02}
SAMPLES = {"sample_seconds": [0, 1, 2], "sample_resident": [1e6, 3e6, 2e6],
           "sample_live": [1e6, 2e6, 1e6]}
PERCENTILES = {**{f"{call}_p{share}": 10.0 * n for call in ("malloc", "free")
                  for n, share in enumerate(("50", "99", "99_9"), 1)},
               "malloc_max": 70.0, "free_max": 90.0}
PLAN = """
name = "made"
about = "made up & <written> by hand"
replicates = 6
discard = 1
responses = ["wall", "peak", "integral", "figure", "calls"]
[[parts]]
workload = "uma-test"
slope = "NA"
[parts.factors]
NA = { parameter = "allocations", levels = [100, 200, 400] }
NT = { parameter = "threads", levels = [1, 2] }
[[parts]]
workload = "server"
[[parts]]
workload = "latency-64"
"""


def fill(store, plan, allocators):
    """Runs that were never run: each allocator has its speed, with chance on top."""
    chance = random.Random(5)
    store.begin(plan, 5, "0", machine.description(), "freehold-lab run made.toml", allocators,
                {"broken": "a program that uses malloc hangs under it"})
    for number, (replicate, cell, order) in enumerate(plan.plan([a.name for a in allocators], 5)):
        for position, name in enumerate(order):
            size = dict(cell.parameters).get("allocations", 100)
            seconds = SPEEDS[name] * size / 1000 * math.exp(chance.gauss(0, 0.02))
            costs = {"wall": seconds, "user": seconds, "system": 0.0,
                     "peak": 1e6 * (2 - SPEEDS[name]) + size,
                     "integral": 1e6 * seconds, "faults": 100,
                     "resident": [[0, 1e6], [seconds, 2e6]]}
            surroundings = {"load": 0.1, "steal": 0.0, "foreign_share": 0.0, "frequency": None,
                            "temperature": None}
            figures = {"server": SAMPLES, "latency-64": PERCENTILES}.get(cell.part, {})
            store.add_run(number, 0, position, cell, replicate, name, "ok", surroundings, costs,
                          seconds, figures)
        store.end_block(number, 0,
                        "20% of processor time used by other programs" if number == 40 else "")
    for cell in plan.cells():
        for name in SPEEDS:
            store.add_count(cell, name, {"calls": 100})


@pytest.fixture
def results(tmp_path, allocators):
    file = tmp_path / "made.toml"
    file.write_text(PLAN)
    store = Store(tmp_path / "made.sqlite")
    fill(store, experiment.load(file, all_workloads(build=False)), allocators)
    store.close()
    return tmp_path / "made.sqlite"


@pytest.fixture
def page(results, tmp_path, opens_by_itself):
    return opens_by_itself(report.write(results, tmp_path / "page", with_png=False))


def visible(page, name):
    """In how many pictures the allocator has a trace that is shown, and in how many it has one."""
    return page.execute_script(
        "const mine = [...document.querySelectorAll('.picture')].map(p => p.data.filter(t => "
        "t.name === arguments[0]))"
        ".filter(t => t.length);"
        "return [mine.filter(t => t.every(x => x.visible !== false)).length, mine.length]", name)


def test_the_page_loads_by_itself_without_an_error(page):
    assert page.execute_script(
        "return document.querySelectorAll('script[src], link[href]').length") == 0


def test_every_picture_is_drawn_and_shows_every_allocator(page):
    drawn = page.execute_script(
        "return [...document.querySelectorAll('.picture')].map(p => p.querySelectorAll("
                                "'svg.main-svg').length > 0)")
    assert len(drawn) >= 10 and all(drawn)
    for name in SPEEDS:
        shown, having = visible(page, name)
        assert shown == having >= len(drawn) - 1        # the base has no scaled bar


def test_the_scaled_bars_stand_where_their_workload_is(page):
    """Every workload has the same true ratio, so a bar in the wrong place shows for peak,
    which is not that of time."""
    bars = page.execute_script(
        "return document.getElementById('picture-scaled').data.filter(t => t.name === 'math')"
                               ".map(t => t.x.map((part, n) => [part, t.base + t.y[n]]))")
    assert [[part for part, _ in panel]
            for panel in bars] == [["uma-test", "server", "latency-64"]] * 3
    assert [value for _, value in bars[0]] == pytest.approx([0.7] * 3, rel=0.05)
    assert [value for _, value in bars[1]] == pytest.approx([1.3] * 3, rel=0.05)


def test_the_longest_call_stands_last_in_the_picture_of_single_calls(page):
    drawn = page.execute_script("return document.getElementById('picture-latency-64-latency').data"
                                ".filter(t => t.name === 'math').map(t => [t.x, t.y])")
    assert drawn == [[["50 %", "99 %", "99.9 %", "longest"], [10, 20, 30, longest]]
                     for longest in (70, 90)]


def test_what_a_workload_measures_itself_has_its_name_and_unit_on_the_page(page):
    text = page.execute_script("return document.body.textContent")
    assert "latency-64: analysis of variance of malloc p99, ns" in text
    assert "server: analysis of variance of ratio" in text and "own figure" not in text


def test_tables_of_the_analysis_are_folded_up_and_can_be_opened(page):
    fold = page.find_element(By.CSS_SELECTOR, "#part-server details")
    table = fold.find_element(By.TAG_NAME, "table")
    assert page.find_element(By.CSS_SELECTOR, "#part-server > .wide table").is_displayed()
    assert not table.is_displayed()
    page.execute_script("arguments[0].click()", fold.find_element(By.TAG_NAME, "summary"))
    assert table.is_displayed()


def test_a_switch_takes_an_allocator_out_of_all_pictures_and_tables_and_brings_it_back(page):
    box = page.find_element(By.CSS_SELECTOR, "#allocators input[value=math]")
    rows = page.find_elements(By.CSS_SELECTOR, "tr[data-allocator=math]")
    assert rows and all(row.value_of_css_property("display") != "none" for row in rows)
    box.click()
    assert visible(page, "math")[0] == 0 and visible(page, "libc")[0] > 0
    assert all(row.value_of_css_property("display") == "none" for row in rows)
    box.click()
    shown, having = visible(page, "math")
    assert shown == having and all(row.value_of_css_property("display") != "none" for row in rows)


def test_a_click_on_a_head_sorts_the_table_and_another_turns_it_round(page):
    table = page.find_element(By.CSS_SELECTOR, "#overall table.sortable")
    head = next(head for head in table.find_elements(By.TAG_NAME, "th") if head.text == "ratio")
    column = [cell.text for cell in table.find_elements(By.TAG_NAME, "th")].index("ratio") + 1

    def values():
        return [float(cell.get_attribute("data-value"))
                for cell in table.find_elements(By.CSS_SELECTOR, f"td:nth-child({column})")]
    page.execute_script("arguments[0].click()", head)
    assert values() == sorted(values()) and len(values()) == 2
    page.execute_script("arguments[0].click()", head)
    assert values() == sorted(values(), reverse=True)


def test_the_page_says_what_was_left_out_disturbed_and_how_to_repeat_it(page):
    text = page.find_element(By.TAG_NAME, "body").text
    assert "broken was left out: a program that uses malloc hangs under it" in text
    assert "1 blocks (3 runs) were disturbed beyond the bounds" in text
    assert "./dev lab run made.toml --seed 5" in text
    assert "made up & <written> by hand" in text


def test_the_tables_find_the_effects_that_were_put_in(results, tmp_path):
    report.write(results, tmp_path / "page", with_png=False)
    tables = json.loads((tmp_path / "page" / "report.json").read_text())["tables"]
    overall = {row["allocator"]: row for row in tables["overall-time"]}
    assert overall["math"]["low"] < 0.7 < overall["math"]["high"] and overall["math"]["wins"] == 8
    assert overall["resolve"]["losses"] <= 3
    assert tables["uma-test-design"] == [{"factor": "NA", "levels": "100, 200, 400"},
                                         {"factor": "NT", "levels": "1, 2"}]
    variance = {row["source"]: row for row in tables["uma-test-wall-anova"]}
    assert variance["allocator"]["p"] < 1e-6 and variance["NA"]["p"] < 1e-6
    assert variance["NT"]["p"] > 0.001
    groups = {row["allocator"]: row["letters"] for row in tables["uma-test-wall-tukey"]}
    assert groups["math"] == "a" and "a" not in groups["libc"]
    against = {row["allocator"]: row for row in tables["uma-test-wall-tukey-against"]}
    assert against["math"]["p"] < 1e-6 and against["math"]["high"] < 1
    assert set(against) == {"math", "resolve"}
    slopes = [row for row in tables["uma-test-slope-table-na"] if row["allocator"] == "libc"]
    assert len(slopes) == 2 and all(row["slope"] == pytest.approx(0.001, rel=0.1) for row in slopes)
    assert {row["verdict"] for row in tables["server-calls-ratios"]} == {"counted once"}


def test_runs_that_were_made_again_are_counted_by_what_disturbed_them(results, tmp_path):
    """Block 40 is the one that other programs disturbed. Block 3 was run again for stolen time."""
    store = Store(results)
    store.write("update block set disturbed = '9% of processor time stolen by the hypervisor' "
                "where block = 3")
    store.write("update run set steal = 0.09 where block = 3 and position = 1")
    store.write("insert into run select null, block, 1, position, part, workload, cell, levels, "
                "replicate, allocator, ended, started, wall, user, system, peak, integral, faults, "
                "figure, load, 0.01, foreign_share, frequency, temperature, figures, resident "
                "from run where block = 3")
    store.write("update run set foreign_share = 0.2 where block = 40")
    store.end_block(3, 1, "")
    store.close()
    table = report.disturbance_table(frame.read(results)).frame
    assert table.to_dict("records") == [
        {"cause": "stolen by the hypervisor", "bound": 0.05, "blocks run again": 1,
         "runs made again": 3, "runs beyond it": 1, "blocks kept beyond it": 0},
        {"cause": "used by other programs", "bound": 0.10, "blocks run again": 0,
         "runs made again": 0, "runs beyond it": 3, "blocks kept beyond it": 1}]


def test_csv_and_png_are_written_beside_the_page(results, tmp_path):
    report.write(results, tmp_path / "page")
    runs = pandas.read_csv(tmp_path / "page" / "runs.csv")
    assert len(runs) == 8 * 5 * 3 and runs.replicate.min() == 1
    pictures = list((tmp_path / "page" / "pictures").glob("*.png"))
    assert len(pictures) >= 10 and all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
    assert len(list((tmp_path / "page" / "tables").glob("*.csv"))) >= 20


def test_the_markdown_page_has_figures_pictures_machine_and_commands(results, tmp_path):
    page = tmp_path / "docs" / "laboratory.md"
    report.write(results, tmp_path / "page", with_png=False, markdown=page)
    text = page.read_text()
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures == ["laboratory-speed-memory.png", "laboratory-scaled.png"]
    assert all((page.parent / name).read_bytes()[:4] == b"\x89PNG" for name in pictures)
    tables = json.loads((tmp_path / "page" / "report.json").read_text())["tables"]
    math_time = next(row["math"] for row in tables["workloads-time"] if row["workload"] == "server")
    # significant, by the same table as the page
    assert f"| server | 1 | **{math_time:.3g}** |" in text
    assert f"| processor | {machine.description()['processor']} |" in text
    assert f"| freehold | {machine.commit()} |" in text
    assert ("    ./dev lab run made.toml --seed 5\n"
            f"    ./dev lab report {results} --markdown {page}") in text
    assert "- broken was left out" in text
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({line.replace("\\|", "").count("|") for line in lines.splitlines()}) == 1


def test_a_base_that_was_not_run_is_told_with_those_that_were(results, tmp_path):
    with pytest.raises(Failed, match="no runs of hoard to compare with; there are .*math"):
        report.write(results, tmp_path / "page", base="hoard")


def test_a_file_without_results_is_told(tmp_path):
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(Failed, match="no experiment was begun in it"):
        report.write(tmp_path / "empty.sqlite", tmp_path / "page")
    (tmp_path / "text.sqlite").write_text("no database\n" * 100)
    with pytest.raises(Failed, match="not a database"):
        report.write(tmp_path / "text.sqlite", tmp_path / "page")


def test_a_page_that_cannot_be_written_is_told(results, tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").symlink_to("/dev/full")
    with pytest.raises(Failed, match="page: No space left on device"):
        report.write(results, tmp_path / "page", with_png=False)
