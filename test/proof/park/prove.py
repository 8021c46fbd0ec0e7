"""prove.py - every operation with every action, at every instruction; the table of what came of it

Runs build/test/park for each pair of an operation and an action, as many at a time as there are
processors. Appends one line of JSON for each pair to a file. A pair that stands there already, for
the same library and the same program, is not run again: an interrupted sweep goes on where it was.

  ./dev prove                           the whole sweep of freehold
  ./dev prove --operation 'free-*'      some operations (a pattern, also for --action)
  ./dev prove --rounds 0                also each round of a loop after the first sixteen
  ./dev prove --secure                  the secure grade, preloaded: what any malloc has
  ./dev prove --coverage                which lines of src/heap, src/stock, src/slab and
                                        src/arena no operation executes, and why
  ./dev prove --write                   the table of what is there into docs/sweep.md
  ./dev prove-peers                     libc, jemalloc, mimalloc and tcmalloc: PARK,
  REENTER and FORK

Exit code 0: all points of freehold passed; 1: some did not, or an operation could not be run, or
(--coverage) is missing; 2: usage.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "lab")]
from freehold_lab import peers  # noqa: E402
from freehold_lab.places import Failed as NoPeer  # noqa: E402

PEERS = list(peers.DEBIAN)
# of processor time for a point, which takes a hundredth of that unless it hangs
PEER_LIMIT_MS = 300
PEER_COPIES = 8                       # at a time, for those that hang mostly sleep
PEER_STEPS = 100_000    # of an operation: two seconds; a realloc that copies 40 MiB takes millions
PEER_POINTS, QUICK_POINTS = 60, 100
DEATHS = 1000
ROUNDS = 16           # of a loop; with all of them half of the points are in two loops over a table
PEER_ACTIONS = ("PARK", "REENTER", "FORK")
ACTIONS = {"PARK": "park", "REENTER": "re-enter", "REENTER-COLLECT": "collect",
           "REENTER-LONGJMP": "jump",
           "FORK": "fork", "FORK-HELPER": "fork by another",
           "FORK-CHILD": "fork, both go on", "DIE": "die", "CANCEL": "cancel"}
# calls that look at all that there is: not in the column of the worst
WHOLE = ("fh_collect",)
LOSING = ("REENTER-LONGJMP", "DIE", "CANCEL")
PAGE = ROOT / "docs" / "sweep.md"
BEGIN, END = "<!-- the sweep begins -->", "<!-- the sweep ends -->"
LAYERS = ("src/arena/", "src/slab/", "src/stock/", "src/heap/")

class Failed(Exception):
    """The sweep could not be run; the message is a line for a person."""

# ---- what is swept -------------------------------------------------------------------------------

class Target:
    """An allocator, and how `park` is told to sweep it."""

    def __init__(self, name, program, library=None):
        self.name, self.program, self.library = name, Path(program), library
        if name == "freehold":
            self.arguments, self.environment = ["--library", str(library)], dict(os.environ)
        elif name == "secure":
            self.arguments, self.environment = [], {**os.environ, "LD_PRELOAD": str(library)}
        else:
            peer = peers.debian(name)
            self.library = peer.path
            self.arguments = ["--limit-ms", str(PEER_LIMIT_MS), "--copies", str(PEER_COPIES),
                              "--steps", str(PEER_STEPS)]
            self.environment = peer.environment()
        digest = hashlib.sha256(self.program.read_bytes())
        digest.update(Path(self.library).read_bytes() if self.library else b"libc")
        self.digest = digest.hexdigest()[:16]

    def is_freehold(self):
        return self.name in ("freehold", "secure")

    def run(self, *arguments):
        done = subprocess.run([self.program, *self.arguments, *arguments], env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace")
        if done.returncode not in (0, 1) or not done.stdout:
            reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise Failed(f"{self.name} {' '.join(arguments)}: {reason}")
        return json.loads(done.stdout)

    def lacking(self):
        """(operation, entry point) for each operation that needs one which the allocator lacks."""
        operations = self.run("--list")["operations"]
        return [(operation["name"], operation["lacks"])
                for operation in operations if operation["lacks"]]

    def pairs(self, options):
        """(operation, action) for everything that is asked for."""
        for operation in self.run("--list")["operations"]:
            if operation["lacks"] or (options.quick and not operation["quick"]):
                continue
            for action in operation["actions"]:
                if not self.is_freehold() and action not in PEER_ACTIONS:
                    continue
                if (fnmatch.fnmatch(operation["name"], options.operation)
                        and fnmatch.fnmatch(action, options.action)):
                    yield operation["name"], action

# ---- results that last ---------------------------------------------------------------------------

class Results:
    """A file of JSON lines; the last line of a pair counts."""

    def __init__(self, path):
        self.path, self.lock, self.lines = Path(path), threading.Lock(), {}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    self.keep(json.loads(line))
                except json.JSONDecodeError:        # the last line of a sweep that was killed
                    continue

    def keep(self, result):
        self.lines[result["allocator"], result["operation"], result["action"]] = result

    def add(self, result):
        with self.lock:
            self.keep(result)
            with self.path.open("a") as file:
                file.write(json.dumps(result) + "\n")

    def has(self, target, operation, action, sampling):
        result = self.lines.get((target.name, operation, action))
        return (result is not None and result["digest"] == target.digest
                and result["sampling"] == sampling)

    def of(self, allocator):
        return [result for result in self.lines.values() if result["allocator"] == allocator]

class Bar:
    """Points done of all points, with the time that is left; lines instead where
    there is no terminal."""

    def __init__(self, total):
        self.total, self.done, self.failed, self.start = max(total, 1), 0, 0, time.monotonic()
        self.live, self.lock, self.told = sys.stderr.isatty(), threading.Lock(), 0

    def step(self, points, failed):
        with self.lock:
            self.done += points
            self.failed += failed
            now, share = time.monotonic(), self.done / self.total
            left = (now - self.start) * (1 - share) / max(share, 1e-9)
            filled = "#" * round(30 * share)
            line = (f"[{filled:30}] {100 * share:5.1f} %  {self.done} of {self.total} points, "
                    f"{self.failed} failed, "
                    f"{left / 60:.0f} min left")
            if self.live:
                print(f"\r\033[K{line[:shutil.get_terminal_size().columns - 1]}", end="",
                      file=sys.stderr, flush=True)
            elif now - self.told > 30 or self.done >= self.total:
                self.told = now
                print(line, file=sys.stderr, flush=True)

    def end(self):
        if self.live:
            print(file=sys.stderr)

# ---- the sweep -----------------------------------------------------------------------------------

def sampling(target, options):
    points = most_points(target, options)
    steps = "" if target.is_freehold() else f" of {PEER_STEPS} steps"
    return (f"{points} points{steps}" if points
            else f"every {options.every}, rounds {options.rounds}")

def most_points(target, options):
    """So many points of each operation, spread evenly; None: each Nth, however many."""
    if target.is_freehold():
        return QUICK_POINTS if options.quick else None
    return PEER_POINTS

def count_deaths(target, results):
    """What a thread costs that dies, from so many in one process."""
    how = f"{DEATHS} deaths"
    if not results.has(target, "deaths", "DEATHS", how):
        results.add({"allocator": target.name, "digest": target.digest, "sampling": how,
                     **target.run("--deaths", str(DEATHS))})

def arguments_of(target, points, options):
    """How `park` is told which points to try."""
    rounds = options.rounds if target.is_freehold() else 0
    return "--rounds", str(rounds), "--every", str(step_of(target, points, options))

def step_of(target, points, options):
    most = most_points(target, options)
    return max(1, points // most) if most else options.every

def count_points(target, operations, options, executor, broken):
    """Instructions of each operation that can be run, for the bar and to begin with the long."""
    def count(operation):
        try:
            return target.run(*arguments_of(target, 0, options), operation, "NONE")["chosen"]
        except Failed as failure:
            broken.append(str(failure))
            return None
    counts = zip(operations, executor.map(count, operations))
    return {operation: points for operation, points in counts if points is not None}

def sweep(targets, options, results):
    """Runs what is not in the results yet; why some pairs could not be run."""
    broken, todo = [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
        for target in targets:
            how = sampling(target, options)
            pairs = [pair for pair in target.pairs(options) if not results.has(target, *pair, how)]
            operations = sorted({operation for operation, _ in pairs})
            points = count_points(target, operations, options, executor, broken)
            todo += [(points[operation], target, operation, action)
                     for operation, action in pairs if operation in points]
        bar = Bar(sum(points // step_of(target, points, options) for points, target, _, _ in todo))

        def work(item):
            points, target, operation, action = item
            step = step_of(target, points, options)
            try:
                result = target.run(*arguments_of(target, points, options), operation, action)
                results.add({"allocator": target.name, "digest": target.digest,
                             "sampling": sampling(target, options), **result})
                bar.step(points // step, result["tried"] - result["passed"])
            except Failed as failure:
                broken.append(str(failure))
                bar.step(points // step, 0)

        list(executor.map(work, sorted(todo, key=lambda item: -item[0])))
        bar.end()
    return broken

def report_failures(results, library):
    """Each failed point by the lines of code that it lies in; how many failed in all."""
    failed = 0
    for result in results:
        if result["passed"] == result["tried"]:
            continue
        failed += result["tried"] - result["passed"]
        print(f"{result['operation']} {result['action']}: {result['passed']} of {result['tried']} "
              "points pass, "
              f"{result['hung']} hang")
        for failure in result["failures"]:
            print(f"  point {failure['point']} at {where(library, failure['offset'])}: "
                  f"{failure['why']}")
    return failed

def report_gaps(targets, results):
    """What of the peers was not swept, and why."""
    for target in targets:
        for operation, entry in target.lacking():
            print(f"{target.name} {operation}: not swept, for it has no {entry} of its own")
        cut = {result["operation"]: result["points"]
               for result in results.of(target.name) if result.get("cut")}
        for operation, points in sorted(cut.items()):
            print(f"{target.name} {operation}: cut short after {PEER_STEPS:,} steps, its first "
                  f"{points:,} points; the rest of it, most often a copy of the contents, ran at "
                  "full speed")

def where(library, offset):
    lines = subprocess.run(["addr2line", "-i", "-s", "-f", "-e", library, hex(offset)],
                           capture_output=True, text=True)
    words = lines.stdout.split()
    return f"{words[0]} {words[1]}" if len(words) > 1 else hex(offset)

# ---- coverage ------------------------------------------------------------------------------------

class Text:
    """In which function each instruction lies, and the functions that nothing there leads to."""

    def __init__(self, library):
        run = functools.partial(subprocess.run, capture_output=True, text=True, check=True)
        dump = run(["objdump", "-d", "--no-show-raw-insn", library]).stdout
        moved = run(["readelf", "-rW", library]).stdout
        exported = run(["nm", "-D", "--defined-only", library]).stdout
        self.function_of, entries, function, leads = {}, {}, None, set()
        relative = re.findall(r"R_X86_64_RELATIV\w* +([0-9a-f]+)", moved)
        reached = {int(address, 16) for address in relative}
        reached |= {int(line.split()[0], 16) for line in exported.splitlines()}
        for line in dump.splitlines():
            if head := re.match(r"([0-9a-f]+) <(.+)>:", line):
                function = head[2].removesuffix(".cold")
                entries[int(head[1], 16)] = function
            elif at := re.match(r" +([0-9a-f]+):\t", line):
                self.function_of[int(at[1], 16)] = function
                to = re.search(r"([0-9a-f]+) <([^>+]+)>", line)
                if to and to[2].removesuffix(".cold") != function:
                    leads.add((function, int(to[1], 16)))
        self.uncalled = set()
        for _ in range(len(entries)):      # also what only such functions call
            called = reached | {to for function, to in leads if function not in self.uncalled}
            before = self.uncalled
            self.uncalled = set(entries.values()) - {entries.get(address) for address in called}
            if self.uncalled == before:
                break

def lines_of(library, addresses):
    """For each address the lines of code that it comes from: its own, and those into
    which that was inlined."""
    asked = "\n".join(hex(address) for address in addresses)
    run = subprocess.run(["addr2line", "-a", "-i", "-e", library], input=asked, capture_output=True,
                         text=True, check=True)
    lines = collections.defaultdict(set)
    for line in run.stdout.splitlines():
        if line.startswith("0x"):
            address = int(line, 16)
        elif match := re.search(r"/(src/\w+/\w+\.[ch]):(\d+)", line):
            lines[address].add((match[1], int(match[2])))
    return lines

def executed(target, operation, folder):
    path = Path(folder, operation)
    target.run("--trace", str(path), operation, "NONE")
    return {int(line, 16) for line in path.read_text().split()}

def is_report(line, functions):
    return (any(name in line for name in ("fatal(", "heap_refuse_pointer(", "report_and_die(")) or
            functions in ({"heap_refuse_pointer"}, {"report_and_die"}, {"refuse_run"},
                          {"span_was_freed"}))

def is_background(line, functions):
    return (functions <= {"background", "sleepers_look", "has_not_run"} or
            "has_not_run(number)" in line or
            "os_thread_start(background)" in line)

def is_awake(line, functions):
    return (functions <= {"sleepers_held", "sleepers_leave", "let_go_of", "sleepers_end_parents",
                          "adopt", "held_less", "recount", "magazine_recount"} or
            "++) adopt(s);" in line or
            line.strip() in ("set_words(h, true);", "if (h != NULL) set_words(h, true);",
                             "else let_go_of(s);",
                             "if (is_alone) let_others_take();",
                             "return os_release_signals(t->signals), false;"))

def is_beyond_limits(line, functions):
    return functions == {"places_claim"} and line.strip() == "os_unmap(chunk, shape->chunk_size);"

def is_together(line, functions):
    return line.strip() in ("take_first(n);", "n = 0;")

def is_unlucky(line, functions):
    return (functions <= {"claim_run", "claim_runs", "map_next", "grow_by", "grow_claim"} and
            line.strip() == "return 0;")

def is_raced(line, functions):
    return ("/* another thread has made room */" in line or
            line.strip() in ("map_free(address_of(first), i);",
                             "atomic64_add_relaxed(&unmapped_slices, n);",
                             "bitmap_release(arena_maps(a)->unmapped, from, n);") or
            ("grow_at" in functions and
             line.strip() in ("slices_give_back(a, slice, missing);", "return false;")) or
            ("span_claim" in functions and line.strip().startswith(("hint_set(", "hint_arena("))) or
            (functions & {"put_run_back", "let_runs_leave", "release_slices"} and
             any(part in line
                 for part in ("arena_release_", "count_as_free(-S", "release_slices("))) or
            ("claim_more" in functions and line.strip().startswith("return give_part_back(")))

def is_refused(line, functions):
    """By a system that lets go of nothing, moves no pages, or makes no fences."""
    return line.strip() in ("if (claimed != 0) arena_put_back(a, word, claimed);",
                            "arena_put_back(a, word, bit);",
                            "if (result == OS_MAPPED) os_unmap(to, size);",
                            "if (left == 0 && has_grown) return true;",
                            "end_taking(t);")

def is_at_most_mappings(line, functions):
    return line.strip() in ("if (os_map_at(to, size) != OS_MAPPED) return false;",
                            "memcpy(to, from, size);", "return os_unmap((void *)from, size);",
                            "give_slot(g, s);", "os_unmap(g, GUARD_END);", "map_free(g, 1);",
                            "map_free(window, 1);") or "os_unmap(window, EMPTY_END);" in line

def is_crowded(line, functions):
    return functions == {"search_longer"} and line.strip() in (
        "s->again = true;", "return search_upward(s, 1, end, min_size(tries, LAST_TRIES));")

def is_of_growth(line, functions):
    return any(word in line for word in ("call_at_growth", "call_step", "&call_from, &from"))

def is_of_parents(line, functions):
    return (functions <= {"begin_in_child", "settle_own", "adopt", "users_settle",
                          "users_leave_behind", "users_take_parents", "pool_claim_parents",
                          "heap_end_parents", "parents_are_due", "users_parents_sought",
                          "repair", "sleepers_end_parents",
                          "sleepers_end_parents.part.0"} or
            line.strip().startswith("users_keep(number); /* as the thread that"))

def is_reserved(line, functions):
    """Or refused where none are; or of a window that holds others' memory as well."""
    return (functions <= {"make_present", "take_pages", "take_window", "added_reserve"} and
            any(word in line
                for word in ("done", "part", "present", "step", "window + ", "from != 0")) or
            line.strip() == "if (m->from > window) os_unmap(window, head_before(window, m));" or
            functions <= {"use_window"} and line.strip() == "return 0;")

