#!/usr/bin/env python3
"""bench_test.py - the arithmetic of goals, tables and profiles, and that no library is
measured under another's name

    bench_test.py PROGRAMS      the folder of the built workloads; only `probe` is needed
"""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))
import driver  # noqa: E402
import instructions  # noqa: E402
import misses  # noqa: E402
import report  # noqa: E402
from allocators import InPlace, allocator_named  # noqa: E402
from freehold_lab.places import Failed  # noqa: E402
from suite import (  # noqa: E402
    GOALS, LIST, REFERENCE, TO_BEST, WORKLOADS, Goal, goal_is_met, goal_value, middle)

PROGRAMS = (sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-")
            else "build/bench")


def rows(figure, *values):
    return [{figure: value} for value in values]


class Goals(unittest.TestCase):
    def test_the_best_peer_is_the_one_with_the_smallest_median(self):
        results = {"fifo": {"freehold": rows("ns", 9, 10, 30), "libc": rows("ns", 25, 20, 21),
                            "tcmalloc": rows("ns", 1, 8, 9), "another": rows("ns", 1, 1, 1)}}
        self.assertEqual(goal_value(Goal("", "fifo", "ns", TO_BEST, 1.0), results), 10 / 8)

    def test_a_goal_without_its_figures_is_not_measured(self):
        for goal in GOALS:
            self.assertIsNone(goal_value(goal, {}), goal)
            self.assertIsNone(goal_value(goal, {goal.workload: {"libc": rows(goal.figure, 1)}}),
                              goal)

    def test_a_ratio_is_judged_by_the_two_digits_that_are_shown(self):
        goal = Goal("", "fifo", "ns", TO_BEST, 1.00, "x")
        self.assertTrue(goal_is_met(goal, 1.0049))
        self.assertFalse(goal_is_met(goal, 1.0051))

    def test_every_goal_names_a_workload(self):
        names = {workload.name for workload in WORKLOADS} | {"*"}
        self.assertEqual([goal.workload for goal in GOALS if goal.workload not in names], [])
        self.assertLessEqual(set(REFERENCE), names)

    def test_the_largest_number_of_mappings_counts(self):
        results = {"a": {"freehold": rows("mappings", 30, 250)},
                   "b": {"freehold": rows("mappings", 40), "libc": rows("mappings", 999)}}
        goal = next(goal for goal in GOALS if goal.workload == "*")
        self.assertEqual(goal_value(goal, results), 250)
        self.assertFalse(goal_is_met(goal, 250))

    def test_a_median_leaves_out_rows_without_the_figure(self):
        self.assertEqual(middle([{"count": 5}, {}, {"count": 7}], "count"), 6)
        self.assertIsNone(middle([{}], "count"))


class Report(unittest.TestCase):
    def test_figures_are_shown_with_three_digits(self):
        for value, unit, text in ((5.678, "ns", "5.68"), (123456, "ns", "123 us"),
                                  (64 << 20, "bytes", "64.0 MB"), (0.0123, "share", "1.23 %"),
                                  (None, "ns", "-"), (-2048, "bytes", "-2.00 KB"), (0, "", "0")):
            self.assertEqual(report.shown(value, unit), text)

    def test_spread_is_half_the_distance_of_the_quartiles(self):
        self.assertAlmostEqual(report.spread(rows("ns", 8, 9, 10, 11, 12), "ns"), 0.1)
        self.assertIsNone(report.spread(rows("ns", 8), "ns"))

    def test_a_goal_is_not_judged_by_a_shrunk_run(self):
        burst = next(workload for workload in WORKLOADS if workload.name == "burst")
        results = {"burst": {"freehold": rows("excess_now", 1)}}
        for quick, verdict in ((True, "shrunk: not judged"), (False, "met")):
            table = report.goals_table({"quick": quick, "results": results}, [burst])
            self.assertEqual([row[-1] for row in table if "burst" in row[0]], [verdict])

    def test_a_page_of_nothing_says_so(self):
        record = {"command": "./dev bench", "rounds": 5, "quick": False, "seed": 1, "machine": {},
                  "commit": "none", "disturbance": {"load": 0, "steal": 0}, "allocators": {},
                  "left_out": {"x": "is broken"}, "failures": {}, "results": {}}
        page = report.page(record, WORKLOADS, None)
        self.assertIn("Nothing was measured.", page)
        self.assertIn("x was left out: is broken", page)


