"""What the built library is held to: which symbols it needs, which instructions it has, what its
paths call and how deep."""
import collections
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph  # noqa: E402
import support  # noqa: E402

GOLDEN = os.path.join("test", "gates", "golden.txt")
ALLOWED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allowed_symbols.txt")

CROSS = re.fullmatch(r"(.*-linux-gnu\w*-)gcc", support.COMPILER)
OBJDUMP = CROSS[1] + "objdump" if CROSS else "objdump"

def allowed():
    """The names that the list allows, and those of them that are the compiler's affair."""
    with open(ALLOWED) as file:
        lines = [line.strip() for line in file if line.strip()]
    last = max(i for i, line in enumerate(lines) if line.startswith("#"))
    return {line for line in lines if not line.startswith("#")}, set(lines[last + 1:])

def names_of(command):
    result = support.run(command)
    assert result.returncode == 0, result.stderr
    return {line.split()[-1].split("@")[0] for line in result.stdout.splitlines() if line.strip()}

def symbols(*flags):
    return names_of(["nm", "-D", *flags, support.LIBRARY])

def needed():
    """By the library, and by the object that programs link."""
    return symbols("-u") | names_of(["nm", "-u", support.OBJECT])

def disassembly():
    result = support.run([OBJDUMP, "-d", "--no-show-raw-insn", support.LIBRARY], timeout=120)
    assert result.returncode == 0, result.stderr
    function = "?"
    for line in result.stdout.splitlines():
        head = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
        if head:
            function = head.group(1)
        elif "\t" in line:
            yield function, line.split("\t", 1)[1].strip()

def instructions_of(name, library=support.LIBRARY):
    """Those of one exported function, whatever other names its address has."""
    for line in support.run(["nm", "-DS", library]).stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3].split("@")[0] == name:
            start, size = int(fields[0], 16), int(fields[1], 16)
            text = support.run([OBJDUMP, "-d", "--no-show-raw-insn", "--start-address=%d" % start,
                                "--stop-address=%d" % (start + size), library]).stdout
            return [line.split("\t", 1)[1].strip()
                    for line in text.splitlines() if re.match(r"\s*[0-9a-f]+:\t", line)]
    return []

def instruction_names(name, library=support.LIBRARY):
    """As golden.txt has them."""
    return [re.match(r"(?:(?:bnd|lock|rep\w*) )*[\w.]+", i).group(0).replace(" ", "_")
            for i in instructions_of(name, library)]

def golden(compiler):
    """What golden.txt says of one compiler: function, names of its instructions."""
    lines = [line.split() for line in support.read(GOLDEN).splitlines() if line[:1] != "#"]
    return {words[1]: words[2:] for words in lines if words[0] == compiler}

def compiler_name():
    """As in golden.txt: x86_64:GNU-12."""
    said = support.run([support.COMPILER, "-dM", "-E", "-x", "c", os.devnull]).stdout
    macros = dict(re.findall(r"^#define (\w+) (\w+)$", said, re.M))
    if "__clang__" in macros:
        kind, version = "Clang", macros["__clang_major__"]
    else:
        kind, version = "GNU", macros.get("__GNUC__")
    machine = next(m for m in ("x86_64", "aarch64", "riscv", "s390x", "powerpc64")
                   if {"__%s__" % m, "__" + m} & set(macros))
    return "%s:%s-%s" % (machine, kind, version)

