"""bench_test.py - the arithmetic of goals, tables and profiles, and that no library is counted
under another's name

Part of freehold's own tests too (ctest -R bench), so the standard library has to be enough.
"""

import tempfile
import unittest
from pathlib import Path

from freehold_lab import bench, demo, experiment, peers, valgrind
from freehold_lab.allocators import LinkedIn
from freehold_lab.goals import (GOALS, JUDGES, REFERENCE, TO_BEST, Goal, goal_is_met, goal_value,
                                middle)
from freehold_lab.places import LIST, Failed, repository
from freehold_lab.text import shown, table
from freehold_lab.workloads import Figure, all_workloads, read_list

WORKLOADS = all_workloads(build=False)


def rows(figure, *values):
    return [{figure: value} for value in values]


def plan(is_quick):
    options = type("Options", (), {"rounds": None, "quick": is_quick, "only": []})
    return {part.name: part for part in bench.plan_of(options, WORKLOADS).parts}


class Goals(unittest.TestCase):
    def test_the_best_peer_is_the_one_with_the_smallest_median(self):
        results = {"fifo": {"freehold": rows("ns", 9, 10, 30), "libc": rows("ns", 25, 20, 21),
                            "tcmalloc": rows("ns", 1, 8, 9), "another": rows("ns", 1, 1, 1)}}
        self.assertEqual(goal_value(Goal("", "fifo", "ns", TO_BEST, 1.0), results), 10 / 8)

    def test_a_goal_without_its_figures_is_not_measured(self):
        for goal in GOALS:
            self.assertIsNone(goal_value(goal, {}), goal)
            self.assertIsNone(goal_value(goal, {goal.part: {"libc": rows(goal.figure, 1)}}), goal)

    def test_a_ratio_is_judged_by_the_two_digits_that_are_shown(self):
        goal = Goal("", "fifo", "ns", TO_BEST, 1.00, "x")
        self.assertTrue(goal_is_met(goal, 1.0049))
        self.assertFalse(goal_is_met(goal, 1.0051))

    def test_every_goal_names_a_part_and_every_judge_a_peer(self):
        names = {*plan(False), "*"}
        self.assertEqual([goal.part for goal in GOALS if goal.part not in names], [])
        self.assertLessEqual({*REFERENCE, *bench.FIGURES}, names)
        self.assertEqual(JUDGES, tuple(peers.DEBIAN))

    def test_the_largest_number_of_mappings_counts(self):
        results = {"a": {"freehold": rows("mappings", 30, 250)},
                   "b": {"freehold": rows("mappings", 40), "libc": rows("mappings", 999)}}
        goal = next(goal for goal in GOALS if goal.part == "*")
        self.assertEqual(goal_value(goal, results), 250)
        self.assertFalse(goal_is_met(goal, 250))

    def test_a_median_leaves_out_runs_without_the_figure(self):
        self.assertEqual(middle([{"count": 5}, {}, {"count": 7}], "count"), 6)
        self.assertIsNone(middle([{}], "count"))

    def test_a_goal_is_not_judged_by_a_shrunk_run(self):
        results = {"burst": {"freehold": rows("excess_now", 1)}}
        for shrunk, verdict in ((["burst"], "shrunk: not judged"), ([], "met")):
            judged = bench.goals_rows(results, ["burst"], shrunk)
            self.assertEqual([row[-1] for row in judged if "burst" in row[0]], [verdict])


class Plan(unittest.TestCase):
    def test_memory_is_measured_whole_unless_it_is_quick(self):
        quick, whole = plan(True)["burst"], plan(False)["burst"]
        self.assertEqual(quick.parameters, WORKLOADS["burst"].quick)
        self.assertEqual(whole.parameters, {})
        self.assertTrue(bench.is_shrunk(quick, WORKLOADS, True))
        self.assertFalse(bench.is_shrunk(whole, WORKLOADS, False))

    def test_speed_is_measured_in_short_runs_always(self):
        quick, whole = plan(True)["larson-16"], plan(False)["larson-16"]
        self.assertEqual(quick.parameters, whole.parameters)
        self.assertEqual(whole.parameters, {**WORKLOADS["larson"].quick, "threads": 16})
        self.assertFalse(bench.is_shrunk(quick, WORKLOADS, True))

    def test_a_part_for_some_allocators_runs_under_these_only_and_with_its_variables(self):
        options = type("Options", (), {"rounds": 1, "quick": True, "only": ["burst"]})
        blocks = {cell.part: (cell, names) for _, cell, names
                  in bench.plan_of(options, WORKLOADS).plan(["libc", "freehold"], 1)}
        cell, names = blocks["burst-background"]
        self.assertEqual(names, ["freehold"])
        self.assertEqual(cell.variables, {"FREEHOLD_OPTIONS": "background:on"})
        self.assertEqual(sorted(blocks["burst"][1]), ["freehold", "libc"])


