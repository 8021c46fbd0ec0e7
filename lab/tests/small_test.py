"""small_test.py - tools on small input: what they read is the same each time, and where their
memory is can be told"""

from types import SimpleNamespace

from freehold_lab import experiment, pages
from freehold_lab.programs import PROGRAMS, small

SMAPS = """4bd00000000-4bd003f0000 rw-p 00000000 00:00 0
Rss:                  40 kB
Anonymous:            36 kB
7f0000000000-7f0000037000 r-xp 00000000 fe:00 1      /lib/libfreehold.so
Rss:                  64 kB
Anonymous:             0 kB
7f0000039000-7f0000239000 rw-p 00000000 00:00 0
Rss:                  32 kB
Anonymous:            32 kB
7f0000300000-7f0000304000 rw-p 00000000 00:00 0
Rss:                   8 kB
Anonymous:             8 kB
"""


def test_at_least_twenty_tools_are_in_the_experiment():
    names = experiment.part_names("small")
    assert len(names) >= 20
    assert all(PROGRAMS[name].work for name in names)


def test_the_text_is_the_same_each_time(tmp_path):
    launch = SimpleNamespace(folder=tmp_path)
    first = (tmp_path / small.text(launch)).read_bytes()
    assert (tmp_path / small.text(launch, "again")).read_bytes() == first
    assert first.count(b"\n") == 1500


def test_each_mapping_has_its_kind():
    assert pages.kinds(SMAPS) == {"arenas": (40, 36), "libfreehold.so": (64, 0),
                                  "libfreehold.so, zeroed": (32, 32), "other anonymous": (8, 8)}