class Misses(unittest.TestCase):
    def test_the_table_holds_freehold_against_the_best_other_of_each_program(self):
        totals = {"D1mr": 1000, "D1mw": 500, "DLmr": 20, "DLmw": 10, "Ir": 1}
        self.assertEqual(misses.misses(totals), {"first level": 1500, "last level": 30})
        rows = {"one": {"freehold": {"last level": 2000}, "a": {"last level": 4000},
                        "b": {"last level": 1000}},
                "two": {"freehold": {"last level": 2000}, "a": {"last level": 4000}}}
        lines = list(misses.table(rows, "last level"))
        self.assertEqual([line.split()[-1] for line in lines[2:]], ["2.000", "0.500", "1.000"])
        self.assertEqual(lines[3].split(), ["two", "2", "4", "-", "0.500"])


class Workloads(unittest.TestCase):
    def command(self, name, is_quick):
        return " ".join(next(w for w in WORKLOADS if w.name == name).command("build", is_quick))

    def test_a_row_changes_only_parameters_that_its_program_has(self):
        for workload in WORKLOADS:
            self.assertLessEqual(set(workload.own), set(workload.listed.parameters), workload.name)

    def test_threads_of_a_row_replace_those_of_the_list(self):
        self.assertRegex(self.command("larson-16", False),
                         "^build/larson .*--threads 16 .*--slots 1000 ")

    def test_memory_is_measured_whole_unless_it_is_quick(self):
        whole = LIST["burst"].parameters["bytes"]
        self.assertIn(f"--bytes {whole} ", self.command("burst", False))
        self.assertNotIn(f"--bytes {whole} ", self.command("burst", True))

    def test_speed_is_measured_in_short_runs(self):
        self.assertEqual(self.command("larson-2", False), self.command("larson-2", True))


class Allocators(unittest.TestCase):
    """The proof itself has its tests in lab/tests."""
    probe = Path(PROGRAMS, "probe")

    def test_libc_is_proved_without_being_preloaded(self):
        libc = allocator_named("libc")
        self.assertEqual(libc.settings(), {})
        libc.verify(probe=self.probe)

    def test_what_is_said_to_be_linked_in_and_is_not_is_refused(self):
        with self.assertRaisesRegex(Failed, "wrong: malloc came from .*libc"):
            InPlace("wrong", self.probe).verify(probe=self.probe)

    def test_a_library_may_be_named_by_its_path(self):
        with tempfile.NamedTemporaryFile() as library:
            self.assertEqual(allocator_named(f"x={library.name},A=1,B=2").variables,
                             {"A": "1", "B": "2"})

    def test_an_unknown_name_is_told_with_those_there_are(self):
        with self.assertRaisesRegex(Failed, "hoard: not one of libc, jemalloc"):
            allocator_named("hoard")


class Golden(unittest.TestCase):
    def test_only_lines_of_this_machine_and_compiler_hold(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(
                "# head\nx86_64:GNU-12 45.5 freehold\nx86_64:GNU-12 44 freehold, linked # why\n"
                       "other 1 freehold\n")
            file.flush()
            self.assertEqual(instructions.golden(file.name, "x86_64:GNU-12"),
                             {"freehold": 45.5, "freehold, linked": 44})
            self.assertEqual(instructions.golden(file.name, "riscv64:GNU-12"), {})


PROFILE = """\
events: Ir
ob=(1) /bin/workload
fn=(1) main
10 5
+2 3
cob=(2) /lib/allocator.so
cfn=(2) malloc
calls=2 0
+1 40
* 1

ob=(2)
fn=(2)
0 30
-4 10
ob=(3) /lib/libc.so.6
7 2
"""


class Driver(unittest.TestCase):
    def test_what_a_called_function_took_counts_where_it_happened(self):
        self.assertEqual(driver.costs_by_object(PROFILE),
                         {"/bin/workload": 9, "/lib/allocator.so": 40, "/lib/libc.so.6": 2})

    def test_every_length_is_an_option_of_its_program(self):
        parameters = {listed.program.name: listed.parameters for listed in LIST.values()}
        for program, (name, short, long) in driver.LENGTHS.items():
            self.assertIn(name, parameters[program])
            self.assertLess(short, long)


if __name__ == "__main__":
    unittest.main()
