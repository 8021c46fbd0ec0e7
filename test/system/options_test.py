"""Options that are wrong, huge or not to be trusted: one line about each mistake,
and the program runs."""
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

ALL = ["purge_delay_ms", "purge_budget", "arena_step", "thp", "magazine", "background", "stats",
       "stats_detail"]


def probe(options, *names, name="options_probe", library=support.LIBRARY, **more):
    """The probe's result, and the values that it printed."""
    result = support.run([support.program(name), *names], support.preloaded(library, options),
                         **more)
    values = dict(line.split("=") for line in result.stdout.split() if "=" in line)
    return result, values


class Mistakes(unittest.TestCase):
    def setUp(self):
        result, self.defaults = probe(None, *ALL)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def check_one_line(self, options, *words):
        for library in (support.LIBRARY, support.DEBUG_LIBRARY):
            with self.subTest(options=options, library=os.path.basename(library)):
                result, values = probe(options, *ALL, library=library)
                self.assertEqual(result.returncode, 0, result.stderr)
                lines = result.stderr.splitlines()
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertTrue(lines[0].startswith("freehold: "), lines[0])
                for word in words:
                    self.assertIn(word, lines[0])
                self.assertEqual(values, self.defaults)

    def test_good_values_hold_without_a_word(self):
        result, values = probe("purge_delay_ms:10,magazine:64K,thp:never", *ALL)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual((values["purge_delay_ms"], values["magazine"]), ("10", "65536"))

    def test_an_unknown_name_is_named(self):
        self.check_one_line("no_such_option:1", "no_such_option")
        self.check_one_line("no_such_option", "no_such_option")

    def test_a_value_out_of_range_is_told_with_the_range(self):
        self.check_one_line("purge_delay_ms:-2", "purge_delay_ms", "-2", "-1", "600000")
        self.check_one_line("purge_delay_ms:600001", "purge_delay_ms", "600001", "-1", "600000")
        self.check_one_line("arena_step:1", "arena_step", "1", "64K", "1G")
        self.check_one_line("arena_step:2G", "arena_step", "2G", "64K", "1G")

    def test_a_value_that_is_no_value_is_told_with_the_range(self):
        for value in ("abc", "1.5", "10ms", "0x10", "--1", "1 2", "-", "99999999999999999999",
                      "-99999999999999999999", "1e3"):
            self.check_one_line("purge_delay_ms:" + value, "purge_delay_ms", value, "-1", "600000")
        for value in ("64Q", "K", "-64K", "16E", "9999999999999P"):
            self.check_one_line("magazine:" + value, "magazine", value)
        for value in ("sometimes", "AUTO ", "", "1x"):
            if value.strip().lower() != "auto":
                self.check_one_line("thp:" + value, "thp", value, "auto", "never", "always")
        self.check_one_line("background:maybe", "background", "maybe")

    def test_a_missing_value_is_told(self):
        self.check_one_line("purge_delay_ms:", "purge_delay_ms")
        self.check_one_line("purge_delay_ms", "purge_delay_ms")

    def test_what_is_right_beside_a_mistake_holds(self):
        result, values = probe("purge_delay_ms:5,nonsense:3,magazine:128K", "purge_delay_ms",
                               "magazine")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual(values["purge_delay_ms"], "5")
        self.assertEqual(values["magazine"], "131072")

    def test_strange_bytes_do_no_harm(self):
        for text in (":", ",", ",,,", ":::", ":,:,:", "=", "\x7f\x01", "a" * 1000,
                     "purge_delay_ms:" + "9" * 1000, "%n%s%s%n:%s",
                     "\udcff\udcfe:\udcff", "purge_delay_ms:\n1", "\n\n\n"):
            result, values = probe(text, *ALL)
            self.assertEqual(result.returncode, 0, text)
            self.assertLess(len(result.stderr), 2000)
            for line in result.stderr.splitlines():
                self.assertTrue(line.startswith("freehold: "), line)

    def test_warnings_can_be_turned_off(self):
        result, _ = probe("no_such_option:1,warnings:off", *ALL)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class FullFile(unittest.TestCase):
    def test_a_line_to_a_file_that_may_not_grow_ends_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x" * 2000)
            file.flush()
            for mode in ("ab", "r+b"):
                with self.subTest(mode=mode), open(file.name, mode) as errors:
                    errors.seek(0, os.SEEK_END)
                    result = subprocess.run(["/bin/true"], env=support.preloaded(
                        options="no_such_option:1"), stderr=errors, preexec_fn=limit)
                    self.assertEqual(result.returncode, 0)
            self.assertEqual(os.path.getsize(file.name), 2000)


