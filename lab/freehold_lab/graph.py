"""graph.py - `freehold-lab graph`: a trace as a picture of memory, address against time

Source of the method: figure 9 of Evans, A Scalable Concurrent malloc(3) Implementation for FreeBSD,
BSDCan 2006. Time, or the number of calls, goes to the right, addresses go upwards, and the colour
is the share of a range that is live. White: no block has been there yet.
"""

import json
import tempfile
from pathlib import Path

from freehold_lab.places import PACKAGE, Failed, native, watch, write
from freehold_lab.progress import say
from freehold_lab.text import positive, shown

COLUMNS, ROWS = 1200, 600
NEVER, EMPTY = "#ffffff", "#e8e8e8"
# From a range with one live block to one that is full.
SHARES = ("#fde0a5", "#f7b267", "#e4572e", "#a4243b", "#4a1942")


def add(command):
    command.add_argument("trace", type=Path, metavar="FILE", help="what option `trace` has written")
    command.add_argument("--by", choices=("time", "calls"), default="time",
                         help="what goes to the right (time)")
    command.add_argument("--columns", type=positive, default=COLUMNS, metavar="N",
                         help="steps of it (%(default)s)")
    command.add_argument("--rows", type=positive, default=ROWS, metavar="N",
                         help="ranges of addresses at most (%(default)s)")
    command.add_argument("--out", type=Path, metavar="PAGE.html", help="default: FILE with .html")
    command.add_argument("--png", action="store_true", help="a picture beside the page as well")
    command.add_argument("--json", action="store_true",
                         help="print the figures instead: for each range a list of its live "
                              "shares, 0 to 254, or -1 before its first block")


def grid_of(options):
    """What native/graph.c says, and a list for each row, from the lowest address up: -1 or the
    share of it that is live, in 254ths, for each column."""
    with tempfile.TemporaryDirectory(prefix="freehold-graph-") as folder:
        cells = Path(folder, "cells")
        said = json.loads(watch([native("graph"), options.trace, cells, options.columns,
                                 options.rows, options.by], "reading the trace"))
        data = cells.read_bytes()
    rows = said["rows"]
    return said, [[data[column * rows + row] - 1 for column in range(options.columns)]
                  for row in range(rows)]


def address_of(said, row):
    """The lowest address of a row."""
    start, first = next((start, first) for start, _, first in reversed(said["ranges"])
                        if first <= row)
    return start + (row - first) * said["row"]


def steps(said, options):
    """What stands below the columns: milliseconds, or calls."""
    whole = said["ns"] / 1e6 if options.by == "time" else said["events"]
    return [whole * (column + 1) / options.columns for column in range(options.columns)]


def scale():
    """plotly's colours for -1 to 254."""
    at = [0, 1 / 255, 1 / 255, 2 / 255, 2 / 255]
    marks = [(at[0], NEVER), (at[1], NEVER), (at[2], EMPTY), (at[3], EMPTY)]
    for number, colour in enumerate(SHARES):
        marks.append((at[4] + (1 - at[4]) * number / (len(SHARES) - 1), colour))
    return [list(mark) for mark in marks]


def figure_of(said, grid, options):
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots
    across = steps(said, options)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.85, 0.15],
                           vertical_spacing=0.03)
    figure.add_heatmap(z=grid, x=across, zmin=-1, zmax=254, colorscale=scale(), row=1, col=1,
                       y=[hex(address_of(said, row)) for row in range(len(grid))],
                       colorbar={"title": "live", "tickvals": [0, 127, 254],
                                 "ticktext": ["empty", "half", "full"]},
                       hovertemplate="%{y}: %{z} of 254 live<extra></extra>")
    figure.add_trace(go.Scatter(x=across, y=[live / (1 << 20) for live in said["live"]],
                                mode="lines", line={"color": "#111111", "width": 1},
                                hovertemplate="%{y:.2f} MiB live<extra></extra>"), row=2, col=1)
    figure.update_yaxes(title="address", type="category", nticks=12, row=1, col=1)
    figure.update_yaxes(title="live, MiB", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title="milliseconds" if options.by == "time" else "calls", row=2, col=1)
    figure.update_layout(template="plotly_white", height=900, showlegend=False,
                         margin={"l": 130, "r": 10, "t": 20, "b": 50})
    return figure


def caption_of(said):
    return (f"{said['events']:,} calls in {said['ns'] / 1e9:.3f} s; at most "
            f"{shown(max(said['live']), 'bytes')} live at the end of a column. Each row is "
            f"{shown(said['row'], 'bytes')}. White: no block has been there yet; grey: none is "
            "now. A rectangle drawn with the mouse is shown alone; a double click leads back.")


def write_page(path, options, said, figure):
    try:
        import jinja2
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as problem:
        raise Failed(f"a page needs {problem.name} (lab/constraints.txt), which ./dev lab graph "
                     "installs; --json does not") from None
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(
        (PACKAGE / "page" / "chart.html").read_text())
    write(path, template.render(
        title=options.trace.name, caption=caption_of(said), plotly=Markup(get_plotlyjs()),
        kind="memory over time",
        notes=["the trace is cut short"] if said["cut"] else [],
        css=Markup((PACKAGE / "page" / "page.css").read_text()),
        figure=Markup(figure.to_json().replace("</", "<\\/"))))


def command(options):
    said, grid = grid_of(options)
    if said["cut"]:
        say(f"{options.trace}: the trace is cut short")
    code = 1 if said["cut"] else 0      # what is there is drawn all the same
    if options.json:
        print(json.dumps({**said, "shares": grid}))
        return code
    try:
        figure = figure_of(said, grid, options)
    except ImportError as problem:
        raise Failed(f"a page needs {problem.name} (lab/constraints.txt), which ./dev lab graph "
                     "installs; --json does not") from None
    page = options.out or options.trace.with_name(options.trace.name + ".html")
    if options.png:
        from freehold_lab.flame import write_picture
        write_picture(figure, page.with_suffix(".png"))
    write_page(page, options, said, figure)
    print(page)
    return code