def is_too_fast(line, functions):
    return "word >> LEFT_SHIFT" in line or "(word & BUSY) != 0" in line

def is_of_processors(line, functions):
    return (functions <= {"users_running"} or
            any(word in line for word in ("more_singles", "surplus_add(1);", "os_processors()")))

# Lines that no operation can execute: why, and what tells them, by their text and the functions
# that have them.
UNSWEPT = (
    ("in functions that nobody calls in this build: checks, and copies of what was inlined", None),
    ("report misuse, and do not return", is_report),
    ("the thread of the option background, and its start, which the C library does with all "
     "signals blocked", is_background),
    ("need a thread that wakes up while another takes what its heap keeps, a child of fork that is "
     "made then, or a system that fences no more (unit.sleepers_test)", is_awake),
    ("need as many sleeping threads as are taken together", is_together),
    ("need more than 262,144 heaps or huge blocks", is_beyond_limits),
    ("need others to be quicker sixteen times in a row", is_unlucky),
    ("need others to claim or free windows, slices or pages between a look and a claim", is_raced),
    ("need a system that refuses an munmap, an mremap or a membarrier", is_refused),
    ("need a process one mapping below the most that it may have", is_at_most_mappings),
    ("need an address space with something in every window", is_crowded),
    ("need two discards in a millisecond", is_too_fast),
    ("need more than two processors, and as many threads", is_of_processors),
    ("the option profile_growth, which counts at load alone", is_of_growth),
    ("run in a child of fork, or one that has started threads of its own", is_of_parents),
    ("need huge pages that were set aside, or a system without, or one that refuses a window's "
     "maps", is_reserved),
)

