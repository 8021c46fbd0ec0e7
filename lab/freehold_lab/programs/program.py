"""program.py - a real program as a workload: what it is, what it needs, what it may use

Holds:   the input is the same for every allocator: the repository makes it, or a Debian package
         ships it. Nothing is installed here; `missing` names the packages.
"""

import glob
import socket
import sys
from dataclasses import dataclass

from freehold_lab.places import Failed, command_path, repository
from freehold_lab.workloads import Figure

PROGRAMS = {}
WALL = Figure("seconds", "s")


@dataclass
class Program:
    name: str
    about: str
    packages: tuple
    commands: tuple
    parameters: dict
    quick: dict
    figure: Figure
    # (launch, **parameters) -> figures, or None: then time is the figure
    work: object

    def missing(self):
        gone = [command for command in self.commands if find(command) is None]
        if not gone:
            return ""
        return (f"no command {', '.join(gone)}; as root: apt-get install --no-install-recommends "
                f"{' '.join(self.packages)}")

    def run(self, launch, parameters):
        figures = self.work(launch, **{**self.parameters, **parameters})
        if not launch.counting and not launch.costs["mapped"]:
            raise Failed(f"{self.name}: {launch.allocator.path} was in none of its processes")
        return figures or {"seconds": launch.costs.get("wall")}


def program(name, packages, commands, figure=WALL, quick=None, **parameters):
    """Makes a workload of a function; its documentation says what it does."""
    def register(work):
        PROGRAMS[name] = Program(name, " ".join(work.__doc__.split()), tuple(packages.split()),
                                 tuple(commands.split()), parameters, quick or {}, figure, work)
        return work
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
    return launch.client([sys.executable, script(name), *words])


def python_sources(count):
    """Text that Debian's python3 ships."""
    files = sorted(file for folder in glob.glob("/usr/lib/python3.*")
                   for file in glob.glob(f"{folder}/*.py"))
    if len(files) < count:
        raise Failed(f"only {len(files)} of {count} Python sources in /usr/lib/python3.*")
    return files[:count]


def listens(address):
    """Whether something listens at the path of a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(address)) == 0
