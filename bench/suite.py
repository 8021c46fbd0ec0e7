"""suite.py - what `./dev bench` measures and what it is held against: the one place for both

Programs, parameters and figures are those of workloads.toml; a row of the page may change some of
them. A goal takes one figure of freehold, alone or beside the peers', and a limit.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))
from freehold_lab.workloads import BenchProgram, Figure, read_list  # noqa: E402

# Those whose best freehold has to reach. Others that are named on the command line
# are shown, not judged by.
JUDGES = ("libc", "jemalloc", "mimalloc", "tcmalloc")
LIST = read_list(HERE.parent / "lab" / "workloads" / "workloads.toml", "")


@dataclass(frozen=True)
class Workload:
    name: str
    what: str                   # for the table
    listed: BenchProgram
    figure: Figure              # the main one
    own: dict = field(default_factory=dict)     # parameters that differ from the listed ones
    tool: str = ""              # "strace": count its system calls; "callgrind": its instructions
    freehold_only: bool = False
    options: str = ""           # FREEHOLD_OPTIONS
    is_speed: bool = False

    def command(self, programs, is_quick):
        """The quick values only shorten a workload of speed, which therefore always has them: many
        short runs tell more than one long one. Of the others they take memory."""
        quick = self.listed.quick if is_quick or self.is_speed else {}
        program, *words = self.listed.command({**quick, **self.own})
        return [str(Path(programs, program)), *words]

    def is_shrunk(self, is_quick):
        """Does a quick run measure less of it?"""
        return is_quick and not self.is_speed and not self.tool and bool(self.listed.quick)


def workload(name, what, of=None, figure=None, **more):
    """The entry `of` of the list, or the one with this very name."""
    listed = LIST[of or name]
    return Workload(name, what, listed, figure or listed.figure, **more)


def speed(name, what, **more):
    return workload(name, what, is_speed=True, **more)


def threaded(name, what):
    return [speed(f"{name}-{threads}", f"{what}, {threads} threads", of=name,
                  own={"threads": threads})
            for threads in (2, 16)]


COUNT = Figure("count")
WORKLOADS = [
    speed("pingpong", "ping-pong, 32 B"),
    speed("batch", "batch of 20,000 freed in order, 32 B"),
    speed("random-1k", "random replacement among 1,000"),
    speed("random-20k", "random replacement among 20,000"),
    speed("random-1m", "random replacement among 1,000,000"),
    speed("fifo", "FIFO of 20,000"),
    *threaded("larson", "larson, 16-128 B, 1,000 slots"),
    *threaded("larson-wide", "larson, 8-1,000 B, 5,000 slots"),
    *threaded("producer-consumer", "producer/consumer"),
    *threaded("thread-churn", "thread churn"),
    speed("large", "large blocks, 20 KiB-8 MiB"),
    speed("grow-huge", "one vector grown to 1 GiB"),
    speed("grow-vectors", "2,000 vectors grown to 16 KiB"),

    workload("instructions", "instructions a pair, ping-pong", of="pingpong", figure=COUNT,
             tool="callgrind"),
    workload("idle", "resident, program that hardly allocates"),
    workload("calls", "system calls of that program", of="idle", figure=COUNT, tool="strace"),
    workload("small-blocks", "1 GiB of small blocks: resident beyond the blocks"),
    workload("many-threads", "10,000 threads with 100 bytes each: a thread"),
    workload("burst", "burst of 2 GB freed by 32 threads: resident at once"),
    workload("burst-keep", "the same, the first quarter kept: resident beyond it"),
    workload("burst-background", "the same with the option background, after a second",
             of="burst-keep", figure=Figure("excess_later", "bytes"), freehold_only=True,
             options="background:on"),
    workload("one-frees", "16 threads allocate, one frees the oldest: resident/live"),
    workload("one-frees-random", "the same, blocks freed at random", of="one-frees",
             own={"order": "random"}),
]

# ---- goals ---------------------------------------------------------------------------------------

# The best column and jemalloc's of a comparison of nine allocators on two processors, nanoseconds a
# pair: their ratio carries over to other machines better than the times do.
REFERENCE = {
    "pingpong": (4.7, 5.1), "batch": (5.7, 14), "random-1k": (5.6, 7.0),
    "random-20k": (7.3, 8.9), "random-1m": (29, 30), "fifo": (5.8, 8.2),
}
REFERENCE_SLACK = 1.10

AHEAD = ("pingpong", "batch", "random-1k", "random-20k", "random-1m", "fifo", "larson-2",
         "larson-16", "larson-wide-2",
         "larson-wide-16", "producer-consumer-2", "producer-consumer-16", "thread-churn-2",
         "thread-churn-16")


@dataclass(frozen=True)
class Goal:
    what: str
    workload: str               # "*": the largest over all of them
    figure: str
    kind: str                   # how the value comes about, below
    limit: float
    unit: str = ""


VALUE, OVER_LIBC, OF_LIVE = "as measured", "more than with libc", "over the figure live"
TO_BEST, TO_JEMALLOC = "ratio to the best peer", "ratio to jemalloc"

GOALS = [
    *[Goal(f"{name}: at or ahead of the best peer", name, "ns", TO_BEST, 1.00, "x")
      for name in AHEAD],
    *[Goal(f"{name}: within 10 % of the best known, by jemalloc", name, "ns", TO_JEMALLOC,
           REFERENCE_SLACK * best / jemalloc, "x") for name, (best, jemalloc) in REFERENCE.items()],
    Goal("instructions a pair, preloaded", "instructions", "count", VALUE, 45),
    Goal("instructions a pair, linked", "instructions", "linked", VALUE, 45),
    Goal("hardly allocating program: resident beyond libc's", "idle", "resident", OVER_LIBC,
         300 * 1024, "bytes"),
    Goal("hardly allocating program: system calls beyond libc's", "calls", "count", OVER_LIBC, 8),
    Goal("1 GiB of small blocks: metadata, by freehold's statistics", "small-blocks",
         "metadata_share", VALUE, 0.01, "share"),
    Goal("10,000 threads: bytes of each", "many-threads", "per_thread", VALUE, 2048, "bytes"),
    Goal("mappings, the most in any workload", "*", "mappings", VALUE, 199),
    Goal("burst: resident beyond what lives, at once", "burst", "excess_now", VALUE, 64 << 20,
         "bytes"),
    Goal("burst, a quarter kept: beyond what lives, at once", "burst-keep", "excess_now", VALUE,
         64 << 20, "bytes"),
    Goal("burst with background: beyond what lives, later", "burst-background", "excess_later",
         OF_LIVE, 0.05, "share"),
    Goal("one thread frees: resident over live", "one-frees", "ratio", VALUE, 1.10, "ratio"),
]


def middle(rows, figure):
    """The median of a figure over the rounds, or None."""
    values = [row[figure] for row in rows or [] if figure in row]
    return median(values) if values else None


def goal_value(goal, results):
    """The figure that a goal judges, or None where something that it needs was not measured."""
    if goal.workload == "*":
        most = [row[goal.figure] for by_name in results.values()
                for row in by_name.get("freehold", [])
                if goal.figure in row]
        return max(most, default=None)
    by_name = results.get(goal.workload, {})
    own = middle(by_name.get("freehold"), goal.figure)
    if own is None or goal.kind == VALUE:
        return own
    if goal.kind == OF_LIVE:
        live = middle(by_name["freehold"], "live")
        return own / live if live else None
    if goal.kind == TO_BEST:
        others = [middle(by_name.get(name), goal.figure) for name in JUDGES]
        others = [value for value in others if value is not None]
        return own / min(others) if others else None
    other = middle(by_name.get("libc" if goal.kind == OVER_LIBC else "jemalloc"), goal.figure)
    if other is None:
        return None
    return own - other if goal.kind == OVER_LIBC else own / other


def goal_is_met(goal, value):
    """Ratios of times are compared with the two digits that are shown."""
    return round(value, 2) <= round(goal.limit, 2) if goal.unit == "x" else value <= goal.limit