def why_unswept(line, functions, uncalled):
    """The number of the kind in UNSWEPT; None: an operation is missing."""
    if functions <= uncalled:
        return 0
    called = functions - uncalled
    return next((i for i, (_, tells) in enumerate(UNSWEPT) if tells and tells(line, called)), None)

def coverage(target, options):
    """Prints the lines of the three layers that have instructions, none of which any operation
    executes, by the reason; how many have none."""
    operations = sorted({operation for operation, _ in target.pairs(options)})
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
            run = functools.partial(executed, target, folder=folder)
            seen = set().union(*executor.map(run, operations))
    text = Text(target.library)
    functions, covered = collections.defaultdict(set), set()
    for address, lines in lines_of(target.library, text.function_of).items():
        lines = {line for line in lines if line[0].startswith(LAYERS) and is_statement(*line)}
        covered |= lines if address in seen else set()
        for line in lines:
            functions[line].add(text.function_of[address])
    left = collections.defaultdict(list)
    for line in sorted(set(functions) - covered):
        left[why_unswept(source_line(*line), functions[line], text.uncalled)].append(line)
    kinds = [*range(len(UNSWEPT)), None]
    for kind, lines in sorted(left.items(), key=lambda item: kinds.index(item[0])):
        reason = "NO OPERATION EXECUTES THESE" if kind is None else UNSWEPT[kind][0]
        print(f"{len(lines)} {'line' if len(lines) == 1 else 'lines'}: {reason}")
        for file, number in lines:
            print(f"  {file}:{number}: {source_line(file, number).strip()}")
    missing = len(left[None])
    print(f"{len(covered)} of {len(functions)} lines are executed by {len(operations)} operations; "
          f"{len(functions) - len(covered) - missing} cannot be, for the reasons above; "
          f"{missing} are missing")
    return missing

