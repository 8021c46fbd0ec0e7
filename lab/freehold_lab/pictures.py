"""pictures.py - the pictures of a report, as plotly figures

Every trace bears the name of the allocator that it shows, so that the page can switch
one off in all pictures.
"""

import json
import math
import re
from dataclasses import dataclass

import pandas
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy import stats

from freehold_lab.analysis.frame import with_factors
from freehold_lab.experiment import RESPONSES

# Told apart by most people who see colours differently; freehold's is the darkest.
COLOURS = ("#111111", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b",
           "#7f7f7f", "#bcbd22",
           "#9467bd", "#17becf", "#aa3377", "#66aa00")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
           "hexagon", "pentagon", "bowtie", "hourglass", "triangle-left", "triangle-right")
# Where names stand beside their marks, in turn, so that neighbours hide each other's less often.
PLACES = ("top right", "bottom left", "top left", "bottom right")
THREADS = ("threads", "NT", "clients")


@dataclass
class Picture:
    name: str                               # of its PNG file
    title: str
    caption: str
    figure: go.Figure


class Palette:
    def __init__(self, names):
        self.order = {name: n for n, name in enumerate(names)}

    def of(self, name):
        number = self.order[name]
        return {"color": COLOURS[number % len(COLOURS)], "symbol": SYMBOLS[number % len(SYMBOLS)]}

    def each(self, runs):
        """(allocator, its rows) in the order of the allocators."""
        for name in self.order:
            mine = runs[runs.allocator == name]
            if len(mine):
                yield name, mine

    def style(self, name, shown=True):
        """What all traces of an allocator have in common."""
        return {"name": name, "legendgroup": name, "showlegend": shown}


def layout(figure, height=420, **more):
    figure.update_layout(template="plotly_white", height=height,
                         margin={"l": 70, "r": 20, "t": 40, "b": 60},
                         legend={"itemclick": False, "itemdoubleclick": False}, **more)
    return figure


def axis_title(response):
    what, unit = RESPONSES.get(response, ("time", ""))
    return f"{what}, {unit}" if unit else what


def file_name(*words):
    return "-".join(re.sub(r"[^a-z0-9]+", "-", str(word).lower()).strip("-") for word in words)


def interval(values):
    """Half the 95 % interval of a mean."""
    if len(values) < 2:
        return 0.0
    return stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))


def scaled_bars(ratios, base, palette):
    """Time and memory of every part, the base's being 1."""
    shown = [response for response in ("time", "peak", "integral") if len(ratios.get(response, ()))]
    if not shown:
        return None
    figure = make_subplots(rows=len(shown), cols=1, shared_xaxes=True, vertical_spacing=0.06,
                           subplot_titles=[{"time": "time", "peak": "peak resident memory",
                                            "integral": "resident memory over time"}[name]
                                           for name in shown])
    for row, response in enumerate(shown, 1):
        for name, mine in palette.each(ratios[response]):
            means = mine.ratio.map(math.log).groupby(mine.part, sort=False).mean().map(math.exp)
            figure.add_bar(x=list(means.index), y=list(means - 1), base=1, customdata=list(means),
                           row=row, col=1, hovertemplate="%{x}: %{customdata:.3g}",
                           marker_color=palette.of(name)["color"], **palette.style(name, row == 1))
        figure.add_hline(y=1, line_width=1, row=row, col=1)
        figure.update_yaxes(type="log", title_text=f"× {base}", row=row, col=1)
    return Picture("scaled", f"Every workload, {base} = 1",
                   "Geometric means of ratios over the cells of a workload; a bar that hangs down "
                   "is less, so better. "
                   "Layout of figure 8 of the 2006 paper.", layout(figure, 260 * len(shown) + 80))


