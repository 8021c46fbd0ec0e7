"""launch.py - one run of a workload under an allocator: started, measured or
counted, ended within its limit

Owns:    the processes of the run; when `Launch` is left, by whatever path, they have
         ended and its folder is gone.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from freehold_lab.allocators import clean_environment
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
    is_ours = code == METER_FAILED and Path(command[0]).name == "meter" or "No space left" in said
    return (Broken if is_ours else Failed)(f"{how}: {last_line(said)}")


def descendants(root):
    """The living processes below `root`."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, parent = Path("/proc", entry, "stat").read_text().rsplit(")",
                                                                                1)[1].split()[:2]
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
    """What a workload gets to run its programs with. Exactly one command of a run is measured."""

    def __init__(self, allocator, limit, processors=0, counting=False):
        self.allocator, self.processors, self.counting = allocator, processors, counting
        self.limit = limit
        self.costs = {}

    def __enter__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = Path(tempfile.mkdtemp(prefix="freehold-lab-"))
        self.folder.chmod(0o777)            # some servers refuse to be root and run as another user
        self.end = time.monotonic() + self.limit
        return self

    def __exit__(self, *_):
        stop_everything()
        shutil.rmtree(self.folder, ignore_errors=True)

    def left(self):
        return max(0.1, self.end - time.monotonic())

    def measured(self, command, user):
        """The command with the allocator, and what measures or counts, in front of it. Another user
        may not be able to read where they lie, and gets copies."""
        variables, meter = self.allocator.settings(), native("meter")
        if user and os.getuid() == 0:
            variables["LD_PRELOAD"] = self.copy(self.allocator.path)
            meter = self.copy(meter)
        settings = [f"{name}={value}" for name, value in variables.items()]
        report, words = self.folder / "report", [str(word) for word in command]
        if self.counting:
            given = [word for setting in settings for word in ("-E", setting)]
            return ["strace", "-f", "--seccomp-bpf", "-qq", "-c", "-U", "calls,name", "-o",
                    str(report), "-e", f"trace={','.join(MEMORY_CALLS)}", *given, *words]
        return [str(meter), str(report), str(PERIOD), str(self.processors), *settings, "--", *words]

    def copy(self, file):
        copied = Path(shutil.copy(file, self.folder))
        copied.chmod(0o755)
        return copied

    def start(self, command, environment=None, user=None, **files):
        groups = ({"user": user, "group": user, "extra_groups": []} if user and os.getuid() == 0
                  else {})
        try:
            return subprocess.Popen([str(word) for word in command], cwd=self.folder,
                                    start_new_session=True, **groups, **files,
                                    stdin=subprocess.DEVNULL,
                                    env={**clean_environment(), "LC_ALL": "C",
                                         **(environment or {})})
        except FileNotFoundError:
            raise Failed(f"no command {command[0]} here") from None

    def finish(self, command, what, environment=None, user=None):
        """Runs a command to its end; its output. Through files: a pipe would stay open as long as a
        child that the command leaves behind."""
        with (self.folder / "output").open("w+b") as output, (self.folder
                                                              / "errors").open("w+b") as errors:
            process = self.start(command, environment, user, stdout=output, stderr=errors)
            try:
                code = process.wait(self.left())
            except subprocess.TimeoutExpired:
                raise Failed(f"{what}: still running after {self.limit:g} s") from None
            said = [file.seek(0) or file.read().decode(errors="replace")
                    for file in (output, errors)]
        if code != 0:
            raise failure(command, code, f"{what}: {ended(code)}", said[1].strip() or said[0])
        return said[0]

    def program(self, command, environment=None, user=None):
        """The program under the allocator, to its end; its output."""
        output = self.finish(self.measured(command, user), Path(str(command[0])).name, environment,
                             user)
        self.take_costs()
        return output

    def client(self, command, user=None):
        """What is not measured and has libc's malloc."""
        return self.finish(command, Path(str(command[0])).name, None, user)

    @contextmanager
    def server(self, command, is_ready, user=None, stop=signal.SIGTERM):
        """A server under the allocator for the time of a with block; it is told to
        end by the signal `stop`."""
        what, log = Path(str(command[0])).name, self.folder / "server.log"
        words = self.measured(command, user)
        with log.open("wb") as out:
            process = self.start(words, None, user, stdout=out, stderr=out)
        while not is_ready():
            if process.poll() is not None:
                raise failure(words, process.returncode, f"{what} ended before it was ready: "
                              f"{ended(process.returncode)}", log.read_text(errors="replace"))
            if time.monotonic() > self.end:
                raise Failed(f"{what} was not ready after {self.limit:g} s")
            time.sleep(0.02)
        yield
        for server in descendants(process.pid)[:1]:
            os.kill(server, stop)
        try:
            code = process.wait(self.left())
        except subprocess.TimeoutExpired:
            raise Failed(f"{what}: does not end when told to") from None
        if code not in (0, 128 + stop, -stop):
            raise failure(words, code, f"{what}: {ended(code)}", log.read_text(errors="replace"))
        self.take_costs()

    def take_costs(self):
        text = (self.folder / "report").read_text()
        self.costs = read_counts(text) if self.counting else read_costs(text)


def read_costs(text):
    costs = json.loads(text)
    costs["faults"] = costs["minor"] + costs["major"]
    return costs


def read_counts(text):
    counts = dict.fromkeys(MEMORY_CALLS, 0)
    for calls, name in re.findall(r"^\s*(\d+)\s+(\w+)\s*$", text, re.M):
        if name in counts:
            counts[name] = int(calls)
    return {"calls": sum(counts.values()), **counts}


def can_count():
    """May strace trace here?"""
    try:
        return subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "true"],
                              capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
