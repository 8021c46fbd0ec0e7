"""report.py - results as text for the terminal, as a page and as a picture"""

from pathlib import Path
from statistics import median, quantiles

from suite import GOALS, JUDGES, TO_BEST, TO_JEMALLOC, OVER_LIBC, goal_is_met, goal_value, middle

# What the page says of the machine, of all that is recorded.
FACTS = ("processor", "processors", "memory", "system", "kernel", "libc", "transparent huge pages")


# ---- figures -------------------------------------------------------------------------------------

def number(value):
    """Three digits that count."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def shown(value, unit):
    if value is None:
        return "-"
    if unit == "bytes":
        size, name = next(((s, n) for s, n in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
                           if abs(value) >= s),
                          (1, "B"))
        return f"{number(value / size)} {name}"
    if unit == "share":
        return f"{value * 100:.2f} %"
    if unit == "ns":
        size, name = next(((s, n) for s, n in ((1e6, "ms"), (1e3, "us")) if abs(value) >= 10 * s),
                          (1, ""))
        return f"{number(value / size)} {name}".strip()
    return f"{value:.2f}" if unit in ("x", "ratio") else number(value)


def spread(rows, figure):
    """Half the distance between the quartiles, over the median."""
    values = [row[figure] for row in rows or [] if figure in row]
    if len(values) < 2 or median(values) == 0:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / abs(median(values))


def best_peer(by_name, figure):
    values = [middle(by_name.get(name), figure) for name in JUDGES]
    return min((value for value in values if value is not None), default=None)


# ---- tables: lists of rows of words, the first one the head --------------------------------------

def figures_table(record, workloads, with_ratio, figure=None):
    """A figure (the main one) under each allocator, with its spread, and freehold's
    ratio to the best peer."""
    names = list(record["allocators"])
    table = [["workload", *names, *(["freehold / best peer"] if with_ratio else [])]]
    for workload in workloads:
        by_name = record["results"].get(workload.name, {})
        key = figure or workload.figure.key
        row = [workload.what + (" (shrunk)" if workload.is_shrunk(record["quick"]) else "")]
        for name in names:
            rows = by_name.get(name)
            text = shown(middle(rows, key), workload.figure.unit)
            wide = spread(rows, key)
            row.append(text
                       + (f" ±{wide * 100:.0f}%" if wide is not None and text != "-"
                          and wide >= 0.005 else ""))
        if with_ratio:
            own, best = middle(by_name.get("freehold"), key), best_peer(by_name, key)
            row.append(f"{own / best:.2f}" if own is not None and best else "-")
        table.append(row)
    return table


def goals_table(record, workloads):
    wanted = {workload.name for workload in workloads} | {"*"}
    shrunk = {workload.name for workload in workloads if workload.is_shrunk(record["quick"])}
    table = [["goal", "how", "measured", "at most", ""]]
    for goal in GOALS:
        if goal.workload not in wanted:
            continue
        value = goal_value(goal, record["results"])
        how = {TO_BEST: "/ best peer", TO_JEMALLOC: "/ jemalloc",
               OVER_LIBC: "- libc"}.get(goal.kind, "")
        verdict = "met" if value is not None and goal_is_met(goal, value) else "SHORT"
        if value is None or goal.workload in shrunk:
            verdict = "not measured" if value is None else "shrunk: not judged"
        table.append([goal.what, how, shown(value, goal.unit), shown(goal.limit, goal.unit),
                      verdict])
    return table


def plain(table):
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    def line(row):
        first, *rest = row
        words = [first.ljust(widths[0]),
                 *(word.rjust(width) for word, width in zip(rest, widths[1:]))]
        return "  ".join(words).rstrip()
    return "\n".join([line(table[0]), "  ".join("-" * width for width in widths),
                      *map(line, table[1:])])


def markdown(table):
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([lines[0], "|" + " --- |" * len(table[0]), *lines[1:]])


def short_goals(table):
    return [row for row in table[1:] if row[-1] == "SHORT"]


# ---- what is written -----------------------------------------------------------------------------

def sections(record, workloads):
    """(title, table) of everything that there is."""
    speed = [w for w in workloads if w.is_speed]
    timed = [w for w in speed if w.listed.program.name != "patterns"]
    memory = [w for w in workloads if not w.is_speed]
    return [(title, table) for title, table in (
        ("Speed: nanoseconds (us, ms where it says so)", figures_table(record, speed, True)),
        ("Processor time of the same, all threads together",
         figures_table(record, timed, True, "processor_ns")),
        ("Memory and counts", figures_table(record, memory, False)),
        ("Goals", goals_table(record, workloads))) if len(table) > 1]


def disturbances(record):
    rows = [row for by_name in record["results"].values() for rows in by_name.values()
            for row in rows]
    if not rows:
        return "Nothing was measured."
    return ("Load average at the start of the runs: median "
            f"{median(row['load'] for row in rows):.1f}, at most "
            f"{max(row['load'] for row in rows):.1f}. Processor time taken by the hypervisor: "
            f"{record['disturbance']['steal'] * 100:.1f} % overall, at most "
            f"{max(row['steal'] for row in rows) * 100:.0f} % of one run.")


def text(record, workloads):
    parts = [f"{title}\n\n{plain(table)}" for title, table in sections(record, workloads)]
    parts.append(disturbances(record))
    parts += [f"left out: {name}: {reason}" for name, reason in record["left_out"].items()]
    parts += [f"failed: {what}: {reason}" for what, reason in record["failures"].items()]
    if record["quick"]:
        parts.append(
            "Measured with --quick: a first impression. What was shrunk for it is not judged.")
    return "\n\n".join(parts)


def page(record, workloads, png):
    """The results as Markdown."""
    short = short_goals(goals_table(record, workloads))
    tables = dict(sections(record, workloads))
    lines = ["# Benchmarks", "",
             "freehold beside other allocators on one machine. This page is written by", "",
             f"    {record['command']}", "",
             f"which takes some minutes and needs what `./dev bench` installs. {record['rounds']} "
             "rounds"
             + (" (`--quick`: what was shrunk for it is not judged)" if record["quick"] else "")
             + "; in each, every workload ran once under every allocator, in random order (seed "
               f"{record['seed']}). "
             "Figures are medians over the rounds, behind ± half the distance between the "
             "quartiles in percent of the "
             "median (left out below 0.5 %). Every result names the file that malloc came from in "
             "that very process.",
             ""]
    if png:
        lines += [
            f"![Time and peak memory of each workload over the best allocator's]({Path(png).name})",
            ""]
    lines += ["| | |", "| --- | --- |", f"| freehold | commit {record['commit']} |"]
    lines += [f"| {what} | {record['machine'][what]} |"
              for what in FACTS if what in record["machine"]]
    lines += [f"| {name} | {facts['version'] or facts['path']} |"
              for name, facts in record["allocators"].items() if name != "freehold"]
    lines += ["", disturbances(record), ""]
    for title, table in tables.items():
        lines += [f"## {title}", "", markdown(table), ""]
    lines += ["## What is short", ""]
    lines += ([f"- {row[0]}: {row[2]} where at most {row[3]} was meant." for row in short]
              or ["Nothing that was measured."])
    troubles = [f"- {name} was left out: {why}" for name, why in record["left_out"].items()]
    troubles += [f"- {what} failed: {why}" for what, why in record["failures"].items()]
    if troubles:
        lines += ["", "## What could not be measured", "", *troubles]
    lines += ["", "More programs and the newest peers, with intervals and tests: "
              "docs/benchmarks.md, a run of the laboratory."]
    return "\n".join(lines + ["", HOW_TO_READ])


HOW_TO_READ = """## How to read it

