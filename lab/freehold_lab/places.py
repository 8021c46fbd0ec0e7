"""places.py - where things lie, and how commands are run that only have to succeed

Owns:    the cache folder: peers, built workloads and helpers, each remade when what
         it is made of changed.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from freehold_lab.progress import Line, clear

PACKAGE = Path(__file__).resolve().parent
WORKLOADS = Path("lab", "workloads")
LIST = WORKLOADS / "workloads.toml"


class Failed(Exception):
    """Something could not be done; the message is one line for the person at the terminal."""


class Broken(Failed):
    """The laboratory itself cannot go on: a full disk, a program that may not be run.
    No allocator is to blame."""


def cache():
    """The folder for what takes long to make: FREEHOLD_LAB_CACHE, else the user's own."""
    named = os.environ.get("FREEHOLD_LAB_CACHE")
    base = (Path(named) if named
            else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "freehold-lab"))
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Failed(f"no cache folder: {problem}; name another with FREEHOLD_LAB_CACHE") from None
    return base.resolve()


def write(path, text):
    """A file that the person at the terminal has named."""
    try:
        path.write_text(text)
    except OSError as problem:
        raise Failed(f"{path}: {problem.strerror.lower()}") from None


@contextmanager
def alone():
    """No other command builds or measures meanwhile: it would disturb this one, and
    rebuild what this one runs."""
    with (cache() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(
                f"another freehold-lab is building or measuring with {cache()}; wait until it has "
                         "ended") from None
        yield


def repository():
    """The checkout that has the workloads: FREEHOLD_LAB_ROOT, else above here, else
    above the package."""
    named = os.environ.get("FREEHOLD_LAB_ROOT")
    starts = [Path(named)] if named else [Path.cwd(), PACKAGE]
    for start in starts:
        for folder in (start.resolve(), *start.resolve().parents):
            if (folder / LIST).is_file():
                return folder
    raise Failed(f"no {LIST} in or above {starts[0]}: run this inside freehold's repository, or "
                 "name it with "
                 f"FREEHOLD_LAB_ROOT")


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no message"


def must(command, what, **options):
    """Runs a command that has to succeed; its own message, in one line, if it does
    not. Its output."""
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              **options)
    except FileNotFoundError:
        raise Failed(f"{what}: no command {command[0]} here") from None
    if done.returncode != 0:
        output = done.stderr + done.stdout
        errors = [line for line in output.splitlines() if "rror" in line]
        raise Failed(f"{what}: {errors[0].strip()[:300] if errors else last_line(output)}")
    return done.stdout


def watch(command, what):
    """Likewise of a helper that takes a while, whose lines on standard error say how far it is."""
    line, last = Line(), "no message"
    with tempfile.TemporaryFile("w+") as output, subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.PIPE, text=True) as running:
        for last in running.stderr:
            line.write(last.strip())
        clear()
        code = running.wait()
        if code != 0:
            raise Failed(f"{what}: {last.strip()[:300] if code > 0 else f'signal {-code}'}")
        output.seek(0)
        return output.read()


def is_up_to_date(program, made_of):
    """Is it there, and newer than all files in the list that the compiler wrote?"""
    try:
        inputs = made_of.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
        return all(os.stat(each).st_mtime <= program.stat().st_mtime for each in inputs)
    except (OSError, IndexError):
        return False


def native(name):
    """The helper program `name` of native/, compiled if there is none yet or something that it is
    made of is newer."""
    source = next(PACKAGE.glob(f"native/{name}.c*"))
    program = cache() / "native" / name
    made_of = program.with_suffix(".d")
    if not is_up_to_date(program, made_of):
        program.parent.mkdir(exist_ok=True)
        compiler = "c++" if source.suffix == ".cc" else "cc"
        fresh = program.with_suffix(f".{os.getpid()}")
        must([compiler, "-O2", "-fno-builtin-malloc", "-pthread", "-MMD", "-MF", made_of, source,
              "-o", fresh], f"compiling {source.name}")
        fresh.replace(program)
    return program


def configure(source, folder, what, *options):
    """Runs cmake for the project `source` in the build folder; begins anew where that is of another
    checkout, which cmake refuses."""
    known = folder / "CMakeCache.txt"
    is_other = (known.is_file()
                and f"CMAKE_HOME_DIRECTORY:INTERNAL={source}\n" not in known.read_text())
    must(["cmake", *(["--fresh"] if is_other else []), "-S", source, "-B", folder, *options], what)


def workload_programs():
    """The folder of the built workloads; cmake decides what is stale."""
    folder = cache() / "bench"
    configure(repository() / WORKLOADS, folder, "configuring the workloads",
              "-DCMAKE_BUILD_TYPE=Release")
    must(["cmake", "--build", folder, "--target", "bench", "--parallel", str(os.cpu_count())],
         "building the workloads")
    return folder


def command_path(name):
    """Where a command of the system lies, also those that only root has in PATH;
    None if it is missing."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
