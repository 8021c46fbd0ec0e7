"""tables.py - the tables of a report: data frames with a title, ready for the page and as CSV"""

import base64
import json
import math
from dataclasses import dataclass, field

import pandas
from scipy import stats

from freehold_lab.analysis import anova, interaction, power, ratios, tukey
from freehold_lab.analysis.frame import with_factors
from freehold_lab.drawing import axis_title, file_name, text_of_level
from freehold_lab.experiment import RESPONSES


@dataclass
class Table:
    name: str                               # of its CSV file
    title: str
    caption: str
    frame: pandas.DataFrame
    marks: dict = field(default_factory=dict)       # (number of the row, column) -> win or loss
    fold: str = ""                          # on the page it stands folded up under this heading

    @property
    def csv(self):
        return base64.b64encode(self.frame.to_csv(index=False).encode()).decode()

    @property
    def heads(self):
        return [str(column) for column in self.frame.columns]

    @property
    def rows(self):
        for number, (_, row) in enumerate(self.frame.iterrows()):
            yield {"allocator": row.get("allocator"),
                   "cells": [{"text": text_of(value), "value": plain(value),
                              "mark": self.marks.get((number, column), "")}
                             for column, value in row.items()]}

    def markdown(self, digits=3):
        """The table for a Markdown page; wins are bold, losses in italics. A cell may hold no
        bar."""
        lines = ["| " + " | ".join(self.heads) + " |", "|" + " --- |" * len(self.heads)]
        for number, (_, row) in enumerate(self.frame.iterrows()):
            around = [EMPHASIS.get(self.marks.get((number, column)), "")
                      for column in self.frame.columns]
            words = [f"{mark}{text_of(value, digits)}{mark}" for mark, value in zip(around, row)]
            words = [word.replace("|", "\\|").replace("\n", " ") for word in words]
            lines.append("| " + " | ".join(words) + " |")
        return "\n".join(lines)


def plain(value):
    return "" if isinstance(value, float) and math.isnan(value) else value


EMPHASIS = {"win": "**", "loss": "*"}


def text_of(value, digits=4):
    """A value as a cell shows it: numbers with as many digits that count."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10 ** digits - 0.5 else f"{value:.{digits}g}"


FOLDED = "Analysis of variance and Tukey's groups"
OWN = "Analysis of variance of each allocator"
CROSSED = "Factors against each other, each allocator"
CLASSES = {ratios.WIN: "win", ratios.LOSS: "loss"}     # on the page
ANALYSED = ("wall", "peak", "kept", "figure")
COMPARED = ("time", "peak", "integral")


def name_of(response):
    return "time" if response == "time" else RESPONSES[response][0]


def overall_tables(overall, base):
    """For each response the allocators' geometric means over all workloads."""
    for response, frame in overall.items():
        if len(frame):
            yield Table(file_name("overall", response), f"{name_of(response)}, × {base}",
                        f"Geometric mean of the ratios to {base} over the workloads (each the mean "
                        "of its cells), with 95 % bootstrap interval. Wins and losses: cells in "
                        "which Tukey's test shows one, corrected after Holm for all cells of the "
                        "row: 5 % for a single false one among them. An allocator with fewer "
                        "parts or cells than the others did not come through all of them.",
                        frame.sort_values("ratio"))


def power_tables(runs):
    """How small a difference the replicates could have shown, for each workload."""
    for response in ("time", "peak"):
        found = power.by_part(runs, response)
        if len(found):
            yield Table(file_name("power", response),
                        f"{name_of(response)}: what chance hides",
                        "Spread: of one run, within a cell, as a share. Hidden: Tukey's test over "
                        "the allocators of a cell finds a smaller difference than this in fewer "
                        f"than {power.WANTED:.0%} of such experiments. The last column is the "
                        "worst cell's, the one before it the middle cell's.", found)