- A pattern's figure is nanoseconds for one malloc and one free, the fastest of many short passes;
  that of the programs with threads is wall time divided by what all threads did together: pairs
  (larson, large blocks), blocks (producer and consumer), threads born (thread churn), calls of
  realloc (growing vectors). Their processor time stands in a table of its own: it says less about
  waiting, and suffers less when something else runs on the machine.
- The best peer is the best of libc, jemalloc, mimalloc and tcmalloc in the same run. The second
  limit of the six patterns comes from a comparison of nine allocators: the best of them over
  jemalloc there, and a tenth more.
- Memory is what the kernel counts as resident in `/proc/self/smaps_rollup`. Figures beyond the
  blocks subtract what was there before and the usable size of the blocks that live.
- Each workload is a program in `build/bench` with `--help`, where its definition stands;
  `bench/workloads.toml` has the arguments (where speed is measured, the quick ones),
  `bench/suite.py` the goals. `./dev bench --only larson --allocators jemalloc mine=/path/lib.so`
  measures a part. `bench/instructions.py` counts instructions alone, and a test holds them to
  `bench/golden.txt`.
"""


# ---- the picture ---------------------------------------------------------------------------------

COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
MARKERS = "ovs^Dp*X"


def picture(record, workloads, path):
    """Draws time and peak memory over the smallest of each workload; returns why not, or None."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
        from matplotlib.ticker import FuncFormatter, NullFormatter
    except ImportError as problem:
        return f"{problem} (bench/requirements.txt has what it takes)"
    drawn = [w for w in workloads if w.is_speed and w.name in record["results"]]
    if not drawn:
        return "no workload of speed was measured"
    figure, sides = pyplot.subplots(1, 2, figsize=(13, 1.6 + 0.33 * len(drawn)), sharey=True,
                                    layout="constrained")
    for axes, key, title in zip(sides, ("ns", "peak"),
                                ("time over the shortest", "peak memory over the smallest")):
        for at, workload in enumerate(drawn):
            by_name = record["results"][workload.name]
            values = {name: middle(rows, key) for name, rows in by_name.items()}
            least = min(value for value in values.values() if value)
            for order, name in enumerate(record["allocators"]):
                if values.get(name):
                    axes.plot(values[name] / least, at, MARKERS[order % len(MARKERS)], label=name,
                              alpha=0.85, color=COLOURS[order % len(COLOURS)],
                              markersize=10 if order == 0 else 6, zorder=3 - (order > 0))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks([tick for tick in (1, 1.5, 2, 3, 5, 10, 20, 50, 100)
                         if tick <= axes.get_xlim()[1] * 1.1])
        axes.set_xlabel(title + " (1x is the best, further left is better)")
        axes.grid(alpha=0.3)
    sides[0].set_yticks(range(len(drawn)), [workload.what for workload in drawn])
    sides[0].invert_yaxis()
    handles, names = sides[0].get_legend_handles_labels()
    one_each = dict(zip(names, handles))
    figure.legend(one_each.values(), one_each.keys(), loc="outside upper center",
                  ncols=len(one_each), frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return None
