"""flame.py - `freehold-lab flame`: a profile as a flame graph, a table of functions, or a tree

Holds:   the values of a node are those of all samples whose call stack passes through it. What a
         page leaves out is too small to be seen, and is counted in its text.
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from freehold_lab import pprof, symbols
from freehold_lab.places import PACKAGE, Failed, last_line, write
from freehold_lab.progress import say
from freehold_lab.text import positive, table
from freehold_lab.text import shown as shown_size

LEAST_SHARE = 1 / 5000                      # of any value: what is less is not drawn
ROW = 24                                    # pixels
# Of modules, the one with most bytes first; pale, since text stands on them.
COLOURS = ("#fdb863", "#a6cee3", "#b2df8a", "#cab2d6", "#fb9a99", "#ffff99", "#d9d9d9", "#80cdc1")


def shown(value, unit):
    return f"{value:,}" if unit == "count" else shown_size(value, unit)


@dataclass
class Node:
    function: str
    values: list
    older: list
    module: str = ""
    places: set = field(default_factory=set)
    children: dict = field(default_factory=dict)

    def child(self, frame):
        if frame.function not in self.children:
            zeros = [0] * len(self.values)
            self.children[frame.function] = Node(frame.function, zeros, list(zeros), frame.module)
        found = self.children[frame.function]
        if frame.line:
            found.places.add((frame.file, frame.line))
        return found

    def sorted_children(self):
        return [self.children[name] for name in sorted(self.children)]

    def place(self):
        """The file and the first of the lines that are on call stacks."""
        lines = [symbols.Frame("", *place).place() for place in sorted(self.places)]
        more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
        return lines[0] + more if lines else self.module

    def add(self, values, is_older):
        mine = self.older if is_older else self.values
        mine[:] = [one + other for one, other in zip(mine, values)]

    def record(self, types):
        """For a program to read."""
        return {"function": self.function, "module": self.module,
                "places": [f"{file}:{line}" for file, line in sorted(self.places)],
                "values": dict(zip(types, self.values)),
                **({"older": dict(zip(types, self.older))} if any(self.older) else {}),
                "children": [child.record(types) for child in self.sorted_children()]}


def add(command):
    command.add_argument("profile", type=Path, metavar="FILE", help="what freehold, or any other "
                         "writer of pprof's format, has written; also compressed by gzip")
    command.add_argument("--value", metavar="TYPE", help="what widths stand for (inuse_space, else "
                         "the file's own default); the page switches to the others")
    command.add_argument("--diff", type=Path, metavar="OLDER",
                         help="colours and figures show the change since that profile")
    command.add_argument("--out", type=Path, metavar="PAGE.html",
                         help="default: FILE with .html, unless --json or --top is given")
    command.add_argument("--png", action="store_true", help="a picture beside the page as well")
    command.add_argument("--top", type=positive, metavar="N",
                         help="print the N functions with most, alone and with what they call")
    command.add_argument("--json", action="store_true", help="print the tree")


def command(options):
    profile = pprof.read(options.profile)
    value = profile.value_type(options.value)
    older = pprof.read(options.diff) if options.diff else None
    if older and older.types != profile.types:
        raise Failed(f"{older.path}: other values than {profile.path}: {', '.join(older.types)}")
    root, notes = tree_of(profile, older)
    for note in notes:
        say(note)
    if options.json:
        sys.setrecursionlimit(20000)                    # call stacks may be deep
        print(json.dumps({"profile": str(profile.path), "value": value, "units": profile.units,
                          "notes": notes, "tree": root.record(profile.types)}, indent=1))
    if options.top:
        print(top(root, profile, value, options.top, older is not None))
    if options.out or not (options.json or options.top):
        page = options.out or options.profile.with_name(options.profile.name + ".html")
        write_page(page, Drawing(profile, root, older), value, notes, options.png)
        print(page)
    return 0


# ---- the tree ------------------------------------------------------------------------------------


def tree_of(profile, older):
    """The root of all call stacks, the outermost function first; notes about missing symbols."""
    zeros = [0] * len(profile.types)
    root, notes = Node("all", zeros, list(zeros)), []
    for one in [profile, *([older] if older else [])]:
        stacks, missing = symbols.stacks(one)
        notes += [note for note in missing if note not in notes]
        for sample, frames in zip(one.samples, stacks):
            node = root
            node.add(sample.values, one is older)
            for frame in reversed(frames):
                node = node.child(frame)
                node.add(sample.values, one is older)
    return root, notes


def functions_of(root, index):
    """function -> [alone, with what it calls], the newer's less the older's."""
    found = {}

    def visit(node, around):
        change = node.values[index] - node.older[index]
        mine = found.setdefault(node.function, [0, 0])
        mine[0] += change - sum(child.values[index] - child.older[index]
                                for child in node.children.values())
        if node.function not in around:                 # a recursive one counts once
            mine[1] += change
        return around | {node.function}

    waiting = [(child, frozenset()) for child in root.children.values()]
    while waiting:
        node, around = waiting.pop()
        around = visit(node, around)
        waiting += [(child, around) for child in node.children.values()]
    return found


def top(root, profile, value, count, is_diff):
    index, unit = profile.types.index(value), profile.units[value]
    total = root.older[index] if is_diff else root.values[index]
    rows = sorted(functions_of(root, index).items(),
                  key=lambda row: (-abs(row[1][0]), -abs(row[1][1]), row[0]))[:count]
    cells = [[name, *(cell for figure in both for cell in
                      (shown(figure, unit), f"{100 * figure / total:.1f} %" if total else "-"))]
             for name, both in rows]
    change = root.values[index] - root.older[index]
    than_before = f" {'less' if change < 0 else 'more'} than before" if is_diff else ""
    return (f"{value}: {shown(abs(change), unit)}{than_before}\n\n"
            + table(["function", "flat", "", "cumulative", ""], cells))


# ---- the page ------------------------------------------------------------------------------------


class Drawing:
    """The nodes that are drawn, in the order of the tree, and what is said of each."""

    def __init__(self, profile, root, older):
        self.types, self.units, self.is_diff = profile.types, profile.units, older is not None
        self.profile, self.older, self.root = profile, older, root
        self.nodes, self.parents, self.depth, self.left_out = [], [], 0, 0
        self.take(root)
        self.modules = self.by_size(profile)

    def take(self, root):
        least = [value * LEAST_SHARE for value in root.values]
        waiting = [(root, "", 1)]
        while waiting:
            node, parent, depth = waiting.pop()
            if node is not root and all(v < m or v == 0 for v, m in zip(node.values, least)):
                self.left_out += any(node.values)
                continue
            self.depth = max(self.depth, depth)
            number = str(len(self.nodes))
            self.nodes.append(node)
            self.parents.append(parent)
            waiting += [(child, number, depth + 1) for child in reversed(node.sorted_children())]

    def by_size(self, profile):
        """module -> its place among them by the default value of what it calls or allocates."""
        index, sums = self.types.index(profile.value_type()), {}
        for node in self.nodes:
            sums[node.module] = sums.get(node.module, 0) + node.values[index]
        return {name: n for n, name in enumerate(sorted(sums, key=lambda name: (-sums[name], name))
                                                 )}

    def words(self, node):
        """What the hover text of the node is made of: its place, then a figure for each type."""
        before = [f", before {shown(figure, self.units[name])}" if self.is_diff else ""
                  for figure, name in zip(node.older, self.types)]
        return [escaped(node.place()), *(shown(figure, self.units[name]) + change for figure, name,
                                         change in zip(node.values, self.types, before))]

    def hover(self, value):
        """plotly's template of the hover text: function, place, figures, share."""
        figures = [f"{name}: %{{customdata[{self.types.index(name) + 1}]}}"
                   for name in [value, *self.partners(value)]]
        return "<br>".join(["<b>%{label}</b>", "%{customdata[0]}", *figures,
                            "%{percentRoot:.2%} of all<extra></extra>"])

    def partners(self, value):
        """inuse_objects for inuse_space."""
        stem = value.rpartition("_")[0]
        return [name for name in self.types if stem and name != value
                and name.rpartition("_")[0] == stem]

    def colour(self, node, index):
        if not self.is_diff:
            return COLOURS[self.modules[node.module] % len(COLOURS)]
        new, old = node.values[index], node.older[index]
        share = (new - old) / max(new, old, 1)          # from -1, gone, to 1, new
        pale = round(240 - 130 * abs(share))
        return f"rgb(240,{pale},{pale})" if share > 0 else f"rgb({pale},{pale},240)"

    def values(self, value):
        index = self.types.index(value)
        return [node.values[index] for node in self.nodes]

    def colours(self, value):
        index = self.types.index(value)
        return [self.colour(node, index) for node in self.nodes]

    def title(self, value):
        index = self.types.index(value)
        change = (f", before {shown(self.root.older[index], self.units[value])}" if self.is_diff
                  else "")
        return f"{value}: {shown(self.root.values[index], self.units[value])}{change}"

    def caption(self):
        text = ("A function stands below the one that called it, as wide as what it and those that "
                "it calls allocated. A click shows one function alone; the bar on top leads back. ")
        text += ("Red has grown and blue has shrunk since the older profile; what is gone is not "
                 "drawn. " if self.is_diff else "Colours are those of programs and libraries. ")
        return text + (f"{self.left_out} places with less than {LEAST_SHARE:.2%} are not drawn."
                       if self.left_out else "")


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure_of(drawing, value):
    """The chart, and a button for each type of value."""
    import plotly.graph_objects as go
    chart = go.Icicle(ids=[str(n) for n in range(len(drawing.nodes))], parents=drawing.parents,
                      labels=[escaped(node.function) for node in drawing.nodes],
                      customdata=[drawing.words(node) for node in drawing.nodes],
                      values=drawing.values(value), hovertemplate=drawing.hover(value),
                      marker={"colors": drawing.colours(value), "line": {"width": 0.5}},
                      branchvalues="total", sort=False, textinfo="label", leaf={"opacity": 1},
                      tiling={"orientation": "v", "pad": 0}, pathbar={"edgeshape": "/"})
    figure = go.Figure(chart)
    figure.update_layout(template="plotly_white", height=ROW * drawing.depth + 150,
                         title={"text": drawing.title(value), "y": 1, "yanchor": "top",
                                "pad": {"t": 12}},
                         uniformtext={"minsize": 10, "mode": "hide"},
                         margin={"l": 10, "r": 10, "t": 110, "b": 10})
    return figure


