"""languages.py - interpreters and runtimes, each on a program from lab/work"""

import glob
import re

from freehold_lab.places import Failed
from freehold_lab.programs.program import (MALLOC_ONLY, PYTHON, compare, made, program,
                                           python_sources, script)

PYTHON_TESTS = """
    test_json test_dict test_re test_bytes test_list test_pickle test_set test_unicode
    test_array test_collections test_deque test_heapq test_memoryview test_sort
    test_struct test_tokenize test_weakref test_zlib test_threading test_ast""".split()


@program("python3", "python3-minimal libpython3-stdlib", PYTHON, files=150, malloc="malloc",
         quick={"files": 50})
def python3(launch, files, malloc):
    """python3 makes an index of all words of its own library; every object comes from malloc,
    unless it is told `default`"""
    launch.program(PYTHON, script("words.py"), *python_sources(files),
                   environment={**MALLOC_ONLY, "PYTHONMALLOC": malloc})


@compare("python3", "python3 libpython3.11-testsuite", "python3")
def python3_tests(launch):
    """Python's own tests, with every object from malloc, and a program; the verdict
    on each test is compared."""
    environment = {**MALLOC_ONLY, "HOME": str(launch.folder)}
    output = launch.program(PYTHON, "-m", "test", "-v", "--timeout", "120",
                            *PYTHON_TESTS, environment=environment).decode(errors="replace")
    verdicts = re.findall(r"^(test\w+ \(\S+\)).*? \.\.\. (ok|skipped|expected failure)", output,
                          re.MULTILINE)
    if len(verdicts) < 1000 or "== Tests result: SUCCESS ==" not in output:
        raise Failed(f"python3 -m test: {len(verdicts)} verdicts, no success")
    text = launch.program(PYTHON, script("words.py"), *python_sources(80), environment=environment)
    return [text, *sorted(f"{name} {verdict}" for name, verdict in verdicts)]


@program("perl", "perl libpython3-stdlib", "perl", compared={}, files=150, quick={"files": 50})
def perl(launch, files):
    """perl makes an index of all words, phrases and lines of sources"""
    return launch.program("perl", script("words.pl"), *python_sources(files))


@program("perl-preprocessor", "perl linux-libc-dev", "perl", rounds=6, quick={"rounds": 1})
def perl_preprocessor(launch, rounds):
    """perl extracts the preprocessor's logic from the kernel's headers: conditions,
    nesting, macros"""
    headers = sorted(glob.glob("/usr/include/linux/**/*.h", recursive=True))
    if not headers:
        raise Failed("perl-preprocessor: no headers in /usr/include/linux")
    launch.program("perl", script("preprocessor.pl"), rounds, *headers)


@program("lua", "lua5.4", "lua5.4", compared={"rounds": 2}, rounds=12, quick={"rounds": 2})
def lua(launch, rounds):
    """lua builds trees, joins strings, makes and calls closures"""
    return launch.program("lua5.4", script("work.lua"), rounds)


@program("ruby", "ruby libpython3-stdlib", "ruby", compared={}, files=60, quick={"files": 20})
def ruby(launch, files):
    """ruby reads sources, splits, counts and sorts them"""
    return launch.program("ruby", script("work.rb"), *python_sources(files))


@program("node", "nodejs libpython3-stdlib", "node", compared={}, files=60, quick={"files": 20})
def node(launch, files):
    """node reads sources into objects, maps and buffers"""
    return launch.program("node", script("work.js"), *python_sources(files))


@program("jq-markup", "jq", "jq", compared={"size": 10000}, size=40000, quick={"size": 10000})
def jq_markup(launch, size):
    """jq, a functional language, parses nested tags and joins pieces of one style"""
    made(launch, "markup.py", size, "markup.txt")
    return launch.program("jq", "-Rrs", "-f", script("markup.jq"), "markup.txt")


@compare("php", "php-cli", "php")
def php(launch):
    """With its own allocator and without: the second sends every block to malloc."""
    command = ["php", "-d", "memory_limit=-1", script("work.php"), *python_sources(60)]
    return [launch.program(*command), launch.program(*command, environment={"USE_ZEND_ALLOC": "0"})]


@compare("java", "default-jdk-headless", "java")
def java(launch):
    """The compiler and the program that it compiled."""
    launch.program("javac", "-d", launch.folder, script("Work.java"))
    return launch.program("java", "-Xmx256m", "-cp", launch.folder, "Work", *python_sources(60))


@compare("bash", "bash", "bash")
def bash(launch):
    """Hundreds of forks: subshells, pipes, substitutions, jobs in the background."""
    return launch.program("bash", script("forks.sh"))
