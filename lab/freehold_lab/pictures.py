"""pictures.py - the pictures of a report, as plotly figures

Every trace bears the name of the allocator that it shows, so that the page can switch one off in
all pictures.
"""

import json
import math
import re

import numpy
import pandas
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy import stats

from freehold_lab.analysis.frame import with_factors
from freehold_lab.drawing import (OURS, Picture, file_name, layout, log_axis, places_of, quantity,
                                  scale_of, text_of_level, title)
from freehold_lab.experiment import RESPONSES

THREADS = ("threads", "NT", "clients")
SCALED = {"time": "time", "peak": "peak resident memory", "integral": "resident memory over time"}
IN_A_ROW = 8                                # workloads whose bars fit beside each other


# ---- all workloads -------------------------------------------------------------------------------


def scaled_bars(ratios, base, palette):
    """Time and memory of every part, the base's being 1: a row of bars for each, in one picture.
    Where the workloads do not fit into a row, a picture for each."""
    shown = [response for response in SCALED if len(ratios.get(response, ()))]
    parts = list(dict.fromkeys(part for response in shown for part in ratios[response].part))
    if not shown:
        return
    rows = [list(row) for row in numpy.array_split(parts, math.ceil(len(parts) / IN_A_ROW))]
    if len(rows) == 1:
        yield bars("scaled", f"Every workload, {base} = 1",
                   [(ratios[name], SCALED[name], parts) for name in shown], base, palette)
        return
    for response in shown:
        yield bars(f"scaled-{response}", f"Every workload: {SCALED[response]}, {base} = 1",
                   [(ratios[response], "", row) for row in rows], base, palette)


def bars(name, heading, rows, base, palette):
    """`rows` are (table of ratios, title, the parts of it that stand there). A bar is the geometric
    mean over the cells of a part."""
    figure = make_subplots(rows=len(rows), cols=1, subplot_titles=[row[1] for row in rows],
                           vertical_spacing=min(0.2, 60 / (240 * len(rows))))
    for number, (ratios, _, parts) in enumerate(rows, 1):
        for allocator, mine in palette.each(ratios):
            logs = mine.ratio.map(math.log).groupby(mine.part, sort=False).mean()
            means = logs[[part for part in parts if part in logs]].map(math.exp)
            figure.add_bar(x=list(means.index), y=list(means - 1), base=1, customdata=list(means),
                           row=number, col=1, hovertemplate="%{x}: %{customdata:.3g}",
                           marker_color=palette.of(allocator)["color"],
                           **palette.style(allocator, number == 1))
        figure.add_hline(y=1, line_width=1, row=number, col=1)
        figure.update_yaxes(type="log", dtick="D2", title_text=f"× {base}", row=number, col=1)
        figure.update_xaxes(categoryorder="array", categoryarray=parts, tickangle=0,
                            row=number, col=1)
    return Picture(name, heading,
                   "Geometric means of ratios over the cells of a workload; a bar that hangs down "
                   "is less, so better.",
                   layout(figure, 240 * len(rows) + 80))


def scaled_to_largest(results, palette):
    """Mean time and peak of single programs, the largest of each program being 1."""
    plan = results.plan
    found = results.runs[results.runs.part.isin(plan.scaled)]
    if not len(found):
        return None
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True,
                           subplot_titles=["run time", "maximum resident memory"])
    for column, response in enumerate(("wall", "peak"), 1):
        means = found.groupby(["part", "allocator"])[response].mean().unstack()
        shares = means.div(means.max(axis=1), axis=0).reindex(
            [part for part in plan.scaled if part in means.index])
        for name in [name for name in palette.order if name in shares]:
            figure.add_bar(x=list(shares.index), y=list(shares[name]), row=1, col=column,
                           marker_color=palette.of(name)["color"],
                           **palette.style(name, column == 1))
    figure.update_yaxes(range=[0, 1.05])
    after = f" Laid out as {plan.scaled_after}." if plan.scaled_after else ""
    return Picture("scaled-to-largest", "Single programs, scaled to the largest",
                   "Means over the runs that count, linear, each program's largest being 1."
                   + after, layout(figure, barmode="group"))