class Symbols(unittest.TestCase):
    WAITING = re.compile(r"mutex|rwlock|sem_|cond_|barrier|once|sched_yield|sleep|futex|poll$|"
                         r"select$|usleep|join")

    def test_it_takes_from_libc_only_what_the_list_allows(self):
        self.assertEqual(sorted(needed() - allowed()[0]), [])

    def test_the_list_allows_nothing_that_is_not_needed(self):
        names, of_compiler = allowed()
        self.assertEqual(sorted(names - of_compiler - needed()), [])

    def test_nothing_on_the_list_locks_sleeps_or_yields(self):
        self.assertEqual([s for s in sorted(allowed()[0] | needed()) if self.WAITING.search(s)], [])

    def test_it_exports_every_entry_point_and_nothing_else_of_its_own(self):
        exported = symbols("--defined-only")
        wanted = set("""
            malloc calloc realloc reallocarray free free_sized free_aligned_sized
            aligned_alloc posix_memalign memalign valloc pvalloc malloc_usable_size
            mallinfo mallinfo2 malloc_info malloc_stats malloc_trim mallopt cfree
            __libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign
            __libc_valloc __libc_pvalloc _Znwm _Znam _ZnwmRKSt9nothrow_t
            _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t
            _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv
            _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
            _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t
            _ZdaPvmSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t
            _ZdaPvSt11align_val_tRKSt9nothrow_t
            nallocx sdallocx malloc_size __size_returning_new __size_returning_new_hot_cold
            __size_returning_new_aligned __size_returning_new_aligned_hot_cold
            _Znwm12__hot_cold_t _Znam12__hot_cold_t _ZnwmRKSt9nothrow_t12__hot_cold_t
            _ZnamRKSt9nothrow_t12__hot_cold_t _ZnwmSt11align_val_t12__hot_cold_t
            _ZnamSt11align_val_t12__hot_cold_t _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t
            _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t""".split())
        header = support.read("include/freehold/freehold.h")
        wanted |= set(re.findall(r"^FH_API [^;]*?\b(fh_\w+)\(", header, re.M))
        self.assertEqual(sorted(wanted - exported), [])
        # the last is the linker's: it exports the ends of a section though they are hidden
        others = re.compile(r"fh_|FREEHOLD_1\.|__libc_|malloc_|__posix_memalign$|_Z|cfree$|dlopen$|"
                            r"_init$|_fini$|sdallocx|nallocx|__(start|stop)_freehold_layout$")
        foreign = [s for s in exported - wanted if not others.match(s)]
        self.assertEqual(foreign, [])

    def test_thread_local_storage_fits_the_spare_bytes_of_the_static_block(self):
        result = support.run(["readelf", "-lW", support.LIBRARY])
        found = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", result.stdout, re.M)
        self.assertTrue(found, "no thread-local segment")
        self.assertLessEqual(int(found.group(1), 16), 256)
        self.assertNotIn("__tls_get_addr", symbols("-u"))

class Order(unittest.TestCase):
    """The system maps 16 pages around the one that is touched. The list has the functions that most
    tools call first."""
    PAGES, MOST, PAGES_OF_ALL = 16, 100, 24

    @staticmethod
    def beyond(names, pages):
        """Of NAME.hot not what the compiler split off."""
        found = []
        result = support.run(["nm", "-S", "--defined-only", support.LIBRARY])
        for line in result.stdout.splitlines():
            match = re.search(r"^(\w+) (\w+) [tTwW] (\w+?)((?:\.[a-z]+\.?\d*)*)$", line)
            if not match or int(match[1], 16) + int(match[2], 16) <= pages * 4096:
                continue
            is_split_off = match[4].endswith(".cold")
            if match[3] in names or (f"{match[3]}.hot" in names and not is_split_off):
                found.append(line)
        return found

    def test_what_small_programs_execute_lies_in_the_first_sixteen_pages_or_soon_after(self):
        lines = re.findall(r"^\w+(?:\.hot)?", support.read("cmake/order.txt"), re.M)
        names = [line.split(".")[0] for line in lines]
        self.assertGreater(len(names), self.MOST)
        sources = "".join(support.read(path) for path in support.sources(".c", ".h"))
        self.assertEqual([n for n in sorted(names) if not re.search(rf"\b{n}\(", sources)], [])
        self.assertEqual(self.beyond(lines[:self.MOST], self.PAGES), [])
        self.assertEqual(self.beyond(lines, self.PAGES_OF_ALL), [])

    @unittest.skipIf(CROSS, "addresses are written as x86-64 has them")
    def test_what_they_read_of_constants_lies_before_them(self):
        names = set(re.findall(r"^(\w+)", support.read("cmake/order.txt"), re.M))
        sections = support.run(["readelf", "-SW", support.LIBRARY]).stdout
        start, size = (int(found, 16) for found in re.search(
            r" \.rodata +PROGBITS +(\w+) \w+ (\w+)", sections).groups())
        wrong = []
        for function, line in disassembly():
            read = re.search(r"\(%rip\).*# ([0-9a-f]+)", line)
            if (read and not line.startswith("lea") and start <= int(read[1], 16) < start + size
                    and function.split(".")[0] in names and not function.endswith(".cold")):
                wrong.append(f"{function}: {line}")
        self.assertEqual(wrong, [])

