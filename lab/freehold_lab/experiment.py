"""experiment.py - an experiment file: what is run, how often, in which order

A file is TOML: see docs/lab.md. Parts are workloads with factors. A cell is one combination of
levels of a part. A block is one replicate of one cell, in which every allocator runs once, in
random order. The plan - all blocks in their order - follows from the file, the allocators and the
seed alone, so an interrupted experiment can go on.
Holds:   all that a file can have wrong is found by `load`, before anything runs, and said
         with the place in the file.
"""

import dataclasses
import itertools
import os
import random
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from freehold_lab.places import PACKAGE, Failed

SHIPPED = PACKAGE / "experiments"
# What the runner measures of every run; `figure` is the workload's own main figure.
RESPONSES = {
    "wall": ("execution time", "s"), "user": ("user time", "s"), "system": ("system time", "s"),
    "figure": ("the workload's own figure", ""),
    "peak": ("peak resident memory", "bytes"), "integral": ("resident memory over time", "byte s"),
    "faults": ("page faults", ""), "calls": ("mmap, munmap, mremap, madvise and brk calls", ""),
    "system_calls": ("all system calls", ""),
    "rate": ("operations", "1/s"),
    "asked": ("bytes asked of the system", "bytes"),
    "kept": ("resident memory after the work", "bytes"),    # the workload's figure `resident`
}
KEYS = {"name", "about", "replicates", "discard", "responses", "time_limit", "base", "disturbance",
        "parts", "scaled"}
PART_KEYS = {"name", "workload", "quick", "parameters", "factors", "slope", "variables", "only",
             "tables", "bars", "curves", "responses"}
DISTURBANCE = {"steal": 0.05, "foreign": 0.10, "retries": 2}


@dataclass(frozen=True)
class Level:
    label: str
    value: object                           # what an axis shows: a number where the level is one
    parameters: tuple = ()                  # of the workload, as (name, value)
    processors: int = 0                     # 0: all
    memory: float = 0                       # times the least need; 0: no limit


@dataclass(frozen=True)
class Cell:
    """One combination of levels."""
    part: str
    workload: str
    levels: tuple                           # of (factor, Level)
    parameters: tuple                       # of the workload, as (name, value), sorted
    processors: int
    environment: tuple = ()                 # as (name, value)
    only: tuple = ()                        # allocators; (): all
    memory: float = 0                       # the limit, times the least need; 0: none

    @property
    def unlimited(self):
        """The same without a limit of memory: what the least need is measured in."""
        levels = tuple(level for level in self.levels if not level[1].memory)
        return dataclasses.replace(self, levels=levels, memory=0)

    @property
    def key(self):
        chosen = ", ".join(f"{factor}={level.label}" for factor, level in self.levels)
        return f"{self.part}: {chosen}" if chosen else self.part

    @property
    def variables(self):
        return dict(self.environment)

    def fitting(self, allocators):
        return [name for name in allocators if not self.only or name in self.only]


@dataclass(frozen=True)
class Crossing:
    """A table of means whose rows and columns are levels of factors, for one allocator each."""
    response: str
    rows: tuple                             # factors
    columns: tuple                          # factors
    after: str = ""                         # which table of a paper has this layout


@dataclass(frozen=True)
class Cut:
    """Bars of single cells: some factors fixed, the others along the axis."""
    response: str
    fixed: tuple                            # of (factor, label)
    by: tuple                               # factors
    after: str = ""                         # which figure of a paper has this layout


@dataclass(frozen=True)
class Curve:
    """A response over the levels of the part's only factor: lines of means with logarithmic axes,
    or boxes."""
    kind: str                               # line or box
    response: str
    over: str
    after: str = ""


@dataclass
class Part:
    name: str
    workload: str
    factors: dict                           # name -> [Level]
    parameters: dict
    # the factors over which time should grow in a straight line
    slopes: tuple = ()
    variables: dict = field(default_factory=dict)       # of the environment
    only: tuple = ()                        # allocators; (): all
    quick: bool = False
    tables: tuple = ()                      # of Crossing
    bars: tuple = ()                        # of Cut
    curves: tuple = ()                      # of Curve
    responses: tuple = ()                   # that its pages show; (): the experiment's

    def cells(self):
        names = list(self.factors)
        for levels in itertools.product(*self.factors.values()):
            parameters = dict(self.parameters)
            for level in levels:
                parameters |= dict(level.parameters)
            processors = max((level.processors for level in levels), default=0)
            yield Cell(self.name, self.workload, tuple(zip(names, levels)),
                       tuple(sorted(parameters.items())), processors,
                       tuple(self.variables.items()), self.only,
                       max((level.memory for level in levels), default=0))


