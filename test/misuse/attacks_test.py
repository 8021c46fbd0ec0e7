"""What each grade of the library must notice of the mistakes in attacks/, and what others notice.

    attacks_test.py --library PATH --grade default [CLASS...]    the tests
    attacks_test.py --library PATH --grade default --survey 20   where attacks.toml says otherwise
    attacks_test.py --table --library NAME=PATH[;VARIABLE=VALUE...]... [--json FILE]

Each case runs in a process of its own. It is noticed if that ends by a signal or an error, or if
the mistake came to nothing (attacks/attack.h). The table counts what several allocators notice,
named by path; an empty path is libc. Behind it stand two measures: attacks/measures.c."""
import argparse
import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tomllib
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

CASES = os.path.join("test", "misuse", "attacks", "attacks.toml")
GRADES = ("default", "secure")
CERTAIN, LIKELY, UNSEEN, LEFT_OUT = "C", "l", "-", "."
SECONDS = 60                     # until a run hangs
NOTICED = ("line", "signal", "error", "prevented")

Case = collections.namedtuple("Case", "group name size default secure why")
Allocator = collections.namedtuple("Allocator", "name path variables")


# ---- the cases -----------------------------------------------------------------------------------

def cases():
    """Each case in each of its sizes."""
    for group, table in tomllib.loads(support.read(CASES)).items():
        for name, row in table["cases"].items():
            sizes = table["sizes"]
            if [len(grade) for grade in row[:2]] != [len(sizes)] * 2:
                raise ValueError("%s: not one letter for each of %d sizes" % (name, len(sizes)))
            for size, default, secure in zip(sizes, *row[:2]):
                if default != LEFT_OUT:
                    yield Case(group, name, size, default, secure, row[2] if row[2:] else None)


def programs():
    """Each case's program."""
    found = {}
    for name in ("attacks", "attacks_new"):
        for case in support.run([support.program(name), "--list"]).stdout.split():
            found.setdefault(case, []).append(support.program(name))
    return found


# ---- one run -------------------------------------------------------------------------------------

def environment(allocator):
    return {**support.preloaded(allocator.path), **allocator.variables}


def verdict(code, out, err):
    """What became of a run, in a word: NOTICED, or "survived", "absent", "hung", "broken"."""
    if code is None:
        return "hung"
    if code < 0:
        return "line" if err.strip() else "signal"
    word = out.strip()
    if code == 0 and word in ("survived", "prevented", "absent"):
        return word
    return "error" if code not in (0, 3) and err.strip() else "broken"


def run_case(program, case, allocator):
    child = subprocess.Popen(
        [program, case.name, str(case.size)], env=environment(allocator), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        out, err = child.communicate(timeout=SECONDS)
        return verdict(child.returncode, out, err), err.strip()
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.communicate()
        return verdict(None, "", ""), ""


def run_all(jobs):
    """The results of (case, allocator) pairs, in their order."""
    where = programs()

    def one(job):
        case, allocator = job
        return run_case(where[case.name][0], case, allocator)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(one, jobs))


def letter_of(words):
    """How surely a case is noticed, after some runs."""
    noticed = sum(word in NOTICED for word in words)
    return CERTAIN if noticed == len(words) else LIKELY if noticed else UNSEEN


def misses(allocator, grade, found=None):
    """Cases that the grade promises and this library does not notice, each as a line."""
    promised = [case for case in (found or cases()) if getattr(case, grade) == CERTAIN]
    for case, (word, said) in zip(promised, run_all([(case, allocator) for case in promised])):
        if word not in NOTICED:
            yield " ".join(["%s, %d bytes: %s" % (case.name, case.size, word), said]).rstrip()


# ---- the tests -----------------------------------------------------------------------------------

LIBRARY = Allocator("freehold", support.LIBRARY, {})
GRADE = "default"


