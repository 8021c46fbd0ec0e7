"""cli.py - freehold-lab: the command"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from freehold_lab import (__version__, bench, check, demo, experiment, flame, graph, leaks, order,
                          pages, peers, releases, replay, valgrind)
from freehold_lab.allocators import allocator_named, library, proved
from freehold_lab.places import Failed, alone
from freehold_lab.progress import say

EPILOG = """examples:
  freehold-lab peers                              builds or installs what freehold is compared with
  freehold-lab run quick && freehold-lab report   five minutes on two processors, then a page
  freehold-lab run seed-2014 --peers jemalloc snmalloc --allocator lrmalloc=/opt/lrmalloc.so
  freehold-lab report --base freehold --out page
exit code: 0 done, 1 something could not be done, 2 wrong usage, 130 stopped (the same command
goes on)"""
CODES = "exit code: 0 done, 1 something could not be done, 2 wrong usage, 130 stopped"
RESULTS = Path("lab-results")
# name -> what adds its options, what runs it, what it does, an example
MORE = {
    "bench": (bench.add, bench.command, "freehold beside Debian's allocators, and its goals",
              "./dev bench --quick --only larson --allocators jemalloc mine=/path/lib.so"),
    "demo": (demo.add, demo.command, "real programs with libc's malloc and with freehold",
             "./dev demo perl g++ --rounds 5"),
    "programs": (check.add, check.command,
                 "real programs under freehold, their output compared with that under libc",
                 "./dev programs redis perl"),
    "misses": (valgrind.add_misses, valgrind.command_misses,
               "data cache misses of real programs, by cachegrind's model",
               "./dev misses --allocators mimalloc jemalloc=/tmp/libjemalloc.so"),
    "instructions": (valgrind.add_instructions, valgrind.command_instructions,
                     "instructions of one pair of malloc and free, by callgrind",
                     "freehold-lab instructions --allocators jemalloc"),
    "costs": (valgrind.add_costs, valgrind.command_costs,
              "instructions of the workloads themselves, for each operation",
              "freehold-lab costs calloc fifo"),
    "flame": (flame.add, flame.command,
              "a heap profile as a flame graph, a table of functions or a tree",
              "freehold-lab flame app.1234 --diff app.1200 --out app.html"),
    "graph": (graph.add, graph.command,
              "a trace as a picture: addresses, over time, by the share that is live",
              "freehold-lab graph server.trace --by calls --out server.html"),
    "order": (order.add, order.command,
              "which functions of the library small programs execute",
              "./dev lab order --out cmake/order.txt"),
    "pages": (pages.add, pages.command,
              "where the memory of a small program is when it ends, with libc and with freehold",
              "./dev lab pages small-sort"),
    "leaks": (leaks.add, leaks.command,
              "runs a program and tells what still lives when it ends, by call stack",
              "freehold-lab leaks --interval 1 --exit-code 1 --least 64K -- ./program --fast\n"
              "exit code: the program's, or --exit-code; 125 no profile, 126 cannot start,\n"
              "127 not found, 128 + n ended by signal n"),
}


def arguments(words):
    parser = argparse.ArgumentParser(prog="freehold-lab", epilog=EPILOG,
                                     description="Compares memory allocators.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_list(commands)
    add_peers(commands)
    add_verify(commands)
    add_run(commands)
    add_report(commands)
    add_replay(commands)
    for name, (add, _, what, example) in MORE.items():
        add(add_command(commands, name, what, example))
    return parser.parse_args(words)


def add_command(commands, name, what, example):
    codes = "" if "exit code" in example else f"\n{CODES}"
    return commands.add_parser(name, help=what, description=what,
                               epilog=f"example:\n  {example}{codes}",
                               formatter_class=argparse.RawDescriptionHelpFormatter)


def add_list(commands):
    command = add_command(commands, "list", "what there is: experiments, workloads, allocators",
                          "freehold-lab list workloads --json")
    command.add_argument("kind", nargs="?", choices=("experiments", "workloads", "allocators"))
    command.add_argument("--json", action="store_true", help="for a program to read")


def add_peers(commands):
    command = add_command(commands, "peers",
                          "builds or installs other allocators, and verifies each in a child",
                          "freehold-lab peers jemalloc mimalloc3")
    command.add_argument("peer", nargs="*", help=f"which (all): {', '.join(peers.PEERS)}")
    command.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                         help="compilers at a time")
    command.add_argument("--newest", action="store_true",
                         help="make nothing: say which are behind the newest release that their "
                              "registry has; exit code 1 if one is")
    command.add_argument("--strict", action="store_true", help="exit code 1 if one is left out")


def add_allocators(command):
    command.add_argument("--peers", nargs="*", metavar="NAME",
                         help="those of `freehold-lab peers` to take (default: all that are there)")
    command.add_argument("--allocator", action="append", default=[],
                         metavar="NAME=PATH[,VARIABLE=VALUE]",
                         help="any other library; may be repeated")
    command.add_argument("--freehold", metavar="PATH",
                         help="default: FREEHOLD_SO, else build/libfreehold.so; "
                                                            "'none' leaves it out")


def add_verify(commands):
    command = add_command(commands, "verify",
                          "proves for each allocator that malloc and its family really are its own",
                          "freehold-lab verify --allocator lrmalloc=/opt/lrmalloc.so")
    add_allocators(command)


def add_run(commands):
    command = add_command(commands, "run",
                          "carries an experiment out, or goes on with one that was interrupted",
                          "freehold-lab run quick --peers jemalloc libc")
    command.add_argument("experiment",
                         help=f"a TOML file or one of {', '.join(experiment.shipped_names())}")
    add_allocators(command)
    command.add_argument("--results", type=Path, metavar="FILE",
                         help="default: lab-results/EXPERIMENT.sqlite")
    command.add_argument("--fresh", action="store_true",
                         help="begin anew; an old file is renamed, not removed")
    command.add_argument("--seed", type=int,
                         help="of the order of the runs (default: by chance; recorded)")
    command.add_argument("--only", action="append", default=[], metavar="TEXT",
                         help="only parts whose name contains TEXT; may be repeated")
    command.add_argument("--retries", type=int, metavar="N",
                         help="how often a disturbed block is run again (default: what the "
                              "experiment says)")
    command.add_argument("--fewer-processors", action="store_true",
                         help="leave out levels with more processors than there are here")
    command.add_argument("--packages", action="store_true",
                         help="only print the Debian packages that its workloads want")


def add_report(commands):
    command = add_command(commands, "report",
                          "one page with tables and pictures, and the same as CSV, JSON and PNG",
                          "freehold-lab report lab-results/quick.sqlite --base jemalloc --out page")
    command.add_argument("results", nargs="?", type=Path,
                         help="default: the newest in lab-results/")
    command.add_argument("--base", metavar="NAME",
                         help="ratios are to this allocator (default: the experiment's)")
    command.add_argument("--out", type=Path, metavar="DIR",
                         help="default: the name of the results, without .sqlite")
    command.add_argument("--no-png", action="store_true", help="no PNG files")
    command.add_argument("--markdown", type=Path, metavar="FILE",
                         help="a page of all workloads in Markdown as well, its pictures beside it")
    command.add_argument("--study", type=Path, metavar="FILE",
                         help="likewise the tables and pictures that are laid out as a paper's")


def add_replay(commands):
    command = add_command(commands, "replay",
                          "a recorded program's calls of malloc, under several allocators",
                          "freehold run --trace server.trace -- ./server\n"
                          "  freehold-lab replay server.trace --peers jemalloc mimalloc3")
    add_allocators(command)
    replay.add(command)


def allocators(options):
    """Those that prove themselves, and why the others did not; freehold first, libc next."""
    known = peers.remembered()
    ours = None if options.freehold == "none" else peers.freehold(library(options.freehold))
    wanted = peers.usual(known) if options.peers is None else options.peers
    return proved([*((lambda: ours,) if ours else ()),
                   *(lambda name=name: peer_of(known, name) for name in wanted),
                   *(lambda text=text: allocator_named(text) for text in options.allocator)])


def peer_of(known, name):
    if name not in peers.PEERS:
        raise Failed(f"{name}: no such peer; there are {', '.join(peers.PEERS)}")
    if name not in known:
        raise Failed(f"{name}: not made yet: freehold-lab peers {name}")
    return known[name]


def command_list(options):
    from freehold_lab.workloads import all_workloads
    found = {
        "experiments": lambda: {name: experiment.load(experiment.find(name),
                                                      all_workloads(build=False)).about
                                for name in experiment.shipped_names()},
        "workloads": lambda: {name: workload.about
                              for name, workload in all_workloads(build=False).items()},
        "allocators": lambda: {name: known.version for name, known in peers.remembered().items()},
    }
    chosen = {kind: found[kind]() for kind in ([options.kind] if options.kind else found)}
    if options.json:
        print(json.dumps(chosen, indent=1))
        return 0
    for kind, entries in chosen.items():
        print(f"{kind}:")
        for name, about in entries.items():
            print(f"  {name:<22} {about.splitlines()[0] if about else ''}")
    return 0


def command_peers(options):
    if options.newest:
        return releases.command()
    with alone():
        made, left_out = peers.make_all(options.peer, options.jobs, say)
    for allocator in made.values():
        settings = "".join(f",{name}={value}" for name, value in allocator.variables.items())
        print(f"{allocator.name}={allocator.path}{settings}")
    return 1 if left_out and (options.strict or not made) else 0


def command_verify(options):
    found, left_out = allocators(options)
    for allocator in found:
        print(f"{allocator.name}\t{allocator.version or 'unknown version'}\t{allocator.path}")
    return 1 if left_out else 0


def load_experiment(options, build):
    from freehold_lab.workloads import all_workloads
    workloads = all_workloads(build)
    chosen = experiment.load(experiment.find(options.experiment), workloads)
    if options.retries is not None:
        chosen.disturbance["retries"] = options.retries
    chosen.select(options.only)
    if not options.packages:
        chosen.fit_processors(len(os.sched_getaffinity(0)), options.fewer_processors)
    return chosen, workloads


def command_run(options):
    # what is wrong with it is told before a build
    chosen, workloads = load_experiment(options, build=False)
    if options.packages:
        print(*sorted({package for part in chosen.parts
                       for package in workloads[part.workload].packages}))
        return 0
    with alone():
        return run(options)


def run(options):
    from freehold_lab.runner import Setting, carry_out
    from freehold_lab.store import Store
    chosen, workloads = load_experiment(options, build=True)
    found, left_out = allocators(options)
    store = Store(options.results or RESULTS / f"{chosen.name}.sqlite", options.fresh)
    try:
        setting = Setting(chosen, found, left_out, options.seed, ["freehold-lab", *sys.argv[1:]])
        code = carry_out(store, setting, workloads, say)
        if code != 130:
            print(store.path)
        return code
    finally:
        store.close()


def command_report(options):
    from freehold_lab.report import write
    results = options.results or newest()
    if not results.is_file():
        raise Failed(f"{results}: no such file")
    out = options.out or results.with_suffix("")
    page = write(results, out, options.base, not options.no_png, options.markdown,
                 options.study)
    print(page)
    return 0


def command_replay(options):
    with alone():
        return replay.command(options, lambda: allocators(options))


def newest():
    files = sorted(RESULTS.glob("*.sqlite"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise Failed(f"no results in {RESULTS}/: freehold-lab run quick")
    return files[-1]


def stop(number, _):
    raise KeyboardInterrupt


def main(words=None):
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:          # nohup
            signal.signal(number, stop)
    try:
        options = arguments(words)
        if options.command in MORE:
            return MORE[options.command][1](options)
        return globals()[f"command_{options.command}"](options)
    except Failed as problem:
        say(str(problem))
        return 1
    except BrokenPipeError:
        return 1
    except OSError as problem:
        say(f"{problem}; what was measured so far is kept")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130