@dataclass
class Experiment:
    name: str
    about: str
    text: str                               # the file as it was read
    replicates: int
    discard: int
    responses: list
    time_limit: float
    base: str
    parts: list
    disturbance: dict = field(default_factory=lambda: dict(DISTURBANCE))
    scaled: tuple = ()                      # parts side by side, each scaled to its largest
    scaled_after: str = ""

    def select(self, texts):
        """Keeps the parts whose name contains one of them; all if there are none."""
        if not texts:
            return
        self.parts = [part for part in self.parts if any(text in part.name for text in texts)]
        if not self.parts:
            raise Failed(f"no part's name contains {' or '.join(texts)}")
        self.text += f"\n# only: {' '.join(texts)}\n"

    def fit_processors(self, available, is_left_out):
        """Levels that want more processors than there are: left out if that is asked for, else
        Failed. A plan never becomes smaller by itself."""
        for part in self.parts:
            for name, levels in part.factors.items():
                fitting = [level for level in levels if level.processors <= available]
                if len(fitting) == len(levels):
                    continue
                lacking = ", ".join(level.label for level in levels if level not in fitting)
                if not is_left_out:
                    raise Failed(f"{part.name}: {name} = {lacking}: there are only {available} "
                                 "processors here; --fewer-processors leaves these levels out")
                if not fitting:
                    raise Failed(f"{part.name}: {name} = {lacking}: nothing is left for "
                                 f"{available} processors")
                part.factors[name] = fitting
                self.text += f"\n# without {part.name}: {name} = {lacking}\n"

    def cells(self):
        return [cell for part in self.parts for cell in part.cells()]

    def plan(self, allocators, seed):
        """Every block in its order, as (replicate, Cell, [allocator names in their order])."""
        chance = random.Random(seed)
        blocks = []
        for replicate in range(self.replicates):
            cells = self.cells()
            chance.shuffle(cells)
            for cell in cells:
                fitting = cell.fitting(allocators)
                blocks.append((replicate, cell, chance.sample(fitting, len(fitting))))
        return blocks


class Reader:
    """Checks as it reads; `where` is the place in the file that a complaint names."""

    def __init__(self, source):
        self.source = source

    def fail(self, where, what):
        raise Failed(f"{self.source}: {where}: {what}" if where else f"{self.source}: {what}")

    def keys(self, where, table, known):
        for key in table:
            if key not in known:
                self.fail(where, f"no key {key}; there are {', '.join(sorted(known))}")

    def get(self, where, table, key, kind, default=None):
        value = table.get(key, default)
        if value is None:
            self.fail(where, f"{key} is missing")
        wanted = (int, float) if kind is float else kind
        if not isinstance(value, wanted) or isinstance(value, bool) != (kind is bool):
            self.fail(where, f"{key} should be of type {kind.__name__}, is {value!r}")
        return value

    def number(self, where, table, key, default, lowest):
        value = self.get(where, table, key, int, default)
        if value < lowest:
            self.fail(where, f"{key} is {value}, has to be {lowest} or more")
        return value


def find(name):
    """The file of an experiment: a path, or the name of one that is shipped."""
    shipped = SHIPPED / f"{name}.toml"
    if shipped.is_file():
        return shipped
    if Path(name).is_file():
        return Path(name)
    raise Failed(f"no experiment {name}: neither a file nor one of {', '.join(shipped_names())}")


def shipped_names():
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def part_names(name):
    """The parts of an experiment that is shipped."""
    parts = tomllib.loads(find(name).read_text())["parts"]
    return [part.get("name", part["workload"]) for part in parts]


def load(path, workloads):
    """The experiment in a file; `workloads` are those that exist, by name."""
    try:
        text = Path(path).read_text()
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise Failed(f"{path}: {problem}") from None
    return parse(table, text, Path(path).name, workloads)


