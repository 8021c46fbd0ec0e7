"""launch.py - one run of a workload under an allocator: started, measured or
counted, ended within its limit

Owns:    the processes of the run; when `Launch` is left, by whatever path, they have
         ended and its folder is gone.
"""

import ctypes
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from freehold_lab.allocators import clean_environment
from freehold_lab.group import Group
from freehold_lab.places import Broken, Failed, last_line, native

PERIOD = 5                                  # milliseconds between two looks at resident memory
MEMORY_CALLS = ("mmap", "munmap", "mremap", "madvise", "brk")
PR_SET_CHILD_SUBREAPER = 36
METER_FAILED = 125


def ended(code):
    """How a process ended, in words."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if number in set(signal.Signals):
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {code}"


def failure(command, code, how, said):
    """The failure of a command, by whose it is."""
    is_ours = code == METER_FAILED and Path(command[0]).name == "meter" or b"No space left" in said
    return (Broken if is_ours else Failed)(f"{how}: {last_line(said.decode(errors='replace'))}")


def descendants(root):
    """The living processes below `root`."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text(errors="replace")
                state, parent = text.rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if state != "Z":
                below.setdefault(int(parent), []).append(int(entry))
    found, wanted = [], [root]
    while wanted:
        children = below.get(wanted.pop(), [])
        found += children
        wanted += children
    return found


def stop_everything(grace=30.0):
    """Kills all processes below this one; orphans too, because this process is their reaper."""
    end = time.monotonic() + grace
    while living := descendants(os.getpid()):
        for process in living:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        reap()
        if time.monotonic() > end:
            raise Failed(f"processes that cannot be killed: {living}")
        time.sleep(0.01)
    reap()


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Launch:
    """What a workload gets to run its programs with: `program` and `server` run under the allocator
    and are measured, `client` runs under libc's malloc. The folder is a fresh one, or the one named
    `folder`. With `memory`, in bytes, all that is measured shares that much; `told` is then what
    the kernel did about it, as Group.told says, with the major faults that were counted."""

    def __init__(self, allocator, limit, processors=0, variables=None, folder=None, memory=0):
        self.allocator, self.processors, self.named = allocator, processors, folder
        self.group, self.told = Group(memory) if memory else None, {}
        self.variables = variables or {}
        self.limit = limit
        self.costs = {}
        self.period = PERIOD

    def __enter__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = Path(self.named or tempfile.mkdtemp(prefix="freehold-lab-"))
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o777)            # some servers refuse to be root and run as another user
        self.end = time.monotonic() + self.limit
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            if self.group:
                stack.enter_context(self.group)
                stack.callback(self.ask_group)
            stack.callback(stop_everything)
            self.at_exit = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.at_exit.close()

    def ask_group(self):
        """After the run, before its group goes. A program that was killed has costs too."""
        with suppress(OSError, ValueError):
            if not self.costs:
                self.take_costs()
        self.told = {**self.group.told(), "major": self.costs.get("major")}

    def left(self):
        return max(0.1, self.end - time.monotonic())

    def settings(self, user=None):
        """NAME=VALUE of all that puts the allocator under a program. Another user gets a copy of
        the library, because it may lie where that one cannot read it."""
        variables = {**self.allocator.settings(), **self.variables}
        if is_other(user) and "LD_PRELOAD" in variables:
            variables["LD_PRELOAD"] = self.copy(self.allocator.path)
        return [f"{name}={value}" for name, value in variables.items()]

    def around(self, user):
        """What stands in front of a command: the allocator, and what measures."""
        meter, group = native("meter"), self.group.folder if self.group else ""
        if group and is_other(user):
            (group / "cgroup.procs").chmod(0o666)
        return [self.copy(meter) if is_other(user) else meter, self.folder / "report", self.period,
                self.processors, group, *self.settings(user), "--"]

    def take_costs(self):
        """After the command has ended."""
        costs = json.loads((self.folder / "report").read_text())
        self.costs = {**costs, "faults": costs["minor"] + costs["major"]}

    def servers(self, process):
        """The processes to ask for an end, of one that was started with `around`."""
        return descendants(process.pid)[:1]

    def copy(self, file):
        copied = Path(shutil.copy(file, self.folder))
        copied.chmod(0o755)
        return copied

    def start(self, command, environment=None, user=None, **files):
        groups = ({"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
                  if is_other(user) else {})
        try:
            return subprocess.Popen([str(word) for word in command], cwd=self.folder,
                                    start_new_session=True, **groups,
                                    **{"stdin": subprocess.DEVNULL, **files},
                                    env={**clean_environment(), "LC_ALL": "C",
                                         **(environment or {})})
        except FileNotFoundError:
            raise Failed(f"no command {command[0]} here") from None

    def finish(self, command, what, give=b"", environment=None, user=None):
        """Runs a command to its end; its output. Through files: a pipe would stay open as long as a
        child that the command leaves behind."""
        (self.folder / "input").write_bytes(give.encode() if isinstance(give, str) else give)
        with (self.folder / "output").open("w+b") as output, \
                (self.folder / "errors").open("w+b") as errors, \
                (self.folder / "input").open("rb") as given:
            process = self.start(command, environment, user, stdin=given, stdout=output,
                                 stderr=errors)
            try:
                code = process.wait(self.left())
            except subprocess.TimeoutExpired:
                raise Failed(f"{what}: still running after {self.limit:g} s") from None
            said = [file.seek(0) or file.read() for file in (output, errors)]
        if code != 0:
            raise failure(command, code, f"{what}: {ended(code)}", said[1].strip() or said[0])
        return said[0]

    def program(self, *command, give=b"", environment=None, user=None, is_brief=False):
        """The program under the allocator, to its end; its output. One that is brief is looked at
        when it ends, and only then."""
        self.period = 0 if is_brief else PERIOD
        output = self.finish([*self.around(user), *command], Path(str(command[0])).name, give,
                             environment, user)
        self.take_costs()
        return output

    def client(self, *command, give=b"", environment=None, user=None):
        """What is not measured and has libc's malloc; its output."""
        return self.finish(command, Path(str(command[0])).name, give, environment, user)

    @contextmanager
    def server(self, *command, is_ready, user=None, stop=signal.SIGTERM):
        """A server under the allocator for the time of a with block; it is told to
        end by the signal `stop`."""
        what, log = Path(str(command[0])).name, self.folder / "server.log"
        words = [*self.around(user), *command]
        with log.open("wb") as out:
            process = self.start(words, None, user, stdout=out, stderr=out)
        while not is_ready():
            if process.poll() is not None:
                raise failure(words, process.returncode, f"{what} ended before it was ready: "
                              f"{ended(process.returncode)}", log.read_bytes())
            if time.monotonic() > self.end:
                raise Failed(f"{what} was not ready after {self.limit:g} s")
            time.sleep(0.02)
        try:
            yield
        except Failed as problem:
            code = process.poll()
            if code is None:
                raise
            raise failure(words, code, f"{problem} ({what}: {ended(code)})",
                          log.read_bytes()) from None
        for server in self.servers(process):
            os.kill(server, stop)
        try:
            code = process.wait(self.left())
        except subprocess.TimeoutExpired:
            raise Failed(f"{what}: does not end when told to") from None
        if code not in (0, 128 + stop, -stop):
            raise failure(words, code, f"{what}: {ended(code)}", log.read_bytes())
        self.take_costs()


class Counted(Launch):
    """Its system calls are counted: those for memory, or all, which slows a program down more."""

    def __init__(self, *arguments, is_every=False, **more):
        super().__init__(*arguments, **more)
        self.filter = ["trace=all"] if is_every else [f"trace={','.join(MEMORY_CALLS)}",
                                                      "--seccomp-bpf"]

    def around(self, user):
        given = [word for setting in self.settings(user) for word in ("-E", setting)]
        return ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", self.folder / "report", "-e",
                *self.filter, *given]

    def take_costs(self):
        self.costs = read_counts((self.folder / "report").read_text())


