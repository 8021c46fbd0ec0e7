"""pprof.py - reads a profile in the format of pprof (profile.proto, github.com/google/pprof)

Holds:   what `read` returns is whole: each number in it leads to a string, a location, a mapping
         or a function that is there. Protocol buffers are imported when the first file is read.
"""

import functools
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from freehold_lab.places import Failed

# message, field, its number, its type; a star before the type: any number of them
FIELDS = """
ValueType  type            1  int64
ValueType  unit            2  int64
Sample     location_id     1  *uint64
Sample     value           2  *int64
Mapping    id              1  uint64
Mapping    memory_start    2  uint64
Mapping    memory_limit    3  uint64
Mapping    file_offset     4  uint64
Mapping    filename        5  int64
Mapping    build_id        6  int64
Line       function_id     1  uint64
Line       line            2  int64
Location   id              1  uint64
Location   mapping_id      2  uint64
Location   address         3  uint64
Location   line            4  *Line
Function   id              1  uint64
Function   name            2  int64
Function   filename        4  int64
Profile    sample_type     1  *ValueType
Profile    sample          2  *Sample
Profile    mapping         3  *Mapping
Profile    location        4  *Location
Profile    function        5  *Function
Profile    string_table    6  *bytes
Profile    period          12  int64
Profile    default_sample_type  14  int64
"""
GZIP = b"\x1f\x8b"
NO_NUMBER = (KeyError, IndexError, ValueError)


@dataclass
class Mapping:
    start: int
    end: int
    offset: int                             # in the file, of what lies at the start
    file: str
    build_id: str


@dataclass
class Location:
    address: int
    mapping: Mapping | None
    lines: list                             # (function, file, line), the innermost first


@dataclass
class Sample:
    stack: list                             # locations, the innermost first
    values: list                            # one for each type


@dataclass
class Profile:
    path: Path
    types: list                             # names of the values
    units: dict                             # name -> unit
    samples: list
    locations: list
    default_type: str
    period: int

    def value_type(self, name=None):
        """The type of that name, or the one to show first."""
        if name is None:
            return next(t for t in ("inuse_space", self.default_type, self.types[-1])
                        if t in self.types)
        if name not in self.types:
            raise Failed(f"{self.path}: no values {name}; there are {', '.join(self.types)}")
        return name


@functools.cache
def message_class():
    """The class of the messages of FIELDS."""
    try:
        from google.protobuf import descriptor_pb2, message_factory
    except ImportError:
        raise Failed("reading profiles needs protobuf: pip install protobuf, or Debian's package "
                     "python3-protobuf") from None
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="freehold_lab",
                                              syntax="proto3")
    messages = {}
    for line in FIELDS.split("\n")[1:-1]:
        message, name, number, kind = line.split()
        if message not in messages:
            messages[message] = file.message_type.add(name=message)
        field = messages[message].field.add(name=name, number=int(number))
        field.label = field.LABEL_REPEATED if kind[0] == "*" else field.LABEL_OPTIONAL
        kind = kind.lstrip("*")
        if kind in messages:
            field.type, field.type_name = field.TYPE_MESSAGE, f".freehold_lab.{kind}"
        else:
            field.type = getattr(field, f"TYPE_{kind.upper()}")
    return message_factory.GetMessages([file])["freehold_lab.Profile"]


def read(path):
    """The profile in a file, compressed or not."""
    from_file = message_class()
    from google.protobuf.message import DecodeError
    path = Path(path)
    try:
        content = path.read_bytes()
        if content.startswith(GZIP):
            content = gzip.decompress(content)
        message = from_file.FromString(content)
        if not message.sample_type or not message.string_table or message.string_table[0]:
            raise Failed(f"{path}: no profile in pprof's format")
        return taken(path, message)
    except (DecodeError, EOFError, zlib.error, gzip.BadGzipFile, *NO_NUMBER):
        raise Failed(f"{path}: no profile in pprof's format, or only a part of one") from None
    except OSError as problem:
        raise Failed(f"{path}: {problem.strerror.lower()}") from None


def taken(path, message):
    """What the message says, numbers replaced by what they stand for."""
    strings = [text.decode(errors="replace") for text in message.string_table]
    mappings = {m.id: Mapping(m.memory_start, m.memory_limit, m.file_offset, strings[m.filename],
                              strings[m.build_id]) for m in message.mapping}
    functions = {f.id: (strings[f.name], strings[f.filename]) for f in message.function}
    locations = {at.id: Location(at.address, mappings[at.mapping_id] if at.mapping_id else None,
                                 [(*functions[line.function_id], line.line) for line in at.line])
                 for at in message.location}
    samples = [Sample([locations[number] for number in sample.location_id], list(sample.value))
               for sample in message.sample]
    types = [strings[value.type] for value in message.sample_type]
    if any(len(sample.values) != len(types) for sample in samples):
        raise ValueError
    units = {name: strings[value.unit] for name, value in zip(types, message.sample_type)}
    return Profile(path, types, units, samples, list(locations.values()),
                   strings[message.default_sample_type], message.period)
