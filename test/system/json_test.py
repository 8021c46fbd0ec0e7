"""The statistics as JSON are JSON, and agree with themselves."""
import json
import os
import re
import resource
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402


def numbers(value):
    if isinstance(value, dict):
        for v in value.values():
            yield from numbers(v)
    elif isinstance(value, list):
        for v in value:
            yield from numbers(v)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


class Json(unittest.TestCase):
    def check(self, text):
        stats = json.loads(text)
        self.assertIsInstance(stats, dict)
        by_heap = [{k: v for k, v in row.items() if k != "net_bytes"} for row in stats["by_heap"]]
        for number in numbers({**stats, "by_heap": by_heap}):
            self.assertGreaterEqual(number, 0)
        for field in ("mapped", "committed", "resident", "dirty", "purged", "metadata"):
            self.assertIn('"%s"' % field, text)
        return stats

    def test_fh_stats_json_gives_one_object(self):
        for kind in ("shared", "debug"):
            result = support.run([support.program("api_test." + kind), "--run",
                                  "stats.program_that_prints_json"])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.check(result.stdout)

    def test_the_option_stats_json_prints_one_object_at_exit(self):
        result = support.run([support.program("limits_probe"), "mixed"],
                             support.preloaded(options="stats:json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check(result.stderr)

    def test_the_option_stats_exit_prints_text_at_exit(self):
        result = support.run([support.program("limits_probe"), "mixed"],
                             support.preloaded(options="stats:exit"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(len(result.stderr.splitlines()), 5)
        self.assertIn("resident", result.stderr)

    def test_with_detail_each_slow_path_has_its_times_and_without_it_none_has(self):
        times = {}
        for detail in ("on", "off"):
            result = support.run([support.program("limits_probe"), "mixed"],
                                 support.preloaded(options="stats:json,stats_detail:" + detail))
            times[detail] = self.check(result.stderr)["slow_paths"]
        self.assertEqual(times["off"], {})
        self.assertEqual(set(times["on"]) - {"purge"}, {"refill", "large", "grow", "free"})
        for kind in times["on"].values():
            self.assertGreater(kind["times"], 0)
            self.assertLessEqual(kind["p50_ns"], kind["p90_ns"])
            self.assertLessEqual(kind["p90_ns"], kind["p99_ns"])
            self.assertLessEqual(kind["p99_ns"], kind["most_ns"])

    def test_with_detail_each_heap_has_a_row_and_the_sums_are_those_of_all(self):
        program = [sys.executable, "-I", "-S", "-c", """
import threading
kept = []
def work(): kept.append([bytes(5000) for _ in range(2000)])
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"""]
        options = "stats:json,stats_detail:"
        off, on = (self.check(support.run(program, support.preloaded(options=options + how)).stderr)
                   for how in ("off", "on"))
        self.assertEqual(off["by_heap"], [])
        heaps = on["by_heap"]
        self.assertEqual(on["heaps"], len(heaps))
        self.assertLessEqual(sum(h["slabs"] for h in heaps), on["total"]["slabs"])
        self.assertGreater(sum(h["net_bytes"] for h in heaps), 0)

    FIGURES = ("elapsed_ms", "user_ms", "system_ms", "minor_faults", "major_faults",
               "peak_resident")

    def test_figures_of_the_process_are_those_that_the_kernel_gives_its_parent(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        result = support.run([sys.executable, "-I", "-S", "-c", "import time; time.sleep(.1);"
                              "x = b'x' * (64 << 20); sum(range(3 * 10 ** 6))"],
                             support.preloaded(options="stats:json"))
        took, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        stats = self.check(result.stderr)
        self.assertTrue(100 <= stats["elapsed_ms"] <= took * 1000 + 10, stats)
        self.assertGreater(stats["user_ms"], 10)
        for name, field, unit in (("user_ms", "ru_utime", 1000), ("system_ms", "ru_stime", 1000),
                                  ("minor_faults", "ru_minflt", 1),
                                  ("major_faults", "ru_majflt", 1)):
            whole = (getattr(after, field) - getattr(before, field)) * unit
            self.assertLessEqual(stats[name], whole + 1, name)
        self.assertGreater(stats["minor_faults"], 100)
        self.assertTrue(64 << 20 < stats["peak_resident"] <= after.ru_maxrss << 10, stats)

    def test_a_program_of_one_thread_frees_nothing_of_another(self):
        lists = "[[i] * 9 for i in range(10 ** 5)]"
        for command in (["/bin/ls", "-l", "/"], [sys.executable, "-I", "-S", "-c", lists]):
            with self.subTest(command=command):
                result = support.run(command, support.preloaded(options="stats:json"))
                stats = self.check(result.stderr)
                self.assertEqual((result.returncode, stats["remote_frees"]), (0, 0))
                self.assertGreaterEqual(stats["swaps"], stats["shared_frees"] > 0)

    def kept(self, number):
        result = support.run([support.program("options_probe"), "keep", str(number)],
                             support.preloaded(options="stats:exit"))
        self.assertEqual(result.returncode, 0, result.stderr)
        last = re.fullmatch(r"not freed: at most (\d+) blocks?, .* \(with what threads keep for "
                            r"their next calls\)", result.stderr.splitlines()[-1])
        return int(last.group(1))

    def test_the_last_line_of_the_text_says_how_much_at_most_is_not_freed(self):
        self.assertGreaterEqual(self.kept(777), 777)
        self.assertLess(self.kept(777), 777 + 200)
        self.assertLess(self.kept(0), 400)

    def test_a_kernel_that_refuses_to_tell_changes_nothing_else(self):
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        result = support.run(["strace", "-f", "-o", "/dev/null", "-e", "trace=getrusage", "-e",
                              "inject=getrusage:error=ENOSYS", "-E",
                              "LD_PRELOAD=" + support.LIBRARY, "-E",
                              "FREEHOLD_OPTIONS=stats:json", support.program("limits_probe"),
                              "small"])
        self.assertEqual(result.returncode, 0, result.stderr)
        stats = self.check(result.stderr)
        self.assertEqual([stats[name] for name in self.FIGURES[1:]], [0] * 5)
        self.assertGreater(stats["mmaps"], 0)

    def test_fields_of_the_struct_are_fields_of_the_object(self):
        result = support.run([support.program("api_test.shared"), "--run",
                              "stats.program_that_prints_json"])
        header = support.read("include/freehold/freehold.h")
        struct = header[header.index("typedef struct fh_stats {"):header.index("} fh_stats_t;")]
        import re
        names = [n for line in struct.splitlines()
                 for m in [re.match(r"\s*uint64_t\s+([\w, ]+);", line)] if m
                 for n in re.split(r",\s*", m.group(1))]
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertIn('"%s"' % name, result.stdout)


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
