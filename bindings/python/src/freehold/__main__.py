"""python -m freehold run PROGRAM.py: Python with freehold as its malloc.

    python -m freehold run [--secure] [--options TEXT] [--pymalloc] PROGRAM.py [ARGUMENT ...]
    python -m freehold run [...] -m MODULE [ARGUMENT ...]
    python -m freehold stats                 the statistics of this process, as JSON
    python -m freehold path                  where the library lies

All that Python allocates comes from freehold; with --pymalloc small objects come from Python's own
allocator, as they do without."""
import argparse
import json
import os
import sys

import freehold


def environment(arguments):
    changed = dict(os.environ)
    others = [p for p in changed.get("LD_PRELOAD", "").split(":") if p]
    path = freehold.library_path(arguments.secure)
    if set(path) & set(" :"):
        print("freehold: %r: LD_PRELOAD takes no path with a space or a colon" % path,
              file=sys.stderr)
        sys.exit(125)
    changed["LD_PRELOAD"] = ":".join([path, *others])
    if not arguments.pymalloc:
        changed["PYTHONMALLOC"] = "malloc"
    if arguments.options is not None:
        changed["FREEHOLD_OPTIONS"] = arguments.options
    return changed


def split(arguments):
    """What is for `run` itself, and what Python is given: from the first word on that is not."""
    at = 0
    while at < len(arguments) and (arguments[at].startswith("--") or arguments[at] == "-h"):
        if arguments[at] == "--":
            return arguments[:at], arguments[at + 1:]
        at += 2 if arguments[at] == "--options" else 1
    return arguments[:at], arguments[at:]


def main():
    parser = argparse.ArgumentParser(prog="python -m freehold", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    run = tasks.add_parser("run", help="a program, with freehold as malloc",
                           usage="%(prog)s [--secure] [--options TEXT] [--pymalloc] "
                                 "PROGRAM.py | -m MODULE | -c CODE [ARGUMENT ...]")
    run.add_argument("--secure", action="store_true", help="the grade that checks every block")
    run.add_argument("--options", metavar="TEXT", help="FREEHOLD_OPTIONS: name:value,name:value")
    run.add_argument("--pymalloc", action="store_true", help="Python's own allocator for objects")
    tasks.add_parser("stats", help="the statistics of this process")
    tasks.add_parser("path", help="where the library lies")
    given, program = sys.argv[1:], []
    if given[:1] == ["run"]:
        own, program = split(given[1:])
        given = ["run", *own]
    arguments = parser.parse_args(given)
    if arguments.task == "path":
        print(freehold.library_path())
    elif arguments.task == "stats":
        print(json.dumps(freehold.stats(), indent=2))
    elif not program:
        run.error("no program; expected PROGRAM.py, -m MODULE or -c CODE")
    else:
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *program], environment(arguments))


def command():
    """The command `freehold`, which finds the library beside itself."""
    path = os.path.join(freehold.FOLDER, "freehold")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
