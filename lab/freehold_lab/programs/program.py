"""program.py - a real program: what it is, what it needs, how it is measured and what of it is
compared

Holds:   the input is the same for every allocator: the repository makes it, or a Debian package
         ships it. Nothing is installed here; `missing` names the packages.
"""

import glob
import hashlib
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from freehold_lab.places import Failed, command_path, repository
from freehold_lab.workloads import Figure

PROGRAMS = {}
WALL = Figure("seconds", "s")
PYTHON = "/usr/bin/python3"
# All objects from malloc, and the same work each time.
MALLOC_ONLY = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}


@dataclass
class Program:
    name: str
    about: str = ""
    packages: tuple = ()
    commands: tuple = ()
    parameters: dict = field(default_factory=dict)
    quick: dict = field(default_factory=dict)
    figure: Figure = WALL
    # (launch, **parameters) -> a dict of figures; if it is anything else, time is the figure
    work: object = None
    # (launch) -> the output to compare: text, bytes or a list of them
    check: object = None
    main: str = ""                          # the executable that has to have the library then
    check_packages: tuple = ()

    def missing(self):
        gone = [command for command in self.commands if find(command) is None]
        if not gone:
            return ""
        return (f"no command {', '.join(gone)}; as root: apt-get install --no-install-recommends "
                f"{' '.join(self.packages)}")

    def run(self, launch, parameters):
        figures = self.work(launch, **{**self.parameters, **parameters})
        if launch.costs.get("mapped") is False:
            raise Failed(f"{self.name}: {launch.allocator.path} was in none of its processes")
        return figures if isinstance(figures, dict) else {"seconds": launch.costs.get("wall")}


def program(name, packages, commands, figure=WALL, quick=None, compared=None, **parameters):
    """Makes a workload of a function; its documentation says what it does. With `compared`, values
    of parameters, what it returns is also what is compared."""
    def register(work):
        PROGRAMS[name] = Program(name, " ".join(work.__doc__.split()), tuple(packages.split()),
                                 tuple(commands.split()), parameters, quick or {}, figure, work)
        if compared is not None:
            compare(name, packages, commands.split()[0])(
                lambda launch: work(launch, **{**parameters, **compared}))
        return work
    return register


def compare(name, packages, main):
    """Makes a function of a Launch the one whose output is compared for a program, which may be one
    that is not measured. The executable `main` must have had the library."""
    def register(check):
        found = PROGRAMS.setdefault(name, Program(name))
        found.check, found.main = check, Path(main).name
        found.check_packages = tuple(packages.split())
        return check
    return register


def find(command):
    """A command in PATH, or the newest file that matches a pattern."""
    if "/" in command:
        return max(glob.glob(command), default=None)
    return command_path(command)


def script(name):
    """A script or an input of the repository."""
    return repository() / "lab" / "work" / name


def made(launch, name, *words):
    """What one of the repository's scripts prints or writes, made without the
    allocator under test."""
    return launch.client(sys.executable, script(name), *words)


def python_sources(count):
    """Text that Debian's python3 ships."""
    files = sorted(file for folder in glob.glob("/usr/lib/python3.*")
                   for file in glob.glob(f"{folder}/*.py"))
    if len(files) < count:
        raise Failed(f"only {len(files)} of {count} Python sources in /usr/lib/python3.*")
    return files[:count]


def digest(data):
    """A line that stands for bytes too many to keep."""
    return f"{hashlib.sha256(data).hexdigest()} {len(data)} bytes"


def listens(address):
    """Whether something listens at (host, port) or at the path of a socket."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family) as probe:
        return probe.connect_ex(address if isinstance(address, tuple) else str(address)) == 0