def parse(table, text, source, workloads):
    reader = Reader(source)
    reader.keys("", table, KEYS)
    replicates = reader.number("", table, "replicates", None, 1)
    discard = reader.number("", table, "discard", 0, 0)
    if discard >= replicates:
        reader.fail("", f"discard is {discard}: nothing would be left of {replicates} replicates")
    responses = parse_responses(reader, "", table, ["wall", "peak"])
    time_limit = reader.get("", table, "time_limit", float, 300)
    if time_limit <= 0:
        reader.fail("", f"time_limit is {time_limit}, has to be more than 0 seconds")
    parts = reader.get("", table, "parts", list)
    read = [parse_part(reader, f"parts[{n}]", part, workloads) for n, part in enumerate(parts)]
    if not read:
        reader.fail("", "no parts: nothing to run")
    if len({part.name for part in read}) < len(read):
        reader.fail("", "two parts have the same name; give them names of their own")
    if {"asked", "system_calls"} <= set(responses):
        reader.fail("", "asked and system_calls are counted in different runs; take one of them")
    if {"calls", "asked", "system_calls"} & set(responses) and any(
            cell.memory for part in read for cell in part.cells()):
        reader.fail("", "calls are counted in runs of their own, in which memory is not limited")
    scaled = reader.get("", table, "scaled", dict, {})
    reader.keys("scaled", scaled, {"parts", "after"})
    for name in reader.get("scaled", scaled, "parts", list, []):
        if name not in [part.name for part in read]:
            reader.fail("scaled", f"no part {name}")
    return Experiment(
        reader.get("", table, "name", str), reader.get("", table, "about", str, ""), text,
        replicates, discard, responses, float(time_limit),
        reader.get("", table, "base", str, "libc"), read,
        parse_disturbance(reader, reader.get("", table, "disturbance", dict, {})),
        tuple(scaled.get("parts", [])), reader.get("scaled", scaled, "after", str, ""))


def parse_responses(reader, where, table, default):
    responses = reader.get(where, table, "responses", list, default)
    for response in responses:
        if response not in RESPONSES:
            reader.fail(where, f"no response {response!r}; there are {', '.join(RESPONSES)}")
    return responses


def parse_disturbance(reader, table):
    reader.keys("disturbance", table, DISTURBANCE)
    shares = {key: float(reader.get("disturbance", table, key, float, DISTURBANCE[key]))
              for key in ("steal", "foreign")}
    return {**shares,
            "retries": reader.number("disturbance", table, "retries", DISTURBANCE["retries"], 0)}


def parse_part(reader, where, table, workloads):
    if not isinstance(table, dict):
        reader.fail(where, "should be a table: [[parts]]")
    reader.keys(where, table, PART_KEYS)
    name = reader.get(where, table, "workload", str)
    if name not in workloads:
        reader.fail(where, f"no workload {name}; there are {', '.join(sorted(workloads))}")
    known = workloads[name].parameters
    parameters = (dict(workloads[name].quick) if reader.get(where, table, "quick", bool, False)
                  else {})
    given = reader.get(where, table, "parameters", dict, {})
    reader.keys(f"{where}.parameters", given, known)
    factors = reader.get(where, table, "factors", dict, {})
    part = Part(reader.get(where, table, "name", str, name), name,
                {factor: parse_factor(reader, f"{where}.factors.{factor}", factor, value, known)
                 for factor, value in factors.items()},
                {**parameters, **given}, tuple(names(reader, where, table, "slope")),
                reader.get(where, table, "variables", dict, {}),
                tuple(reader.get(where, table, "only", list, [])),
                reader.get(where, table, "quick", bool, False))
    for factor in part.slopes:
        if factor not in part.factors:
            reader.fail(where, f"slope names {factor}, which is no factor of the part")
    part.tables = tuple(parse_crossing(reader, f"{where}.tables[{n}]", one, part)
                        for n, one in enumerate(reader.get(where, table, "tables", list, [])))
    part.bars = tuple(parse_cut(reader, f"{where}.bars[{n}]", one, part)
                      for n, one in enumerate(reader.get(where, table, "bars", list, [])))
    part.curves = tuple(parse_curve(reader, f"{where}.curves[{n}]", one, part)
                        for n, one in enumerate(reader.get(where, table, "curves", list, [])))
    part.responses = tuple(parse_responses(reader, where, table, []))
    return part


def names(reader, where, table, key):
    """One name or a list of them; none if the key is missing."""
    value = table.get(key, [])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        reader.fail(where, f"{key} should be a name or a list of names, is {value!r}")
    return value


def layout_of(reader, where, table, known):
    """What tables and bars have in common: the response, and the paper's number."""
    if not isinstance(table, dict):
        reader.fail(where, "should be a table")
    reader.keys(where, table, {"response", "after", *known})
    response = reader.get(where, table, "response", str)
    if response not in RESPONSES:
        reader.fail(where, f"no response {response!r}; there are {', '.join(RESPONSES)}")
    return response, reader.get(where, table, "after", str, "")


