"""running.py - starting programs, with or without freehold, and leaving nothing behind

Owns:    every process that demo.py and programs.py start, and the folder they work in.
Calls:   freehold_lab, out of lab/: what ends processes and says how they ended. It needs
         the standard library only.
Holds:   when `Workplace` is left, by whatever path, its processes have ended and its
         folder is gone.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lab"))
from freehold_lab import launch, places  # noqa: E402
from freehold_lab.allocators import libc_path  # noqa: E402
from freehold_lab.launch import ended  # noqa: E402,F401
from freehold_lab.places import Failed  # noqa: E402

WORK = ROOT / "lab" / "work"


def library(argument=None):
    """The allocator to preload: an argument, else FREEHOLD_SO, else the one that
    `./dev build` makes."""
    path = Path(argument or os.environ.get("FREEHOLD_SO")
                or ROOT / "build" / "libfreehold.so").resolve()
    if not path.is_file():
        raise SystemExit(
            f"{path}: no such library; build it with ./dev build, or name another with --library")
    return path


def libc():
    """Preloaded too, for the runs under libc's malloc: some programs (redis) are
    linked with another allocator."""
    try:
        return libc_path()
    except Failed as problem:
        raise SystemExit(str(problem)) from None


def name_of(path):
    """freehold for libfreehold.so, jemalloc for libjemalloc.so.2: what tables call the library."""
    return path.name.split(".")[0].removeprefix("lib")


def check_preload(path):
    """Ends the program unless `path` can be preloaded: a broken library would
    otherwise be ignored by ld.so."""
    maps = subprocess.run(["cat", "/proc/self/maps"], env={**os.environ, "LD_PRELOAD": str(path)},
                          capture_output=True, text=True)
    if maps.returncode != 0 or str(path) not in maps.stdout:
        reason = maps.stderr.strip().splitlines()
        raise SystemExit(
            f"{path}: cannot be preloaded into cat: {reason[0] if reason else maps.returncode}")


def last_line(text):
    """Where programs put the reason."""
    return places.last_line(text.decode(errors="replace"))


def stop_everything():
    """Kills all processes below this one: orphans too, because this process is their
    reaper (see Workplace)."""
    try:
        launch.stop_everything(grace=1.0)
    except Failed as problem:
        print(problem, file=sys.stderr)


class Workplace:
    """A temporary folder, and the promise that no process outlives it."""

    def __enter__(self):
        ctypes.CDLL(None, use_errno=True).prctl(launch.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda n, _: sys.exit(128 + n))
        self.path = Path(tempfile.mkdtemp(prefix="freehold-"))
        self.path.chmod(0o755)
        return self.path

    def __exit__(self, *_):
        stop_everything()
        shutil.rmtree(self.path, ignore_errors=True)


class Progress:
    """One line that changes on a terminal, plain lines elsewhere; always on standard error."""

    def __init__(self):
        self.live = sys.stderr.isatty()
        self.start = time.monotonic()

    def say(self, text):
        line = f"[{time.monotonic() - self.start:4.0f} s] {text}"
        if self.live:
            print(f"\r\033[K{line[:shutil.get_terminal_size().columns - 1]}", end="",
                  file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def clear(self):
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_table(head, rows, groups=None, left=1):
    """Columns as wide as their widest cell; the first `left` columns flush left, the others right.
    `groups` stands above the head: each of its titles begins at its column and may reach over the
    empty cells that follow."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    starts = [sum(widths[:i]) + 2 * i for i in range(len(widths))]
    if groups:
        line = ""
        for start, title in zip(starts, groups):
            line = line.ljust(start) + title if title else line
        print(line)
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [str(c).ljust(w) if i < left else str(c).rjust(w)
                 for i, (c, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def wait_until(is_ready, what, seconds=30, alive=lambda: True):
    """Polls: another program's readiness is all that these tools ever wait for, and
    never longer than `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_ready():
            return
        if not alive():
            raise Failed(f"{what} ended before it was ready")
        time.sleep(0.02)
    raise Failed(f"{what} was not ready after {seconds} s")
