"""languages.py - cases: interpreters and runtimes, each on a program from lab/work"""

import re
import sysconfig
from pathlib import Path

from cases.case import case
from running import WORK, Failed

PYTHON = "/usr/bin/python3"
PYTHON_TESTS = """
    test_json test_dict test_re test_bytes test_list test_pickle test_set test_unicode
    test_array test_collections test_deque test_heapq test_memoryview test_sort
    test_struct test_tokenize test_weakref test_zlib test_threading test_ast""".split()


def sources(count):
    """Text that is the same in both runs: Python's standard library."""
    top = Path(sysconfig.get_paths(vars={"installed_base": "/usr", "base": "/usr"})["stdlib"])
    files = sorted(top.glob("*.py"))[:count]
    if len(files) < min(count, 50):
        raise Failed(f"{top}: only {len(files)} Python sources")
    return files


@case("python3", "python3 libpython3.11-testsuite", main="python3")
def python3(run):
    """Python's own tests, with every object from malloc, and a program; the verdict
    on each test is compared."""
    environment = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "HOME": str(run.folder)}
    output = run.program(PYTHON, "-m", "test", "-v", "--timeout", "120",
                         *PYTHON_TESTS, environment=environment).decode(errors="replace")
    verdicts = re.findall(r"^(test\w+ \(\S+\)).*? \.\.\. (ok|skipped|expected failure)", output,
                          re.MULTILINE)
    if len(verdicts) < 1000 or "== Tests result: SUCCESS ==" not in output:
        raise Failed(f"python3 -m test: {len(verdicts)} verdicts, no success")
    text = run.program(PYTHON, WORK / "words.py", *sources(80), environment=environment)
    return [text, *sorted(f"{name} {verdict}" for name, verdict in verdicts)]


@case("perl", "perl", main="perl")
def perl(run):
    return run.program("perl", WORK / "words.pl", *sources(150))


@case("ruby", "ruby", main="ruby")
def ruby(run):
    return run.program("ruby", WORK / "work.rb", *sources(60))


@case("node", "nodejs", main="node")
def node(run):
    return run.program("node", WORK / "work.js", *sources(60))


@case("php", "php-cli", main="php")
def php(run):
    """With its own allocator and without: the second sends every block to malloc."""
    command = ["php", "-d", "memory_limit=-1", WORK / "work.php", *sources(60)]
    return [run.program(*command), run.program(*command, environment={"USE_ZEND_ALLOC": "0"})]


@case("java", "default-jdk-headless", main="java")
def java(run):
    """The compiler and the program that it compiled."""
    run.program("javac", "-d", run.folder, WORK / "Work.java")
    return run.program("java", "-Xmx256m", "-cp", run.folder, "Work", *sources(60))


@case("bash", "bash", main="bash")
def bash(run):
    """Hundreds of forks: subshells, pipes, substitutions, jobs in the background."""
    return run.program("bash", WORK / "forks.sh")
