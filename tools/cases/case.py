"""case.py - what a case is, and what it may ask for while it runs

Owns:    the processes of one run of one case, and the proof that the allocator was in them.
"""

import contextlib
import hashlib
import os
import pwd
import shlex
import signal
import socket
import subprocess
from pathlib import Path

from running import Failed, ended, last_line, libc, wait_until

CASES = {}
LIMIT = 150  # seconds that one command may take


class Case:
    def __init__(self, name, packages, main, work):
        self.name, self.packages, self.main, self.work = name, packages, main, work


def case(name, packages, main=None):
    """Makes a case of a function of a Run that returns the text (or bytes, or a list of
    such) to compare. `packages` are Debian's; the executable `main` must have had the
    library, else any of the processes."""
    def register(work):
        CASES[name] = Case(name, packages.split(), main, work)
        return work
    return register


class Run:
    """One run of a case: with `launch` in front of the programs under test, or under
    libc's malloc."""

    def __init__(self, folder, traces, launch, mapped):
        self.folder, self.traces, self.mapped = folder, traces, mapped
        self.launch = [str(word) for word in launch]
        self.servers = []
        if mapped:
            for old in traces.glob("*") if traces.is_dir() else ():
                old.unlink()
            traces.mkdir(exist_ok=True)
            traces.chmod(0o1777)

    def command(self, words):
        """The whole command line. Under test the dynamic linker also notes for each process what it
        initialised: the proof that the allocator was there."""
        start = ["env", "LD_DEBUG=libs", f"LD_DEBUG_OUTPUT={self.traces}/ld", *self.launch]
        return [*(start if self.mapped else ["env", f"LD_PRELOAD={libc()}"]), *map(str, words)]

    def program(self, *words, give=None, environment=None, user=None, folder=None, codes=(0,)):
        """Runs a program under test to its end and returns what it wrote to standard output."""
        return self.finish(self.command(words), give, environment, user, folder, codes)

    def client(self, *words, give=None, environment=None, user=None, folder=None):
        """The same under libc's malloc always: what talks to the program under test."""
        return self.finish([str(word) for word in words], give, environment, user, folder, (0,))

    def popen(self, words, user=None, environment=None, folder=None, **files):
        """In a session of its own, and as `user` where we are root: some servers refuse to be."""
        groups = ({"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
                  if is_other(user) else {})
        return subprocess.Popen(words, cwd=folder or self.folder, start_new_session=True, **groups,
                                **files, env={**os.environ, "LC_ALL": "C", **(environment or {})})

    def finish(self, words, give, environment, user, folder, codes):
        give = give.encode() if isinstance(give, str) else give
        process = self.popen(words, user, environment, folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             stdin=subprocess.DEVNULL if give is None else subprocess.PIPE)
        try:
            output, errors = process.communicate(give, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Failed(f"{self.short(words)}: still running after {LIMIT} s") from None
        if process.returncode not in codes:
            raise Failed(f"{self.short(words)}: {ended(process.returncode)}: "
                         f"{last_line(errors.strip() or output)}")
        return output

    def short(self, words):
        """The command line without what stands in front of the program."""
        hidden = len(self.command([])) if words[:1] == self.command(["x"])[:1] else 0
        return shlex.join(map(str, words[hidden:]))[:80]

    @contextlib.contextmanager
    def server(self, *words, is_ready, user=None, stop=signal.SIGTERM, environment=None):
        """A server under test for the time of a with block. It must be ready within 30 seconds,
        have the library mapped and end without error when asked to stop."""
        log = self.folder / "server.log"
        with log.open("wb") as out:
            process = self.popen(self.command(words), user, environment, stdout=out, stderr=out,
                                 stdin=subprocess.DEVNULL)
        self.servers.append(process)
        try:
            wait_until(is_ready, words[0], alive=lambda: process.poll() is None)
            if (self.mapped
                    and str(self.mapped) not in Path(f"/proc/{process.pid}/maps").read_text()):
                raise Failed(f"{words[0]}: the library is not in the server's memory map")
            yield process
            process.send_signal(stop)
            code = process.wait(LIMIT)
        except Failed as problem:
            code = process.poll()
            state = ("" if code is None
                     else f" ({words[0]} {ended(code)}: {last_line(log.read_bytes())})")
            raise Failed(f"{problem}{state}") from None
        if code not in (0, -stop):
            raise Failed(f"{words[0]}: {ended(code)}: {last_line(log.read_bytes())}")

    def close(self):
        for process in self.servers:
            if process.poll() is None:
                process.kill()
            process.wait()

    def traced(self):
        """For each process, the executables it ran and whether the library was
        initialised in it."""
        for trace in self.traces.glob("ld.*") if self.mapped else ():
            text = trace.read_text(errors="replace")
            programs = {Path(line.split("initialize program: ")[1]).name
                        for line in text.splitlines()
                        if "initialize program: " in line}
            yield programs, f"calling init: {self.mapped}" in text

    def processes(self):
        traced = list(self.traced())
        return len(traced), sum(has for _, has in traced)

    def had_library(self, program):
        return any(has and program in programs for programs, has in self.traced())

    def names_with_library(self):
        return ", ".join(
            sorted({name for programs, has in self.traced() if has for name in programs}))

    @staticmethod
    def text_of(output):
        parts = output if isinstance(output, (list, tuple)) else [output]
        return "\n".join(p.decode(errors="backslashreplace") if isinstance(p, bytes) else str(p)
                         for p in parts)


def is_other(user):
    return user is not None and os.getuid() == 0


def digest(data):
    """A line that stands for bytes too many to keep."""
    return f"{hashlib.sha256(data).hexdigest()} {len(data)} bytes"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(address):
    """Whether something listens at (host, port) or at the path of a socket."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family) as probe:
        return probe.connect_ex(address if isinstance(address, tuple) else str(address)) == 0