def speed_and_memory(overall, base, palette):
    """All allocators in one picture: what they cost in time and in memory."""
    if not len(overall.get("time", ())) or not len(overall.get("peak", ())):
        return None
    time, peak = (overall[response].set_index("allocator") for response in ("time", "peak"))
    figure = go.Figure()
    for name in palette.order:
        if name == base:
            x = y = {"ratio": 1, "low": 1, "high": 1}
        elif name in time.index and name in peak.index:
            x, y = time.loc[name], peak.loc[name]
        else:
            continue
        mark, place = palette.of(name), PLACES[palette.order[name] % len(PLACES)]
        figure.add_scatter(x=[x["ratio"]], y=[y["ratio"]], mode="markers+text", text=[name],
                           textposition=place, marker={"size": 11, **mark}, **palette.style(name),
                           error_x=whiskers(x, mark["color"]), error_y=whiskers(y, mark["color"]))
    figure.update_xaxes(type="log", title_text=f"time, × {base}")
    figure.update_yaxes(type="log", title_text=f"peak resident memory, × {base}")
    return Picture("speed-memory", "Speed against memory",
                   "Geometric means over all workloads with 95 % bootstrap intervals; the lower "
                   "left is best.",
                   layout(figure, 520))


def whiskers(row, colour):
    return {"type": "data", "symmetric": False, "array": [row["high"] - row["ratio"]],
            "arrayminus": [row["ratio"] - row["low"]], "thickness": 1, "color": colour}


def is_numeric(values):
    return all(isinstance(value, (int, float)) for value in values)


def by_factor(part, runs, factors, response, palette):
    """Means with intervals over the levels of each factor, the other factors averaged."""
    figure = make_subplots(rows=1, cols=len(factors),
                           subplot_titles=[f"by {factor}" for factor in factors], shared_yaxes=True)
    for column, factor in enumerate(factors, 1):
        levels = list(dict.fromkeys(runs[factor]))
        if is_numeric(levels):
            levels.sort()
        for name, mine in palette.each(runs):
            values = [mine[mine[factor] == level][response].dropna() for level in levels]
            mark = palette.of(name)
            figure.add_scatter(x=levels, y=[value.mean() for value in values], mode="lines+markers",
                               marker=mark, line={"color": mark["color"]}, row=1, col=column,
                               error_y={"array": [interval(value) for value in values],
                                        "thickness": 1},
                               **palette.style(name, column == 1))
        scaling = is_numeric(levels) and min(levels) > 0 and max(levels) / min(levels) >= 8
        figure.update_xaxes(title_text=factor, row=1, col=column, type="log" if scaling else "-",
                            tickvals=levels)
    if any(runs[factor].nunique() > 3 for factor in factors):
        figure.update_yaxes(type="log")
    figure.update_yaxes(title_text=axis_title(response), col=1)
    return Picture(file_name(part, response, "by-factor"),
                   f"{part}: {axis_title(response)} by factor",
                   "Means with 95 % intervals, averaged over the other factors; logarithmic axes "
                   "where the levels span "
                   "more than a few doublings. Figures 3 to 6 of the 2014 paper, figure 2 of the "
                   "2018 one.",
                   layout(figure))


def boxes(part, runs, factor, response, palette):
    figure = go.Figure()
    for name, mine in palette.each(runs):
        figure.add_box(x=mine[factor].astype(str), y=mine[response],
                       marker_color=palette.of(name)["color"],
                       boxpoints="outliers", line_width=1, **palette.style(name))
    figure.update_yaxes(title_text=axis_title(response), type="log")
    figure.update_xaxes(title_text=factor, type="category")
    return Picture(file_name(part, response, "boxes"),
                   f"{part}: {axis_title(response)} over {factor}",
                   "All runs that count: box of the middle half, median, whiskers of 1.5 box "
                   "heights. Figures 6 and 7 "
                   "of the 2006 paper.", layout(figure, boxmode="group"))