def speed_and_memory(overall, base, palette):
    """All allocators in one picture: what they cost in time and in memory."""
    if not len(overall.get("time", ())) or not len(overall.get("peak", ())):
        return None
    time, peak = (overall[response].set_index("allocator") for response in ("time", "peak"))
    one = {"ratio": 1, "low": 1, "high": 1}
    points = {name: (one, one) if name == base else (time.loc[name], peak.loc[name])
              for name in palette.order
              if name == base or name in time.index and name in peak.index}
    places = places_of(points, 900, 380)
    figure = go.Figure()
    for name, (x, y) in points.items():
        mark, ours = palette.of(name), name == OURS
        figure.add_scatter(x=[x["ratio"]], y=[y["ratio"]], mode="markers+text",
                           zorder=1 if ours else 0,
                           text=[f"<b>{name}</b>" if ours else name], textposition=places[name],
                           textfont={"color": mark["color"], "size": 15 if ours else 13},
                           marker={"size": 15 if ours else 10, **mark},
                           error_x=whiskers(x, mark["color"]), error_y=whiskers(y, mark["color"]),
                           **palette.style(name, False))
    figure.update_xaxes(type="log", title_text=f"time, × {base}")
    figure.update_yaxes(type="log", title_text=f"peak resident memory, × {base}")
    return Picture("speed-memory", "Speed against memory",
                   "Geometric means over all workloads with 95 % bootstrap intervals; the lower "
                   "left is best.",
                   layout(figure, 520))


def whiskers(row, colour):
    return {"type": "data", "symmetric": False, "array": [row["high"] - row["ratio"]],
            "arrayminus": [row["ratio"] - row["low"]], "thickness": 1, "color": colour}


# ---- one workload --------------------------------------------------------------------------------


def is_numeric(values):
    return all(isinstance(value, (int, float)) for value in values)


def mean_of_cells(runs, response):
    """The mean of the means of the cells in `runs`, and half of its 95 % interval. That is from the
    spread within the cells, as their levels were chosen and are no chance."""
    cells = runs.groupby("cell")[response].agg(["mean", "var", "count"]).dropna(subset=["mean"])
    degrees = (cells["count"] - 1).sum()
    if degrees < 1:
        return cells["mean"].mean(), 0.0
    error = math.sqrt((cells["var"].fillna(0) / cells["count"]).sum()) / len(cells)
    return cells["mean"].mean(), stats.t.ppf(0.975, degrees) * error


def by_factor(part, runs, factors, response, figure_of_part, palette):
    """Means with intervals over the levels of each factor, the other factors averaged."""
    figure = make_subplots(rows=1, cols=len(factors), shared_yaxes=True,
                           subplot_titles=[f"by {factor}" for factor in factors])
    what, unit = quantity(response, figure_of_part)
    divisor, shown_unit = scale_of(runs[response], unit)
    for column, factor in enumerate(factors, 1):
        levels = list(dict.fromkeys(runs[factor]))
        if is_numeric(levels):
            levels.sort()
        for name, mine in palette.each(runs):
            found = [mean_of_cells(mine[mine[factor] == level], response) for level in levels]
            figure.add_scatter(x=levels, y=[mean / divisor for mean, _ in found],
                               error_y={"array": [half / divisor for _, half in found],
                                        "thickness": 1},
                               mode="lines+markers", row=1, col=column,
                               **palette.mark(name), **palette.line(name),
                               **palette.style(name, column == 1))
        scaling = is_numeric(levels) and min(levels) > 0 and max(levels) / min(levels) >= 8
        figure.update_xaxes(title_text=factor, row=1, col=column, type="log" if scaling else "-",
                            tickvals=levels)
    if any(runs[factor].nunique() > 3 for factor in factors):
        figure.update_yaxes(**log_axis(runs[response] / divisor))
    figure.update_yaxes(title_text=title(what, shown_unit), col=1)
    return Picture(file_name(part, response, "by-factor"), f"{part}: {what} by factor",
                   "Means over the levels of the other factors, with 95 % intervals from the "
                   "spread of the runs of one cell; logarithmic axes where the levels span more "
                   "than a few doublings.", layout(figure))