def defined_in(path):
    """How often an object defines each name, and how often as one of a variable, for its own use
    too. The compiler numbers a function's own variables and what it makes of a function."""
    names, variables = collections.Counter(), collections.Counter()
    for line in support.run(["nm", "--defined-only", path]).stdout.splitlines():
        _, kind, name = line.split()
        if not name.startswith("."):
            name = re.sub(r"\.[\w.]+$", "", name)
            names[name] += 1
            variables[name] += kind in "bBdD"
    return names, +variables

class Builds(unittest.TestCase):
    """The release build is one file, the checked build is many. What a file has in the one it has
    in the other."""
    maxDiff = None
    # tested before any header was read: what the build defines, and the compiler for each processor
    KNOWN_AT_ONCE = re.compile(r"_GNU_SOURCE|FH_SHARED|_WIN32|__x86_64__|__aarch64__|__riscv\w*|"
                               r"__(linux|APPLE|FreeBSD|ELF|i386|arm)__|"
                               r"__LP64__|__\w*_xlen|defined")

    @classmethod
    def setUpClass(cls):
        """`one`: what the release build defines; `each`: what all files do, one by one. Functions
        that nobody calls count too."""
        text = re.sub(r"#if FH_SECURE\n.*?#endif\n", "", support.read("src/all.c"), flags=re.S)
        order = re.findall(r'#\s*include\s+"([^"]+\.c)"', text)
        with tempfile.TemporaryDirectory() as folder:
            def start(source, target):
                return subprocess.Popen(
                    [support.COMPILER, *support.FLAGS, "-w", "-O0", "-fkeep-static-functions", "-c",
                     os.path.join("src", source), "-o", target], cwd=support.SOURCE)

            targets = {name: os.path.join(folder, name.replace("/", "_") + ".o")
                       for name in ["all.c", *order]}
            names = list(targets)
            for i in range(0, len(names), 4):
                running = [start(name, targets[name]) for name in names[i:i + 4]]
                assert [child.wait() for child in running] == [0] * len(running)
            cls.one = defined_in(targets.pop("all.c"))
            each = [defined_in(target) for target in targets.values()]
            cls.each = [sum(counts, collections.Counter()) for counts in zip(*each)]

    def test_both_libraries_export_the_same_names(self):
        self.assertEqual(
            sorted(symbols("--defined-only")
                   ^ names_of(["nm", "-D", "--defined-only", support.DEBUG_LIBRARY])), [])

    def test_the_files_one_by_one_define_what_the_one_file_defines(self):
        self.assertGreater(len(self.one[0]), 500)
        self.assertEqual(sorted(set(self.each[0]) ^ set(self.one[0])), [])

    def test_a_variable_is_there_as_often_in_the_one_as_in_the_other(self):
        """One that a header defines would be there once for each file, in the checked build."""
        self.assertGreater(len(self.one[1]), 30)
        self.assertEqual(self.each[1] - self.one[1], collections.Counter())

    def test_no_file_asks_for_a_name_of_a_header_before_it_includes_one(self):
        wrong = []
        for path in support.sources(".c", ".h"):
            text = re.sub(r"/\*.*?\*/", " ", support.read(path), flags=re.S)
            before = re.split(r"^ *# *include\b", text, maxsplit=1, flags=re.M)[0]
            defined = set(re.findall(r"# *define +(\w+)", before))
            for words in re.findall(r"^ *# *(?:el)?if(?:n?def)?\b(.*)", before, re.M):
                wrong += ["%s: %s" % (path, word) for word in re.findall(r"[A-Za-z_]\w*", words)
                          if word not in defined and not self.KNOWN_AT_ONCE.fullmatch(word)]
        self.assertEqual(wrong, [])