@functools.cache
def source(file):
    return (ROOT / file).read_text().splitlines()

def source_line(file, number):
    return source(file)[number - 1]

def is_statement(file, number):
    """Not the head or the end of a function, which have instructions in a copy that
    nobody calls."""
    line = source_line(file, number)
    return line.startswith((" ", "\t")) or ("{" in line and "}" in line)

# ---- the table -----------------------------------------------------------------------------------

class Tables:
    """What docs/sweep.md says of the sweep; where not every point was tried, it
    says how many were."""

    def __init__(self, results, operations):
        self.by = collections.defaultdict(dict)
        for (allocator, operation, action), result in results.lines.items():
            self.by[allocator, action][operation] = result
        self.operations = [operation
                           for operation in operations
                           if ("freehold", operation, "PARK") in results.lines]

    def share(self, allocator, action, operation):
        result = self.by[allocator, action].get(operation)
        if result is None:
            return "-"
        if result["passed"] == result["tried"]:
            return "all" if result["tried"] == result["points"] else f"all of {result['tried']}"
        if allocator == "freehold":
            return f"{result['passed']} of {result['tried']}"
        return f"{100 * result['passed'] / result['tried']:.0f} %"

    def worst(self, operation):
        result = self.by["freehold", "COUNT"].get(operation)
        counts = ([count for call, count in result["worst"].items() if call not in WHOLE] if result
                  else [])
        return str(max(counts, default="-"))

    def points(self, operation):
        return max(self.by["freehold", action][operation]["points"] for action in ACTIONS
                   if operation in self.by["freehold", action])

    def of_operations(self):
        yield ["operation", "points", *ACTIONS.values(), "worst", *PEERS]
        for operation in self.operations:
            peers = [" / ".join(self.share(peer, action, operation) for action in PEER_ACTIONS)
                     for peer in PEERS]
            yield [operation, str(self.points(operation)),
                   *(self.share("freehold", action, operation) for action in ACTIONS),
                   self.worst(operation),
                   *("" if set(peer) <= set("-/ ") else peer for peer in peers)]
        yield self.total()

    def total(self):
        def passed(allocator, actions):
            results = [result for action in actions
                       for result in self.by[allocator, action].values()]
            tried = sum(result["tried"] for result in results)
            return (f"{100 * sum(result['passed'] for result in results) / tried:.1f} %" if tried
                    else "-")
        return ["together", str(sum(map(self.points, self.operations))),
                *(passed("freehold", [action]) for action in ACTIONS),
                str(max((int(worst) for worst in map(self.worst, self.operations) if worst != "-"),
                        default="-")),
                *(" / ".join(passed(peer, [action]) for action in PEER_ACTIONS) for peer in PEERS)]

    def of_calls(self):
        worst = collections.defaultdict(int)
        for result in self.by["freehold", "COUNT"].values():
            for call, instructions in result["worst"].items():
                worst[call] = max(worst[call], instructions)
        yield ["a call by another thread", "instructions at most"]
        yield from ([call, str(instructions)] for call, instructions in worst.items())

    def of_losses(self):
        names = {"heaps": "heaps", "slabs": "slabs", "slices": "further slices",
                 "blocks": "blocks in shared slabs", "large": "large blocks"}
        yield ["worst loss at any point", *names.values()]
        for action in LOSING:
            losses = [result["loss"] for result in self.by["freehold", action].values()]
            if losses:
                yield [ACTIONS[action],
                       *(str(max(loss[name] for loss in losses)) for name in names)]

    def of_deaths(self):
        yield ["threads that died, one after another", "heaps each", "bytes in use each",
               "bytes resident each"]
        result = self.by["freehold", "DEATHS"].get("deaths")
        if result:
            yield [str(result["tried"]), f"{result['heaps']:.2f}", f"{result['committed']}",
                   f"{result['resident']}"]

    def text(self):
        tables = self.of_operations(), self.of_calls(), self.of_losses(), self.of_deaths()
        return "\n\n".join(markdown(rows) for rows in tables)