def over_time(part, runs, palette):
    """Resident memory over time, of the run whose time is the median; live bytes where
    the workload knows them."""
    figure, lives = go.Figure(), False
    for name, mine in palette.each(runs):
        run = mine.sort_values("wall").iloc[(len(mine) - 1) // 2]
        figures, colour = json.loads(run["figures"]), palette.of(name)["color"]
        if "sample_resident" in figures:
            lives = True
            figure.add_scatter(x=figures["sample_seconds"], y=figures["sample_resident"],
                               line_color=colour, **palette.style(name))
            figure.add_scatter(x=figures["sample_seconds"], y=figures["sample_live"],
                               **palette.style(name, False),
                               line={"color": colour, "dash": "dot", "width": 1})
        else:
            samples = json.loads(run["resident"])
            figure.add_scatter(x=[at for at, _ in samples], y=[bytes_ for _, bytes_ in samples],
                               line_color=colour, **palette.style(name))
    figure.update_xaxes(title_text="time, s")
    figure.update_yaxes(title_text="bytes", rangemode="tozero")
    dotted = " Dotted: what the program has live." if lives else ""
    return Picture(file_name(part, "over-time"), f"{part}: resident memory over time",
                   f"The run of median time of each allocator.{dotted}", layout(figure))


PERCENTILE = re.compile(r"(\w+)_p(\d+(?:_\d+)?)$")


def latency(part, runs, palette):
    """How long the slowest calls take: percentiles, the maximum last."""
    curves = {}
    for name, mine in palette.each(runs):
        tables = pandas.DataFrame([json.loads(text) for text in mine["figures"]])
        for column in tables.columns:
            found = PERCENTILE.match(column)
            if found:
                share = float(found.group(2).replace("_", ".")) / 100
                curve = curves.setdefault(found.group(1), {}).setdefault(name, [])
                curve.append((1 - share, tables[column].median()))
    if not curves:
        return None
    figure = make_subplots(rows=1, cols=len(curves), subplot_titles=list(curves), shared_yaxes=True)
    for column, (call, by_name) in enumerate(curves.items(), 1):
        for name, points in by_name.items():
            points.sort(reverse=True)
            mark = palette.of(name)
            figure.add_scatter(x=[share for share, _ in points], y=[value for _, value in points],
                               row=1, col=column, mode="lines+markers", marker=mark,
                               line_color=mark["color"], **palette.style(name, column == 1))
        figure.update_xaxes(type="log", autorange="reversed",
                            title_text="share of calls that take longer", row=1, col=column)
    figure.update_yaxes(type="log")
    figure.update_yaxes(title_text="time of one call, ns", col=1)
    return Picture(file_name(part, "latency"), f"{part}: time of single calls",
                   "Medians over the runs of each percentile; to the right are the rarer, slower "
                   "calls.",
                   layout(figure))


def slopes(part, table, factor, others, palette):
    figure = go.Figure()
    where = (table[others].astype(str).agg(", ".join, axis=1) if others
             else pandas.Series("all", index=table.index))
    for name, mine in palette.each(table):
        mark = palette.of(name)
        figure.add_scatter(x=where[mine.index], y=mine.slope * 1e9, mode="markers",
                           marker={"size": 8, **mark},
                           error_y={"type": "data", "symmetric": False,
                                    "array": (mine.high - mine.slope) * 1e9,
                           "arrayminus": (mine.slope - mine.low) * 1e9, "thickness": 1},
                           **palette.style(name))
    figure.update_xaxes(title_text=", ".join(others) or "all runs", type="category")
    figure.update_yaxes(title_text=f"ns more for one more of {factor}")
    return Picture(file_name(part, "slope"), f"{part}: slope of time over {factor}",
                   "Of the straight line through all runs, with its 95 % interval.",
                   layout(figure, scattermode="group"))


def of_part(results, name, palette):
    """The pictures of one part."""
    runs, factors = with_factors(results.part(name))
    varied = [factor for factor in factors if runs[factor].nunique() > 1]
    found = []
    for response in [r
                     for r in ("wall", "peak", "figure", "integral")
                     if r in results.plan.responses]:
        if (varied and runs[response].notna().any()
                and (response != "figure" or figure_is_own(results, runs))):
            found.append(by_factor(name, runs, varied, response, palette))
    for factor in [factor for factor in varied if factor in THREADS]:
        found.append(boxes(name, runs, factor, "wall", palette))
    cell = runs[runs.cell == runs.cell.iloc[-1]]
    found += [over_time(name, cell, palette), latency(name, cell, palette)]
    return [picture for picture in found if picture is not None]


def figure_is_own(results, runs):
    """Is the workload's figure something else than its time?"""
    return results.workloads[runs.workload.iloc[0]].figure.unit != "s"
