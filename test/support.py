"""What the tests in Python share: where things are, and how a class of tests is run by name."""
import os
import re
import subprocess
import sys
import unittest

SOURCE = os.environ.get("FREEHOLD_SOURCE",
                        os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = os.environ.get("FREEHOLD_LIBRARY", os.path.join(SOURCE, "build", "libfreehold.so"))
DEBUG_LIBRARY = os.environ.get("FREEHOLD_DEBUG_LIBRARY",
                               os.path.join(SOURCE, "build", "libfreehold-debug.so"))
OBJECT = os.environ.get("FREEHOLD_OBJECT", os.path.join(SOURCE, "build", "freehold.o"))
PROGRAMS = os.environ.get("FREEHOLD_PROGRAMS", os.path.join(SOURCE, "build", "test"))
COMPILER = os.environ.get("FREEHOLD_COMPILER", "cc")
FLAGS = os.environ.get("FREEHOLD_FLAGS", "-O2 -fPIC -std=gnu11").split()      # of the release build
OPTIONS_LINK = "/etc/freehold.conf"


def program(name):
    return os.path.join(PROGRAMS, name)


def preloaded(library=LIBRARY, options=None):
    """An environment in which a program starts with `library`."""
    environment = {k: v
                   for k, v in os.environ.items() if k not in ("LD_PRELOAD", "FREEHOLD_OPTIONS")}
    if library:
        environment["LD_PRELOAD"] = library
    if options is not None:
        environment["FREEHOLD_OPTIONS"] = options
    return environment


def run(command, environment=None, timeout=60, **more):
    return subprocess.run(command, env=environment if environment is not None else preloaded(None),
                          timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", **more)


def has(command):
    return any(os.access(os.path.join(d, command), os.X_OK)
               for d in os.environ.get("PATH", "").split(":"))


def sources(*suffixes, folder="src"):
    for directory, _, names in sorted(os.walk(os.path.join(SOURCE, folder))):
        for name in sorted(names):
            if name.endswith(suffixes):
                yield os.path.relpath(os.path.join(directory, name), SOURCE)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8", errors="replace") as file:
        return file.read()


class Result(unittest.TextTestResult):
    def getDescription(self, test):
        # a class whose setUpClass ended early has none
        name = getattr(test, "_testMethodName", None)
        return re.sub(r"^test_", "", name).replace("_", " ") if name else str(test)


def main(module):
    """Runs the classes named on the command line, or all; 77 if everything was skipped."""
    loader = unittest.TestLoader()
    names = sys.argv[1:]
    suite = (loader.loadTestsFromNames(names, module) if names
             else loader.loadTestsFromModule(module))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(suite)
    failed = len(result.failures) + len(result.errors)
    passed = result.testsRun - failed - len(result.skipped)
    if result.skipped:
        print(f"{len(result.skipped)} skipped")
    print(f"{passed} passed, {failed} failed")
    if failed:
        sys.exit(1)
    sys.exit(77 if passed == 0 else 0)
