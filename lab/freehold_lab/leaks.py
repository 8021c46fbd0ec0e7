"""leaks.py - `freehold-lab leaks`: runs a program and tells what still lives when it ends, by call
stack"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from freehold_lab import pprof, symbols
from freehold_lab.allocators import library
from freehold_lab.places import Failed, write
from freehold_lab.progress import say
from freehold_lab.text import positive, shown, size

# As env(1) and shells have them; programs seldom end with one of these.
NO_PROFILE, CANNOT_START, NOT_FOUND, SIGNAL = 125, 126, 127, 128
RUNTIME = re.compile(r"(ld-linux.*|ld-musl.*|libc|libstdc\+\+|libgcc_s|libpthread|libm|libdl)"
                     r"(-[\d.]+)?\.so(\.|$)")
# Buffers of streams, and what a thread's stack, which waits for the next thread, has with it.
KEPT = ("_IO_file_doallocate", "_dl_allocate_tls")


def interval(text):
    """For argparse: what the option profile_interval takes."""
    if not 1 <= size(text) <= size("64G"):
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 64G")
    return size(text)


def exit_code(text):
    """For argparse: what a process can end with."""
    if not text.isdigit() or int(text) > 255:
        raise argparse.ArgumentTypeError(f"{text} is no exit code, 0 to 255")
    return int(text)


def add(command):
    command.add_argument("program", nargs="+", metavar="PROGRAM", help="what to run, after --")
    command.add_argument("--interval", type=interval, default=size("16K"), metavar="SIZE",
                         help="a sample in so many bytes (16K); 1 counts every block, and each "
                              "then takes whole pages")
    command.add_argument("--exit-code", type=exit_code, default=0, metavar="N",
                         help="end with N if more than --least lives (0: only tell)")
    command.add_argument("--least", type=size, default=0, metavar="SIZE",
                         help="what one process may have live at its end (0)")
    command.add_argument("--top", type=positive, default=20, metavar="N",
                         help="call stacks that are shown of each process (20)")
    command.add_argument("--out", type=Path, metavar="FILE",
                         help="where the report goes (standard error)")
    command.add_argument("--json", action="store_true", help="for a program to read")
    command.add_argument("--library", metavar="SO", help="default: FREEHOLD_SO, else "
                         "build/libfreehold.so")


def command(options):
    try:
        return report_of(options)
    except Failed as problem:
        say(str(problem))
        return NO_PROFILE


def report_of(options):
    pprof.message_class()                   # what is missing is told before the program runs
    with tempfile.TemporaryDirectory(prefix="freehold-leaks-") as folder:
        number, code = run(options, Path(folder))
        if number is None:
            return code
        found = [process_of(path) for path in sorted(Path(folder).glob("*[0-9]"), key=by_number)]
    tell(options, code, found)
    if number not in [process["process"] for process in found]:
        say(f"{options.program[0]}: no profile, {why_none(code)}")
        if not found:
            return code if code > SIGNAL else NO_PROFILE
    if options.exit_code and any(process["bytes"] > options.least for process in found):
        return options.exit_code
    return code


def by_number(path):
    return int(path.name)


def run(options, folder):
    """The number of its process and its exit code; no number if it did not start."""
    named = os.environ.get("LD_PRELOAD")
    settings = [os.environ.get("FREEHOLD_OPTIONS"), f"profile:{folder}/%p",
                f"profile_interval:{options.interval}"]
    variables = {"LD_PRELOAD": ":".join(filter(None, [str(library(options.library)), named])),
                 "FREEHOLD_OPTIONS": ",".join(filter(None, settings))}
    try:
        pid, code = wait_for(options.program, {**os.environ, **variables})
    except OSError as problem:
        say(f"{options.program[0]}: {problem.strerror.lower()}")
        return None, NOT_FOUND if isinstance(problem, FileNotFoundError) else CANNOT_START
    return pid, code if code >= 0 else SIGNAL - code


def wait_for(program, environment):
    """The number of its process and its exit code. What would stop this command stops the program,
    also while that is being started, and what it had is told; a terminal sends ctrl-C to both."""
    started, early = None, []

    def pass_on(number, _):
        early.append(number) if started is None else started.send_signal(number)

    ways = {signal.SIGINT: lambda *_: None, signal.SIGTERM: pass_on, signal.SIGHUP: pass_on}
    before = {number: signal.signal(number, way) for number, way in ways.items()
              if signal.getsignal(number) != signal.SIG_IGN}
    try:
        started = subprocess.Popen(program, env=environment)
        for number in early:
            started.send_signal(number)
        return started.pid, started.wait()
    finally:
        for number, way in before.items():
            signal.signal(number, way)


def why_none(code):
    if code > SIGNAL:
        return f"since signal {code - SIGNAL} ended the program"
    return "since the program ended by _exit, or does not use the library (linked statically?)"


# ---- what a process had live ---------------------------------------------------------------------


def process_of(path):
    """What the process with that number had live, by call stack, the largest first; apart from what
    the runtime keeps for itself until the end."""
    profile = pprof.read(path)
    at = [profile.types.index(profile.value_type(name)) for name in ("inuse_space",
                                                                     "inuse_objects")]
    found, runtime = {}, Counter()
    stacks, notes = symbols.stacks(profile)
    for sample, frames in zip(profile.samples, stacks):
        live, blocks = (sample.values[n] for n in at)
        frames = without_start(frames)
        sums = found.setdefault(frames, Counter()) if is_programs(frames) else runtime
        sums.update(bytes=live, blocks=blocks)
    ordered = sorted(found.items(), key=lambda row: (-row[1]["bytes"], -row[1]["blocks"],
                                                     [frame.function for frame in row[0]]))
    ordered = [row for row in ordered if row[1]["blocks"]]
    return {"process": int(path.name), "name": name_of(profile),
            "bytes": sum(sums["bytes"] for _, sums in ordered),
            "blocks": sum(sums["blocks"] for _, sums in ordered),
            "runtime_bytes": runtime["bytes"], "notes": notes,
            "stacks": [{"bytes": sums["bytes"], "blocks": sums["blocks"],
                        "frames": [record(frame) for frame in frames]}
                       for frames, sums in ordered]}


def name_of(profile):
    """Of the program's file, which Linux maps below all libraries; empty if no call stack is in
    it."""
    mappings = [at.mapping for at in profile.locations if at.mapping]
    lowest = min(mappings, key=lambda mapping: mapping.start, default=None)
    return os.path.basename(lowest.file) if lowest else ""


def without_start(frames):
    """Without what the C runtime does before it calls the program, or a thread's function."""
    count = len(frames)
    while count and (frames[count - 1].function == "_start" or RUNTIME.match(
            frames[count - 1].module)):
        count -= 1
    return frames[:count]