class Tables(unittest.TestCase):
    def test_figures_are_shown_with_three_digits(self):
        for value, unit, text in ((5.678, "ns", "5.68"), (123456, "ns", "123 us"),
                                  (64 << 20, "bytes", "64.0 MB"), (0.0123, "share", "1.23 %"),
                                  (None, "ns", "-"), (-2048, "bytes", "-2.00 KB"), (0, "", "0")):
            self.assertEqual(shown(value, unit), text)

    def test_spread_is_half_the_distance_of_the_quartiles(self):
        self.assertAlmostEqual(bench.spread(rows("ns", 8, 9, 10, 11, 12), "ns"), 0.1)
        self.assertIsNone(bench.spread(rows("ns", 8), "ns"))

    def test_a_figure_stands_with_its_spread_and_its_ratio_to_the_best_peer(self):
        results = {"fifo": {"freehold": rows("ns", 12, 12), "libc": rows("ns", 8, 12)}}
        line = bench.figures_table(results, ["freehold", "libc", "gone"],
                                   {"fifo": Figure("ns", "ns")}, True).splitlines()[2]
        self.assertEqual(line.split(), ["fifo", "12.0", "10.0", "±10%", "-", "1.20"])

    def test_titles_of_groups_stand_above_their_columns(self):
        lines = table(["a", "b"], [["one", 2]], groups=["", "big"]).splitlines()
        self.assertEqual(lines, ["     big", "a    b", "---  -", "one  2"])

    def test_the_demo_compares_each_quantity_with_the_bases(self):
        one = {"seconds": 2, "peak_kib": 10240, "faults": 100}
        lines = demo.shown({"perl": {"libc": one, "mine": {**one, "seconds": 1}}}, "libc",
                           "mine", demo.COLUMNS).splitlines()
        self.assertEqual(lines[3].split()[:4], ["perl", "2.00", "1.00", "0.50"])
        self.assertEqual(lines[4].split(), ["geometric", "mean", "0.50", "1.00", "1.00", "-", "-"])


class Misses(unittest.TestCase):
    def test_freehold_is_held_against_the_best_other_of_each_program(self):
        events = "events: Ir D1mr D1mw DLmr DLmw\n"     # of a process and its child
        totals = valgrind.totals_of([events + "summary: 1 900 500 20 7\n",
                                     events + "summary: 1 100 0 0 3\n"])
        self.assertEqual(valgrind.misses(totals), {"first level": 1500, "last level": 30})
        found = {program: {name: {"D1mr": 0, "D1mw": 0, "DLmr": count, "DLmw": 0}
                           for name, count in by_name.items()}
                 for program, by_name in (("one", {"freehold": 2000, "a": 4000, "b": 1000}),
                                          ("two", {"freehold": 2000, "a": 4000}))}
        lines = valgrind.misses_rows(found, ["freehold", "a", "b"], "last level")
        self.assertEqual([line[-1] for line in lines], ["2.000", "0.500", "1.000"])
        self.assertEqual(lines[1], ["two", "2", "4", "-", "0.500"])


class Golden(unittest.TestCase):
    def test_only_lines_of_this_machine_and_compiler_hold(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# head\nx86_64:GNU-12 45.5 freehold\n"
                       "x86_64:GNU-12 44 freehold, linked # why\nother 1 freehold\n")
            file.flush()
            self.assertEqual(valgrind.golden(file.name, "x86_64:GNU-12"),
                             {"freehold": 45.5, "freehold, linked": 44})
            self.assertEqual(valgrind.golden(file.name, "riscv64:GNU-12"), {})


class Allocators(unittest.TestCase):
    """The proof itself has its tests in allocators_test.py."""

    def test_what_is_said_to_be_linked_in_and_is_not_is_refused(self):
        with self.assertRaisesRegex(Failed, "wrong: malloc came from .*libc"):
            LinkedIn("wrong", Path(__file__)).verify()

    def test_an_unknown_name_is_told_with_those_there_are(self):
        with self.assertRaisesRegex(Failed, "hoard: not one of libc, jemalloc"):
            peers.debian("hoard")


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


class Costs(unittest.TestCase):
    def test_what_a_called_function_took_counts_where_it_happened(self):
        self.assertEqual(valgrind.costs_by_object(PROFILE),
                         {"/bin/workload": 9, "/lib/allocator.so": 40, "/lib/libc.so.6": 2})

    def test_every_length_is_an_option_of_its_program(self):
        listed = read_list(repository() / LIST, "")
        parameters = {each.program.name: each.parameters for each in listed.values()}
        for program, (name, short, long) in valgrind.LENGTHS.items():
            self.assertIn(name, parameters[program])
            self.assertLess(short, long)


class Experiments(unittest.TestCase):
    def test_the_parts_of_the_presets_are_known_before_anything_runs(self):
        for name in ("bench", "demo"):
            loaded = experiment.load(experiment.find(name), WORKLOADS)
            self.assertEqual([part.name for part in loaded.parts], experiment.part_names(name))


if __name__ == "__main__":
    unittest.main()