def markdown(rows):
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])

def operations_of(target):
    return [operation["name"] for operation in target.run("--list")["operations"]]

def write_table(text):
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")

# ---- the program ---------------------------------------------------------------------------------

def parse():
    parser = argparse.ArgumentParser(prog="./dev prove", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="sweep the peers instead of freehold")
    parser.add_argument("--secure", action="store_true",
                        help="sweep the secure grade instead, without its own structures")
    parser.add_argument("--operation", default="*", metavar="PATTERN")
    parser.add_argument("--action", default="*", metavar="PATTERN")
    parser.add_argument("--quick", action="store_true", help="only the operations of ./dev test")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth point")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N",
                        help="of each loop the first N rounds, and each 61st after these; 0: all "
                        "(default %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--fresh", action="store_true", help="run again what has results already")
    parser.add_argument("--coverage", action="store_true",
                        help="print the lines that no operation executes")
    parser.add_argument("--table", action="store_true",
                        help="print the table of the results and run nothing")
    parser.add_argument("--write", action="store_true", help="the same into docs/sweep.md")
    parser.add_argument("--library", metavar="FILE", help="default: build/libfreehold.so, or "
                        "build/libfreehold-secure.so")
    parser.add_argument("--program", default=ROOT / "build" / "test" / "park", metavar="FILE")
    parser.add_argument("--results", default=ROOT / "build" / "prove" / "results.jsonl",
                        metavar="FILE")
    options = parser.parse_args()
    grade = "-secure" if options.secure else ""
    options.library = Path(options.library or ROOT / "build" / f"libfreehold{grade}.so").resolve()
    return options

