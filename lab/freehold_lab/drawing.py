"""drawing.py - what all pictures share: an allocator's look, units of axes, where names stand

Holds:   an allocator has one colour and one symbol in all pictures of a report, and freehold is
         the one that is drawn strongest.
"""

import math
import re
from dataclasses import dataclass

import plotly.graph_objects as go

from freehold_lab.experiment import RESPONSES

OURS = "freehold"
# Told apart by most people who see colours differently; freehold's is the darkest.
COLOURS = ("#111111", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b",
           "#7f7f7f", "#bcbd22", "#9467bd", "#17becf", "#aa3377", "#66aa00")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
           "hexagon", "pentagon", "bowtie", "hourglass", "triangle-left", "triangle-right")
# Units by the one that tables have, the largest first: a picture takes the largest that leaves no
# value in the middle below 1.
UNITS = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")),
    "1/s": ((1e6, "millions/s"), (1e3, "thousands/s"), (1, "1/s")),
    "byte s": ((1 << 30, "GiB s"), (1 << 20, "MiB s"), (1 << 10, "KiB s"), (1, "byte s")),
}
FIGURES = {"ns": "time of one operation", "seconds": "time of the work",
           "requests_per_second": "requests"}


@dataclass
class Picture:
    name: str                               # of its PNG file
    title: str
    caption: str
    figure: go.Figure


class Palette:
    """How each of the named allocators looks, in this order."""

    def __init__(self, names):
        self.order = {name: n for n, name in enumerate(names)}

    def of(self, name):
        """Colour and symbol, for a mark."""
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

    def line(self, name, **more):
        """For a line: its colour and width, and what lies on top."""
        ours = name == OURS
        return {"line": {"color": self.of(name)["color"], "width": 3.5 if ours else 1.5, **more},
                "zorder": 1 if ours else 0}

    def mark(self, name):
        return {"marker": {**self.of(name), "size": 10 if name == OURS else 7}}


def layout(figure, height=420, **more):
    """All numbers of axes are written out: 20,000 and 0.05, on logarithmic axes too."""
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(tickformat=",~r")
    figure.update_layout(template="plotly_white", height=height,
                         margin={"l": 70, "r": 20, "t": 40, "b": 60},
                         legend={"itemclick": False, "itemdoubleclick": False}, **more)
    return figure


def log_axis(values):
    """A logarithmic axis for what lies between `values`. Over a decade, a number for each digit
    would stand on its neighbour."""
    found = [value for value in values if value > 0]
    return {"type": "log", **({"dtick": "D2"} if found and max(found) > 8 * min(found) else {})}


def file_name(*words):
    return "-".join(re.sub(r"[^a-z0-9]+", "-", str(word).lower()).strip("-") for word in words)


def text_of_level(level):
    return level if isinstance(level, str) else f"{level:,}"


# ---- units ---------------------------------------------------------------------------------------


def quantity(response, figure):
    """What a response is and its unit, '' if it has none; `figure` is the workload's own (a
    workloads.Figure)."""
    if response == "figure":
        what = figure.key.removesuffix(f"_{figure.unit}").replace("_", " ")
        return FIGURES.get(figure.key, what), figure.unit
    return RESPONSES.get(response, ("time", "s"))


def title(what, unit):
    return f"{what}, {unit}" if unit and unit != what else what


def axis_title(response, figure):
    """Of a table, whose numbers are in the unit that was measured in."""
    return title(*quantity(response, figure))


def scale_of(values, unit):
    """(divisor, unit) of an axis for a pandas Series of `values` in `unit`."""
    middle = values.dropna().abs().median()
    steps = UNITS.get(unit, ((1, unit),))
    return next((step for step in steps if middle >= step[0]), steps[-1])


# ---- names beside marks --------------------------------------------------------------------------

LETTER, LINE, MARK = 7.5, 17, 9             # sizes in pixels
# (how plotly calls it, where the left and upper edge of a text of width 1 and height 1 are)
PLACES = (("top right", 0, -1.2), ("bottom right", 0, 0.2), ("top left", -1, -1.2),
          ("bottom left", -1, 0.2), ("top center", -0.5, -1.3), ("bottom center", -0.5, 0.3))


def overlap(one, other):
    """The area that two boxes (left, top, right, bottom) share."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0, wide) * max(0, high)


def pixels_of(points, size):
    """Positions on a logarithmic axis of `size` pixels that just holds all `points`, a list of
    lists of positive numbers."""
    logs = [[math.log(value) for value in values] for values in points]
    least = min(map(min, logs))
    span = max(max(map(max, logs)) - least, 1e-9)
    return [[size * (value - least) / span for value in values] for values in logs]


def places_of(points, width, height):
    """name -> where its text stands so that it covers little of other texts, marks and intervals,
    and is not cut off at the sides.
    `points` is name -> (x, y), each with `ratio`, `low` and `high`, both to be shown on
    logarithmic axes that span `width` and `height` pixels."""
    ends = [[[row["low"], row["ratio"], row["high"]] for row in rows]
            for rows in zip(*points.values())]
    across, up = (pixels_of(values, size) for values, size in zip(ends, (width, height)))
    taken = [(side, -2 * height, side + 2 * width, 2 * height) for side in (-2 * width, width)]
    for (left, x, right), (low, y, high) in zip(across, up):
        taken += [(x - MARK, -y - MARK, x + MARK, -y + MARK), (left, -y - 1, right, -y + 1),
                  (x - 1, -high, x + 1, -low)]
    found = {}
    for name, (_, x, _), (_, y, _) in zip(points, across, up):
        wide = LETTER * len(name)

        def box(place):
            left, top = x + place[1] * wide, -y + place[2] * LINE
            return left, top, left + wide, top + LINE
        best = min(PLACES, key=lambda place: sum(overlap(box(place), other) for other in taken))
        taken.append(box(best))
        found[name] = best[0]
    return found
