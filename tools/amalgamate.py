#!/usr/bin/env python3
"""Writes freehold.c and freehold.h into a folder: the library as one file that needs no other.

usage: tools/amalgamate.py FOLDER

freehold.c is src/all.c with every file of ours in the place where it is included first. The bytes
depend on the sources alone. Needs nothing but Python."""
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = "include/freehold/freehold.h"
ONCE = "#pragma once"
INCLUDE = re.compile(r'#\s*include\s+"([^"]+)"[^\n]*')
HEAD = """\
/* {name} - freehold {version}, a lock-free general-purpose memory allocator
 *
 * {what}
 *
{licence}
 */
"""
SOURCE_TEXT = """\
All of the library in one file, for Linux; C11 with GNU extensions, gcc or clang:
 *
 *   cc -O2 -c freehold.c
 *   cc -O2 -fPIC -fvisibility=hidden -DFH_SHARED -shared freehold.c -o libfreehold.so
 *
 * malloc, free, operator new and their kin are freehold's in every program that the object is
 * linked to. -DFH_SECURE=1 makes the secure grade, which checks every block. FH_SHARED is for a
 * shared library alone. Made by tools/amalgamate.py: what is to change is changed in src/."""
HEADER_TEXT = "The public C interface, which goes with freehold.c."
# Of attributes of gcc's that clang does not know, of functions of headers that nobody calls, and of
# attributes that a twin does not repeat.
QUIET = """
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-attributes"
#pragma clang diagnostic ignored "-Wunused-function"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
"""

def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()

def version():
    numbers = dict(re.findall(r"#define FH_VERSION_(\w+) (\d+)", read(HEADER)))
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))

def head(name, what):
    licence = "\n".join((" * " + line).rstrip() for line in read("LICENSE").strip().split("\n"))
    return HEAD.format(name=name, version=version(), what=what, licence=licence)

def expand(path, done):
    """The lines of a file, with those of files of ours where it includes them. A file that stands
    in `done` is there already. One that is included under a condition is not added, so it is there
    again where it is included without; a guard instead of `#pragma once` leaves out the second."""
    done.add(path)
    text, guard = read(path).rstrip("\n"), "FH_" + re.sub(r"\W", "_", path).upper()
    if ONCE in text:
        text = text.replace(ONCE, "#ifndef %s\n#define %s" % (guard, guard)) + "\n#endif"
    depth = -1 if re.search(r"^#ifndef (\w+)\n#define \1\n", text, re.M) else 0
    for line in text.split("\n"):
        depth += {"if": 1, "endif": -1}.get("".join(re.findall(r"^#\s*(if|endif)", line)), 0)
        found = INCLUDE.match(line)
        if not found:
            yield line
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), found.group(1)))
        if target not in done:
            yield ""
            yield "/* ---- %s %s */" % (target, "-" * (90 - len(target)))
            yield from expand(target, done if depth == 0 else set(done))

def amalgamation():
    """The texts of both files, by name."""
    text = "\n".join(expand("src/all.c", set())) + "\n"
    return {"freehold.c": head("freehold.c", SOURCE_TEXT) + QUIET + "\n" + text,
            "freehold.h": head("freehold.h", HEADER_TEXT) + read(HEADER)}

def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.split("\n\n", 1)[0] + "\n\nusage: tools/amalgamate.py FOLDER")
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, text in amalgamation().items():
        with open(os.path.join(sys.argv[1], name), "w", encoding="utf-8") as file:
            file.write(text)

if __name__ == "__main__":
    main()
