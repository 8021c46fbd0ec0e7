"""progress.py - what is going on, on standard error: one line that is written over on a terminal,
elsewhere a line now and then"""

import shutil
import sys
import time

EVERY = 15                                  # seconds between two lines where there is no terminal


def clear():
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def say(text):
    """A line that stays."""
    clear()
    print(f"freehold-lab: {text}", file=sys.stderr, flush=True)


class Line:
    """One that the next one takes the place of."""

    def __init__(self):
        self.told = 0.0

    def write(self, text):
        now, is_live = time.monotonic(), sys.stderr.isatty()
        if not is_live and now - self.told < EVERY:
            return
        self.told = now
        clear()
        text = text[:shutil.get_terminal_size().columns - 1] if is_live else text
        print(text, end="" if is_live else "\n", file=sys.stderr, flush=True)


class Progress:
    """`done` of `total` runs of what is called `name`."""

    def __init__(self, name, total, done=0):
        self.name, self.total, self.done = name, total, done
        self.first, self.start, self.line = done, time.monotonic(), Line()

    def show(self, what):
        """What is run now."""
        now, counted = time.monotonic(), self.done - self.first
        left = (now - self.start) / counted * (self.total - self.done) if counted else None
        self.line.write(f"{self.name}: {self.done} of {self.total} {what:<40}"
                        + (f" {left / 60:.1f} min left" if left is not None else ""))

    def step(self, runs=1):
        self.done += runs