def add_buttons(figure, drawing, value):
    """One for each type of value."""
    buttons = [{"label": name, "method": "update",
                "args": [{"values": [drawing.values(name)], "hovertemplate": drawing.hover(name),
                          **({"marker.colors": [drawing.colours(name)]} if drawing.is_diff else {})
                          }, {"title.text": drawing.title(name)}]} for name in drawing.types]
    figure.update_layout(updatemenus=[{
        "buttons": buttons, "type": "buttons", "direction": "right", "xanchor": "left", "x": 0,
        "active": drawing.types.index(value), "yanchor": "bottom", "y": 1, "pad": {"b": 28}}])


def write_page(path, drawing, value, notes, with_png):
    try:
        import jinja2
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as problem:
        raise Failed(f"a page needs {problem.name} (lab/constraints.txt), which ./dev lab flame "
                     "installs; --top and --json do not") from None
    figure = figure_of(drawing, value)
    if with_png:
        write_picture(figure, path.with_suffix(".png"))
    add_buttons(figure, drawing, value)
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(
        (PACKAGE / "page" / "chart.html").read_text())
    title = drawing.profile.path.name
    if drawing.is_diff:
        title += f" since {drawing.older.path.name}"
    write(path, template.render(
        title=title, kind="flame graph", caption=drawing.caption(), notes=notes,
        plotly=Markup(get_plotlyjs()),
        css=Markup((PACKAGE / "page" / "page.css").read_text()),
        figure=Markup(figure.to_json().replace("</", "<\\/"))))


def write_picture(figure, path):
    try:
        figure.write_image(path, width=1100, scale=1.5)
    except (OSError, ValueError) as problem:
        raise Failed(f"{path}: {last_line(str(problem))}") from None