class Mapped(Counted):
    """What it asks of the system for memory and gives back: each call with its size."""

    def around(self, user):
        given = [word for setting in self.settings(user) for word in ("-E", setting)]
        return ["strace", "-f", "-qq", "-o", self.folder / "report", "-e", *self.filter, *given]

    def take_costs(self):
        self.costs = read_mappings((self.folder / "report").read_text())


CALL = re.compile(r"(\d+) +(mmap|munmap|mremap|madvise|brk)\((.*)\) += (\S+)")
UNFINISHED = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)$")


def whole_calls(text):
    """The lines of a trace; a call that others came between is put together again."""
    begun = {}
    for line in text.splitlines():
        if found := UNFINISHED.match(line):
            begun[found[1]] = found[2]
        elif found := RESUMED.match(line):
            yield f"{found[1]} {begun.pop(found[1], '')}{found[2]}"
        else:
            yield line


def read_mappings(text):
    """How often a traced program called for memory, and for how many bytes. Files that are mapped
    are no memory; calls that failed are counted, with no bytes."""
    calls, files = dict.fromkeys(MEMORY_CALLS, 0), []
    asked = released = advised = top = 0
    for line in whole_calls(text):
        found = CALL.match(line)
        if not found:
            continue
        name, words, result = found[2], found[3].split(", "), found[4]
        is_done = not result.startswith("-")
        if name == "mmap" and int(words[4]) >= 0:
            if is_done:
                files.append((int(result, 16), int(words[1])))
            continue
        if name == "munmap" and any(start <= int(words[0], 16) < start + size
                                    for start, size in files):
            continue
        calls[name] += 1
        if not is_done:
            continue
        if name == "mmap":
            asked += int(words[1])
            if "MAP_FIXED" not in words[3]:     # the file that was there is gone
                first, end = int(result, 16), int(result, 16) + int(words[1])
                files = [(at, size) for at, size in files if at >= end or at + size <= first]
        elif name == "munmap":
            released += int(words[1])
        elif name == "mremap":
            asked, released = asked + int(words[2]), released + int(words[1])
        elif name == "madvise":
            advised += int(words[1]) if "DONTNEED" in words[2] or "FREE" in words[2] else 0
        else:
            now = int(result, 16)
            asked, released = asked + max(0, now - (top or now)), released + max(0, top - now)
            top = now
    return {"calls": sum(calls.values()), **calls, "asked": asked, "released": released,
            "difference": asked - released, "advised": advised}


def is_other(user):
    return user is not None and os.getuid() == 0


def read_counts(text):
    counts = {name: int(calls) for calls, name in re.findall(r"^\s*(\d+)\s+(\w+)\s*$", text, re.M)}
    memory = {name: counts.get(name, 0) for name in MEMORY_CALLS}
    return {"calls": sum(memory.values()), "system_calls": counts.get("total", 0), **memory}


def can_count():
    """May strace trace here?"""
    try:
        return subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "true"],
                              capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