def workload_tables(runs, by_response, base, names):
    """Time and memory of every workload under every allocator, in the order of `names`, and how far
    each is from the best of the others."""
    for response in COMPARED:
        found = by_response.get(response, ())
        if not len(found):
            continue
        means, marks = ratios.means(found, base, names), ratios.marks(found)
        title = name_of(response)
        frame = means.rename_axis("workload").reset_index()
        yield Table(file_name("workloads", response), f"{title} of every workload, × {base}",
                    "Geometric means over the cells of a workload. Marked as won or lost where "
                    f"Tukey's test at 5 % shows a difference to {base} in every cell of it; what "
                    "is not marked is not shown to differ everywhere.", frame,
                    {(n, name): CLASSES[marks[part, name]] for n, part in enumerate(means.index)
                     for name in means.columns if (part, name) in marks})
        best, apart = ratios.against_best(means), ratios.chosen_apart(runs, response)
        if not len(best):
            continue
        best.insert(2, "chosen apart", best.allocator.map(apart))
        yield Table(file_name("best", response), f"{title} against the best of the others",
                    "Ratio to whichever other allocator needs least in a workload, geometric mean "
                    "over the workloads; in how many an allocator needs least itself; and where it "
                    "is furthest from it. The best is chosen after the fact, so of allocators that "
                    "are alike each is somewhat above 1. Chosen apart: the best is chosen in one "
                    "half of the replicates and compared in the other, the mean over many splits. "
                    "The difference of the two is what choosing adds.",
                    best.sort_values("ratio"))


def cell_table(part, response, frame, base):
    frame = frame.drop(columns=["part", "response"])
    return Table(file_name(part, response, "ratios"), f"{part}: {name_of(response)}, × {base}",
                 f"Ratio of geometric means to {base}, 95 % bootstrap interval (BCa, runs of one "
                 "block in pairs), and Tukey's verdict at 5 % over all allocators of the cell.",
                 frame, {(n, "verdict"): CLASSES[verdict]
                         for n, verdict in enumerate(frame.verdict) if verdict in CLASSES})


def anova_tables(part, runs, factors, response, what, base, analysis):
    """The analysis of variance and, from its residuals, Tukey's tables: over all, and by the levels
    of each factor. `what` says what the response is, with its unit."""
    left_out = (f" Without {', '.join(analysis.left_out)}: not in every cell."
                if analysis.left_out else "")
    yield Table(file_name(part, response, "anova"), f"{part}: analysis of variance of {what}",
                f"{analysis.says[0].upper()}{analysis.says[1:]}.{left_out} "
                "Share: of the sum of squares.", analysis.table)
    within = runs[~runs.allocator.isin(analysis.left_out)]
    everything = tukey.grouped(within, response, analysis.is_log, analysis.mean_square,
                               analysis.degrees)
    same = ("Allocators that share a letter are not shown to differ "
            "(Tukey, 5 % for all pairs together).")
    yield Table(file_name(part, response, "tukey"), f"{part}: Tukey's groups of {what}", same,
                everything)
    if base in set(within.allocator):
        yield Table(file_name(part, response, "tukey-against"), f"{part}: {what} against {base}",
                    "Tukey's intervals, which hold for all pairs together, and p.",
                    tukey.against(within, response, base, analysis))
    for factor in factors:
        wide = tukey.by_level(within, response, factor, analysis)
        if len(factors) > 1 or runs[factor].nunique() > 1:
            yield Table(file_name(part, response, "tukey-by", factor),
                        f"{part}: Tukey's groups of {what} by {factor}",
                        f"{same} Letters hold within a column.", flat(wide))


def own_tables(part, response, what, analyses, pooled):
    """Each allocator's own analysis of variance: p of all of them side by side, then all of it."""
    logs = ", ".join(name for name, analysis in analyses.items() if analysis.is_log)
    yield Table(file_name(part, response, "own-p"), f"{part}: p of factors on {what}",
                "One analysis of variance for each allocator on its own, and the one of all "
                f"together. Of the logarithm for: {logs or 'none'}.",
                interaction.probabilities(analyses, pooled))
    for name, analysis in analyses.items():
        yield Table(file_name(part, response, "own", name),
                    f"{part}: analysis of variance of {what}, {name} alone",
                    f"{analysis.says[0].upper()}{analysis.says[1:]}. "
                    "Share: of the sum of squares.", analysis.table, fold=OWN)