def factors_of(reader, where, table, key, part):
    found = names(reader, where, table, key)
    for factor in found:
        if factor not in part.factors:
            reader.fail(where, f"{key} names {factor}, which is no factor of the part")
    if not found:
        reader.fail(where, f"{key} is missing")
    return tuple(found)


def parse_curve(reader, where, table, part):
    """`{kind = "box", response = "rate", over = "threads"}`"""
    response, after = layout_of(reader, where, table, {"kind", "over"})
    kind, over = (reader.get(where, table, key, str) for key in ("kind", "over"))
    if kind not in ("line", "box"):
        reader.fail(where, f"kind has to be line or box, is {kind!r}")
    if list(part.factors) != [over]:
        reader.fail(where, f"{over} has to be the only factor of the part")
    return Curve(kind, response, over, after)


def parse_crossing(reader, where, table, part):
    """`{response = "wall", rows = ["SA", "NT"], columns = "NP"}`"""
    response, after = layout_of(reader, where, table, {"rows", "columns"})
    return Crossing(response, factors_of(reader, where, table, "rows", part),
                    factors_of(reader, where, table, "columns", part), after)


def parse_cut(reader, where, table, part):
    """`{response = "wall", fixed = {NT = 1}, by = ["NP", "NA"]}`"""
    response, after = layout_of(reader, where, table, {"fixed", "by"})
    by = factors_of(reader, where, table, "by", part)
    fixed = reader.get(where, table, "fixed", dict, {})
    for factor, value in fixed.items():
        labels = [level.label for level in part.factors.get(factor, [])]
        if label_of(value) not in labels:
            reader.fail(where, f"fixed {factor} = {value}: there are {', '.join(labels) or 'none'}")
    if set(by) | set(fixed) != set(part.factors) or set(by) & set(fixed):
        reader.fail(where, "each factor of the part has to be fixed or in `by`")
    return Cut(response, tuple((factor, label_of(value)) for factor, value in fixed.items()), by,
               after)


def parse_factor(reader, where, name, value, known):
    """Levels of a parameter: `NAME = [1, 2]`;
    under another name: `NAME = {parameter = "low", levels = [1, 2]}`;
    of several at once: `NAME = {levels = {label = {low = 1, high = 2}}}`;
    of processors: `NAME = {processors = [1, 2]}`;
    of memory, in multiples of the least need: `NAME = {memory = [1.1, 2]}`."""
    if isinstance(value, list):
        value = {"parameter": name, "levels": value}
    if not isinstance(value, dict):
        reader.fail(where, "want a list of levels or a table")
    reader.keys(where, value, {"parameter", "levels", "processors", "memory"})
    if "processors" in value:
        return parse_processors(reader, where, value["processors"])
    if "memory" in value:
        return parse_memory(reader, where, value["memory"])
    levels = value.get("levels")
    if not levels or not isinstance(levels, (list, dict)):
        reader.fail(where, "levels has to be a list or a table, and not empty")
    if isinstance(levels, dict):
        for label, settings in levels.items():
            reader.keys(f"{where}.levels.{label}",
                        settings if isinstance(settings, dict) else {"?": 0}, known)
        return [Level(label, label, tuple(settings.items())) for label, settings in levels.items()]
    parameter = reader.get(where, value, "parameter", str)
    reader.keys(where, {parameter: 0}, known)
    if len(set(map(str, levels))) < len(levels):
        reader.fail(where, "a level stands there twice")
    return [Level(label_of(level), level, ((parameter, level),)) for level in levels]


def label_of(value):
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def parse_processors(reader, where, value):
    if value == "all":
        value = list(range(1, len(os.sched_getaffinity(0)) + 1))
    if (not isinstance(value, list) or not value
            or not all(isinstance(n, int) and n > 0 for n in value)):
        reader.fail(where, 'processors has to be "all" or a list of numbers above 0')
    return [Level(str(n), n, (), n) for n in value]


def parse_memory(reader, where, value):
    if (not isinstance(value, list) or not value
            or not all(type(times) in (int, float) and times > 0 for times in value)):
        reader.fail(where, "memory has to be a list of numbers above 0: multiples of the least "
                    "need")
    return [Level(f"{times:g}", times, memory=times) for times in value]