class Cases(unittest.TestCase):
    maxDiff = None

    def test_the_table_has_every_case_of_the_programs_once(self):
        named = [name for table in tomllib.loads(support.read(CASES)).values()
                 for name in table["cases"]]
        where = programs()
        self.assertEqual(sorted(named), sorted(where))
        self.assertEqual([name for name in where if len(where[name]) > 1], [])
        self.assertGreater(len(named), 100)

    def test_its_letters_are_known_and_what_is_unseen_by_all_has_its_reason(self):
        for case in cases():
            with self.subTest(case=case.name):
                self.assertIn(case.default, (CERTAIN, LIKELY, UNSEEN))
                self.assertIn(case.secure, (CERTAIN, LIKELY, UNSEEN))
                if UNSEEN == case.secure:
                    self.assertTrue(case.why)

    def test_the_secure_grade_promises_whatever_the_default_one_does(self):
        self.assertEqual([case for case in cases()
                          if case.default == CERTAIN and case.secure != CERTAIN], [])

    def test_a_run_is_judged_by_how_it_ended_and_what_it_said(self):
        for code, out, err, word in (
                (-6, "", "freehold: double free: 0x1 in free()\n", "line"), (-11, "", "", "signal"),
                (-6, "survived\n", "", "signal"), (0, "survived\n", "", "survived"),
                (0, "survived\n", "a warning\n", "survived"), (0, "prevented\n", "", "prevented"),
                (0, "absent\n", "", "absent"), (1, "", "an error\n", "error"),
                (0, "", "", "broken"), (3, "", "usage\n", "broken"), (127, "", "", "broken"),
                (None, "", "", "hung")):
            with self.subTest(code=code, out=out, err=err):
                self.assertEqual(verdict(code, out, err), word)

    def test_every_case_can_be_set_up(self):
        """Under libc, where many survive: none is refused or breaks."""
        found = list(cases())
        libc = Allocator("libc", None, {})
        results = run_all([(case, libc) for case in found])
        self.assertEqual([case[:3] for case, (word, _) in zip(found, results)
                          if word in ("broken", "hung")], [])
        words = collections.Counter(word for word, _ in results)
        self.assertGreater(words["survived"], 50)
        self.assertGreater(words["prevented"], 10)


class Promises(unittest.TestCase):
    """The grade notices what its column of the table says."""
    maxDiff = None

    def test_what_the_grade_promises_is_noticed(self):
        self.assertEqual(list(misses(LIBRARY, GRADE)), [])

    def test_a_library_that_notices_less_is_found_out(self):
        """libc's malloc sees a double free, and no overflow by one byte."""
        some = [Case("", name, 24, CERTAIN, CERTAIN, None)
                for name in ("double-at-once", "overflow-1-loop-free", "zero-malloc-read")]
        self.assertEqual(list(misses(Allocator("libc", None, {}), GRADE, some)),
                         ["overflow-1-loop-free, 24 bytes: survived",
                          "zero-malloc-read, 24 bytes: survived"])


class Alarms(unittest.TestCase):
    """A program that makes no mistake is left alone."""
    CALLS = 3000

    def test_a_long_random_program_without_a_mistake_ends_well(self):
        for seed in range(1, 4):
            with self.subTest(seed=seed):
                result = support.run([support.program("legal"), str(seed), str(self.CALLS)],
                                     environment(LIBRARY), timeout=250)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_measures_say_what_an_allocator_does(self):
        result = measure(LIBRARY, "random-writes", 1, 40)
        self.assertEqual(result[0], 40)
        self.assertLessEqual(result[1], result[2])
        for size in (100, 65536):
            least, median, *_ = measure(LIBRARY, "reuse", size, 5)
            self.assertLessEqual(1, least)
            self.assertLessEqual(least, median)
        libc = Allocator("libc", None, {})
        self.assertEqual(measure(libc, "reuse", 100, 5)[:4], [1, 1, 1, 1])
        self.assertGreater(measure(libc, "random-writes", 1, 200)[2], 0)


# ---- surveys and tables --------------------------------------------------------------------------

def survey(allocator, grade, runs):
    """Prints each row of the table that this library does otherwise, with what it does."""
    found = list(cases())
    results = run_all([(case, allocator) for case in found for _ in range(runs)])
    words = [[word for word, _ in results[i:i + runs]] for i in range(0, len(results), runs)]
    rows = {}
    for case, ended in zip(found, words):
        row = rows.setdefault(case.name, ["", ""])
        row[0] += getattr(case, grade)
        row[1] += UNSEEN if "absent" in ended else letter_of(ended)
    for name, (said, seen) in rows.items():
        if any(a != b and (a, b) != (LIKELY, CERTAIN) for a, b in zip(said, seen)):
            print("%s: the table says %s, it is %s" % (name, said, seen))


def measure(allocator, *arguments):
    result = support.run([support.program("measures"), *map(str, arguments)],
                         environment(allocator), timeout=600)
    if result.returncode != 0:
        raise RuntimeError("%s: measures %s: %s" % (allocator.name, arguments, result.stderr))
    return [int(word) for word in result.stdout.split()]


REUSE_SIZES = (24, 1000, 65536)


