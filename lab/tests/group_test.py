"""group_test.py - a limit of memory holds, what the kernel did at it is told, and no group stays"""

import errno
import os
import subprocess
import sys

import pytest

from freehold_lab.allocators import Allocator, libc_path
from freehold_lab.group import NAME, Group
from freehold_lab.launch import Launch
from freehold_lab.places import Broken, Failed

MiB = 1 << 20
HOG = "block = bytearray({} << 20); print(len(block))"


@pytest.fixture
def groups(limits):
    """The groups of this laboratory that exist."""
    parent = Group(MiB).controller()[0]
    return lambda: list(parent.glob(f"{NAME}{os.getpid()}"))


def hog(mebibytes, memory, limit=60):
    """A program that writes to so many MiB."""
    launch = Launch(Allocator("libc", libc_path()), limit, memory=memory * MiB)
    try:
        with launch:
            launch.program(sys.executable, "-S", "-c", HOG.format(mebibytes))
        return launch, None
    except Failed as problem:
        return launch, str(problem)


def test_a_program_that_fits_completes_and_one_that_does_not_is_killed(groups):
    launch, ended = hog(50, 100)
    assert ended is None and launch.told["killed"] == 0
    assert launch.told["limit"] == 100 * MiB and launch.costs["peak"] > 50 * MiB
    launch, ended = hog(150, 100)
    assert "killed by SIGKILL" in ended
    assert launch.told["killed"] == 1 and launch.told["met"] > 0
    assert 50 * MiB < launch.costs["peak"] < 110 * MiB
    assert not groups()


def test_all_processes_of_a_run_share_the_limit(groups):
    launch = Launch(Allocator("libc", libc_path()), 60, memory=100 * MiB)
    both = " & ".join(f'{sys.executable} -S -c "import time; b = bytearray(60 << 20); '
                      'time.sleep(1)"' for _ in range(2))
    with launch:
        launch.program("sh", "-c", f"{both} & wait")
    assert launch.told["killed"] >= 1 and not groups()


def test_what_runs_beside_the_program_is_not_limited(groups):
    with Launch(Allocator("libc", libc_path()), 60, memory=20 * MiB) as launch:
        said = launch.client(sys.executable, "-S", "-c", HOG.format(60))
    assert int(said) == 60 * MiB and launch.told["met"] == 0 and not groups()


@pytest.mark.parametrize("problem", [KeyboardInterrupt, Failed], ids=lambda kind: kind.__name__)
def test_no_group_stays_when_a_run_is_cut_short(groups, problem):
    with pytest.raises(problem):
        with Launch(Allocator("libc", libc_path()), 60, memory=100 * MiB) as launch:
            launch.start([*launch.around(None), "sleep", "1000"])
            while not (launch.group.folder / "cgroup.procs").read_text():
                pass
            raise problem
    assert not groups()


def test_the_group_of_a_laboratory_that_was_killed_is_removed_by_the_next(groups):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with Group(MiB) as group:
        left = group.folder.with_name(f"{NAME}{gone.pid}")
        left.mkdir()
    with Group(MiB):
        assert not left.exists()


def test_a_group_that_cannot_be_bounded_is_told_in_a_line_and_gone(groups, monkeypatch):
    def refuse(self):
        raise OSError(errno.EBUSY, "Device or resource busy", "memory.limit_in_bytes")
    monkeypatch.setattr(Group, "bound", refuse)
    with pytest.raises(Broken, match="no memory limits here: .*busy; making .* wants root"):
        with Group(MiB):
            pass
    assert not groups()


def test_where_there_is_no_controller_that_is_said(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu io pids\n")
    with pytest.raises(Broken, match=f"no memory limits here: {tmp_path} has no memory controller"):
        with Group(MiB, tmp_path):
            pass


def test_without_the_right_to_make_a_group_that_is_said():
    """As another user; the folder is the machine's own."""
    said = subprocess.run(
        [sys.executable, "-c", "import os, sys\nfrom freehold_lab.group import Group\n"
         "from freehold_lab.places import Broken\nos.getuid() or os.setuid(65534)\n"
         "try:\n  Group(1 << 20).__enter__()\nexcept Broken as problem:\n  print(problem)"],
        capture_output=True, text=True, check=True)
    assert said.stdout.startswith("no memory limits here: ") and said.stdout.count("\n") == 1


def test_files_of_version_2_are_written_and_read(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    group = Group(50 * MiB, tmp_path)
    group.remove = lambda: None
    with group:
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
        assert (group.folder / "memory.max").read_text() == str(50 * MiB)
        (group.folder / "memory.events").write_text(
            "low 0\nhigh 7\nmax 31\noom 2\noom_kill 1\noom_group_kill 0\n")
        (group.folder / "memory.swap.max").write_text("max")
        group.bound()
        assert (group.folder / "memory.swap.max").read_text() == "0"
        assert group.told() == {"limit": 50 * MiB, "killed": 1, "met": 31}
