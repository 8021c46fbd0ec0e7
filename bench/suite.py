"""suite.py - what is measured and what it is held against: the one place for both

A workload is a program with its arguments; its JSON line has the figures. A goal takes one figure of freehold, alone or
beside the peers', and a limit.
"""

from dataclasses import dataclass
from statistics import median

# Those whose best freehold has to reach. Others that are named on the command line are shown, not judged by.
JUDGES = ("libc", "jemalloc", "mimalloc", "tcmalloc")


@dataclass(frozen=True)
class Workload:
    name: str
    what: str                   # for the table
    command: tuple
    quick: tuple = ()           # arguments added for --quick
    figure: str = "ns"          # the main figure, and what it counts
    unit: str = "ns"
    tool: str = ""              # "strace": count its system calls; "callgrind": its instructions
    freehold_only: bool = False
    options: str = ""           # FREEHOLD_OPTIONS
    speed: bool = False

    def shrinks(self):
        """Does --quick measure less of it, and not just for a shorter time?"""
        return not {"--bytes", "--threads", "--top"}.isdisjoint(self.quick)


def pattern(name, what):
    return Workload(name, what, ("patterns", "--pattern", name), ("--passes", "5"), speed=True)


def threaded(name, what, *command, quick=()):
    return [Workload(f"{name}-{threads}", f"{what}, {threads} threads", (*command, "--threads", str(threads)), quick,
                     speed=True) for threads in (2, 16)]


WORKLOADS = [
    pattern("pingpong", "ping-pong, 32 B"),
    pattern("batch", "batch of 20,000 freed in order, 32 B"),
    pattern("random-1k", "random replacement among 1,000"),
    pattern("random-20k", "random replacement among 20,000"),
    pattern("random-1m", "random replacement among 1,000,000"),
    pattern("fifo", "FIFO of 20,000"),
    *threaded("larson", "larson, 16-128 B, 1,000 slots", "larson", quick=("--milliseconds", "300")),
    *threaded("larson-wide", "larson, 8-1,000 B, 5,000 slots", "larson", "--low", "8", "--high", "1000",
              "--slots", "5000", quick=("--milliseconds", "300")),
    *threaded("prodcons", "producer/consumer", "prodcons", quick=("--blocks", "1M")),
    *threaded("threadchurn", "thread churn", "threadchurn", quick=("--births", "5000")),
    Workload("large", "large blocks, 20 KiB-8 MiB", ("large",), ("--pairs", "1000"), speed=True),
    Workload("grow-huge", "one vector grown to 1 GiB", ("reallocgrow",), ("--top", "256M"), speed=True),
    Workload("grow-many", "2,000 vectors grown to 16 KiB", ("reallocgrow", "--mode", "many", "--top", "16K"),
             ("--times", "5"), speed=True),

    Workload("instructions", "instructions a pair, ping-pong", ("patterns",), figure="count", unit="",
             tool="callgrind"),
    Workload("idle", "resident, program that hardly allocates", ("idle",), figure="resident", unit="bytes"),
    Workload("calls", "system calls of that program", ("idle",), figure="count", unit="", tool="strace"),
    Workload("metadata", "1 GiB of small blocks: resident beyond the blocks", ("metadata",), ("--bytes", "256M"),
             figure="overhead", unit="share"),
    Workload("manythreads", "10,000 threads with 100 bytes each: a thread", ("manythreads",), ("--threads", "1000"),
             figure="per_thread", unit="bytes"),
    Workload("burst", "burst of 2 GB freed by 32 threads: resident at once", ("burst",), ("--bytes", "512M"),
             figure="excess_now", unit="bytes"),
    Workload("burst-keep", "the same, the first quarter kept: resident beyond it", ("burst", "--keep", "25"),
             ("--bytes", "512M"), figure="excess_now", unit="bytes"),
    Workload("burst-background", "the same with the option background, after a second", ("burst", "--keep", "25"),
             ("--bytes", "512M"), figure="excess_later", unit="bytes", freehold_only=True, options="background:on"),
    Workload("onefrees", "16 threads allocate, one frees the oldest: resident/live", ("onefrees",),
             ("--milliseconds", "1500", "--bytes", "64M"), figure="ratio", unit="ratio"),
    Workload("onefrees-random", "the same, blocks freed at random", ("onefrees", "--order", "random"),
             ("--milliseconds", "1500", "--bytes", "64M"), figure="ratio", unit="ratio"),
]

# ---- goals ---------------------------------------------------------------------------------------------------------

# The best column and jemalloc's of a comparison of nine allocators on two processors, nanoseconds a pair: their ratio
# carries over to other machines better than the times do.
REFERENCE = {
    "pingpong": (4.7, 5.1), "batch": (5.7, 14), "random-1k": (5.6, 7.0),
    "random-20k": (7.3, 8.9), "random-1m": (29, 30), "fifo": (5.8, 8.2),
}
REFERENCE_SLACK = 1.10

AHEAD = ("pingpong", "batch", "random-1k", "random-20k", "random-1m", "fifo", "larson-2", "larson-16", "larson-wide-2",
         "larson-wide-16", "prodcons-2", "prodcons-16", "threadchurn-2", "threadchurn-16")


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
    *[Goal(f"{name}: at or ahead of the best peer", name, "ns", TO_BEST, 1.00, "x") for name in AHEAD],
    *[Goal(f"{name}: within 10 % of the best known, by jemalloc", name, "ns", TO_JEMALLOC,
           REFERENCE_SLACK * best / jemalloc, "x") for name, (best, jemalloc) in REFERENCE.items()],
    Goal("instructions a pair, preloaded", "instructions", "count", VALUE, 45),
    Goal("instructions a pair, linked", "instructions", "linked", VALUE, 45),
    Goal("hardly allocating program: resident beyond libc's", "idle", "resident", OVER_LIBC, 300 * 1024, "bytes"),
    Goal("hardly allocating program: system calls beyond libc's", "calls", "count", OVER_LIBC, 8),
    Goal("1 GiB of small blocks: metadata, by freehold's statistics", "metadata", "metadata_share", VALUE, 0.01,
         "share"),
    Goal("10,000 threads: bytes of each", "manythreads", "per_thread", VALUE, 2048, "bytes"),
    Goal("mappings, the most in any workload", "*", "mappings", VALUE, 199),
    Goal("burst: resident beyond what lives, at once", "burst", "excess_now", VALUE, 64 << 20, "bytes"),
    Goal("burst, a quarter kept: beyond what lives, at once", "burst-keep", "excess_now", VALUE, 64 << 20, "bytes"),
    Goal("burst with background: beyond what lives, later", "burst-background", "excess_later", OF_LIVE, 0.05, "share"),
    Goal("one thread frees: resident over live", "onefrees", "ratio", VALUE, 1.10, "ratio"),
]


def middle(rows, figure):
    """The median of a figure over the rounds, or None."""
    values = [row[figure] for row in rows or [] if figure in row]
    return median(values) if values else None


def goal_value(goal, results):
    """The figure that a goal judges, or None where something that it needs was not measured."""
    if goal.workload == "*":
        most = [row[goal.figure] for by_name in results.values() for row in by_name.get("freehold", [])
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
