"""The manual pages and the completions: without a mistake, whole, and of use to the shells."""
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

BUILD = os.path.dirname(support.LIBRARY)
COMMAND = os.path.join(BUILD, "freehold")
MANUAL = os.path.join(BUILD, "manual")
PAGES = ["freehold.1", "freehold.3", "freehold.conf.5"]

def text_of(name):
    result = support.run(["mandoc", "-Tascii", "-O", "width=1000", os.path.join(MANUAL, name)])
    return re.sub(r".\x08", "", result.stdout)

def options():
    return json.loads(support.run([COMMAND, "options", "--json"]).stdout)["options"]

def verbs():
    """Every command: those that the command itself looks a word up among."""
    said = support.run([COMMAND, "nothing"]).stderr
    return set(re.search(r"there is no command 'nothing': (.*)", said).group(1).split(", "))

def verbs_with_help():
    """Those that have a page of their own."""
    return verbs() - {"run", "options", "version", "help"}

def flag(option):
    return "--" + option["name"].replace("_", "-")

class Manual(unittest.TestCase):
    def test_mandoc_and_groff_find_nothing_wrong(self):
        for name in PAGES:
            path = os.path.join(MANUAL, name)
            for command in (["mandoc", "-Tlint", "-Wstyle", path],
                            ["groff", "-man", "-ww", "-z", path]):
                result = support.run(command)
                self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_freehold_3_has_every_function_with_its_contract(self):
        text = text_of("freehold.3")
        header = support.read("include/freehold/freehold.h")
        names = re.findall(r"^FH_API [^;]*?\b(fh_\w+)\(", header, re.M)
        self.assertGreater(len(names), 30)
        self.assertEqual([n for n in names if not re.search(r"\b%s\([^;]*;" % n, text)], [])
        self.assertIn("Gives block p back; NULL is allowed. Keeps errno.", text)
        self.assertIn("struct_size;", text)

    def test_freehold_1_has_every_command_and_every_flag(self):
        text = text_of("freehold.1")
        self.assertGreater(len(verbs_with_help()), 8)
        for verb in verbs():
            self.assertIn("freehold %s" % verb, text)
        self.assertEqual(set(re.findall(r"^ {1,4}freehold (\w+)$", text, re.M)),
                         verbs_with_help() | {"run"})           # the headings
        for verb in verbs_with_help() | {"run"}:
            for name in re.findall(r"^  (--[a-z]+)", support.run([COMMAND, verb, "--help"]).stdout,
                                   re.M):
                self.assertIn(name, text)
        self.assertEqual([flag(o) for o in options() if flag(o) + " " not in text], [])

    def test_freehold_conf_5_has_every_option_with_range_and_sentence(self):
        text = text_of("freehold.conf.5")
        for option in options():
            self.assertIn("%s:%s" % (option["name"], option["range"]), text)
            self.assertIn(option["what"].replace("`", "")[:60], " ".join(text.split()))

class Completion(unittest.TestCase):
    def bash(self, *words, more=""):
        """What bash offers for the last of the words."""
        script = ("source %s; %s COMP_WORDS=(%s); COMP_CWORD=%d; _freehold; "
                  "printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
                      os.path.join(MANUAL, "freehold.bash"), more,
                      " ".join("'%s'" % w for w in ("freehold", *words)), len(words)))
        result = support.run(["bash", "--norc", "-c", script])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_help_bash_and_zsh_have_every_command(self):
        said = support.run([COMMAND, "help"]).stdout.split("Examples")[0]
        self.assertEqual(set(re.findall(r"^  freehold (\w+)", said, re.M)), verbs())
        self.assertEqual(set(self.bash("")), verbs())
        zsh = support.read(os.path.join(MANUAL, "_freehold"))
        self.assertEqual(set(re.search(r"compadd (\w.*)", zsh).group(1).split()), verbs())

    def test_bash_offers_every_flag_of_run_and_the_words_of_an_option(self):
        self.assertEqual(set(self.bash("run", "--")), {flag(o) for o in options()}
                         | {"--secure", "--bounds", "--debug", "--help", "--"})
        self.assertEqual(self.bash("run", "--stats", ""), ["none", "exit", "json"])
        self.assertEqual(self.bash("run", "--purge-delay-ms", ""), [])

    def test_bash_offers_programs_after_the_flags_and_files_after_the_program(self):
        self.assertIn("bash", self.bash("run", "--stats", "exit", "--", "bas"))
        self.assertIn("bash", self.bash("run", "--secure", "bas"))
        self.assertEqual(sorted(self.bash("run", "cat", "/proc/self/ma")),
                         ["/proc/self/map_files", "/proc/self/maps"])

    def test_bash_offers_the_flags_of_each_command(self):
        for verb in verbs_with_help():
            text = support.run([COMMAND, verb, "--help"]).stdout
            text = text.split("\nExample")[0]
            wanted = set(re.findall(r"(?<=[ \[])--[a-z]+", text)) | {"--help"}
            self.assertEqual(set(self.bash(verb, "--")), wanted, verb)

    def test_bash_offers_processes_that_run_on_it(self):
        with subprocess.Popen(["sleep", "60"], env=support.preloaded()) as target:
            deadline = time.monotonic() + 30
            while (str(target.pid) not in self.bash("stats", "")
                   and time.monotonic() < deadline):
                time.sleep(0.1)
            self.assertIn(str(target.pid), self.bash("stats", ""))
            self.assertEqual(self.bash("stats", "slee"), ["sleep"])
            target.kill()

    def test_zsh_completes_commands_flags_and_words(self):
        with tempfile.TemporaryDirectory() as home:
            child, terminal = pty.fork()
            if child == 0:
                os.environ.update(HOME=home, ZDOTDIR=home, TERM="vt100", PS1="> ")
                os.execvp("zsh", ["zsh", "-f", "-i"])
            try:
                self.say(terminal, "fpath=(%s $fpath); autoload -U compinit; compinit -u -D; "
                         "unsetopt zle_bracketed_paste; echo rea''dy\n" % MANUAL, "ready\r?\n")
                for typed, completed in (("freehold opt\t", "freehold options"),
                                         ("freehold run --purge-d\t", "--purge-delay-ms"),
                                         ("freehold run --stats js\t", "--stats json"),
                                         ("freehold stats --prom\t", "--prometheus"),
                                         ("freehold profile --kind lif\t", "--kind lifetimes")):
                    with self.subTest(typed):
                        self.say(terminal, typed, completed)
                        self.say(terminal, "\x15echo rea''dy\n", "ready\r?\n")
            finally:
                os.kill(child, 9)
                os.waitpid(child, 0)
                os.close(terminal)

    def say(self, terminal, text, wanted):
        """Types `text` and reads until `wanted` is there."""
        os.write(terminal, text.encode())
        said, deadline = "", time.monotonic() + 60
        while not re.search(wanted, said):
            if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("no %s in %r" % (wanted, said))
            said += os.read(terminal, 4096).decode(errors="replace")

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