def look_at(allocator, runs, trials):
    """All that the table says of one allocator."""
    found = list(cases())
    results = run_all([(case, allocator) for case in found for _ in range(runs)])
    outcome = []
    for i, case in enumerate(found):
        ended = results[i * runs:(i + 1) * runs]
        words = [word for word, _ in ended]
        outcome.append({"group": case.group, "case": case.name, "size": case.size, "words": words,
                        "letter": None if "absent" in words else letter_of(words),
                        "warned": words[0] == "survived" and ended[0][1] != ""})
    total, at_free, at_end = measure(allocator, "random-writes", 1, trials)
    reuse = {}
    for size in REUSE_SIZES:
        *numbers, most = measure(allocator, "reuse", size, 101)
        reuse[size] = {**dict(zip(("min_kept", "median_kept", "min_freed", "median_freed"),
                                  numbers)), "most": most}
    return {"allocator": allocator.name, "cases": outcome, "reuse": reuse,
            "random_writes": {"trials": total, "by_its_free": at_free, "by_the_end": at_end}}


def count(cases_seen, letters=CERTAIN):
    applicable = [case for case in cases_seen if case["letter"] is not None]
    return "%d of %d" % (sum(case["letter"] in letters for case in applicable), len(applicable))


def mean_of_groups(cases_seen):
    """A group with many rows weighs no more than one with few."""
    groups = collections.defaultdict(list)
    for case in cases_seen:
        if case["letter"] is not None:
            groups[case["group"]].append(case["letter"] == CERTAIN)
    return "%.0f %%" % (100 * sum(sum(g) / len(g) for g in groups.values()) / len(groups))


def markdown(looks):
    """Rows are groups and measures, columns allocators."""
    titles = {group: table["title"] for group, table in tomllib.loads(support.read(CASES)).items()}
    rows = [["", *(look["allocator"] for look in looks)], ["---"] * (len(looks) + 1)]
    for group, title in titles.items():
        rows.append([title, *(count([case for case in look["cases"] if case["group"] == group])
                              for look in looks)])
    rows.append(["**all, noticed in every run**", *(count(look["cases"]) for look in looks)])
    rows.append(["mean of the groups", *(mean_of_groups(look["cases"]) for look in looks)])
    rows.append(["all, noticed in some runs",
                 *(count(look["cases"], LIKELY) for look in looks)])
    rows.append(["only a warning", *(sum(case["warned"] for case in look["cases"])
                                     for look in looks)])
    for key, title in (("by_its_free", "random writes noticed by the block's free"),
                       ("by_the_end", "random writes noticed by the end")):
        rows.append([title, *("%.1f %%" % (100 * look["random_writes"][key]
                                           / look["random_writes"]["trials"]) for look in looks)])
    for size in REUSE_SIZES:
        for how, title in (("kept", "what is allocated is kept"), ("freed", "it is freed at once")):
            rows.append(["allocations of %d bytes until an address comes back, minimum and median; "
                         "%s" % (size, title),
                         *("%s, %s" % tuple(
                             "never" if number == look["reuse"][size]["most"] else number
                             for number in (look["reuse"][size][key + how]
                                            for key in ("min_", "median_"))) for look in looks)])
    return "\n".join("| %s |" % " | ".join(map(str, row)) for row in rows)


def allocator_of(text):
    """NAME=PATH[;VARIABLE=VALUE...], or a path alone."""
    first, *variables = text.split(";")
    name, equals, path = first.partition("=")
    path = path if equals else first
    return Allocator(name if equals else os.path.basename(first), path or None,
                     dict(variable.split("=", 1) for variable in variables))


def main():
    global LIBRARY, GRADE
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", type=allocator_of)
    parser.add_argument("--grade", choices=GRADES, default="default")
    parser.add_argument("--survey", type=int, metavar="RUNS")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--runs", type=int, default=3, help="of each case, for the table")
    parser.add_argument("--trials", type=int, default=1000, help="of random writes")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("classes", nargs="*")
    given = parser.parse_args()
    GRADE = given.grade
    if given.library:
        LIBRARY = given.library[0]
    if given.table:
        looks = [look_at(allocator, given.runs, given.trials)
                 for allocator in given.library or [LIBRARY]]
        if given.json:
            with open(given.json, "w", encoding="utf-8") as file:
                json.dump(looks, file, indent=1)
        print(markdown(looks))
    elif given.survey:
        survey(LIBRARY, GRADE, given.survey)
    else:
        sys.argv[1:] = given.classes
        support.main(sys.modules["__main__"])


if __name__ == "__main__":
    main()