@unittest.skipUnless(compiler_name().startswith("x86_64"), "Windows runs on x86-64 here")
class Windows(unittest.TestCase):
    """The port is built and run by ./dev test-windows alone, and seldom. Here the compiler at hand
    says whether the rest of the library still finds in it what it asks for."""

    def test_what_the_library_asks_of_its_system_the_port_has(self):
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "all.o")
            result = support.run([support.COMPILER, *support.FLAGS, "-D_WIN32", "-D__declspec(x)=",
                                  "-DFH_SHARED", "-O1", "-Wall", "-Wextra", "-Werror",
                                  "-Wno-unused-function", "-Wno-maybe-uninitialized", "-c",
                                  os.path.join(support.SOURCE, "src", "all.c"), "-o", target])
            self.assertEqual(result.returncode, 0, result.stderr)
            asked = names_of(["nm", "-u", target])
        systems = {name for path in ("src/os/windows/nt.h", "src/api/windows.c") for name in
                   re.findall(r"^NT_CALL [^;(]*?\b(\w+)\(", support.read(path), re.M)}
        self.assertEqual(sorted(asked - systems - allowed()[0] - {"__ImageBase", "strcmp"}), [])

class Levels(unittest.TestCase):
    """The check levels of base/check.h: 0 release, 1 assertions, 2 invariants too."""
    VALID = re.compile(r"\w+_(?:is|are)_valid$")
    # They look at all of the process, which has to stand still: tests call them. What they ask of
    # each thing has a function of its own.
    OF_EVERYTHING = {"map_is_valid", "partial_is_valid", "guard_is_valid", "pool_is_valid",
                     "users_are_valid", "surplus_is_valid", "budget_is_valid", "span_is_valid"}

    @classmethod
    def setUpClass(cls):
        cls.graphs = [callgraph.of_release_build("-fno-inline", "-fno-ipa-icf",
                                                 "-fkeep-static-functions", "-DFH_CHECK=%d" % level)
                      for level in range(3)]
        if None in cls.graphs:
            raise unittest.SkipTest("the compiler writes no call graph")

    def looked_at(self, level):
        """The `*_is_valid` that something else calls, or one of these does."""
        graph = self.graphs[level]
        called = {callee for caller, callees in graph.calls.items()
                  if not self.VALID.match(caller) for callee in callees if self.VALID.match(callee)}
        return called | {name for name in graph.reached_from(called) if self.VALID.match(name)}

    def test_at_levels_0_and_1_nothing_looks_at_invariants(self):
        self.assertEqual(self.looked_at(0) | self.looked_at(1), set())

    def test_at_level_2_each_is_looked_at_where_a_call_leaves_state(self):
        there = {name for name in self.graphs[2].frames if self.VALID.match(name)}
        self.assertGreater(len(there), 12)
        self.assertEqual(there - self.looked_at(2), self.OF_EVERYTHING)

    def test_level_1_asserts_and_runs_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            for level in range(2):
                library = os.path.join(folder, "level%d.so" % level)
                subprocess.check_call([support.COMPILER, *support.FLAGS, "-DFH_CHECK=%d" % level,
                                       "-shared", "src/all.c", "-o", library], cwd=support.SOURCE)
                with open(library, "rb") as file:
                    self.assertEqual(b"assertion a.state ==" in file.read(), level == 1)
                result = support.run([support.program("limits_probe"), "mixed"],
                                     support.preloaded(library=library))
                self.assertEqual(result.returncode, 0, result.stderr)

