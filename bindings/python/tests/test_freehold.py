"""The installed package: run by ./dev bindings in a clean environment."""
import os
import subprocess
import sys
import tempfile
import unittest

import freehold


def python(*arguments, **variables):
    result = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=300,
                            env={**os.environ, **variables})
    return result.returncode, result.stdout, result.stderr


WORK = """
import freehold, json, re, sys, threading
{setup}
def work(n, out):
    kept = [{{"n": i, "text": "x" * (i % 700)}} for i in range(n)]
    out.append(sum(len(json.dumps(k)) for k in kept))
out = []
threads = [threading.Thread(target=work, args=(20000, out)) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
large = bytearray(50_000_000)
large.extend(b"1" * 1_000_000)
print(sorted(out), len(large), len(re.findall("x+", "axxb" * 10000)))
"""


class Package(unittest.TestCase):
    def test_statistics_count_what_lives(self):
        figures = freehold.stats()
        self.assertIn("live_bytes", figures)
        self.assertGreater(figures["minor_faults"], 0)
        self.assertEqual(freehold.version().split("-")[0], freehold.__version__)

    def test_options_are_read_and_set(self):
        freehold.set_option("purge_delay_ms", 20)
        self.assertEqual(freehold.option("purge_delay_ms"), 20)
        with self.assertRaisesRegex(KeyError, "no option 'nonsense'"):
            freehold.option("nonsense")
        with self.assertRaisesRegex(ValueError, "purge_delay_ms: -77 is out of range"):
            freehold.set_option("purge_delay_ms", -77)
        freehold.collect()

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(ValueError, "domain: 'objects'; expected one of raw, mem, obj"):
            freehold.install("objects")
        with self.assertRaisesRegex(ValueError, "kind: 'all'; expected one of heap"):
            freehold.write_profile("/dev/null", "all")
        code, _, said = python("-m", "freehold", "run")
        self.assertEqual(code, 2)
        self.assertIn("no program", said)

    def test_values_that_do_not_fit_are_refused_and_not_wrapped(self):
        with self.assertRaisesRegex(ValueError, "out of range"):
            freehold.set_option("purge_delay_ms", 2**64 + 7)
        with self.assertRaisesRegex(KeyError, "no option"):
            freehold.option("purge_delay_ms\0x")
        for interval in -1, 0, 2**64:
            with self.assertRaisesRegex(ValueError, "interval: "):
                with freehold.profile("/dev/null", interval):
                    self.fail("it ran")

    def test_a_profile_that_cannot_be_written_is_told_before_the_work(self):
        for path, kind in (("/nonexistent/x.pb", "heap"), ("/dev/null", "all")):
            with self.assertRaises((OSError, ValueError)):
                with freehold.profile(path, kind=kind):
                    self.fail("it ran")

    def test_a_profile_keeps_the_exception_of_its_body_and_does_not_nest(self):
        with self.assertRaises(ZeroDivisionError):
            with freehold.profile("/dev/null"):
                with self.assertRaisesRegex(RuntimeError, "a profile goes on"):
                    with freehold.profile("/dev/null"):
                        self.fail("it ran")
                1 // 0

    def test_install_refuses_debug_hooks_and_tracemalloc(self):
        text = "import freehold; freehold.install()"
        for arguments, variables in ((["-X", "dev"], {}), ([], {"PYTHONMALLOC": "debug"}),
                                     (["-X", "tracemalloc"], {})):
            code, _, said = python(*arguments, "-c", text, **variables)
            self.assertEqual(code, 1, said)
            self.assertIn("RuntimeError", said)

    def test_install_outlives_its_module_and_happens_once(self):
        text = ("import freehold, sys, threading, importlib\n"
                "threads = [threading.Thread(target=freehold.install) for _ in range(8)]\n"
                "[t.start() for t in threads]; [t.join() for t in threads]\n"
                "importlib.reload(freehold); freehold.install(); print(freehold.installed())\n"
                "del sys.modules['freehold'], freehold\n"
                "import gc; gc.collect(); kept = [str(i) * 50 for i in range(100000)]\n")
        code, out, said = python("-c", text)
        self.assertEqual((code, out), (0, "['mem', 'object', 'raw']\n"), said)

    def test_the_output_of_a_program_does_not_depend_on_the_allocator(self):
        plain = python("-c", WORK.format(setup=""))
        self.assertEqual((plain[0], plain[2]), (0, ""))
        for domains in ("", "'raw'", "'mem'", "'object'"):
            setup = "freehold.install(%s); assert freehold.installed()" % domains
            self.assertEqual(python("-c", WORK.format(setup=setup)), plain)
        self.assertEqual(python("-c", WORK.format(setup="freehold.install()"),
                                PYTHONMALLOC="malloc"), plain)
        setup = "assert freehold.is_preloaded()"
        for flags in ([], ["--pymalloc"], ["--secure"]):
            self.assertEqual(python("-m", "freehold", "run", *flags, "-c",
                                    WORK.format(setup=setup)), plain)
        self.assertEqual(python("-m", "freehold", "run", "-c",
                                WORK.format(setup="freehold.install()")), plain)

    def test_objects_come_from_freehold_once_it_is_installed(self):
        code = ("import freehold\nfreehold.install()\nfreehold.install()\n"
                "before = freehold.stats()['live_bytes']\n"
                "kept = [object() for _ in range(1000000)]\n"
                "print(freehold.stats()['live_bytes'] - before > 15_000_000)")
        self.assertEqual(python("-c", code), (0, "True\n", ""))

    def test_run_passes_arguments_and_exit_code_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as file:
                file.write("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
            self.assertEqual(python("-m", "freehold", "run", path, "--secure", "a b"),
                             (7, "['--secure', 'a b']\n", ""))

    def test_options_of_run_reach_the_library(self):
        code, _, said = python("-m", "freehold", "run", "--options", "stats:exit", "-c", "1")
        self.assertEqual(code, 0)
        self.assertIn("live", said)

    def test_a_profile_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "heap.pb")
            code = ("import freehold\nfreehold.install()\n"
                    "with freehold.profile(%r, 4096):\n"
                    "    kept = [bytes(2000) for _ in range(5000)]\n" % path)
            self.assertEqual(python("-c", code), (0, "", ""))
            self.assertGreater(os.path.getsize(path), 500)

    def test_the_command_is_there(self):
        command = os.path.join(os.path.dirname(sys.executable), "freehold")
        result = subprocess.run([command, "options"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 0)
        self.assertIn("purge_delay_ms", result.stdout)


if __name__ == "__main__":
    unittest.main()
