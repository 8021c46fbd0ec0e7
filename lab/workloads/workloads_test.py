#!/usr/bin/env python3
"""workloads_test.py - every workload keeps its promises: answer, operations, --help, refusals

    workloads_test.py build/bench build/libfreehold.so Workloads.test_larson

The folder of the built workloads, freehold and perhaps one test. Each workload of workloads.toml
runs with its quick values under libc, by way of a library that counts calls, and under freehold.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
from freehold_lab.allocators import Allocator, libc_path
from freehold_lab.workloads import answer_of

PROGRAMS, LIBRARY = Path("build/bench"), "build/libfreehold.so"
WORKLOADS = tomllib.loads((HERE / "workloads.toml").read_text())["workload"]
NAMES = sorted({workload["program"] for workload in WORKLOADS})
# What a run does depends on the clock, or on the addresses that the allocator gives out.
UNCOUNTED = ("larson", "larson-wide", "larson-large", "one-frees", "ageing-robson")


def vector_steps(top, step):
    """Calls of realloc for a vector that starts with 16 bytes and grows by a step or by half."""
    size, steps = 16, 1
    while size < top:
        size, steps = min(size + (step or size // 2), top), steps + 1
    return steps


def group_blocks(low, high):
    return sum(min(max(4000 // size, 4), 200) for size in range(low, high + 1))


# The operations that a program promises, by its parameters. For all, allocators have to agree.
OPERATIONS = {
    "bystanders": lambda p: p["times"],
    "cachelines": lambda p: (
        p["threads"] * p["iterations"] * (p["repetitions"] // p["threads"]) * p["size"]
    ),
    "calloc": lambda p: p["pairs"],
    "day": lambda p: p["operations"],
    "drift": lambda p: p["operations"],
    "groups": lambda p: p["threads"] * p["rounds"] * group_blocks(p["low"], p["high"]),
    "heapsize": lambda p: p["slots"] * p["rounds"],
    "hugechurn": lambda p: p["operations"],
    "idle": lambda p: p["blocks"],
    "large": lambda p: p["threads"] * p["pairs"],
    "latency": lambda p: p["threads"] * p["pairs"],
    "lives": lambda p: p["threads"] - p["threads"] // 10,
    "locality": lambda p: p["blocks"] + p["pairs"] + (p["blocks"] + 1) // 2,
    "malloctest": lambda p: p["pairs"],
    "manythreads": lambda p: p["threads"],
    "newdelete": lambda p: p["pairs"],
    "patterns": lambda p: p["pairs"] * p["passes"],
    "prodcons": lambda p: p["blocks"] // 128 // (p["threads"] // 2) * (p["threads"] // 2) * 128,
    "reallocgrow": lambda p: (
        None
        if p["mode"] == "strings"
        else p["vectors"] * vector_steps(p["top"], p["step"]) * p["times"]
    ),
    "scalability": lambda p: p["threads"] * p["blocks"],
    "teardown": lambda p: p["blocks"] * p["rounds"],
    "threadchurn": lambda p: p["births"],
    "threadtest": lambda p: p["threads"] * p["rounds"] * p["blocks"],
    "umatest": lambda p: p["allocations"],
    "xmalloc": lambda p: p["batches"] * 4096,
}

PATTERN_SLOTS = {
    "pingpong": 0,
    "batch": 20000,
    "random-1k": 1000,
    "random-20k": 20000,
    "random-1m": 1000000,
    "fifo": 20000,
}


def pattern_calls(p, operations):
    """With the fill and the warm-up of 20,000 pairs and two for each slot."""
    slots = PATTERN_SLOTS[p["pattern"]]
    is_filled = p["pattern"] not in ("pingpong", "batch")
    return operations + 20000 + 2 * slots + (slots if is_filled else 0)


# The blocks that a program asks for while it makes its operations, where they are not the same and
# the program does not say how many, as `calls`.
CALLS = {
    "cachelines": lambda p, _: p["threads"] * (p["iterations"] + (p["sharing"] == "passive")),
    "calloc": lambda p, operations: operations + p["slots"],
    "larson": lambda p, operations: operations + p["threads"] * p["slots"],
    "newdelete": lambda p, operations: operations + p["slots"],
    "patterns": pattern_calls,
    "threadchurn": lambda p, operations: operations * (p["blocks"] // 2 * 2),
    "xmalloc": lambda p, operations: operations + p["batches"],
}


def calls_apart(workload):
    """How many calls more or fewer are no surprise: libc itself and threads ask for some."""
    parameters = quick_parameters(workload)
    threads = parameters.get("births", parameters.get("threads", 4))
    if parameters.get("call") == "thread":
        threads += parameters["times"]
    # Batches that were never handed over, and blocks that came after the clock had stopped.
    late = 200 * threads if workload["program"] == "larson" else 0
    return 100 + 2 * threads + late


def run(program, *arguments, allocator=None, **variables):
    return subprocess.run(
        [str(PROGRAMS / program), *arguments],
        env=(allocator or Allocator("libc", libc_path())).environment(variables),
        capture_output=True,
        text=True,
        timeout=120,
    )


def quick_parameters(workload):
    return {**workload["parameters"], **workload["quick"]}


class Workloads(unittest.TestCase):
    """One test for each entry of workloads.toml."""

    def check_answer(self, workload, parameters, allocator, **variables):
        """What the program says."""
        words = [word for name, value in parameters.items() for word in (f"--{name}", str(value))]
        ran = run(workload["program"], *words, allocator=allocator, **variables)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(ran.stdout.count("\n"), 1)
        answer = answer_of(ran.stdout, allocator)
        self.assertEqual(answer["workload"], workload["program"])
        self.assertEqual(answer["parameters"], parameters)
        self.assertIsInstance(answer["operations"], int)
        self.assertGreater(answer["operations"], 0)
        for figure in ("seconds", "processor_seconds", "peak", workload["figure"]["key"]):
            self.assertTrue(math.isfinite(answer[figure]), figure)
        self.assertGreater(answer["seconds"], 0)
        self.check_own_figures(answer)
        return answer

    def check_calls(self, workload, parameters):
        """The answer under libc, after comparing its operations with the calls that libc got."""
        counter = Allocator("libc", PROGRAMS / "calls.so")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "calls")
            answer = self.check_answer(workload, parameters, counter, CALLS_FILE=str(path))
            calls = int(path.read_text())
        expected = CALLS.get(workload["program"], lambda _, count: count)
        said = answer.get("calls") or expected(parameters, answer["operations"])
        self.assertAlmostEqual(calls, said, delta=calls_apart(workload))
        return answer["operations"]

    def check_own_figures(self, answer):
        for call in ("malloc", "free"):
            points = [
                answer[key] for key in answer if re.fullmatch(call + r"_(p\d+(_\d+)?|max)", key)
            ]
            self.assertEqual(points, sorted(points), "percentiles do not rise")
        for prefix in ("malloc", "free", "sample"):
            lengths = {
                len(value)
                for key, value in answer.items()
                if key.startswith(prefix + "_") and type(value) is list
            }
            self.assertLessEqual(len(lengths), 1, prefix)
        if "malloc_calls" in answer:
            self.assertEqual(sum(answer["malloc_calls"]), answer["operations"])
            self.assertEqual(answer["malloc_times"], sorted(answer["malloc_times"]))

    def check_workload(self, workload):
        parameters = quick_parameters(workload)
        under_libc = self.check_calls(workload, parameters)
        freehold = Allocator("freehold", LIBRARY)
        under_freehold = self.check_answer(workload, parameters, freehold)["operations"]
        promised = OPERATIONS.get(workload["program"], lambda p: None)(parameters)
        self.assertIn(promised, (None, under_libc))
        if workload["name"] not in UNCOUNTED:
            self.assertEqual(under_libc, under_freehold)


def workload_test(workload):
    return lambda self: self.check_workload(workload)


for entry in WORKLOADS:
    setattr(Workloads, "test_" + entry["name"], workload_test(entry))


class Interface(unittest.TestCase):
    """What holds for every program, and for the list of workloads."""

    def options(self, program):
        """What --help lists: name -> (lowest, highest), or the words."""
        page = run(program, "--help").stdout
        found = re.findall(
            r"^  --(\S+) (?:N|WORD) \((?:(\d+) to (\d+)|([\w|-]+)); default \S+\)$", page, re.M
        )
        return {
            name: words.split("|") if words else (int(low), int(high))
            for name, low, high, words in found
        }

    def check_refused(self, program, *arguments):
        ran = run(program, *arguments)
        self.assertEqual((ran.returncode, ran.stdout), (2, ""), (program, arguments))
        self.assertRegex(ran.stderr, r"\Abench: [^\n]+\n\Z")

    def test_without_options_a_program_from_the_literature_does_what_the_list_says(self):
        """Whoever starts one by hand measures what the first entry with it is."""
        for program in NAMES:
            first = next(w for w in WORKLOADS if w["program"] == program)
            if first["origin"] == "freehold":
                continue
            page = run(program, "--help").stdout
            defaults = dict(re.findall(r"--(\S+) .*default (\S+)\)", page))
            listed = {name: str(value) for name, value in first["parameters"].items()}
            self.assertEqual(defaults, listed, program)

    def test_help_names_definition_options_and_an_example(self):
        for program in NAMES:
            with self.subTest(program):
                ran = run(program, "--help")
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.assertTrue(ran.stdout.startswith(program + " - "))
                self.assertIn("`operations` counts ", ran.stdout)
                example = ran.stdout.split("example:\n")[1]
                self.assertIn(program, example)
                self.assertLessEqual(
                    set(re.findall(r"--(\S+)", example)), set(self.options(program))
                )
                self.assertLessEqual(max(map(len, ran.stdout.splitlines())), 120)

    def test_bad_options_are_refused_in_one_line(self):
        for program in NAMES:
            with self.subTest(program):
                self.check_refused(program, "--no-such-option", "1")
                self.check_refused(program, "stray")
                for name, values in self.options(program).items():
                    self.check_refused(program, f"--{name}")
                    self.check_refused(program, f"--{name}", "nonsense")
                    if isinstance(values, tuple):
                        for value in (
                            values[0] - 1,
                            values[1] + 1,
                            "7x",
                            "",
                            "99999999999999999999",
                        ):
                            self.check_refused(program, f"--{name}", str(value))

    def test_a_range_upside_down_is_refused(self):
        for program in NAMES:
            if {"low", "high"} <= set(self.options(program)):
                self.check_refused(program, "--low", "64K", "--high", "32K")

    def test_numbers_may_end_in_a_letter(self):
        self.assertEqual(json.loads(run("idle", "--size", "4K").stdout)["parameters"]["size"], 4096)

    def test_every_program_and_each_of_its_options_is_in_the_list(self):
        built = {
            path.name
            for path in PROGRAMS.iterdir()
            if path.is_file() and path.stat().st_mode & 0o100
        }
        # replay wants a tape: freehold-lab has a command for it, and those of tapes.py
        self.assertEqual(built - {"patterns.linked", "calls.so", "replay"}, set(NAMES))
        for workload in WORKLOADS:
            self.assertEqual(
                set(workload["parameters"]),
                set(self.options(workload["program"])),
                workload["name"],
            )
            self.assertLessEqual(
                set(workload["quick"]), set(workload["parameters"]), workload["name"]
            )
            self.assertIn(workload["figure"]["better"], ("lower", "higher"))

    def test_names_of_workloads_are_unique(self):
        names = [workload["name"] for workload in WORKLOADS]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_the_seed_alone_decides_the_sizes(self):
        def requested(seed):
            return json.loads(run("metadata", "--bytes", "4M", "--seed", seed).stdout)["requested"]

        self.assertEqual(requested("1"), requested("1"))
        self.assertNotEqual(requested("1"), requested("2"))

    def test_a_run_too_short_to_be_sampled_has_figures_all_the_same(self):
        tiny = ("--bytes", "1M", "--pairs", "1", "--idle", "0", "--period", "300", "--threads", "1")
        answer = json.loads(run("server", *tiny).stdout)
        self.assertGreater(answer["ratio"], 0)
        self.assertGreaterEqual(len(answer["sample_live"]), 2)

    def test_a_result_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            ran = subprocess.run(
                [str(PROGRAMS / "idle")], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
            )
        self.assertEqual(ran.returncode, 4)
        self.assertRegex(ran.stderr, r"\Abench: cannot write the result: [^\n]+\n\Z")

    def test_memory_that_cannot_be_had_is_an_error(self):
        ran = subprocess.run(
            ["sh", "-c", 'ulimit -v 200000; exec "$0" --bytes 1G', str(PROGRAMS / "metadata")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((ran.returncode, ran.stdout), (3, ""))
        self.assertRegex(ran.stderr, r"\Abench: malloc\(\d+\) failed\n\Z")


if __name__ == "__main__":
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        PROGRAMS, LIBRARY = Path(sys.argv.pop(1)), sys.argv.pop(1)
    unittest.main()
