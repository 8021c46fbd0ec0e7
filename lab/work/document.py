"""document.py PAGES FILE - writes a PostScript document of text, curves and
shadings, the same every time"""

import math
import random
import sys

HEAD = """%!PS-Adobe-3.0
%%Title: a report
%%Pages: {pages}
%%EndComments
/body {{ /Times-Roman findfont 10 scalefont setfont }} def
/head {{ /Helvetica-Bold findfont 16 scalefont setfont }} def
/code {{ /Courier findfont 8 scalefont setfont }} def
"""
SYLLABLES = ("free hold land own er thread slab heap are na slice block page map an chor al loc at "
             "or mem o ry").split()


def sentence(random_, length):
    words = ("".join(random_.choices(SYLLABLES, k=random_.randint(1, 4))) for _ in range(length))
    return " ".join(words).capitalize() + "."


def text(random_, top, lines):
    yield "body"
    for line in range(lines):
        yield f"54 {top - 12 * line} moveto ({sentence(random_, random_.randint(9, 12))}) show"


def curves(random_, number):
    """A spirograph of Bezier curves with a clip and a dash, a different one on each page."""
    yield "gsave 306 250 translate 0.4 setlinewidth"
    for turn in range(240):
        a, b = turn * 0.13 * (1 + number % 7), turn * 0.29
        points = [150 * math.sin(a), 130 * math.cos(b), 120 * math.cos(a * 2),
                  120 * math.sin(b * 3), 90 * math.sin(b), 90 * math.cos(a)]
        yield (f"{turn / 240:.3f} {1 - turn / 240:.3f} {random_.random():.3f} setrgbcolor "
               "newpath 0 0 moveto")
        yield " ".join(f"{p:.2f}" for p in points) + " curveto"
        yield "gsave 0.93 setgray fill grestore stroke" if turn % 24 == 0 else "stroke"
    yield "grestore"


def shading(number):
    yield ("<< /ShadingType 3 /ColorSpace /DeviceRGB /Coords [480 120 5 480 120 70] /Extend "
           "[false false] /Function"
           f" << /FunctionType 2 /Domain [0 1] /C0 [1 {number % 5 / 5} 0] /C1 [0 0.2 1] /N 1.5 >> "
           ">> shfill")


def grid(random_):
    """An image in line: what scanners and plots leave in documents."""
    rows = "".join(f"{random_.getrandbits(8):02x}" for _ in range(64 * 64))
    yield f"gsave 54 54 translate 110 110 scale 64 64 8 [64 0 0 64 0 0] {{<{rows}>}} image grestore"


def page(number):
    random_ = random.Random(number)
    yield f"%%Page: {number} {number}"
    yield f"head 54 750 moveto (Chapter {number}: {sentence(random_, 3)}) show"
    yield from text(random_, 725, 22)
    yield from curves(random_, number)
    yield from shading(number)
    yield from grid(random_)
    yield "code"
    for line in range(8):
        yield f"190 {150 - 10 * line} moveto (slab[{line}] = {random_.getrandbits(64):#018x};) show"
    yield "showpage"


def main(pages, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(HEAD.format(pages=pages))
        for number in range(1, pages + 1):
            file.write("\n".join(page(number)) + "\n")
        file.write("%%EOF\n")


main(int(sys.argv[1]), sys.argv[2])