class Verbose(unittest.TestCase):
    HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"

    def version(self):
        header = support.read("include/freehold/freehold.h")
        return ".".join(re.search(r"define FH_VERSION_%s +(\d+)" % part, header).group(1)
                        for part in ("MAJOR", "MINOR", "PATCH"))

    def first_line(self, huge_pages=None, kind=""):
        if huge_pages is None and os.path.exists(self.HUGE_PAGES):
            with open(self.HUGE_PAGES) as file:
                huge_pages = file.read().split("[")[1].split("]")[0]
        return "freehold %s%s: pages of %dK, transparent huge pages of the system: %s" % (
            self.version(), kind, os.sysconf("SC_PAGESIZE") // 1024, huge_pages or "not known")

    def test_it_says_what_holds_and_where_it_comes_from(self):
        for library, kind in ((support.LIBRARY, ""), (support.DEBUG_LIBRARY, "-debug")):
            result, values = probe("verbose:on,purge_delay_ms:10,thp:never,profile_interval:1M",
                                   "purge_delay_ms", library=library)
            self.assertEqual((result.returncode, values["purge_delay_ms"]), (0, "10"))
            self.assertEqual(result.stderr.splitlines(), [
                self.first_line(kind=kind), *("freehold: option %s, from FREEHOLD_OPTIONS" % option
                                     for option in ("purge_delay_ms: 10", "thp: never",
                                                    "profile_interval: 1M", "verbose: on"))])

    def test_what_is_at_its_default_is_not_said(self):
        result, _ = probe("verbose:on,warnings:on,stats:none")
        self.assertEqual(result.stderr.splitlines(), [
            self.first_line(), "freehold: option verbose: on, from FREEHOLD_OPTIONS"])

    def test_it_names_the_program_too(self):
        result, _ = probe("warnings:off,verbose:on", name="options_probe.program", library=None)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("\nfreehold: option purge_delay_ms: 77, from fh_options\n", result.stderr)
        self.assertIn("\nfreehold: option verbose: on, from FREEHOLD_OPTIONS\n", result.stderr)

    def test_a_system_that_does_not_tell_is_not_known(self):
        if not support.has("strace"):
            self.skipTest("strace is not installed")
        for call in ("openat", "read"):
            result = support.run(["strace", "-o", "/dev/null", "-P", self.HUGE_PAGES, "-e",
                                  "inject=%s:error=EACCES" % call, "-E",
                                  "LD_PRELOAD=" + support.LIBRARY, "-E",
                                  "FREEHOLD_OPTIONS=verbose:on", support.program("options_probe")])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(self.first_line("not known"), result.stderr)

    def test_a_wrong_value_is_a_mistake_like_others(self):
        result, _ = probe("verbose:loud")
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (0, 1))
        self.assertIn("verbose", result.stderr)


class Huge(unittest.TestCase):
    def check(self, result):
        self.assertEqual(result.returncode, 0, result.stderr[-500:])
        self.assertLess(len(result.stderr), 20000)
        for line in result.stderr.splitlines():
            self.assertLess(len(line), 1000)

    def test_the_longest_text_that_an_environment_holds(self):
        longest = 128 * 1024 - len("FREEHOLD_OPTIONS=") - 1   # the kernel's bound for one string
        for piece in ("x", ",", ":", "no_such:1,", "purge_delay_ms:5,",
                      "purge_delay_ms:" + "9" * 100000 + ","):
            text = (piece * (longest // len(piece) + 1))[:longest]
            result, _ = probe(text)
            self.check(result)
        result, values = probe("purge_delay_ms:5," * 7000 + "purge_delay_ms:9", "purge_delay_ms")
        self.assertEqual((result.stderr, values["purge_delay_ms"]), ("", "9"))

    def test_one_megabyte_from_the_program_itself(self):
        result, values = probe(None, "purge_delay_ms", "arena_step", name="options_probe.program",
                               library=None)
        self.check(result)
        self.assertIn("arena_step", result.stderr)
        self.assertEqual(values["purge_delay_ms"], "77")


class RaisedPrivileges(unittest.TestCase):
    """Under AT_SECURE the environment is ignored: a copy of the probe, set-uid root,
    is run by another user."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: to make a set-uid program and to run it as another user")
        self.folder = tempfile.mkdtemp(prefix="freehold-")
        os.chmod(self.folder, 0o755)
        self.copy = os.path.join(self.folder, "probe")
        shutil.copy(support.program("options_probe.static"), self.copy)
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the temporary folder's file system ignores the set-uid bit")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def start(self, mode):
        os.chown(self.copy, 0, 0)
        os.chmod(self.copy, mode)
        options = "no_such_option:1,purge_delay_ms:5,stats:exit,verbose:on"
        environment = {"FREEHOLD_OPTIONS": options}
        result = support.run([self.copy, "purge_delay_ms"], environment, user=65534, group=65534,
                             extra_groups=[])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result, dict(line.split("=") for line in result.stdout.split() if "=" in line)

    def test_the_environment_counts_for_ordinary_programs_only(self):
        result, values = self.start(0o755)
        self.assertEqual((values["secure"], values["purge_delay_ms"]), ("0", "5"))
        self.assertIn("no_such_option", result.stderr)
        self.assertIn("option verbose: on", result.stderr)
        result, values = self.start(0o755 | stat.S_ISUID)
        self.assertEqual(values["secure"], "1")
        self.assertNotEqual(values["purge_delay_ms"], "5")
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