def bars_of_cells(part, cut, runs, figure_of_part, palette):
    """Bars of single cells, one colour an allocator: no other factor is averaged."""
    for factor, label in cut.fixed:
        runs = runs[runs[factor].map(text_of_level) == label]
    runs = runs.dropna(subset=[cut.response])
    if not len(runs):
        return None
    what, unit = quantity(cut.response, figure_of_part)
    divisor, shown_unit = scale_of(runs[cut.response], unit)
    figure = go.Figure()
    for name, mine in palette.each(runs):
        found = [(levels if isinstance(levels, tuple) else (levels,),
                  *mean_of_cells(cell, cut.response))
                 for levels, cell in mine.groupby(list(cut.by), sort=False)]
        names = [[f"{factor} {text_of_level(levels[n])}" for levels, _, _ in found]
                 for n, factor in enumerate(cut.by)]
        figure.add_bar(x=names if len(names) > 1 else names[0],
                       y=[mean / divisor for _, mean, _ in found],
                       error_y={"array": [half / divisor for _, _, half in found], "thickness": 1},
                       marker_color=palette.of(name)["color"], **palette.style(name))
    figure.update_yaxes(title_text=title(what, shown_unit), rangemode="tozero")
    where = ", ".join(f"{factor} = {label}" for factor, label in cut.fixed)
    after = f" Laid out as {cut.after}." if cut.after else ""
    return Picture(file_name(part, cut.response, "cells", *(word for pair in cut.fixed
                                                            for word in pair)),
                   f"{part}: {what}, {where}",
                   "Means of the runs of single cells, with 95 % intervals." + after,
                   layout(figure, barmode="group"))


def at_last_levels(runs, factors):
    """The runs with all `factors` at the last of their levels, and these in words."""
    chosen = [f"{factor} = {text_of_level(runs[factor].iloc[-1])}" for factor in factors]
    for factor in factors:
        runs = runs[runs[factor] == runs[factor].iloc[-1]]
    return runs, ", ".join(chosen)


def boxes(part, runs, factor, others, palette):
    """Wall time over the levels of one factor, the `others` at their last level."""
    runs, where = at_last_levels(runs, others)
    figure = boxes_of(runs, factor, "wall", scale_of(runs.wall, "s"), palette,
                      boxpoints="outliers")
    return Picture(file_name(part, "wall-boxes", factor),
                   f"{part}: {RESPONSES['wall'][0]} over {factor}{', ' if where else ''}{where}",
                   "All runs that count: box of the middle half, median, whiskers of 1.5 box "
                   "heights.", figure)


def boxes_of(runs, factor, response, scale, palette, **points):
    divisor, unit = scale
    figure = go.Figure()
    for name, mine in palette.each(runs):
        figure.add_box(x=mine[factor].astype(str), y=mine[response] / divisor, line_width=1,
                       marker_color=palette.of(name)["color"], **points, **palette.style(name))
    figure.update_yaxes(title_text=title(RESPONSES[response][0], unit),
                        **log_axis(runs[response] / divisor))
    figure.update_xaxes(title_text=factor, type="category")
    return layout(figure, boxmode="group")


