"""profile_test.py - profiles: what is read, symbols, the tree and its page, what lives at exit"""

import gzip
import json
import os
import signal
import subprocess
import sys

import pytest
from selenium.webdriver.common.by import By

from freehold_lab import cli, flame, leaks, pprof, symbols
from freehold_lab.allocators import library
from freehold_lab.places import Failed

PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define PART __attribute__((noinline))
void *volatile kept[100];
static inline __attribute__((always_inline)) void *both(size_t size) { return malloc(size); }
PART void keep(int i) { kept[i] = both(100000); }
PART void drop(void) { void *volatile block = malloc(100000); free(block); }
static void end(int number) { exit(number); }
int main(int argc, char **argv) {
  const char *task = argc > 1 ? argv[1] : "";
  for (int i = 0; i < 50; i++) drop();
  for (int i = 0; i < 20 && strstr(task, "leak"); i++) keep(i);
  if (strstr(task, "signal")) abort();
  if (strstr(task, "wait")) signal(SIGTERM, end), puts("ready"), fflush(stdout), pause();
  if (strstr(task, "quit")) _exit(0);
  if (strstr(task, "fork") && fork() == 0) exit(0);
  while (wait(NULL) > 0) {}
  puts(task);
  return strstr(task, "fail") ? 3 : 0;
}
"""
KEPT = 20 * 100000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "site.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-g", folder / "site.c", "-o", folder / "site"], check=True)
    return folder / "site"


@pytest.fixture(scope="module")
def profile(program):
    """What freehold writes of the program when it leaks."""
    path = program.with_name("leak.pb")
    variables = {"LD_PRELOAD": str(library()),
                 "FREEHOLD_OPTIONS": f"profile:{path},profile_interval:1K"}
    subprocess.run([program, "leak"], env=variables, check=True, stdout=subprocess.DEVNULL)
    return path


@pytest.fixture
def made(tmp_path):
    """A profile by hand: main (lines 3 and 5) calls f, and f calls itself; g has no function."""
    def write(change=lambda message: None, name="made.pb"):
        message = pprof.message_class()()
        message.string_table.extend(text.encode() for text in (
            "", "space", "bytes", "main", "f", "a.c", "/no/such/lib.so", "objects", "count"))
        message.sample_type.add(type=7, unit=8)
        message.sample_type.add(type=1, unit=2)
        message.mapping.add(id=1, memory_start=0x1000, memory_limit=0x2000, file_offset=0x500,
                            filename=6)
        message.function.add(id=1, name=3, filename=5)
        message.function.add(id=2, name=4, filename=5)
        for number, function, line in ((1, 1, 3), (2, 2, 9), (3, 1, 5)):
            message.location.add(id=number).line.add(function_id=function, line=line)
        message.location.add(id=4, mapping_id=1, address=0x1010)
        for stack, values in (([2, 2, 1], [1, 100]), ([2, 3], [2, 50]), ([4, 1], [1, 30]),
                              ([], [1, 7])):
            message.sample.add(location_id=stack, value=values)
        change(message)
        (tmp_path / name).write_bytes(message.SerializeToString())
        return tmp_path / name
    return write


def tree(path, older=None):
    return flame.tree_of(pprof.read(path), older and pprof.read(older))


def sums_are_right(node):
    for n, value in enumerate(node.values):
        assert sum(child.values[n] for child in node.children.values()) <= value
    assert all(sums_are_right(child) for child in node.children.values())
    return True


# ---- what is read --------------------------------------------------------------------------------


def test_a_profile_is_read_compressed_or_not(made, tmp_path):
    path = made()
    (tmp_path / "made.gz").write_bytes(gzip.compress(path.read_bytes()))
    for profile in (pprof.read(path), pprof.read(tmp_path / "made.gz")):
        assert profile.units == {"objects": "count", "space": "bytes"}
        assert [sample.values for sample in profile.samples] == [[1, 100], [2, 50], [1, 30], [1, 7]]
        assert profile.samples[0].stack[2].lines == [("main", "a.c", 3)]
        assert profile.value_type() == "space"


BROKEN = {
    "a string": lambda message: message.sample_type.add(type=99),
    "a location": lambda message: message.sample.add(location_id=[9], value=[1, 1]),
    "a function": lambda message: message.location.add(id=9).line.add(function_id=9),
    "a value": lambda message: message.sample.add(value=[1]),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_what_is_not_there_makes_a_profile_a_part_of_one(made, change):
    with pytest.raises(Failed, match="only a part of one"):
        pprof.read(made(change))


def test_every_first_part_of_a_file_is_refused_or_lacks_samples(profile, tmp_path):
    content, part = profile.read_bytes(), tmp_path / "part"
    whole, refused = len(pprof.read(profile).samples), 0
    for length in range(len(content)):
        part.write_bytes(content[:length])
        try:
            assert len(pprof.read(part).samples) <= whole
        except Failed:
            refused += 1
    assert refused > 0.9 * len(content)


@pytest.mark.parametrize("command, told", [
    (["/no/such"], "no such file"), (["/"], "is a directory"),
    ([__file__], "no profile in pprof's format"),
    (["MADE", "--value", "x"], "no values x; there are objects, space"),
    (["MADE", "--diff", "OTHER"], "other values than"),
    (["MADE", "--out", "/no/such/page.html"], "no such file")])
def test_what_goes_wrong_is_one_line(made, command, told, capsys):
    places = {"MADE": str(made()), "OTHER": str(made(lambda message: message.ClearField("sample")
                                                     or message.sample_type.pop(), "other.pb"))}
    assert cli.main(["flame", *(places.get(word, word) for word in command)]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "/no/such/lib.so" not in line]
    assert len(said) == 1 and told in said[0] and said[0].startswith("freehold-lab: ")


# ---- symbols -------------------------------------------------------------------------------------


def names(frames):
    return [frame.function for frame in frames]


def test_functions_and_lines_are_those_of_the_program(profile, program):
    read = pprof.read(profile)
    stacks, _ = symbols.stacks(read)
    line = {name: PROGRAM[:PROGRAM.index(name)].count("\n") + 1
            for name in ("return malloc(size)", "kept[i] = both", "void *volatile block")}
    kept = next(frames for frames in stacks if "keep" in names(frames))
    assert names(kept)[:3] == ["both", "keep", "main"]          # the first is inlined
    assert [frame.place() for frame in kept[:2]] == [
        f"site.c:{line['return malloc(size)']}", f"site.c:{line['kept[i] = both']}"]
    dropped = next(frames for frames in stacks if "drop" in names(frames))
    assert dropped[0].place() == f"site.c:{line['void *volatile block']}"


def test_a_file_of_another_build_gives_no_names(profile, program, capsys):
    content = program.read_bytes()
    try:
        subprocess.run(["cc", "-O1", program.with_name("site.c"), "-o", f"{program}.new"],
                       check=True)
        program.with_name("site.new").replace(program)
        stacks, notes = symbols.stacks(pprof.read(profile))
    finally:
        program.unlink()
        program.write_bytes(content)
        program.chmod(0o755)
    assert notes == [f"{program}: another build than the one that ran; its functions stay offsets"]
    assert any(names(frames)[0].startswith("site+0x") for frames in stacks)


@pytest.mark.parametrize("options, known", [([], set()), (["-rdynamic"], {"keep", "drop", "main"})])
def test_a_stripped_file_gives_only_names_that_it_exports(program, tmp_path, options, known):
    stripped, path = tmp_path / "stripped", tmp_path / "profile"
    subprocess.run(["cc", "-O2", "-s", *options, program.with_name("site.c"), "-o", stripped],
                   check=True)
    subprocess.run([stripped, "leak"], check=True, stdout=subprocess.DEVNULL,
                   env={"LD_PRELOAD": str(library()),
                        "FREEHOLD_OPTIONS": f"profile:{path},profile_interval:1K"})
    stacks, _ = symbols.stacks(pprof.read(path))
    found = {frame.function for frames in stacks for frame in frames if frame.module == "stripped"}
    assert known <= found
    assert all(name.startswith("stripped+0x") for name in found - known - {"_start"})


# ---- flame ---------------------------------------------------------------------------------------


def test_the_tree_has_all_values_and_a_note_for_what_is_missing(made):
    root, notes = tree(made())
    assert root.values == [5, 187] and sums_are_right(root)
    assert sorted(root.children) == ["[no call stack]", "main"]
    main = root.children["main"]
    assert main.values == [4, 180] and main.places == {("a.c", 3), ("a.c", 5)}
    assert sorted(main.children) == ["f", "lib.so+0x510"]
    assert notes == ["/no/such/lib.so: no such file; its functions stay offsets"]


def test_a_recursive_function_counts_once(made):
    found = flame.functions_of(tree(made())[0], 1)
    assert found["f"] == [150, 150] and found["main"] == [0, 180]
    assert sum(flat for flat, _ in found.values()) == 187


def test_a_difference_shows_what_grew_and_what_is_gone(made, capsys):
    newer = made(lambda message: message.sample.pop(0), "newer.pb")
    assert cli.main(["flame", str(newer), "--diff", str(made()), "--top", "9"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "space: 100 B less than before"
    assert rows[4].split() == ["f", "-100", "B", "-53.5", "%", "-100", "B", "-53.5", "%"]


def test_the_json_is_the_tree(profile, capsys):
    assert cli.main(["flame", str(profile), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == "inuse_space" and found["tree"]["function"] == "all"
    assert found["tree"]["values"]["inuse_space"] == pytest.approx(KEPT, rel=0.2)
    assert not profile.with_name("leak.pb.html").exists()


def test_a_deep_call_stack_is_no_harm(made, capsys):
    path = made(lambda message: message.sample.add(location_id=[1] * 2000, value=[1, 9]))
    assert cli.main(["flame", str(path), "--json", "--top", "1"]) == 0
    assert capsys.readouterr().out.count('"function": "main"') == 2000


def test_the_page_loads_by_itself_and_switches_values(
        profile, tmp_path, browser, opens_by_itself):
    page = tmp_path / "page.html"
    assert cli.main(["flame", str(profile), "--out", str(page), "--diff", str(profile)]) == 0
    again = page.read_bytes()
    assert cli.main(["flame", str(profile), "--out", str(page), "--diff", str(profile)]) == 0
    assert page.read_bytes() == again
    opens_by_itself(page)
    drawn = "return [...document.querySelectorAll('text')].map(text => text.textContent)"
    assert {"all", "main", "keep"} <= set(browser.execute_script(drawn))
    button = next(element for element in browser.find_elements(By.CLASS_NAME, "updatemenu-button")
                  if element.text == "alloc_objects")
    button.click()
    assert any(text.startswith("alloc_objects: 7") for text in browser.execute_script(drawn))


def test_a_picture_is_drawn(made, tmp_path):
    assert cli.main(["flame", str(made()), "--png"]) == 0
    assert (tmp_path / "made.pb.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "made.pb.html").is_file()


# ---- leaks ---------------------------------------------------------------------------------------


LEAKS = [sys.executable, "-m", "freehold_lab", "leaks", "--interval", "1"]


def run_leaks(program, task, *words):
    return subprocess.run([*LEAKS, *words, "--", str(program), *task], capture_output=True,
                          text=True, timeout=120)


def test_what_lives_at_exit_is_told_by_call_stack(program):
    done = run_leaks(program, ["leak"])
    assert (done.returncode, done.stdout) == (0, "leak\n")
    assert " in 20 blocks live at exit" in done.stderr
    assert "  both  site.c:" in done.stderr and "  main  site.c:" in done.stderr
    assert "drop" not in done.stderr and "_start" not in done.stderr


def test_the_json_has_stacks_and_sums(program, tmp_path):
    done = run_leaks(program, ["leak-fork"], "--json", "--out", str(tmp_path / "report"))
    assert done.returncode == 0 and done.stderr == ""
    found = json.loads((tmp_path / "report").read_text())
    assert len(found["processes"]) == 2
    for process in found["processes"]:
        assert process["blocks"] == sum(stack["blocks"] for stack in process["stacks"]) == 20
        assert process["name"] == "site"
        assert KEPT <= process["bytes"] < 1.2 * KEPT
        assert [frame["function"] for frame in process["stacks"][0]["frames"]] == [
            "both", "keep", "main"]


@pytest.mark.parametrize("task, words, code", [
    ("leak", ["--exit-code", "9"], 9),
    ("leak", ["--exit-code", "9", "--least", "3M"], 0),
    ("leak-fail", ["--exit-code", "9"], 9),
    ("leak-fail", [], 3),
    ("clean", ["--exit-code", "9"], 0),
    ("clean-fail", ["--exit-code", "9"], 3)])
def test_exit_codes(program, task, words, code):
    assert run_leaks(program, [task], *words).returncode == code


def test_words_behind_the_program_are_its_own(program):
    done = run_leaks(program, ["clean", "--json", "--", "-x"], "--exit-code", "9")
    assert done.returncode == 0 and "live at exit" in done.stderr


@pytest.mark.parametrize("task, code, told", [
    ("signal", 134, "no profile, since signal 6 ended the program"),
    ("quit", leaks.NO_PROFILE, "no profile, since the program ended by _exit")])
def test_a_program_that_writes_no_profile_is_named(program, task, code, told):
    done = run_leaks(program, [task])
    assert done.returncode == code and told in done.stderr


@pytest.mark.parametrize("words", [["--interval", "0"], ["--interval", "65G"], ["--least", "x"],
                                   ["--exit-code", "256"], ["--exit-code=-1"]])
def test_a_size_or_an_exit_code_that_is_none_is_wrong_usage(words):
    done = run_leaks("true", [], *words)
    assert done.returncode == 2 and f"argument {words[0].split('=')[0]}: " in done.stderr


def test_a_program_that_is_stopped_tells_what_it_had(program):
    with subprocess.Popen([*LEAKS, "--", str(program), "leak-wait"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout.readline() == "ready\n"
        started.send_signal(signal.SIGTERM)
        said = started.communicate(timeout=60)[1]
    assert started.returncode == signal.SIGTERM and " in 20 blocks live at exit" in said


def test_a_signal_that_comes_while_the_program_is_being_started_is_passed_on(monkeypatch):
    class Late(subprocess.Popen):
        def __init__(self, *words, **more):
            super().__init__(*words, **more)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(leaks.subprocess, "Popen", Late)
    assert leaks.wait_for(["sleep", "60"], os.environ)[1] == -signal.SIGTERM


def test_a_program_that_cannot_start_has_the_codes_of_a_shell(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    for path, code in (("/no/such", 127), (plain, 126)):
        done = run_leaks(path, [])
        assert done.returncode == code and done.stderr.count("\n") == 1
    assert run_leaks("true", [], "--library", "/no/such.so").returncode == leaks.NO_PROFILE