def crossing_tables(part, crossing, runs, factors, what, analyses):
    """One table an allocator: means of a response by the levels of factors."""
    after = f" Laid out as {crossing.after}." if crossing.after else ""
    averaged = [factor for factor in factors
                if factor not in (*crossing.rows, *crossing.columns)]
    over = f" over the levels of {', '.join(averaged)}" if averaged else ""
    by = " × ".join((*crossing.columns, *crossing.rows))
    for name, analysis in analyses.items():
        table = interaction.crossed(runs[runs.allocator == name], crossing.response,
                                    list(crossing.rows), list(crossing.columns), analysis)
        heads = [", ".join(f"{factor} = {text_of_level(level)}"
                           for factor, level in zip(crossing.columns, column))
                 + ("" if key == "mean" else ", letters") for column, key in table.columns]
        yield Table(file_name(part, crossing.response, "by", *crossing.columns, *crossing.rows,
                              name),
                    f"{part}: {what} by {by}, {name}",
                    f"Means{over}. Cells anywhere in the table that share a letter are not shown "
                    f"to differ (Tukey, 5 % for all pairs of cells together); a is the least."
                    f"{after}",
                    table.set_axis(heads, axis=1).reset_index(), fold=CROSSED)


def flat(wide):
    """Two heads in one; a column of letters follows its column of means."""
    columns = [level if key == "mean" else f"{level}, letters" for level, key in wide.columns]
    return wide.set_axis(columns, axis=1).reset_index()


def design_table(part, replicates, runs):
    """What was varied, and how. Levels of which there is no run are named apart."""
    others = ", ".join(f"{name} {value}" for name, value in part.parameters.items())
    rows = []
    for factor, levels in part.factors.items():
        values = set(runs[factor])
        there = [level.label for level in levels if level.value in values]
        lacking = [level.label for level in levels if level.value not in values]
        rows.append({"factor": factor, "levels": ", ".join(there),
                     **({"not run": ", ".join(lacking)} if lacking else {})})
    return Table(file_name(part.name, "design"), f"{part.name}: factors and levels",
                 f"Full factorial, {replicates} replicates. "
                 f"Other parameters: {others or 'the defaults'}.",
                 pandas.DataFrame(rows).fillna(""))


def mean_table(part, runs, responses, figure):
    """What was measured, as it is: means over all replicates of a cell."""
    shown = [response for response in responses if runs[response].notna().any()]
    frame = runs.groupby(["cell", "allocator"], sort=False)[shown].mean().reset_index()
    counted = runs.groupby(["cell", "allocator"], sort=False).size().reset_index(name="runs")
    return Table(file_name(part, "means"), f"{part}: means",
                 " ".join(["Of the runs that count.",
                           *(f"`{name}` is {axis_title(name, figure)}." for name in shown)]),
                 frame.merge(counted))


def mapping_table(part, runs, counts):
    """What was asked of the system and given back, counted in a run of its own; None where sizes
    were not counted."""
    rows = []
    for (cell, name), mine in runs.groupby(["cell", "allocator"], sort=False):
        count = counts.get((cell, name), {})
        if "asked" in count:
            rows.append({"cell": cell, "allocator": name,
                         "mmaps / munmaps": f"{count['mmap']:,} / {count['munmap']:,}",
                         "brks": count["brk"], "madvises": count["madvise"],
                         "bytes asked": count["asked"], "bytes released": count["released"],
                         "difference": count["difference"], "given back by madvise":
                         count["advised"], "system time, s": mine.system.mean()})
    if not rows:
        return None
    return Table(file_name(part, "mappings"), f"{part}: memory asked of the system and released",
                 "Of one traced run: calls, and bytes of mmap, mremap and brk. Files that are "
                 "mapped are left out. The program's own tables and stacks are in it, the same for "
                 "all. System time is the mean of the other runs. Laid out as the table of the "
                 "mail on nmalloc (2010).", pandas.DataFrame(rows))


