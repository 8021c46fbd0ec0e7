"""What the built library is held to: which symbols it needs, which instructions it has, how much stack it takes."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

ALLOWED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allowed_symbols.txt")
FRAME_LIMIT = 512


def allowed():
    with open(ALLOWED) as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


def symbols(*flags):
    result = support.run(["nm", "-D", *flags, support.LIBRARY])
    assert result.returncode == 0, result.stderr
    return {line.split()[-1].split("@")[0] for line in result.stdout.splitlines() if line.strip()}


def disassembly():
    result = support.run(["objdump", "-d", "--no-show-raw-insn", support.LIBRARY], timeout=120)
    assert result.returncode == 0, result.stderr
    function = "?"
    for line in result.stdout.splitlines():
        head = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
        if head:
            function = head.group(1)
        elif "\t" in line:
            yield function, line.split("\t", 1)[1].strip()


def instructions_of(name):
    """Those of one exported function, whatever other names its address has."""
    for line in support.run(["nm", "-DS", support.LIBRARY]).stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3].split("@")[0] == name:
            start, size = int(fields[0], 16), int(fields[1], 16)
            text = support.run(["objdump", "-d", "--no-show-raw-insn", "--start-address=%d" % start,
                                "--stop-address=%d" % (start + size), support.LIBRARY]).stdout
            return [line.split("\t", 1)[1].strip() for line in text.splitlines() if re.match(r"\s*[0-9a-f]+:\t", line)]
    return []


class Symbols(unittest.TestCase):
    WAITING = re.compile(r"mutex|rwlock|sem_|cond_|barrier|once|sched_yield|sleep|futex|poll$|select$|atfork|usleep|join")

    def test_it_takes_from_libc_only_what_the_list_allows(self):
        self.assertEqual(sorted(symbols("-u") - allowed()), [])

    def test_nothing_on_the_list_locks_sleeps_or_yields(self):
        self.assertEqual([s for s in sorted(allowed() | symbols("-u")) if self.WAITING.search(s)], [])

    def test_it_exports_every_entry_point_and_nothing_else_of_its_own(self):
        exported = symbols("--defined-only")
        wanted = set("""malloc calloc realloc reallocarray free free_sized free_aligned_sized aligned_alloc posix_memalign memalign
            valloc pvalloc malloc_usable_size mallinfo mallinfo2 malloc_info malloc_stats malloc_trim mallopt cfree
            __libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign __libc_valloc __libc_pvalloc
            _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t
            _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
            _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
            _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t""".split())
        header = support.read("include/freehold/freehold.h")
        wanted |= set(re.findall(r"^FH_API [^;]*?\b(fh_\w+)\(", header, re.M))
        self.assertEqual(sorted(wanted - exported), [])
        foreign = [s for s in exported - wanted if not re.match(r"fh_|__libc_|malloc_|__posix_memalign$|_Z|cfree$|dlopen$|_init$|_fini$|sdallocx|nallocx", s)]
        self.assertEqual(foreign, [])

    def test_thread_local_storage_fits_the_spare_bytes_of_the_static_block(self):
        result = support.run(["readelf", "-lW", support.LIBRARY])
        found = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", result.stdout, re.M)
        self.assertTrue(found, "no thread-local segment")
        self.assertLessEqual(int(found.group(1), 16), 256)
        self.assertNotIn("__tls_get_addr", symbols("-u"))


class Instructions(unittest.TestCase):
    def test_nothing_spins(self):
        """No pause (or its kin on other processors): nobody has a reason to wait politely."""
        wrong = sorted({f for f, i in disassembly() if re.match(r"(rep nop|pause|tpause|umwait|umonitor|yield|isb|wfe|hlt)\b", i)})
        self.assertEqual(wrong, [])

    def test_malloc_and_free_have_no_locked_instruction(self):
        """The hot parts; what is out of line has its own name."""
        for name in ("malloc", "free"):
            body = instructions_of(name)
            self.assertTrue(body, name + " is not there")
            self.assertEqual([i for i in body if re.match(r"lock\b|xchg\s.*\(", i)], [])
            self.assertLess(len(body), 120)


class Stack(unittest.TestCase):
    """A bound on the stack of a whole path is hard to sum; each function's own frame is checked instead, and none may
    take a frame whose size is only known at run time. The deepest chain of frames of a call graph without recursion is
    printed for the reader."""

    def test_every_frame_is_small_and_of_constant_size(self):
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "all.o")
            subprocess.run([support.COMPILER, "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-fstack-usage", "-w", "-c", "src/all.c", "-o", target],
                           cwd=support.SOURCE, check=True)
            usage = [name for name in os.listdir(folder) if name.endswith(".su")]
            if not usage:
                self.skipTest("the compiler writes no stack usage")
            frames = []
            with open(os.path.join(folder, usage[0])) as file:
                for line in file:
                    where, size, kind = line.rstrip("\n").split("\t")
                    frames.append((int(size), where.split(":")[-1], where.split(":")[0], kind))
        frames.sort(reverse=True)
        print("\nlargest frames:", ", ".join("%s %d" % (name, size) for size, name, _, _ in frames[:6]))
        # Statistics, options and reports are no path of an allocation; they run once or on demand.
        on_demand = re.compile(r"src/(support|api)/(?!malloc\.c)|heap/(stats|visit)\.c|include/")
        for_statistics = {"os_resident"}
        self.assertEqual(["%s: %d bytes (%s)" % (name, size, path) for size, name, path, _ in frames
                          if size > FRAME_LIMIT and not on_demand.search(path) and name not in for_statistics], [])
        self.assertEqual([name for _, name, _, kind in frames if kind.startswith("dynamic") and "bounded" not in kind], [])


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