def curve(part, planned, runs, figure_of_part, palette):
    """What an experiment asks for over the only factor of a part."""
    runs = runs.dropna(subset=[planned.response])
    if not len(runs):
        return None
    what, unit = quantity(planned.response, figure_of_part)
    divisor, shown_unit = scale = scale_of(runs[planned.response], unit)
    after = f" Laid out as {planned.after}." if planned.after else ""
    name = file_name(part, planned.response, planned.kind, planned.over)
    heading = f"{part}: {what} over {planned.over}"
    if planned.kind == "box":
        return Picture(name, heading, "All runs that count: box of the middle half, median, "
                       f"whiskers to the least and the most.{after}",
                       boxes_of(runs, planned.over, planned.response, scale, palette,
                                boxpoints=False))
    figure = go.Figure()
    for allocator, mine in palette.each(runs):
        means = mine.groupby(planned.over)[planned.response].mean() / divisor
        figure.add_scatter(x=list(means.index), y=list(means), mode="lines+markers",
                           **palette.mark(allocator), **palette.line(allocator),
                           **palette.style(allocator))
    figure.update_xaxes(type="log", title_text=planned.over, tickvals=sorted(set(
        runs[planned.over])))
    figure.update_yaxes(title_text=title(what, shown_unit),
                        **log_axis(runs[planned.response] / divisor))
    return Picture(name, heading, f"Means of the runs that count; logarithmic axes.{after}",
                   layout(figure))


def resident_of(run):
    """(seconds, bytes) of a run, from its start to its end; a look at a process that had just ended
    saw nothing and is left out."""
    samples = [(at, size) for at, size in json.loads(run["resident"]) if size > 0]
    if not samples:
        return [(0, 0), (run["wall"], 0)]
    return [(0, 0), *samples, (max(run["wall"], samples[-1][0]), samples[-1][1])]


