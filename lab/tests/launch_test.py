"""launch_test.py - what a run costs is measured right, and nothing of a run stays behind"""

import os
import subprocess
import sys

import pytest

from freehold_lab.allocators import Allocator, libc_path
from freehold_lab.launch import (Counted, Launch, Mapped, descendants, ended, read_counts,
                                 read_mappings)
from freehold_lab.places import Failed

HOLD = "import time; block = bytearray(64 << 20); time.sleep(0.4)"


@pytest.fixture
def libc():
    return Allocator("libc", libc_path())


def costs_of(libc, *command, how=Launch):
    with how(libc, 60) as launch:
        launch.program(*command)
    return launch.costs


def test_peak_and_integral_are_those_of_the_program(libc):
    costs = costs_of(libc, sys.executable, "-c", HOLD)
    assert 64 << 20 < costs["peak"] < 128 << 20
    assert costs["integral"] > 0.4 * (64 << 20)
    assert costs["wall"] > 0.4 and max(bytes_ for _, bytes_ in costs["resident"]) > 64 << 20


def test_the_peak_of_a_small_program_is_not_that_of_the_interpreter_that_measures_it(libc):
    assert costs_of(libc, "sleep", "0.01")["peak"] < 8 << 20


def test_a_program_that_ends_before_the_first_look_has_held_memory_too(libc, tmp_path):
    program = tmp_path / "short"
    subprocess.run(["cc", "-xc", "-", "-o", program], input="int main(void) { return 0; }",
                   text=True, check=True)
    costs = [costs_of(libc, program) for _ in range(20)]
    unseen = [cost for cost in costs if not cost["resident"]]
    assert unseen
    for cost in unseen:
        assert cost["integral"] == pytest.approx(cost["wall"] * cost["peak"] / 2, rel=0.01)


def test_memory_of_children_counts(libc):
    both = f'{sys.executable} -c "{HOLD}" & {sys.executable} -c "{HOLD}" & wait'
    assert costs_of(libc, "sh", "-c", both)["peak"] > 130 << 20


def test_processor_time_is_that_of_all_its_processes(libc):
    busy = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.2: pass'"
    costs = costs_of(libc, "sh", "-c", f"{busy}; {busy}")
    assert costs["user"] + costs["system"] > 0.4


def test_the_number_of_processors_is_kept_to(libc):
    with Launch(libc, 60, processors=1) as launch:
        assert launch.program("nproc").strip() == b"1"


def test_the_library_is_seen_in_the_program(libc):
    assert costs_of(libc, "sleep", "0.1")["mapped"]


def test_nothing_of_the_callers_settings_reaches_the_program(libc, monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("FREEHOLD_OPTIONS", "stats:exit")
    with Launch(libc, 60) as launch:
        assert b"MALLOC" not in (words := launch.program("env")) and b"FREEHOLD" not in words


def test_variables_of_the_run_and_what_is_given_to_it_reach_the_program(libc):
    with Launch(libc, 60, variables={"FREEHOLD_OPTIONS": "x"}) as launch:
        assert b"FREEHOLD_OPTIONS=x\n" in launch.program("env")
        assert launch.program("cat", give="text") == b"text"


def test_system_calls_are_counted(libc):
    program = "import mmap\nfor _ in range(300): mmap.mmap(-1, 4096).close()"
    counts = costs_of(libc, sys.executable, "-c", program, how=Counted)
    assert counts["mmap"] > 300 and counts["munmap"] > 300 and counts["calls"] > 600


def test_a_summary_of_strace_is_read():
    assert read_counts(
        "  calls syscall\n--------- ----\n       12 mmap\n        3 brk\n        7 read\n"
        "       22 total\n") == {"calls": 15, "system_calls": 22, "mmap": 12, "munmap": 0,
                                "mremap": 0, "madvise": 0, "brk": 3}


def test_orphans_that_left_the_group_are_ended_and_the_folder_is_gone(libc):
    with Launch(libc, 60) as launch:
        launch.program("sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & exit 0")
        folder = launch.folder
    sleeping = [pid for pid in descendants(os.getpid()) if "sleep" in command_of(pid)]
    assert not sleeping and not folder.exists()


def command_of(pid):
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True,
                          text=True).stdout


