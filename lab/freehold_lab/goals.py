"""goals.py - what `./dev bench` is held against: one figure of freehold, alone or beside the
peers', and a limit. `results` are part -> allocator -> the figures of each run.
"""

from dataclasses import dataclass
from statistics import median

# Those whose best freehold has to reach. Others that are named on the command line
# are shown, not judged by.
JUDGES = ("libc", "jemalloc", "mimalloc", "tcmalloc")
# The best column and jemalloc's of a comparison of nine allocators on two processors, nanoseconds a
# pair: their ratio carries over to other machines better than the times do.
REFERENCE = {
    "pingpong": (4.7, 5.1), "batch": (5.7, 14), "random-1k": (5.6, 7.0),
    "random-20k": (7.3, 8.9), "random-1m": (29, 30), "fifo": (5.8, 8.2),
}
REFERENCE_SLACK = 1.10
AHEAD = (*REFERENCE, "larson-2", "larson-16", "larson-wide-2", "larson-wide-16",
         "producer-consumer-2", "producer-consumer-16", "thread-churn-2", "thread-churn-16")


@dataclass(frozen=True)
class Goal:
    what: str
    part: str                   # "*": the largest over all of them
    figure: str
    kind: str                   # how the value comes about, below
    limit: float
    unit: str = ""


VALUE, OVER_LIBC, OF_LIVE = "", "- libc", "/ live"
TO_BEST, TO_JEMALLOC = "/ best peer", "/ jemalloc"

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
    """The median of a figure over the runs, or None."""
    values = [row[figure] for row in rows or [] if figure in row]
    return median(values) if values else None


def best_peer(by_name, figure):
    values = [middle(by_name.get(name), figure) for name in JUDGES]
    return min((value for value in values if value is not None), default=None)


def goal_value(goal, results):
    """The figure that a goal judges, or None where something that it needs was not measured."""
    if goal.part == "*":
        most = [row[goal.figure] for by_name in results.values()
                for row in by_name.get("freehold", []) if goal.figure in row]
        return max(most, default=None)
    by_name = results.get(goal.part, {})
    own = middle(by_name.get("freehold"), goal.figure)
    if own is None or goal.kind == VALUE:
        return own
    if goal.kind == OF_LIVE:
        live = middle(by_name["freehold"], "live")
        return own / live if live else None
    if goal.kind == TO_BEST:
        best = best_peer(by_name, goal.figure)
        return own / best if best else None
    other = middle(by_name.get("libc" if goal.kind == OVER_LIBC else "jemalloc"), goal.figure)
    if other is None:
        return None
    return own - other if goal.kind == OVER_LIBC else own / other


def goal_is_met(goal, value):
    """Ratios of times are compared with the two digits that are shown."""
    return round(value, 2) <= round(goal.limit, 2) if goal.unit == "x" else value <= goal.limit