def program_table(results):
    """Mean time and peak of single programs under each allocator; None where the experiment names
    no such programs."""
    found = results.runs[results.runs.part.isin(results.plan.scaled)]
    if not len(found):
        return None
    rows = []
    for part, mine in found.groupby("part", sort=False):
        for what, response in (("run time (mean), s", "wall"),
                               ("max. resident memory (mean), bytes", "peak")):
            means = mine.groupby("allocator", sort=False)[response].mean()
            rows.append({"program": part, "quantity": what, **means,
                         "runs": int(mine.groupby("allocator").size().min())})
    frame = pandas.DataFrame(rows)
    return Table("programs-means", "Single programs: time and memory",
                 "Means over the runs that count.",
                 frame[["program", "quantity", *(name for name in results.names
                                                 if name in frame), "runs"]])


def slope_table(part, factor, frame):
    return Table(file_name(part, "slope-table", factor),
                 f"{part}: time as a straight line over {factor}",
                 "Seconds for one more, with 95 % interval. p_not_straight: small when the means "
                 "of the levels do not "
                 "lie on a line (needs three levels).", frame)


def growth_table(cell, runs):
    """Whether resident memory over live bytes grew within the runs of one cell; None where a
    workload does not say."""
    rows = []
    for name, mine in runs.groupby("allocator", sort=False):
        said = [json.loads(text) for text in mine["figures"]]
        if "slope_degrees" not in said[0]:
            return None
        mean = {key: sum(one[key] for one in said) / len(said) for key in ("ratio", "slope")}
        error = math.sqrt(sum(one["slope_error"] ** 2 for one in said)) / len(said)
        half = stats.t.ppf(0.975, sum(one["slope_degrees"] for one in said)) * error
        rows.append({"allocator": name, "ratio": mean["ratio"],
                     "most": max(one["ratio_most"] for one in said), "slope": mean["slope"],
                     "low": mean["slope"] - half, "high": mean["slope"] + half, "runs": len(said)})
    return Table(file_name(cell, "growth"), f"{cell}: does resident memory over live bytes grow?",
                 "Slope: of the straight line through the second half of a run, in ratio for a "
                 "whole run, with 95 % interval. Above zero, it was shown to grow. Most: of any "
                 "sample.", pandas.DataFrame(rows))


def of_part(results, name, by_response, base):
    """The tables of one part."""
    runs, factors = with_factors(results.part(name))
    varied = [factor for factor in factors if runs[factor].nunique() > 1]
    planned = next(part for part in results.plan.parts if part.name == name)
    measured = [response for response in planned.responses or results.plan.responses
                if runs[response].notna().any()]
    if planned.factors:
        yield design_table(planned, results.plan.replicates, runs)
    figure = results.figure_of(name)
    yield mean_table(name, runs, measured, figure)
    yield mapping_table(name, runs, results.counts)
    for cell, mine in runs.groupby("cell", sort=False):
        yield growth_table(cell, mine)
    for response, frame in by_response.items():
        mine = frame[frame.part == name] if len(frame) else frame
        if len(mine):
            yield cell_table(name, response, mine, base)
    for response in [r for r in ANALYSED if r in measured]:
        what = axis_title(response, figure)
        pooled = anova.analyse(runs, response, ["allocator", *varied])
        if pooled is not None:
            for table in anova_tables(name, runs, varied, response, what, base, pooled):
                table.fold = FOLDED
                yield table
        own = interaction.by_allocator(runs, response, varied) if len(varied) > 1 else {}
        if own:
            yield from own_tables(name, response, what, own, pooled)
        for crossing in planned.tables:
            if crossing.response == response and {*crossing.rows, *crossing.columns} <= {*varied}:
                yield from crossing_tables(name, crossing, runs, varied, what, own)