class Instructions(unittest.TestCase):
    # x86-64; aarch64 (its barriers and ordered accesses too); riscv64
    LOCKED = re.compile(r"lock\b|xchg\s.*\(|"
                        r"(ld|st)\w*x[rp]\w*\b|cas|swp|ld(add|clr|set|eor)|ldar|stlr|dmb|"
                        r"(lr|sc|amo\w+)\.|fence")
    FRAME = re.compile(r"(bnd )?call|push|pop|.*%rsp|"
                       r"blr?\s|.*\bsp\b|"
                       r"jalr?\s+(ra,|[0-9a-f]+\b)")
    def test_nothing_spins(self):
        """No pause (or its kin on other processors): nobody has a reason to wait politely."""
        wrong = sorted({f for f, i in disassembly() if re.match(
            r"(rep nop|pause|tpause|umwait|umonitor|yield|isb|wfe|hlt)\b", i)})
        self.assertEqual(wrong, [])

    def test_malloc_and_free_have_no_locked_instruction(self):
        """The hot parts; what is out of line has its own name."""
        for name in ("malloc", "free"):
            body = instructions_of(name)
            self.assertTrue(body, name + " is not there")
            self.assertEqual([i for i in body if self.LOCKED.match(i)], [])
            self.assertLess(len(body), 120)

    def test_malloc_and_free_have_no_frame_and_leave_by_jumps(self):
        """What is slow is jumped to, and returns to the program at once."""
        for name in ("malloc", "free", "calloc", "fh_malloc", "fh_free", "aligned_alloc"):
            body = instructions_of(name)
            self.assertTrue(body, name + " is not there")
            self.assertEqual([i for i in body if self.FRAME.match(i)], [])

    def test_malloc_free_and_their_kin_have_the_instructions_of_the_golden_file(self):
        """By their names, in their order. Where that is to change, the new line goes there."""
        wanted = golden(compiler_name())
        if not wanted:
            self.skipTest("no line for %s" % compiler_name())
        self.assertEqual(list(wanted), ["malloc", "free", "calloc", "realloc", "aligned_alloc",
                                        "_Znwm", "_ZdlPv"])
        for name, names in wanted.items():
            now = instruction_names(name)
            self.assertEqual(now, names, "now: %s %s %s" % (compiler_name(), name, " ".join(now)))

class Probes(unittest.TestCase):
    """systemtap-sdt-dev has the header; ./dev test installs it before it builds."""

    def test_tracers_find_every_probe_in_the_library(self):
        notes = support.run(["readelf", "-nW", support.LIBRARY]).stdout
        found = set(re.findall(r"Provider: freehold\s+Name: (\w+)", notes))
        named = set(re.findall(r"^ \*   freehold:(\w+) ", support.read("src/base/probe.h"), re.M))
        self.assertEqual(found, named)
        self.assertEqual(len(named), 5)