def test_a_command_that_is_missing_is_named(libc):
    message = "no-such-program: exit code 125: .*No such file"
    with Launch(libc, 60) as launch, pytest.raises(Failed, match=message):
        launch.program("no-such-program")


SERVER = """
import signal, socket, sys, time
leave = lambda *_: sys.exit(int(sys.argv[2]))
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "stay" else leave)
if sys.argv[1]:
    there = socket.socket(socket.AF_UNIX)
    there.bind(sys.argv[1])
    there.listen()
    time.sleep(1000)
print("no room left", flush=True)
sys.exit(4)
"""


def serve(libc, code, path="there", limit=60):
    with Launch(libc, limit) as launch:
        with launch.server(sys.executable, "-c", SERVER, path, code,
                           is_ready=lambda: (launch.folder / "there").exists()):
            launch.client("true")
        return launch.costs


def test_a_server_is_measured_until_it_ends_as_it_is_told_to(libc):
    costs = serve(libc, "0")
    assert costs["peak"] > 1 << 20 and costs["mapped"]


def test_a_server_that_ends_with_an_error_is_told(libc):
    with pytest.raises(Failed, match="exit code 3"):
        serve(libc, "3")


def test_a_server_that_ends_before_it_is_ready_is_told(libc):
    with pytest.raises(Failed, match="ended before it was ready: exit code 4: no room left"):
        serve(libc, "0", path="")


def test_a_server_that_does_not_end_is_ended(libc):
    with pytest.raises(Failed, match="does not end when told to"):
        serve(libc, "stay", limit=3)


def test_endings_have_words():
    assert (ended(-9), ended(139), ended(3)) == ("killed by SIGKILL", "killed by SIGSEGV",
                                                 "exit code 3")


TRACE = """\
10 brk(NULL)                         = 0x5000
10 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000
10 mmap(NULL, 20000, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f1000000000
10 munmap(0x7f1000000000, 20000)     = 0
10 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f1000001000
10 munmap(0x7f1000001000, 8192)      = 0
10 brk(0x9000)                       = 0x9000
11 mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0 <unfinished ...>
10 madvise(0x7f0000000000, 4096, MADV_DONTNEED) = 0
11 <... mmap resumed>)               = 0x7f2000000000
10 madvise(0x7f0000000000, 8192, MADV_HUGEPAGE) = 0
10 mremap(0x7f0000000000, 8192, 16384, MREMAP_MAYMOVE) = 0x7f3000000000
10 mmap(NULL, 1099511627776, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = -1 ENOMEM (Cannot ...)
11 munmap(0x7f2000000000, 4096)      = 0
10 brk(0x7000)                       = 0x7000
11 +++ exited with 0 +++
"""


def test_bytes_that_are_asked_and_released_are_summed_from_a_trace():
    assert read_mappings(TRACE) == {
        "calls": 12, "mmap": 4, "munmap": 2, "mremap": 1, "madvise": 2, "brk": 3,
        "asked": 8192 * 2 + 4096 + 16384 + 0x4000, "released": 8192 * 2 + 4096 + 0x2000,
        "difference": 16384 + 0x2000, "advised": 4096}


PROGRAM = """#include <sys/mman.h>
int main(int count, char **words) {
  (void)words;
  char *p = mmap(0, 40960, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return count > 1 ? munmap(p, 12288) : 0;
}
"""


def test_a_program_that_unmaps_more_is_told_from_one_that_does_not(tmp_path, libc):
    (tmp_path / "maps.c").write_text(PROGRAM)
    subprocess.run(["cc", "-o", tmp_path / "maps", tmp_path / "maps.c"], check=True)
    found = []
    for words in ([], ["more"]):
        with Mapped(libc, 30) as started:
            started.program(tmp_path / "maps", *words)
            found.append(started.costs)
    assert found[1]["munmap"] - found[0]["munmap"] == 1
    assert found[1]["released"] - found[0]["released"] == 12288
    assert found[1]["asked"] == found[0]["asked"] >= 40960