def is_programs(frames):
    """Whether the program asked for it, and not only the runtime for itself."""
    return bool(frames) and not any(frame.function.endswith(KEPT) for frame in frames)


def record(frame):
    return {"function": frame.function, "module": frame.module, "file": frame.file,
            "line": frame.line, "place": frame.place()}


# ---- the report ----------------------------------------------------------------------------------


def tell(options, code, processes):
    text = (json.dumps({"program": options.program, "code": code, "interval": options.interval,
                        "processes": processes}, indent=1) if options.json
            else "\n\n".join(text_of(process, options.top) for process in processes))
    if options.out:
        write(options.out, text + "\n")
    elif text:
        print(text, file=sys.stderr)


def text_of(process, count):
    stacks = process["stacks"]
    name = f" ({process['name']})" if process["name"] else ""
    lines = [f"process {process['process']}{name}: about {amount(process)} live at exit"]
    if process["runtime_bytes"]:
        lines.append(f"besides {shown(process['runtime_bytes'], 'bytes')} of the C and C++ runtime")
    lines += process["notes"]
    for stack in stacks[:count]:
        lines += ["", amount(stack)]
        lines += [f"  {frame['function']}  {frame['place'] or frame['module']}".rstrip()
                  for frame in stack["frames"]]
    if len(stacks) > count:
        lines += ["", f"{len(stacks) - count} more call stacks"]
    return "\n".join(lines)


def amount(thing):
    blocks = thing["blocks"]
    return f"{shown(thing['bytes'], 'bytes')} in {blocks:,} block{'s' * (blocks != 1)}"