def summary(results):
    passed, tried = (sum(result[key] for result in results) for key in ("passed", "tried"))
    return f"{passed} of {tried} points of {len(results)} pairs pass"

def tell(options, results, targets):
    tables = Tables(results, operations_of(Target("freehold", options.program, options.library)))
    if options.write:
        write_table(tables.text())
    elif not options.quick:
        print(tables.text())
    if options.peers:
        report_gaps(targets, results)

def main():
    options = parse()
    results = Results(options.results)
    if options.fresh:
        results.lines.clear()
    targets = [Target(name, options.program, options.library)
               for name in (PEERS if options.peers else
                            ["secure" if options.secure else "freehold"])]
    if options.coverage:
        return 1 if coverage(targets[0], options) else 0
    broken = [] if options.table or options.write else sweep(targets, options, results)
    for reason in broken:
        print(reason, file=sys.stderr)
    is_whole = (options.operation, options.action) == ("*", "*") and not (
        options.quick or options.peers or options.secure)
    if is_whole and not (options.table or options.write):
        count_deaths(targets[0], results)
    if options.secure:
        print(summary(results.of("secure")))
    else:
        tell(options, results, targets)
    failed = report_failures(results.of(targets[0].name), targets[0].library) \
        if not options.peers else 0
    return 1 if failed or broken else 0

if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, NoPeer) as failure:
        print(f"prove: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
