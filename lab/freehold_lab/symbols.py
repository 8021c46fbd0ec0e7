"""symbols.py - functions and lines of the addresses in a profile, by addr2line and readelf

Holds:   a function is named only from the file that ran: its build id is the mapping's. Without
         lines, only if its symbol's size reaches so far; a stripped file has few symbols.
"""

import bisect
import os
import re
from dataclasses import dataclass
from pathlib import Path

from freehold_lab.places import command_path, must

SEGMENT = re.compile(r"^\s+LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", re.M)
SYMBOL = re.compile(r"^\s*\d+: (\w+)\s+(\w+) (?:FUNC|IFUNC)\s+\w+\s+\w+\s+(?!UND)\w+ (.+)$", re.M)
BUILD_ID = re.compile(r"Build ID: (\w+)")


@dataclass(frozen=True)
class Frame:
    function: str
    file: str = ""
    line: int = 0
    module: str = ""                        # the name of the mapped file

    def place(self):
        """The file's name and the line; empty if they are not known."""
        name = os.path.basename(self.file)
        return f"{name}:{self.line}" if self.line else name


def stacks(profile):
    """The frames of each sample, the innermost first, and notes about files without symbols."""
    known, notes = {}, []
    for file, locations in by_file(profile).items():
        known.update(frames_of_file(file, locations, notes))
    for at in profile.locations:
        if id(at) not in known:
            known[id(at)] = frames_of_lines(at) if at.lines else (Frame(f"0x{at.address:x}"),)
    found = [tuple(frame for at in sample.stack for frame in known[id(at)])
             for sample in profile.samples]
    return [frames or (Frame("[no call stack]"),) for frames in found], sorted(notes)


def by_file(profile):
    """The locations in each mapped file that the writer gave no functions."""
    found = {}
    for at in profile.locations:
        if at.mapping and at.mapping.file and not at.lines:
            found.setdefault((at.mapping.file, at.mapping.build_id), []).append(at)
    return found


def frames_of_lines(at):
    module = os.path.basename(at.mapping.file) if at.mapping else ""
    return tuple(Frame(function, file, line, module) for function, file, line in at.lines)


def frames_of_file(mapped, locations, notes):
    """The frames of each of these locations, all in one file."""
    file, build_id = mapped
    module = os.path.basename(file)
    segments, reason = layout_of(file, build_id)
    addresses = {id(at): address_in_file(at, segments) for at in locations}
    found = {}
    if reason:
        notes.append(f"{file}: {reason}; its functions stay offsets")
    else:
        found = functions_at(file, sorted(set(addresses.values())))
        name_by_symbols(file, found)
    return {number: tuple(Frame(*frame, module) for frame in found.get(address, ()))
            or (Frame(f"{module}+0x{address:x}", module=module),)
            for number, address in addresses.items()}


def layout_of(file, build_id):
    """The segments of the file (offset, address, size), and why it has no symbols for us."""
    if not Path(file).is_file():
        return [], "no such file"
    if command_path("readelf") is None or command_path("addr2line") is None:
        return [], "no readelf and addr2line here, which are in Debian's package binutils"
    text = must(["readelf", "-W", "-l", "-n", file], f"reading {file}")
    found = BUILD_ID.search(text)
    if build_id and (not found or found.group(1) != build_id):
        return [], "another build than the one that ran"
    return [[int(n, 16) for n in part] for part in SEGMENT.findall(text)], ""


def address_in_file(at, segments):
    """The address by which the file's symbols go."""
    offset = at.address - at.mapping.start + at.mapping.offset
    for start, address, size in segments:
        if start <= offset < start + size:
            return offset - start + address
    return offset


def functions_at(file, addresses):
    """(function, file, line) of each address, the innermost of inlined functions first."""
    asked = "".join(f"0x{address:x}\n" for address in addresses)
    said = must(["addr2line", "-a", "-f", "-i", "-C", "-e", file], f"symbols of {file}",
                input=asked).splitlines()
    found, lines = {}, iter(said)
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            frames = found[int(line, 16)] = []
        elif line != "??":
            frames.append((line, *place_of(next(lines))))
        else:
            next(lines)
    return found


def name_by_symbols(file, found):
    """Where no lines are known: by the symbol whose size reaches so far. addr2line names the one
    before, however far away it is, or none."""
    unsure = [address for address, frames in found.items()
              if not frames or len(frames) == 1 and not frames[0][1]]
    if not unsure:
        return
    text = must(["readelf", "-W", "-C", "-s", file], f"reading {file}")
    symbols = sorted(((int(start, 16), int(size, 0), name.partition("@")[0])
                      for start, size, name in SYMBOL.findall(text)), reverse=True)
    starts = [-symbol[0] for symbol in symbols]
    for address in unsure:
        at = bisect.bisect_left(starts, -address)
        start, size, name = symbols[at] if at < len(symbols) else (0, 1, "")
        is_inside = size == 0 or address < start + size
        found[address] = [(found[address] or [(name, "", 0)])[0]] if is_inside else []


def place_of(text):
    """File and line of "FILE:LINE (discriminator N)"; ?? and 0 are not known."""
    file, _, line = text.split(" (discriminator")[0].rpartition(":")
    return ("" if file == "??" else file, int(line) if line.isdigit() else 0)
