"""text.py - figures with their units and tables, as a terminal shows them"""

import argparse

UNITS = {"bytes": ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (0, "B")),
         "ns": ((10e6, "ms"), (10e3, "us"), (0, ""))}
SIZES = {"GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10, "ms": 1e6, "us": 1e3}


def number(value):
    """Three digits that count."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def shown(value, unit):
    if value is None:
        return "-"
    if unit in UNITS:
        name = next(name for least, name in UNITS[unit] if abs(value) >= least)
        return f"{number(value / SIZES.get(name, 1))} {name}".strip()
    if unit == "share":
        return f"{value * 100:.2f} %"
    return f"{value:.2f}" if unit in ("x", "ratio") else number(value)


def table(head, rows, groups=None, left=1):
    """Columns as wide as their widest cell; the first `left` columns flush left, the others right.
    `groups` stands above the head: each of its titles begins at its column and may reach over the
    empty cells that follow."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    if groups:
        line = ""
        for i, title in enumerate(groups):
            line = line.ljust(sum(widths[:i]) + 2 * i) + title if title else line
        lines.append(line)
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [str(cell).ljust(width) if i < left else str(cell).rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def one_of(names):
    """For argparse: one of these names, or of those that a function returns."""
    def checked(text):
        known = names() if callable(names) else names
        if text not in known:
            raise argparse.ArgumentTypeError(f"no {text}; there are {', '.join(known)}")
        return text
    return checked


def positive(text):
    """For argparse: a whole number above 0."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return int(text)


def size(text):
    """For argparse: bytes, or a number with K, M or G, which are powers of 1024."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not digits.isdigit() or unit not in ("", "K", "M", "G"):
        raise argparse.ArgumentTypeError(f"{text} is no size, such as 65536, 64K or 1M")
    return int(digits) * 1024 ** " KMG".index(unit or " ")
