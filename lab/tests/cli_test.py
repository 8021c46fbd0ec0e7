"""cli_test.py - the command: exit codes, one line for what goes wrong, ctrl-C"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from freehold_lab import cli, experiment, peers
from freehold_lab.allocators import libc_path
from freehold_lab.group import NAME, Group
from freehold_lab.places import alone, repository

SLOW = r"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  Dl_info info;
  FILE *started = fopen("STARTED", "a");
  fputc('x', started);
  long times = ftell(started);
  fclose(started);
  if (times == 3) pause();
  dladdr((void *)malloc, &info);
  printf("{\"malloc\": \"%s\", \"ns\": 1}\n", info.dli_fname);
}
"""
COMMAND = [sys.executable, "-m", "freehold_lab"]


def run(*words, **options):
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=120,
                          **options)


@pytest.fixture
def slow_bench(tmp_path, workloads):
    """A repository whose only workload does not end when it is run for the third time."""
    bench = tmp_path / "root" / "lab" / "workloads"
    bench.mkdir(parents=True)
    (bench / "slow.c").write_text(SLOW.replace("STARTED", str(tmp_path / "started")))
    (bench / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(slow C)\n"
                                          "add_executable(slow slow.c)\nadd_custom_target(bench "
                                          "DEPENDS slow)\n")
    (bench / "workloads.toml").write_text(
        '[[workload]]\nname = "slow"\nprogram = "slow"\nmeasures = "nothing"\norigin = "tests"\n'
        'figure = {key = "ns", unit = "ns", better = "lower"}\nparameters = {}\nquick = {}\n')
    plan = 'name = "plan"\nreplicates = 4\n[[parts]]\nworkload = "slow"\n'
    (tmp_path / "plan.toml").write_text(plan + "[disturbance]\nretries = 0\n")
    return {**os.environ, "FREEHOLD_LAB_ROOT": str(tmp_path / "root"),
            "FREEHOLD_LAB_CACHE": str(tmp_path / "cache")}


def heed_interrupts():
    """Shells make what they start in the background ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stopped_by(number, words, slow_bench, tmp_path):
    """What the command said that was stopped in its third run."""
    started = subprocess.Popen(words, env=slow_bench, cwd=tmp_path, stderr=subprocess.PIPE,
                               text=True, preexec_fn=heed_interrupts)
    runs = tmp_path / "started"
    while not runs.exists() or runs.stat().st_size < 3:
        time.sleep(0.05)
        assert started.poll() is None
    started.send_signal(number)
    told = started.communicate(timeout=60)[1]
    return started.returncode, told


def wait_until_gone(text):
    """No process has `text` in its command line any more."""
    end = time.monotonic() + 30
    while subprocess.run(["pgrep", "-f", text], capture_output=True).stdout:
        assert time.monotonic() < end, "a process was left behind"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_was_stopped_goes_on_where_it_was(slow_bench, tmp_path, number):
    words = [*COMMAND, "run", str(tmp_path / "plan.toml"), "--freehold", "none", "--peers", "libc"]
    code, told = stopped_by(number, words, slow_bench, tmp_path)
    wait_until_gone(str(tmp_path / "cache"))
    if number == signal.SIGKILL:
        assert code == -number
    else:
        assert code == 130
        assert "the same command goes on from there" in told and "Traceback" not in told
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=slow_bench,
                          cwd=tmp_path)
    assert done.returncode == 0 and "4 runs in 4 blocks" in done.stderr
    assert (tmp_path / "started").stat().st_size == 5
    assert done.stdout.strip() == "lab-results/plan.sqlite"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_was_stopped_leaves_no_control_group(limits, slow_bench, tmp_path, number):
    """The first run finds the least need, the third is in a group when it is stopped."""
    file = tmp_path / "plan.toml"
    file.write_text(file.read_text().replace(
        'workload = "slow"', 'workload = "slow"\nfactors = { limit = { memory = [8] } }'))
    words = [*COMMAND, "run", str(file), "--freehold", "none", "--peers", "libc"]
    assert stopped_by(number, words, slow_bench, tmp_path)[0] == 130
    left = Group(1).controller()[0].glob(f"{NAME}*")
    assert not [group for group in left
                if not os.path.exists(f"/proc/{group.name.removeprefix(NAME)}")]


def test_an_allocator_that_does_not_serve_is_named_and_left_out(slow_bench, tmp_path):
    math = f"math={os.path.dirname(libc_path())}/libm.so.6"
    done = run("verify", "--freehold", "none", "--peers", "libc", "--allocator", math,
               env=slow_bench)
    assert done.returncode == 1 and "left out: math: malloc came from" in done.stderr
    assert done.stdout.startswith("libc\tglibc")


BAD = {
    "an experiment that is none": (["run", "nothing"], "no experiment nothing"),
    "no results": (["report"], "no results in lab-results/"),
    "results that are not there": (["report", "x.sqlite"], "x.sqlite: no such file"),
    "a peer that is none": (["peers", "dlmalloc"], "no peer dlmalloc"),
    "a peer that is named twice": (["verify", "--freehold", "none", "--peers", "libc", "libc"],
                                   "allocator libc is named twice"),
    "a ratio to nothing": (["costs", "--most", "1.1"], "name the other one with --beside"),
    "a program of another set": (["demo", "redis", "small-ls"], "redis: not one of"),
    "a library that is not there": (["verify", "--freehold", "/no/such.so"], "no /no/such.so"),
}


@pytest.mark.parametrize("words, told", BAD.values(), ids=BAD)
def test_what_goes_wrong_ends_in_one_line(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 1
    said = capsys.readouterr().err
    assert told in said and said.startswith("freehold-lab: ") and said.count("\n") == 1


def test_two_commands_do_not_build_or_measure_at_a_time(capsys):
    with alone():
        assert cli.main(["peers", "libc"]) == 1
    assert "another freehold-lab is building or measuring" in capsys.readouterr().err
    assert cli.main(["peers", "libc"]) == 0


def test_wrong_usage_has_its_own_exit_code():
    with pytest.raises(SystemExit) as ended:
        cli.main(["run"])
    assert ended.value.code == 2


@pytest.mark.parametrize("command", ["list", "peers", "verify", "run", "report", "replay",
                                     *cli.MORE])
def test_every_command_has_help_with_an_example_and_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "example:\n  " in said and "exit code: " in said


def test_list_is_readable_by_programs(capsys):
    assert cli.main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["experiments"]) == set(experiment.shipped_names())
    assert "uma-test" in found["workloads"] and "ghostscript" in found["workloads"]
    assert "libc" in found["allocators"]


def test_the_packages_of_an_experiment_are_printed(capsys):
    assert cli.main(["run", "seed-2006", "--packages"]) == 0
    assert {"ghostscript", "mariadb-server", "sysbench",
            "perl"} <= set(capsys.readouterr().out.split())


def test_the_page_about_the_laboratory_names_every_peer_and_experiment():
    page = (repository() / "docs" / "lab.md").read_text()
    assert all(f"`{name}`" in page for name in [*peers.PEERS, *experiment.shipped_names()])


def test_what_a_build_says_is_not_the_output_of_a_task(tmp_path):
    for name, said in (("dpkg-query", "installed"), ("make", "Built target")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {said}\n")
        (tmp_path / name).chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if name != "FREEHOLD_SO"}
    done = subprocess.run([repository() / "dev", "lab", "leaks", "--exit-code", "256"], text=True,
                          env={**variables, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                          capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "") and "Built target" in done.stderr
