"""tables.py - the tables of a report: data frames with a title, ready for the page and as CSV"""

import base64
import math
from dataclasses import dataclass, field

import pandas

from freehold_lab.analysis import anova, ratios, tukey
from freehold_lab.analysis.frame import with_factors
from freehold_lab.experiment import RESPONSES
from freehold_lab.pictures import axis_title, file_name


@dataclass
class Table:
    name: str                               # of its CSV file
    title: str
    caption: str
    frame: pandas.DataFrame
    marks: dict = field(default_factory=dict)       # value of a cell -> its class on the page

    @property
    def csv(self):
        return base64.b64encode(self.frame.to_csv(index=False).encode()).decode()

    @property
    def heads(self):
        return [str(column) for column in self.frame.columns]

    @property
    def rows(self):
        for _, row in self.frame.iterrows():
            yield {"allocator": row.get("allocator"),
                   "cells": [{"text": text_of(value), "value": plain(value),
                              "mark": self.marks.get(value, "") if isinstance(value, str) else ""}
                             for value in row]}


def plain(value):
    return "" if isinstance(value, float) and math.isnan(value) else value


def text_of(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if math.isnan(value):
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


MARKS = {ratios.WIN: "win", ratios.LOSS: "loss"}


def overall_tables(overall, base):
    """For each response the allocators' geometric means over all workloads."""
    for response, frame in overall.items():
        if len(frame):
            title = "time" if response == "time" else RESPONSES[response][0]
            yield Table(file_name("overall", response), f"{title}, × {base}",
                        f"Geometric mean of the ratios to {base} over the workloads (each the "
                        "mean of its cells), with "
                        "95 % bootstrap interval, and in how many cells Tukey's test at 5 % shows "
                        "a win or a loss. An "
                        "allocator with fewer parts or cells than the others did not come through "
                        "all of them.",
                        frame.sort_values("ratio"))


def cell_table(part, response, frame, base):
    frame = frame.drop(columns=["part", "response"])
    title = "time" if response == "time" else RESPONSES[response][0]
    return Table(file_name(part, response, "ratios"), f"{part}: {title}, × {base}",
                 f"Ratio of geometric means to {base}, 95 % bootstrap interval (BCa, runs of one "
                 "block in pairs), and "
                 "Tukey's verdict at 5 % over all allocators of the cell.", frame, MARKS)


def anova_tables(part, runs, factors, response, base):
    """The analysis of variance and, from its residuals, Tukey's tables: over all, and by the levels
    of each factor. Laid out as tables 2 to 7 of the 2014 paper."""
    analysis = anova.analyse(runs, response, ["allocator", *factors])
    if analysis is None:
        return
    left_out = (f" Without {', '.join(analysis.left_out)}: not in every cell." if analysis.left_out
                else "")
    yield Table(file_name(part, response, "anova"),
                f"{part}: analysis of variance of {axis_title(response)}",
                f"{analysis.says[0].upper()}{analysis.says[1:]}.{left_out} Share: of the sum of "
                "squares.",
                analysis.table)
    within = runs[~runs.allocator.isin(analysis.left_out)]
    everything = tukey.grouped(within, response, analysis.is_log, analysis.mean_square,
                               analysis.degrees)
    same = ("Allocators that share a letter are not shown to differ "
            "(Tukey, 5 % for all pairs together).")
    yield Table(file_name(part, response, "tukey"),
                f"{part}: Tukey's groups of {axis_title(response)}", same, everything)
    if base in set(within.allocator):
        yield Table(file_name(part, response, "tukey-against"),
                    f"{part}: {axis_title(response)} against {base}",
                    "Tukey's intervals, which hold for all pairs together, and p.",
                    tukey.against(within, response, base, analysis))
    for factor in factors:
        wide = tukey.by_level(within, response, factor, analysis)
        if len(factors) > 1 or runs[factor].nunique() > 1:
            yield Table(file_name(part, response, "tukey-by", factor),
                        f"{part}: Tukey's groups of {axis_title(response)} by {factor}",
                        f"{same} Letters hold within a column.", flat(wide))


def flat(wide):
    """Two heads in one; a column of letters follows its column of means."""
    columns = [level if key == "mean" else f"{level}, letters" for level, key in wide.columns]
    return wide.set_axis(columns, axis=1).reset_index()


def design_table(part, replicates):
    """What was varied, and how."""
    others = ", ".join(f"{name} {value}" for name, value in part.parameters.items())
    rows = [{"factor": factor, "levels": ", ".join(level.label for level in levels)}
            for factor, levels in part.factors.items()]
    return Table(file_name(part.name, "design"), f"{part.name}: factors and levels",
                 f"Full factorial, {replicates} replicates. "
                 f"Other parameters: {others or 'the defaults'}.",
                 pandas.DataFrame(rows))


def mean_table(part, runs, responses):
    """What was measured, as it is: means over all replicates of a cell."""
    shown = [response for response in responses if runs[response].notna().any()]
    frame = runs.groupby(["cell", "allocator"], sort=False)[shown].mean().reset_index()
    counted = runs.groupby(["cell", "allocator"], sort=False).size().reset_index(name="runs")
    return Table(file_name(part, "means"), f"{part}: means",
                 "Of the runs that count. "
                 + "; ".join(f"{name}: {axis_title(name)}" for name in shown) + ".",
                 frame.merge(counted))


def slope_table(part, factor, frame):
    return Table(file_name(part, "slope-table"), f"{part}: time as a straight line over {factor}",
                 "Seconds for one more, with 95 % interval. p_not_straight: small when the means "
                 "of the levels do not "
                 "lie on a line (needs three levels).", frame)


def of_part(results, name, by_response, base):
    """The tables of one part."""
    runs, factors = with_factors(results.part(name))
    varied = [factor for factor in factors if runs[factor].nunique() > 1]
    measured = [response for response in results.plan.responses if runs[response].notna().any()]
    planned = next(part for part in results.plan.parts if part.name == name)
    if planned.factors:
        yield design_table(planned, results.plan.replicates)
    yield mean_table(name, runs, measured)
    for response, frame in by_response.items():
        mine = frame[frame.part == name] if len(frame) else frame
        if len(mine):
            yield cell_table(name, response, mine, base)
    for response in [r for r in ("wall", "peak", "figure") if r in measured]:
        yield from anova_tables(name, runs, varied, response, base)