def over_time(part, runs, palette):
    """Resident memory over time, of the run whose time is the median; live bytes where
    the workload knows them."""
    figure, lives = go.Figure(), False
    divisor, unit = scale_of(runs.peak, "bytes")
    for name, mine in palette.each(runs):
        run = mine.sort_values("wall").iloc[(len(mine) - 1) // 2]
        figures = json.loads(run["figures"])
        if "sample_resident" in figures:
            lives = True
            times, sizes = figures["sample_seconds"], figures["sample_resident"]
            figure.add_scatter(x=times, y=[size / divisor for size in figures["sample_live"]],
                               mode="lines", **palette.line(name, dash="dot", width=1),
                               **palette.style(name, False))
        else:
            times, sizes = zip(*resident_of(run))
        figure.add_scatter(x=times, y=[size / divisor for size in sizes], mode="lines",
                           **palette.line(name), **palette.style(name))
    figure.update_xaxes(title_text="time, s")
    figure.update_yaxes(title_text=title("resident memory", unit), rangemode="tozero")
    dotted = " Dotted: what the program has live." if lives else ""
    return Picture(file_name(part, "over-time"), f"{part}: resident memory over time",
                   f"{runs.cell.iloc[0]}: the run of median time of each allocator.{dotted}",
                   layout(figure))


def ratios_of_run(part, runs, palette):
    """Resident memory over live bytes from sample to sample, of a workload that says it."""
    said = runs["figures"].map(lambda text: json.loads(text).get("ratios"))
    if said.isna().any():
        return None
    figure = go.Figure()
    for name, mine in palette.each(runs):
        means = numpy.mean(list(said[mine.index]), axis=0)
        figure.add_scatter(x=list(range(1, len(means) + 1)), y=list(means), mode="lines",
                           **palette.line(name), **palette.style(name))
    figure.update_xaxes(title_text="part of the run")
    figure.update_yaxes(title_text="resident over live bytes")
    return Picture(file_name(part, "ratios"), f"{part}: resident over live bytes",
                   f"{runs.cell.iloc[0]}: after each equal part of a run, means over the runs.",
                   layout(figure))


CALL_TIMES = [f"{number} {unit}" for unit in ("ns", "µs", "ms", "s")
              for number in (1, 10, 100)]   # 10^n ns
PERCENTILE = re.compile(r"(\w+)_(?:p(\d+(?:_\d+)?)|max)$")


def latency(part, runs, palette):
    """How long the slowest calls take: percentiles, the longest call last."""
    curves = {}
    for name, mine in palette.each(runs):
        tables = pandas.DataFrame([json.loads(text) for text in mine["figures"]])
        for column in tables.columns:
            found = PERCENTILE.match(column)
            if found:
                share = float(found.group(2).replace("_", ".")) if found.group(2) else 100.0
                curve = curves.setdefault(found.group(1), {}).setdefault(name, [])
                curve.append((share, tables[column].median()))
    if not curves:
        return None
    figure = make_subplots(rows=1, cols=len(curves), subplot_titles=list(curves), shared_yaxes=True)
    for column, (call, by_name) in enumerate(curves.items(), 1):
        for name, points in by_name.items():
            points.sort()
            shares = ["longest" if share == 100 else f"{share:g} %" for share, _ in points]
            figure.add_scatter(x=shares, y=[value for _, value in points], row=1, col=column,
                               mode="lines+markers", **palette.mark(name), **palette.line(name),
                               **palette.style(name, column == 1))
        figure.update_xaxes(type="category", title_text="share of calls that take no longer",
                            row=1, col=column)
    figure.update_yaxes(type="log", tickvals=[10 ** n for n in range(len(CALL_TIMES))],
                        ticktext=CALL_TIMES)
    figure.update_yaxes(title_text="time of one call", col=1)
    return Picture(file_name(part, "latency"), f"{part}: time of single calls",
                   "Medians over the runs of each percentile and of the longest call.",
                   layout(figure))


def slopes(part, table, factor, others, palette):
    """Points with intervals for each combination of the other factors' levels; the table is
    slope.py's."""
    figure = go.Figure()
    where = (table[others].astype(str).agg(", ".join, axis=1) if others
             else pandas.Series("all", index=table.index))
    for name, mine in palette.each(table):
        figure.add_scatter(x=where[mine.index], y=mine.slope * 1e9, mode="markers",
                           error_y={"type": "data", "symmetric": False, "thickness": 1,
                                    "array": (mine.high - mine.slope) * 1e9,
                                    "arrayminus": (mine.slope - mine.low) * 1e9},
                           **palette.mark(name), **palette.style(name))
    figure.update_xaxes(title_text=", ".join(others) or "all runs", type="category")
    figure.update_yaxes(title_text=f"ns more for one more of {factor}")
    return Picture(file_name(part, "slope", factor), f"{part}: slope of time over {factor}",
                   "Of the straight line through all runs, with its 95 % interval.",
                   layout(figure, scattermode="group"))


def of_part(results, name, palette):
    """The pictures of one part."""
    runs, factors = with_factors(results.part(name))
    figure = results.figure_of(name)
    varied = [factor for factor in factors if runs[factor].nunique() > 1]
    planned = next(part for part in results.plan.parts if part.name == name)
    found, asked = [], planned.responses or results.plan.responses
    for response in ("wall", "peak", "kept", "figure", "integral"):
        if (response in asked and varied and runs[response].notna().any()
                and (response != "figure" or figure.unit != "s")):
            found.append(by_factor(name, runs, varied, response, figure, palette))
    found += [bars_of_cells(name, cut, runs, figure, palette) for cut in planned.bars]
    found += [curve(name, one, runs, figure, palette) for one in planned.curves]
    for factor in [factor for factor in varied if factor in THREADS and not planned.curves]:
        others = [other for other in varied if other != factor]
        found.append(boxes(name, runs, factor, others, palette))
    cell = runs[runs.cell == runs.cell.iloc[-1]]
    found += [over_time(name, cell, palette), ratios_of_run(name, cell, palette),
              latency(name, cell, palette)]
    return [picture for picture in found if picture is not None]
