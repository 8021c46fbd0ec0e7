"""programs_test.py - real programs as workloads: what they need is named, what they say is read"""

import builtins
import dis
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from freehold_lab import check
from freehold_lab.allocators import Allocator, libc_path, library
from freehold_lab.places import Failed
from freehold_lab.programs import PROGRAMS, program, servers

HEADERS = {
    "one.h": "#ifndef ONE_H /* a guard */\n#define ONE_H\n#include <two.h>\n#ifdef LARGE\n#define "
             "SIZE 8\n#else\n"
             "#define SIZE \\\n  4\n#endif\n#endif\n",
    "two.h": "// #define NOT_ONE\n#if defined(ONE_H) && SIZE > 4\nint use = SIZE;\n#endif\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_says_what_it_is_and_what_it_needs(name):
    found = PROGRAMS[name]
    assert found.work or found.check
    if found.work:
        assert found.about and found.packages and found.commands
        assert set(found.quick) <= set(found.parameters)
    if found.check:
        assert found.main and found.check_packages


def globals_of(code):
    """The global names that a function's code uses, and the code within it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from globals_of(constant)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_name_that_a_program_uses_exists(name):
    """Most programs are not installed where the tests run."""
    for function in filter(None, (PROGRAMS[name].work, PROGRAMS[name].check)):
        known = {*function.__globals__, *dir(builtins)}
        assert set(globals_of(function.__code__)) <= known


def test_tags_are_parsed_and_pieces_of_one_style_joined(tmp_path):
    (tmp_path / "text").write_text("<b>a<i>b</i></b> <b>c</b>")
    said = subprocess.run(["jq", "-Rrs", "-f", program.script("markup.jq"), "text"], cwd=tmp_path,
                          text=True, capture_output=True, check=True).stdout
    # <b>a</b><b><i>b</i></b> <b>c</b>
    assert said == ("10 tokens, 12 after it, 32 characters, the same styles, "
                    "nothing more to gain\n")


def test_a_document_of_tags_is_the_same_every_time_and_every_tag_is_closed(tmp_path):
    for name in ("one", "two"):
        subprocess.run([sys.executable, program.script("markup.py"), "3000", name], cwd=tmp_path,
                       check=True)
    text = (tmp_path / "one").read_text()
    assert text == (tmp_path / "two").read_text() and 3000 <= len(text) < 3100
    open_tags = []
    for closes, tag in re.findall(r"<(/?)([a-z])>", text):
        if closes:
            assert open_tags.pop() == tag
        else:
            open_tags.append(tag)
    assert open_tags == []


def test_a_missing_program_is_named_with_its_packages(monkeypatch):
    monkeypatch.setattr(program, "find", lambda command: None)
    assert PROGRAMS["redis"].missing() == (
        "no command redis-server, redis-benchmark; as root: apt-get install "
                                           "--no-install-recommends redis-server redis-tools")


def test_a_program_that_ran_without_the_library_is_not_measured():
    launch = SimpleNamespace(costs={"mapped": False, "wall": 1.0},
                             allocator=SimpleNamespace(path="/lib/x.so"))
    made = program.Program("p", work=lambda launch: None)
    with pytest.raises(Failed, match="p: /lib/x.so was in none of its processes"):
        made.run(launch, {})
    launch.costs["mapped"] = True
    assert made.run(launch, {}) == {"seconds": 1.0}


def test_the_preprocessors_logic_is_extracted(tmp_path):
    for name, text in HEADERS.items():
        (tmp_path / name).write_text(text)
    said = subprocess.run(["perl", program.script("preprocessor.pl"), "1", "one.h", "two.h"],
                          cwd=tmp_path, text=True, capture_output=True, check=True).stdout
    assert said == ("13 lines, 2 macros, 1 defined more than once, 0 used once, 3 conditions, "
                    "2 deep, first two.h\n")


RATES = {  # what each client prints, and the rate in it
    "sysbench": (r"queries:\s+\d+\s+\(([0-9.]+) per sec",
                 "    queries:   10000  (40485.58 per sec.)\n", [40485.58]),
    "pgbench": (r"tps = ([0-9.]+)", "tps = 15127.677599 (without initial connection time)\n",
                [15127.677599]),
    "redis-benchmark": (r'(?m)^"[^"]+","([0-9.]+)"',
                        '"test","rps"\n"SET","100.50","1"\n"GET","200.00","2"\n', [100.5, 200.0]),
}


@pytest.mark.parametrize("what", RATES)
def test_rates_are_read_from_what_clients_print(what):
    pattern, text, rates = RATES[what]
    assert servers.rate_in(text, pattern, what) == rates


def test_a_client_that_prints_no_rate_is_told():
    with pytest.raises(Failed, match="pgbench gives no rate: 'connection refused'"):
        servers.rate_in("connection refused\n", "tps = ([0-9.]+)", "pgbench")


def case(texts, main="sh"):
    """A program that prints one text under libc and another under libm."""
    def check(launch):
        return [launch.program("sh", "-c", f"echo {texts[launch.allocator.name == 'm']}")]
    return program.Program("case", check=check, main=main)


@pytest.mark.parametrize("texts, main, why", [
    (("same", "same"), "sh", ""),
    (("one", "two"), "sh", "output differs: line 1 is 'two', with libc 'one'"),
    (("same", "same"), "python3", "the library was not in python3 itself, only in sh"),
    (("same", "same; exit 3"), "sh", "sh: exit code 3: same"),
    (("", ""), "sh", "there was no output to compare"),
])
def test_a_program_passes_if_its_output_is_the_same_and_the_library_was_there(
        tmp_path, monkeypatch, texts, main, why):
    monkeypatch.setattr(check, "repository", lambda: tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    ways = check.runs_of(Path(libc_path()).parent / "libm.so.6", place)
    row = check.run_case(case(texts, main), ways, place / "ld")
    assert (row["why"], row["passed"]) == (why, not why)


def test_a_program_is_started_by_freeholds_own_command_with_the_library_that_it_finds(tmp_path):
    ways = check.runs_of(library(), tmp_path)
    row = check.run_case(case(("same", "same")), ways, tmp_path / "ld")
    assert (row["why"], row["passed"]) == ("", True)


def test_a_program_without_the_library_does_not_pass(tmp_path):
    libc = Allocator("libc", libc_path())
    ways = [(key, lambda: check.Traced(Allocator("math", Path(libc.path).parent / "libm.so.6"),
                                       [f"LD_PRELOAD={libc.path}"], tmp_path / "case",
                                       tmp_path / "ld")) for key in ("seconds_libc", "seconds")]
    row = check.run_case(case(("same", "same")), ways, tmp_path / "ld")
    assert row["why"] == "the library was in none of its processes"