class Paths(unittest.TestCase):
    """Every path from malloc, free and their kin, by the compiler's own call graph
    of the release build."""
    ENTRIES = """
        malloc calloc realloc reallocarray free free_sized free_aligned_sized
        aligned_alloc posix_memalign memalign valloc pvalloc malloc_usable_size fh_expand
        fh_calloc_aligned fh_realloc_aligned fh_realloc_zeroed fh_calloc_at_least fh_strdup
        fh_strndup fh_malloc_batch fh_free_batch sdallocx nallocx
        fh_heap_malloc fh_heap_calloc fh_heap_aligned_alloc fh_heap_realloc""".split()
    # Where calls through pointers lead. A function of the program's own (callbacks) and libc's own
    # malloc lead nowhere here.
    TARGETS = {
        "free_unchained": ["heap_free_slow", "api_free_slow", "free_sized_slow",
                           "free_aligned_sized_slow", "sdallocx_slow", "free_batch_slow"],
        "try_each": ["slices_claim", "grow_claim"],
        "api_error": [],
        "os_backtrace": [],
        "cfi_step": ["read_stack"],
        "step_by_table": ["read_stack"],
        "evaluate": ["read_stack"],
        "value_of": ["read_stack"],
        "api_profile_write": ["write_heap"],
        "write_stacks": ["write_stack"],
        "os_each_image": ["write_mapping"],
        "api_output": [],
        "sample_begin": ["write_on_growth"],
        "call_for": ["api_sampled"],
        "api_sampled": [],
        "api_deferred": [],
        "api_report_news": [],
        "free_small": ["collect_slab"],
        "index_each": ["free_block"],
        "api_foreign_free": [],
        "api_foreign_size": [],
    }
    # A call that is sampled needs more: freehold.h says how much, with that of os_backtrace.
    SAMPLED = ["sample_begin", "sample_end", "guard_malloc", "guard_free"]
    SAMPLED += ["find_code"]  # and a free that goes to a ring
    # So does a call that an option sees (closed.c).
    CLOSED = ["api_closed_" + name for name in "allocate realloc free".split()]
    # A free that finds its first-class heap destroyed meanwhile ends the lane: 1,112 bytes in all.
    ENDED = ["end_lane"]
    NEVER_RETURNS = ["fatal", "heap_refuse_pointer", "report_and_die"]
    # reads the options, once; most often the loader has called it
    FIRST_USE = "api_start_now"
    STACK_LIMIT, CLOSED_LIMIT, FIRST_USE_LIMIT = 1024, 2048, 6 * 1024
    # What they may call of libc: it neither locks nor waits. pthread_key_create does not lock in
    # glibc (promises, section 1).
    OUTSIDE = set("""
        memcpy memmove memset memchr memcmp strchr strlen strncmp strrchr clock_gettime
        getauxval __errno_location __popcountdi2 pthread_setspecific pthread_key_create
        pthread_key_delete""".split())

    @classmethod
    def setUpClass(cls):
        cls.graph = callgraph.of_release_build()
        if cls.graph is None:
            raise unittest.SkipTest("the compiler writes no call graph")
        for name in cls.NEVER_RETURNS:
            cls.graph.forget(name)
        cls.graph.connect(cls.TARGETS)

    def depths(self, limit):
        """The deepest path of each entry point that passes the limit, as text;
        prints the deepest of all."""
        found = sorted((self.graph.deepest(entry) for entry in self.ENTRIES),
                       reverse=True)
        text = ["%d bytes: %s" % (depth, " > ".join("%s %d" % (f, self.graph.frame(f))
                                                    for f in path)) for depth, path in found]
        print("\n" + text[0])
        return [line for line, (depth, _) in zip(text, found) if depth > limit]

    def leave_out(self, *names):
        for name in names:
            self.addCleanup(self.graph.calls.__setitem__, name, self.graph.calls.pop(name))

    def test_every_entry_point_is_in_the_graph(self):
        self.assertEqual([name for name in self.ENTRIES if name not in self.graph.frames], [])

    def test_it_is_known_where_each_indirect_call_leads(self):
        reached = self.graph.reached_from(self.ENTRIES) - self.graph.reached_from([self.FIRST_USE])
        self.assertEqual(sorted(name for name in reached
                                if callgraph.INDIRECT in self.graph.calls.get(name, ())), [])

    def test_functions_call_each_other_in_a_ring_only_where_a_mark_ends_it(self):
        reached = self.graph.reached_from(self.ENTRIES)
        self.assertEqual(
            [ring for ring in self.graph.rings() if reached.intersection(ring)], [])

    def test_no_frame_has_a_size_known_only_at_run_time(self):
        self.assertEqual(self.graph.dynamic, [])

    def test_the_stack_of_any_path_stays_below_a_kibibyte(self):
        self.leave_out(self.FIRST_USE, *self.SAMPLED, *self.CLOSED, *self.ENDED)
        self.assertEqual(self.depths(self.STACK_LIMIT), [])

    def test_the_stack_of_a_call_that_an_option_sees_stays_below_two(self):
        self.leave_out(self.FIRST_USE, *self.SAMPLED)
        self.assertEqual(self.depths(self.CLOSED_LIMIT), [])

    def test_the_first_use_of_all_stays_below_six(self):
        self.assertEqual(self.depths(self.FIRST_USE_LIMIT), [])

    def test_what_they_call_of_libc_neither_locks_nor_waits(self):
        outside = self.graph.reached_from(self.ENTRIES) - set(self.graph.frames) - {
            callgraph.INDIRECT}
        self.assertEqual(sorted(outside - self.OUTSIDE), [])
        self.assertEqual(sorted(self.OUTSIDE - outside), [])

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
