"""The statistics as JSON are JSON, and agree with themselves."""
import json
import os
import sys
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
        for number in numbers(stats):
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
