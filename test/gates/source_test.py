"""What the sources are held to: layers, atomics, comments that are true, sizes, layout."""
import collections
import concurrent.futures
import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph  # noqa: E402
import support  # noqa: E402

LAYERS = ["base", "os", "support", "arena", "slab", "stock", "heap", "secure", "api"]  # bottom up
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

def core_sources():
    return list(support.sources(".c", ".h", ".cc"))

def code_of(text):
    """The text without comments and without what stands between quotes."""
    return TOKEN.sub(lambda m: " " + "\n" * m.group(0).count("\n") if m.group(0)[0] == "/"
                     else '""', text)

def comments_of(text):
    for m in TOKEN.finditer(text):
        if m.group(0)[0] == "/":
            yield text.count("\n", 0, m.start()) + 1, m.group(0)

def layer_of(path):
    parts = path.split(os.sep)
    return LAYERS.index(parts[1]) if len(parts) > 2 and parts[1] in LAYERS else None

class Layers(unittest.TestCase):
    def test_every_file_stands_in_a_layer(self):
        wrong = [p for p in core_sources() if layer_of(p) is None
                 and os.path.basename(p) != "all.c"]
        self.assertEqual(wrong, [])

    def test_a_folder_includes_only_itself_and_folders_below(self):
        wrong = []
        for path in core_sources():
            mine = layer_of(path)
            if mine is None:
                continue
            for included in re.findall(r'#\s*include\s+"([^"]+)"', support.read(path)):
                target = os.path.normpath(os.path.join(os.path.dirname(path), included))
                theirs = layer_of(target)
                is_header_of_ours = target.startswith(os.path.join("include", "freehold"))
                if (theirs is None and not (is_header_of_ours and mine == LAYERS.index("api"))
                        and not (is_header_of_ours and mine == LAYERS.index("heap"))):
                    wrong.append("%s includes %s" % (path, included))
                elif theirs is not None and theirs > mine:
                    wrong.append("%s includes %s, which is above it" % (path, included))
        self.assertEqual(wrong, [])

    def test_only_the_layer_that_is_ported_names_files_of_the_kernel(self):
        named = {path for path in core_sources()
                 if re.search(r'"/(?:proc|sys|dev)\b', support.read(path))}
        self.assertGreater(len(named), 2)
        self.assertEqual([p for p in named if layer_of(p) != LAYERS.index("os")], [])

    def test_the_one_file_includes_every_source_bottom_up(self):
        order = [os.path.normpath(os.path.join("src", p))
                 for p in re.findall(r'#\s*include\s+"([^"]+\.c)"', support.read("src/all.c"))]
        layers = [layer_of(p) for p in order]
        self.assertEqual(layers, sorted(layers))
        missing = [p for p in core_sources() if p.endswith(".c") and p != "src/all.c"
                   and p not in order]
        self.assertEqual(missing, [])

    def test_the_build_names_sources_that_there_are(self):
        """CMake says nothing of a flag for a file that has gone."""
        names = [name for path in ("CMakeLists.txt", os.path.join("cmake", "on-windows.cmake"))
                 for name in re.findall(r"\bsrc/[\w/]+\.[ch]\b", support.read(path))]
        self.assertGreater(len(names), 5)
        self.assertEqual([n for n in names
                          if not os.path.exists(os.path.join(support.SOURCE, n))], [])

    def test_no_object_calls_upward(self):
        """Compiled file by file, no object needs a symbol that a layer above defines."""
        wrong = ["%s uses %s of %s" % (user, name, where) for user, names in objects().items()
                 for name, where in names.items() if layer_of(where) > layer_of(user)]
        self.assertEqual(wrong, [])

@functools.lru_cache(maxsize=None)
def objects(check=0, secure=0):
    """Each source, compiled by itself: the symbols that it needs of others, and whose they are."""
    sources = [path for path in core_sources() if path.endswith(".c") and path != "src/all.c"]
    defined, needed = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        targets = {path: os.path.join(folder, path.replace(os.sep, "_") + ".o") for path in sources}
        for i in range(0, len(sources), 4):
            running = [subprocess.Popen(
                [support.COMPILER, "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-O0", "-w",
                 "-DFH_CHECK=%d" % check, "-DFH_SECURE=%d" % secure, "-c", path,
                 "-o", targets[path]], cwd=support.SOURCE) for path in sources[i:i + 4]]
            assert [child.wait() for child in running] == [0] * len(running)
        for path, target in targets.items():
            for line in support.run(["nm", target]).stdout.splitlines():
                *_, kind, name = line.split()
                if kind == "U":
                    needed.setdefault(path, []).append(name)
                elif kind in "TDBRVW":
                    defined.setdefault(name, path)
    return {path: {name: defined[name] for name in needed.get(path, []) if name in defined}
            for path in sources}

class Rings(unittest.TestCase):
    """No two objects need each other's symbols, be it by way of others."""

    @staticmethod
    def in_rings(needs):
        def reached_from(path):
            reached, todo = set(), [path]
            while todo:
                for other in set(needs.get(todo.pop(), ())) - reached:
                    reached.add(other)
                    todo.append(other)
            return reached

        return sorted(path for path in needs if path in reached_from(path))

    def check(self, check, secure):
        needs = {path: set(used.values()) - {path}
                 for path, used in objects(check, secure).items()}
        self.assertGreater(sum(map(len, needs.values())), 100)
        self.assertEqual(self.in_rings(needs), [])

    def test_no_objects_call_each_other_in_a_ring(self):
        self.check(0, 0)

    def test_nor_do_those_with_checks(self):
        self.check(2, 0)

    def test_nor_do_those_of_the_secure_grade(self):
        self.check(2, 1)

    def test_a_ring_of_three_is_found(self):
        self.assertEqual(self.in_rings({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}),
                         ["a", "b", "c"])

def head_of(path):
    """The contract at the head of a file, in one line."""
    text = support.read(path)
    return re.sub(r"\s*\n \* *", " ", text[:text.index("*/")])

def contract_of(path):
    """The file in which its contract stands."""
    found, folder = re.search(r"Contract: (\w+\.h)", head_of(path)), os.path.dirname(path)
    if found and not os.path.exists(os.path.join(support.SOURCE, folder, found.group(1))):
        folder = os.path.dirname(folder)                   # os.h stands above a port's folder
    return os.path.join(folder, found.group(1)) if found else path

class Calls(unittest.TestCase):
    """The line `Calls:` of a file's contract, or of the header in which that stands, names each
    layer below that it uses, or a file of it, and no other. Base, which everyone uses, need not be
    named, nor files of the same layer; but those that are, are used."""
    maxDiff = None

    @staticmethod
    def line_of(path):
        """What is called, as the contract says; None if there is no such line."""
        found = re.search(r"Calls: *(.*?)\.? *(?: [A-Z]\w+( by)?:|$)", head_of(path))
        return found.group(1) if found else None

    @staticmethod
    def named(line, stems):
        """The layers and files among the words: x.c is a file, a layer's name is the layer."""
        words = re.findall(r"[a-z_]+(?:\.[ch])?", line)
        return [word for word in words if word in LAYERS or word.split(".")[0] in stems]

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def inline():
        """The functions and macros of each header."""
        return {path: set(re.findall(r"^static [^;{}=]*?(\w+)\(|^#define (\w+)",
                                     code_of(support.read(path)), re.M))
                for path in core_sources() if path.endswith(".h")}

    @classmethod
    def used(cls, path):
        """Files whose symbols it needs, or of which it uses what is inline."""
        words = set(re.findall(r"\w+", code_of(support.read(path))))
        return set(objects()[path].values()) - {path} | {
            header for header, names in cls.inline().items()
            if words & {a or b for a, b in names}}

    @classmethod
    def mistakes(cls, words, used, mine):
        """What is named and not used, and layers below that are used and not named."""
        names = {word: word.split(".")[0] for word in words}
        stems = {os.path.splitext(os.path.basename(p))[0] for p in used}
        layers = {LAYERS[layer_of(p)] for p in used}
        for word, stem in names.items():
            if stem not in stems and not (word in LAYERS and word in layers):
                yield "%s is named and not used" % word
        named = {LAYERS[layer_of(p)] for p in used
                 if os.path.splitext(os.path.basename(p))[0] in names.values()} | set(words)
        for layer in sorted(layers - named):
            if 0 < LAYERS.index(layer) < mine:
                yield "%s is used and not named" % layer

    def test_each_contract_names_what_the_file_calls(self):
        stems = {os.path.splitext(os.path.basename(p))[0] for p in core_sources()}
        by_contract = {}
        for path in objects():
            by_contract.setdefault(contract_of(path), []).append(path)
        wrong = []
        for key, paths in by_contract.items():
            line = self.line_of(key)
            if line is None:
                wrong.append("%s: no such line" % key)
                continue
            used = set().union(*map(self.used, paths)) - set(paths)
            wrong += ["%s: %s" % (key, m)
                      for m in self.mistakes(self.named(line, stems), used, layer_of(key))]
        self.assertGreater(len(by_contract), 20)
        self.assertEqual(wrong, [])

    def test_a_false_line_is_found(self):
        used = {"src/os/os.h", "src/arena/purge.c", "src/heap/free.c"}
        heap = LAYERS.index("heap")
        self.assertEqual(list(self.mistakes(["os", "purge", "free"], used, heap)), [])
        self.assertEqual(list(self.mistakes(["arena", "os"], used, heap)), [])
        self.assertEqual(list(self.mistakes(["arena", "os", "slab"], used, heap)),
                         ["slab is named and not used"])
        self.assertEqual(list(self.mistakes(["os"], used, heap)), ["arena is used and not named"])

class CalledBy(unittest.TestCase):
    """The line `Called by:` is that of `Calls:` turned round. It names each layer above that uses
    what the contract is for, or its files that do; and whatever it names, does. The file's own
    layer need not be named. But if files of it are, all of them are that call. Who is outside the
    sources stands there by other words."""
    maxDiff = None
    ALL = re.compile(r"\b(everyone|every layer above|all above)\b")
    VARIABLE = r"^(?!static|typedef|extern|return|[# ])[\w ]+ \*?(\w+)(?:\[[^;]*| (?:=|__)[^;]*)?;"

    @staticmethod
    def line_of(path):
        found = re.search(r"Called by: *(.*?)\.? *(?: [A-Z]\w+:|$)", head_of(path))
        return found.group(1) if found else None

    @classmethod
    @functools.lru_cache(maxsize=None)
    def names(cls, path):
        """What a header declares, or a source defines for others."""
        code = code_of(support.read(path))
        if path.endswith(".h"):
            declared = re.findall(r"^(?:_Noreturn |extern )*hidden [^;{}=]*?\b(\w+)"
                                  r"(?:\[[^;]*|\([^;]*| __[^;]*)?;", code, re.M)
            enums = " ".join(re.findall(r"\benum \{(.*?)\}", code, re.S))
            return {*declared, *re.findall(r"\b[A-Z]\w+", enums),
                    *(a or b for a, b in Calls.inline()[path])}
        functions = re.findall(r"^(?!static|typedef|extern|[# ])[\w *]*?\b(\w+)\([^;{}]*\) \{",
                               code, re.M)
        return {*functions, *re.findall(cls.VARIABLE, code, re.M)} - {"__attribute__"}

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def words(path):
        return set(re.findall(r"\w+", code_of(support.read(path))))

    @staticmethod
    def are_two_ports(*paths):
        """Each port has its own of the same names: src/os/NAME/call.h."""
        ports = {path.split(os.sep)[2] for path in paths if path.count(os.sep) == 3
                 and layer_of(path) == LAYERS.index("os")}
        return len(ports) == len(paths) == 2

    @classmethod
    def mistakes(cls, line, words, users, due, mine):
        """What is named and calls nothing; of the users, those due that are not named."""
        def names(word, path):
            """heap.c is a file, heap may be a layer."""
            stem = os.path.splitext(os.path.basename(path))[0]
            return word.split(".")[0] == stem or word == LAYERS[layer_of(path)]
        for word in words:
            if not any(names(word, path) for path in users):
                yield "%s is named and calls nothing" % word
        named = {path for path in users | due if any(names(word, path) for word in words)}
        least = mine + (mine not in map(layer_of, named))
        for path in sorted(due - named):
            if layer_of(path) >= least and not cls.ALL.search(line):
                yield "%s calls and is not named" % path

    def test_each_contract_names_who_calls(self):
        paths = [p for p in core_sources() if layer_of(p) is not None]
        stems = {os.path.splitext(os.path.basename(p))[0] for p in paths}
        declared = set().union(*(self.names(p) for p in paths if p.endswith(".h")))
        by_contract, wrong = {}, []
        for path in paths:
            by_contract.setdefault(contract_of(path), []).append(path)
        for key, mine in by_contract.items():
            line = self.line_of(key)
            if line is None:
                wrong.append("%s: no such line" % key)
                continue
            names, own = set().union(*map(self.names, mine)), None
            headers = [p for p in mine if p.endswith(".h")]
            if headers:                    # what another's declares is called by way of that one
                own = names - (declared - set().union(*map(self.names, headers)))
            # who defines the same, or declares it, does not call it
            users, due = ({p for p in paths if p not in mine and self.words(p) & some
                           and not self.are_two_ports(p, key)
                           and not (own is None and self.names(p) & some)}
                          for some in (names, names if own is None else own))
            wrong += ["%s: %s" % (key, m) for m in self.mistakes(
                line, Calls.named(line, stems), users, due, layer_of(key))]
        self.assertGreater(len(by_contract), 50)
        self.assertEqual(wrong, [])

    def test_a_false_line_is_found(self):
        def found(line, *words):
            users = {"src/heap/free.c", "src/stock/large.c", "src/arena/purge.c",
                     "src/arena/added.c"}
            return list(self.mistakes(line, words, users, users, LAYERS.index("arena")))

        self.assertEqual(found("stock, heap", "stock", "heap"), [])
        self.assertEqual(found("large.c, heap", "large.c", "heap"), [])
        self.assertEqual(found("everyone"), [])
        self.assertEqual(found("stock, heap, api", "stock", "heap", "api"),
                         ["api is named and calls nothing"])
        self.assertEqual(found("stock", "stock"), ["src/heap/free.c calls and is not named"])
        self.assertEqual(found("stock, heap.c", "stock", "heap.c"),
                         ["heap.c is named and calls nothing",
                          "src/heap/free.c calls and is not named"])
        self.assertEqual(found("purge.c, stock, heap", "purge.c", "stock", "heap"),
                         ["src/arena/added.c calls and is not named"])

class Dead(unittest.TestCase):
    """What a header declares is used somewhere in the sources or the command, if only by the file
    that defines it: then tests call it. A check may be the tests' alone."""

    @staticmethod
    def unused(declared, codes):
        """Names that stand in no more places than they are declared and defined in."""
        counts = collections.Counter(word for code in codes for word in re.findall(r"\w+", code))
        defined = collections.Counter(name for code in codes for name in re.findall(
            r"^(?!static|typedef|extern|[# ])[\w *]*?\b(\w+)\([^;{}]*\) \{", code, re.M))
        return sorted(n for n in declared if counts[n] <= 1 + defined[n]
                      and not n.endswith(("is_valid", "are_valid")))

    def test_each_function_that_a_header_shows_is_used(self):
        headers = [p for p in core_sources() if p.endswith(".h")]
        codes = [code_of(support.read(p)) for p in
                 [*core_sources(), *support.sources(".c", ".h", folder="tools")]]
        declared = {name for path in headers for name in re.findall(
            r"^(?:_Noreturn |cold )*hidden [^;{}=()]*?\b(\w+)\(|"
            r"^static (?:always_)?inline [^;{}=()]*?\b(\w+)\(", code_of(support.read(path)), re.M)
            for name in name if name}
        self.assertGreater(len(declared), 300)
        self.assertEqual(self.unused(declared, codes), [])

    def test_one_that_is_not_used_is_found(self):
        codes = ["hidden int f(int n);\nhidden int g(int n);",
                 "int f(int n) {\n}\nint g(int n) {\n}", "g(1);"]
        self.assertEqual(self.unused({"f", "g"}, codes), ["f"])

class Atomics(unittest.TestCase):
    maxDiff = None

    def test_they_stand_in_base_atomic_h_alone(self):
        wrong = []
        pattern = re.compile(
            r"__atomic_\w+|__sync_\w+|_Atomic\b|\bstdatomic\b|"
            r"\batomic_(?:load|store|fetch_\w+|compare_exchange\w*|exchange|thread_fence)\s*\(|"
            r"\bvolatile\b[^;]*\basm\b.*lock")
        for path in core_sources():
            if path == os.path.join("src", "base", "atomic.h"):
                continue
            for number, line in enumerate(code_of(support.read(path)).split("\n"), 1):
                found = pattern.search(line)
                if found:
                    wrong.append("%s:%d: %s" % (path, number, found.group(0)))
        self.assertEqual(wrong, [])

    def test_a_loop_around_a_swap_says_why_it_makes_progress(self):
        """Each loop whose body or condition swaps has a comment with the word Progress: at
        its head or at the swap."""
        wrong = []
        for path in core_sources():
            if path == os.path.join("src", "base", "atomic.h"):
                continue
            text = support.read(path)
            raw, code = text.split("\n"), code_of(text).split("\n")
            for number, line in enumerate(code):
                head = loop_around(code, number) if CAS.search(line) else None
                if head is None:
                    continue
                if "Progress:" not in "\n".join(raw[max(0, head - 3):head + 2]
                                                + raw[max(head, number - 3):number + 3]):
                    wrong.append("%s:%d" % (path, number + 1))
        self.assertEqual(wrong, [])

    def test_what_is_not_relaxed_cites_a_tag_of_the_page(self):
        """On its own lines or in the comment above; and each tag of the page is cited."""
        listed = set(re.findall(r"^\| (S-\w+) \|", support.read("docs/concurrency.md"), re.M))
        wrong, cited = [], set()
        for path in core_sources():
            if path == os.path.join("src", "base", "atomic.h"):
                continue
            text = support.read(path)
            cited.update(tag for _, comment in comments_of(text)
                         for tag in re.findall(r"S-[a-z]+", comment))
            wrong += ["%s:%d" % (path, line) for line in untagged(text, listed)]
        self.assertEqual(wrong, [])
        self.assertEqual(sorted(cited ^ listed), [])

    @staticmethod
    def undeclared(texts):
        """Tags that the files of one contract cite, and the contracts at their heads do not."""
        tags = [[set(re.findall(r"S-[a-z]+", part)) for part in text.split("*/", 1)]
                for text in texts]
        return sorted(set().union(*(t[1] for t in tags)) - set().union(*(t[0] for t in tags)))

    def test_a_contract_names_each_tag_that_its_files_cite(self):
        by_contract = {}
        for path in core_sources():
            by_contract.setdefault(contract_of(path), []).append(support.read(path))
        wrong = {key: self.undeclared(texts) for key, texts in by_contract.items()}
        self.assertEqual({key: tags for key, tags in wrong.items() if tags}, {})

    def test_a_tag_that_no_contract_names_is_found(self):
        self.assertEqual(self.undeclared(["/* S-a */ x(); /* S-b */", "/* c */ y(); /* S-a */"]),
                         ["S-b"])

    def test_each_that_is_not_relaxed_can_be_weakened(self):
        sites = support.read(os.path.join("test", "proof", "memory_order", "sites.h"))
        used = {order.rstrip("( ") for p in core_sources() if os.path.basename(p) != "atomic.h"
                for order in ORDERED.findall(code_of(support.read(p)))}
        used = {order for order in used if not order.startswith("atomic8_")}  # secure grade's alone
        self.assertGreater(len(used), 20)
        self.assertEqual(sorted(used - set(re.findall(r"#define (\w+)\(", sites))), [])

    def test_an_order_without_a_tag_is_found(self):
        order = "  atomic64_store_release(&x, 1);"
        self.assertEqual(list(untagged(order + "\n", {"S-pool"})), [1])
        self.assertEqual(list(untagged(order + " /* S-pole */\n", {"S-pool"})), [1])
        self.assertEqual(list(untagged(order + " /* S-pool */\n", {"S-pool"})), [])
        self.assertEqual(list(untagged("/* S-pool */\n" + order + "\n", {"S-pool"})), [])
        self.assertEqual(list(untagged("x(); /* S-pool */\n" + order + "\n", {"S-pool"})), [2])

ORDERED = re.compile(r"\batomic(?:8|16|32|64|_ptr)_\w+_(?:acquire|release|acq_rel|seq_cst)\s*\(")

def untagged(text, tags):
    """The lines with an order whose statement, and comment above it, cites none of the tags."""
    raw, code = text.split("\n"), code_of(text).split("\n")
    for number, line in enumerate(code):
        if not ORDERED.search(line):
            continue
        first, last = number, number
        while first > 0 and (code[first - 1].strip() == "" or not re.search(
                r"[;{}:]\s*$|^\s*#", code[first - 1])) and number - first < 4:
            first -= 1                                     # the statement, the comment above it
        while last + 1 < len(raw) and not re.search(r"[;{]\s*$", code[last]) and last - number < 3:
            last += 1
        if not tags.intersection(re.findall(r"S-[a-z]+", "\n".join(raw[first:last + 1]))):
            yield number + 1

# try_: a compare-and-swap that may fail, by its name
CAS = re.compile(r"\b(?:atomic(?:32|64|_ptr)_cas_\w+|try_\w+)\s*\(")
RETRY = r"\b(while|do)\b|\bfor\s*\(.*;\s*;"             # a loop over a range is bounded by itself

def loop_around(code, number):
    """The line where the loop begins in which line `number` is, if it may go on for as
    long as others interfere."""
    depth = 0
    for k in range(number, -1, -1):
        line = code[k]
        if k == number and re.search(RETRY, line):
            return k
        if (k == number - 1 and re.search(RETRY, line)
                and not line.rstrip().endswith(("{", "}", ";"))):
            return k                                       # a loop of one statement without braces
        if k < number:
            depth += line.count("}") - line.count("{")
            if depth < 0:
                if re.search(RETRY, line):
                    return k
                depth = 0
            if re.match(r"\S.*\)\s*\{?\s*$", line) and not line.startswith(("}", "#")):
                return None
    return None

class Loops(unittest.TestCase):
    """A call does a bounded amount of work. A loop counts up to something, or says what bounds it,
    or that it goes on only while other threads get something done."""
    maxDiff = None
    COUNTED = re.compile(r"\bfor\s*\([^;]*;[^;]*(?:<=?\s*[\w(>.-]+|--\s*>\s*0|>\s*0)[^;]*;")
    FOLDERS = tuple(os.path.join("src", folder) + os.sep for folder in LAYERS[1:])
    WHY = re.compile(r"Progress:|Bound:")

    def test_every_loop_counts_or_says_what_bounds_it(self):
        wrong = []
        for path in core_sources():
            if not path.startswith(self.FOLDERS):
                continue
            text = support.read(path)
            raw, code = text.split("\n"), code_of(text).split("\n")
            for number, line in enumerate(code):
                if not re.search(r"\b(?:for|while)\s*\(|\bdo\b", line):
                    continue
                head = " ".join(code[number:number + 3])
                if (not self.COUNTED.search(head)
                        and not self.WHY.search("\n".join(raw[max(0, number - 2):number + 4]))):
                    wrong.append("%s:%d: %s" % (path, number + 1, line.strip()))
        self.assertEqual(wrong, [])

class WholeHeap(unittest.TestCase):
    """A loop that runs over arenas, windows, heaps, slabs or call stacks costs more in a larger
    process. Its function stands in the table of loops.md, with what calls it and its bound or
    slope."""
    maxDiff = None
    PAGE, TITLE = os.path.join("docs", "loops.md"), "# Loops over the whole heap"
    FOLDERS = tuple(os.path.join("src", f) + os.sep for f in ("arena", "slab", "stock", "heap"))
    # all their loops run over windows, or over the bits of arenas and heaps
    ALWAYS = tuple(os.path.join("src", "arena", name) for name in ("map.", "places.", "bitmap."))
    OVER = re.compile(
        r"\b(?:arena_count|pool_size|huge_pool_size|places_size|chunk_count|word_count|take_run|"
        r"WINDOW_COUNT|WINDOW_SLICES|ARENA_[A-Z]\w*|PLACES_CHUNKS|owned_first|next_lane|lanes|"
        r"nested|pool_resting_pages|slab_numbered|callstack_count|64 << SLICE_SHIFT)\b|"
        r"->(?:next|mapped|windows)\b")
    FUNCTION = re.compile(r"^\w[^;{}\n=]*?[ *](\w+)\((?:[^;{}()]|\([^()]*\))*\)\s*\{"
                          r"(?:[^\n]*\}$|.*?^\})", re.M | re.S)
    CALLS = {"malloc": "malloc calloc realloc reallocarray aligned_alloc posix_memalign memalign "
                       "valloc pvalloc fh_expand fh_heap_malloc fh_heap_calloc "
                       "fh_heap_aligned_alloc fh_heap_realloc fh_realloc_aligned fh_realloc_zeroed "
                       "fh_calloc_at_least fh_malloc_batch _Znwm".split(),
             "free": "free free_sized free_aligned_sized fh_free fh_free_batch _ZdlPv".split()}

    @staticmethod
    def loops(text):
        """The line of each loop, what stands between its parentheses, and its body."""
        def closed(start, pair):
            depth, end = 1, start
            while depth > 0:
                depth += {pair[0]: 1, pair[1]: -1}.get(text[end], 0)
                end += 1
            return end
        for loop in re.finditer(r"\b(?:for|while)\s*\(", text):
            end = closed(loop.end(), "()")
            brace = re.compile(r"\s*\{").match(text, end)
            last = closed(brace.end(), "{}") if brace else text.index(";", end)
            yield text.count("\n", 0, loop.start()), text[loop.end():end - 1], text[end:last]

    @classmethod
    @functools.lru_cache(maxsize=None)
    def arrays(cls):
        """Words declared as arrays with an element for each window, arena, group or chunk, and
        nowhere with fewer."""
        sizes = {}
        for path in core_sources():
            for name, size in re.findall(r"^[^;=(]*?\b(\w+)(?=\[)([^;=]*?)[;,=]",
                                         code_of(support.read(path)), re.M):
                sizes.setdefault(name, []).append(size)
        return {name for name, all_of in sizes.items() if all(map(cls.OVER.search, all_of))}

    def is_over(self, path, head, function, comment, body=""):
        """By its words, by a variable that comes from such a word, or by an array through which a
        variable goes that the loop counts."""
        assigned = re.findall(r"\b(\w+) = ((?:(?!, \*?\w+ = )[^;])*)", function)
        variables = {v for v, value in assigned if self.OVER.search(value)}
        if path.startswith(self.ALWAYS) and "Progress:" not in comment:
            return True
        counted = re.findall(r"\b(\w+)(?:\+\+|--)|(?:\+\+|--)(\w+)", head)
        return (bool(self.OVER.search(head) or variables.intersection(re.findall(r"\w+", head)))
                or any(name in self.arrays() and re.search(r"\b(%s)\b" % (a or b), index)
                       for name, index in re.findall(r"(\w+)\[([^]]*)\]", head + body)
                       for a, b in counted))

    @staticmethod
    def is_check(function):
        return function.group(1).endswith(("is_valid", "are_valid"))

    def functions(self, path):
        """Those with such a loop. What only tests and the checked build call has none."""
        text = support.read(path)
        raw, code = text.split("\n"), code_of(text)
        found = list(self.FUNCTION.finditer(code))
        calls, of_checks = (re.findall(r"\w+(?=\()", "".join(map(re.Match.group, some)))
                            for some in (found, filter(self.is_check, found)))
        for function in found:
            first, name = code.count("\n", 0, function.start()), function.group(1)
            is_checks_own = (function.group(0).startswith("static ")
                             and calls.count(name) == of_checks.count(name) + 1 > 1)
            if is_checks_own or self.is_check(function):
                continue
            for line, head, body in self.loops(function.group(0)):
                around = "\n".join(raw[first + line - 1:first + line + 2])
                if self.is_over(path, head, function.group(0), around, body):
                    yield function.group(1)
                    break

    def table(self):
        text = support.read(self.PAGE)
        self.assertTrue(self.TITLE in text)
        part = text.split(self.TITLE, 1)[1].split("\n#", 1)[0]
        rows = [[cell.strip() for cell in line.strip("| \n").split("|")]
                for line in part.split("\n") if line.startswith("| `")]
        return {name: row[1:] for row in rows for name in re.findall(r"`(\w+)`", row[0])}

    def test_each_such_loop_is_in_the_table_with_its_bound(self):
        found = {name for path in core_sources() if path.startswith(self.FOLDERS)
                 for name in self.functions(path)}
        table = self.table()
        self.assertGreater(len(found), 20)
        self.assertEqual(sorted(found - set(table)), [], "they are not in the table")
        self.assertEqual(sorted(set(table) - found), [], "they have no such loop any more")
        self.assertEqual([n for n, row in table.items() if len(row) != 3 or not all(row)], [])

    def connect_inlined(self, graph):
        """A function that is inlined even so is in no graph: those that name it call it."""
        inlined = set(self.table()) - {name.split(".")[0] for name in graph.frames}
        for path in core_sources():
            for function in self.FUNCTION.finditer(code_of(support.read(path))):
                named = inlined.intersection(re.findall(r"\w+(?=\()", function.group(0)))
                graph.calls.setdefault(function.group(1), set()).update(named)

    def test_the_table_says_which_of_them_malloc_and_free_reach(self):
        graph = callgraph.of_release_build("-fno-inline")
        if graph is None:
            self.skipTest("the compiler writes no call graph")
        graph.forget("fatal")
        attempts = ["slices_claim", "grow_claim"]                # what try_each is given to call
        graph.connect({"try_each": attempts, "slices_try": attempts})
        self.connect_inlined(graph)
        reached = {call: {name.split(".")[0] for name in graph.reached_from(names)}
                   for call, names in self.CALLS.items()}
        right = {name: ", ".join(call for call in reached if name in reached[call]) or "neither"
                 for name in self.table()}
        self.assertEqual({name: row[1] for name, row in self.table().items()}, right)

    def test_loops_over_everything_are_found_under_other_names_too(self):
        def is_found(head, function=""):
            return self.is_over("src/heap/x.c", head, function + head, "")

        def is_array(body):
            return self.is_over("src/heap/x.c", "i < n; i++", "", "", body)

        self.assertTrue(is_found("i < arena_count()"))
        self.assertTrue(is_found("i < n", "size_t n = pool_size(); for "))
        self.assertTrue(is_found("i < n", "size_t sum = 0, n = min_size(pool_size(), 5); for "))
        self.assertFalse(is_found("i < sum", "size_t sum = 0, n = min_size(pool_size(), 5); for "))
        self.assertTrue(is_found("h != NULL", "h = atomic_ptr_load_relaxed(&h->nested);"))
        self.assertTrue(is_found("s != NULL; s = s->next"))
        self.assertFalse(is_found("i < CLASS_COUNT"))
        self.assertTrue(is_array("sum += p->free[i / 64];"))
        self.assertFalse(is_array("sum += p->free[n];"))
        self.assertFalse(is_array("sum += words[i];"))

class Comments(unittest.TestCase):
    # Names of the world outside that a comment may mention.
    ELSEWHERE = set("""
        malloc free main madvise mmap munmap mremap errno longjmp siglongjmp fork dlopen
        dlclose dlsym true false NULL glibc musl ld so proc self smaps maps TLS
        eh_frame eh_frame_hdr""".split())

    CXX = {"bad_alloc", "get_new_handler", "nothrow_t", "align_val_t", "seq_cst"}

    def test_a_name_in_backticks_exists_in_the_code(self):
        paths = core_sources() + list(support.sources(".h", ".hpp", folder="include"))
        others = (list(support.sources(".c", ".h", ".cc", ".py", folder="test"))
                  + list(support.sources(".c", ".py", ".sh", folder="tools")))
        names, files = set(), set()
        for path in paths:
            text = support.read(path)
            names.update(re.findall(r"[A-Za-z_]\w*", code_of(text)))
            names.update(re.findall(r"[A-Za-z_]\w*",
                                    " ".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', text))))
        for path in paths + others:
            files.add(os.path.basename(path))
        pasted = re.compile(r"##")
        wrong = []
        for path in paths:
            text = support.read(path)
            for number, comment in comments_of(text):
                for quoted in re.findall(r"`([^`\n]+)`", comment):
                    if os.path.basename(quoted) in files or pasted.search(quoted):
                        continue
                    for word in re.findall(r"[*\w]+", quoted):
                        if (word.strip("*") == "" or word[0].isdigit()
                                or word.strip("*") in self.ELSEWHERE):
                            continue
                        if not exists(word, names):
                            wrong.append("%s:%d: `%s`" % (path, number, quoted))
                            break
        self.assertEqual(wrong, [])

    def test_a_word_with_an_underscore_is_a_name_in_the_code(self):
        """Also without backticks, as in the lines of a contract."""
        paths = core_sources()
        names = {name for p in [*paths, *support.sources(".h", folder="include")]
                 for name in re.findall(r"[A-Za-z_]\w*", code_of(support.read(p)))}
        names.update(os.path.splitext(name)[0] for folder in ("src", "test")
                     for name in [os.path.basename(p) for p in support.sources("", folder=folder)])
        wrong = ["%s:%d: %s" % (p, number, word)
                 for p in paths for number, comment in comments_of(support.read(p))
                 for word in re.findall(r"\b[a-z]+_[a-z_0-9]*[a-z0-9]\b", comment)
                 if word not in names | self.CXX | self.ELSEWHERE]
        self.assertEqual(wrong, [])

    CAPITALS = set("""
        ASCII BOOL DWARF FHTC LD_PRELOAD LLVM M_TRIM_THRESHOLD NTSTATUS PAGEMAP_SCAN POSIX ULONG
        MOUNT ROOT USDT""".split())

    @staticmethod
    def unknown(comment, names):
        """Words in capitals that are no name, and end none, as FULL does ANCHOR_FULL."""
        return [word for word in re.findall(r"(?<![\w-])[A-Z]{4}[A-Z_0-9]*(?![\w-])", comment)
                if not any(name == word or name.endswith("_" + word) for name in names)]

    def test_a_word_in_capitals_is_a_name_in_the_code(self):
        names = self.CAPITALS | {name for p in core_sources() for name in re.findall(
            r"[A-Z][A-Z_0-9]{3,}", TOKEN.sub(lambda m: m[0] if m[0][0] == '"' else "",
                                             support.read(p)))}
        wrong = ["%s:%d: %s" % (p, number, word) for p in core_sources()
                 for number, comment in comments_of(support.read(p))
                 for word in self.unknown(comment, names)]
        self.assertEqual(wrong, [])

    def test_a_word_that_is_no_name_is_found(self):
        self.assertEqual(self.unknown("/* goes from TAKEN to FULL */", {"ANCHOR_FULL"}), ["TAKEN"])

    def test_a_file_opens_with_its_contract(self):
        wrong = []
        for path in core_sources():
            head = support.read(path)[:3000]
            layer = layer_of(path)
            if not head.startswith("/* %s - " % os.path.basename(path)):
                wrong.append(path + ": does not open with its name and what it is")
            elif layer is not None and "layer %d: %s" % (layer, LAYERS[layer]) not in head[:200]:
                wrong.append(path + ": the first line does not name its layer")
        self.assertEqual(wrong, [])

class Clocks(unittest.TestCase):
    """What another thread has read of the clock may be later than what this one has."""

    @staticmethod
    def found(code):
        return re.findall(r"\b(?:now|os_now_ms\(\)) - (?!began\b|times\b|t->time\b)\S+", code)

    def test_milliseconds_are_compared_by_one_function(self):
        here = os.path.join("src", "os", "os.h")
        wrong = [(path, line) for path in core_sources() if path != here
                 for line in self.found(code_of(support.read(path)))]
        self.assertEqual(wrong, [])

    def test_a_subtraction_is_found(self):
        self.assertEqual(len(self.found("if (p->now - since < AGE) x = os_now_ms() - y;")), 2)

class UnitTests(unittest.TestCase):
    def test_each_source_below_the_api_has_a_file_of_unit_tests(self):
        """By its name: test/unit/free_test.c for src/heap/free.c."""
        names = {os.path.basename(p)[:-2] for p in core_sources() if p.endswith(".c")
                 and layer_of(p) not in (None, LAYERS.index("api"))}
        tested = {os.path.basename(p)[:-len("_test.c")]
                  for p in support.sources("_test.c", folder=os.path.join("test", "unit"))}
        self.assertGreater(len(names), 20)
        self.assertEqual(sorted(names - tested), ["os_bsd"])   # it was never run: gates.Ports

class Statics(unittest.TestCase):
    """What stands in one file says what it is or does; what others call says first whose it is."""
    VERBS = {"enter", "free", "grow", "map", "purge", "refill", "resize", "visit"}
    # kinds of things that have no file of their own
    KINDS = {"arena": {"lack", "lacks"}, "slab": {"block"}, "stock": {"batch"}, "heap": {"window"}}

    @staticmethod
    def prefixes(stem):
        return (stem + "_", stem.rstrip("s") + "_")

    def prefixed(self, path, code):
        """Functions that begin with the name of a layer, or of their file, unless that says what
        they do; in the top layer variables too."""
        stem = os.path.basename(path)[:-2]
        mine = () if stem in self.VERBS else self.prefixes(stem)
        names = re.findall(r"^(?:__attribute__\(\(.*?\)\) )?(?:_Noreturn )?static [^;={]*?"
                           r"\b(\w+)\([^;{()]*\) \{", code, re.M)
        if path.split(os.sep)[1] == "api":
            names += re.findall(r"^static [^;={()]*?\b(\w+)(?:\[[^;]*| =[^;]*| __[^;]*)?;", code,
                                re.M)
        layers = tuple(layer + "_" for layer in LAYERS)
        return ["%s: %s" % (path, name) for name in names if name.startswith(mine + layers)]

    def test_what_stands_in_one_file_has_no_prefix(self):
        wrong = [name for path in core_sources() if path.endswith(".c")
                 for name in self.prefixed(path, code_of(support.read(path)))]
        self.assertEqual(wrong, [])

    def test_bounds_are_called_most_and_least(self):
        """MAX and MIN are for what others have named so."""
        wrong = [(p, name) for p in core_sources() for name in re.findall(
            r"(?:[{,]|#define|^)\s*((?!GLIBC_)[A-Z]\w*_(?:MAX|MIN)(?:_[A-Z]+)?)(?: =|,$| \()",
            code_of(support.read(p)), re.M)]
        self.assertEqual(wrong, [])

    def test_a_prefix_is_found(self):
        for before in ("static ", "static __attribute__((cold)) ", "__attribute__((cold)) static "):
            for name in "tail_sum", "tails_sum", "heap_sum":
                line = before + "int %s(int n) {\n" % name
                self.assertEqual(self.prefixed("src/stock/tails.c", line),
                                 ["src/stock/tails.c: " + name])
        for line in "static int new_x;", "static int new_x[9];", "static int new_x = 1;":
            self.assertEqual(self.prefixed("src/api/new.c", line), ["src/api/new.c: new_x"])

    def owners(self, layer):
        """What a name may begin with that others call: the layer, one of its files, or a kind."""
        stems = {os.path.splitext(os.path.basename(p))[0] for p in core_sources()
                 if p.split(os.sep)[1] == layer}
        return {prefix for stem in stems | {layer} | self.KINDS.get(layer, set())
                for prefix in self.prefixes(stem)}

    def unowned(self, path, code):
        layer = path.split(os.sep)[1]
        names = re.findall(r"^(?:_Noreturn |cold )*hidden [^;{}=()]*?\b(\w+)\(", code, re.M)
        names += re.findall(r"^static (?:always_)?inline [^;{}=()]*?\b(\w+)\(", code, re.M)
        return ["%s: %s" % (path, name) for name in names
                if not name.startswith(tuple(self.owners(layer)))]

    def test_what_others_call_says_first_whose_it_is(self):
        wrong = [name for path in core_sources() if path.endswith(".h") and layer_of(path)
                 for name in self.unowned(path, code_of(support.read(path)))]
        self.assertEqual(wrong, [])

    def test_a_name_without_an_owner_is_found(self):
        for line in "hidden size_t grow(int n);", "static inline void *sum(void) {":
            self.assertEqual(len(self.unowned("src/arena/grow.h", line)), 1)
        self.assertEqual(self.unowned("src/arena/grow.h", "hidden bool purge_all(void);"), [])

class Invariants(unittest.TestCase):
    """Numbers such as I1 stand in one contract each; who names one, in a check or in
    a test, means that one."""
    CONTRACT = re.compile(r"\* Holds: (.*?)(?:\n \* \w+:|\n \*\n|\*/)", re.S)

    @classmethod
    def setUpClass(cls):
        cls.numbers = {}
        for path in core_sources():
            for block in cls.CONTRACT.findall(support.read(path)):
                for number in re.findall(r"(?:^| {2,})([A-Z]\d) ", block, re.M):
                    cls.numbers.setdefault(number, []).append(path)

    def test_each_number_stands_in_one_contract(self):
        self.assertGreater(len(self.numbers), 10)
        self.assertEqual({n: p for n, p in self.numbers.items() if len(p) != 1}, {})

    def test_each_is_checked_and_checks_name_no_other(self):
        checked = {n for p in core_sources()
                   for n in re.findall(r"HOLDS\(([A-Z]\d),", support.read(p))}
        self.assertEqual(sorted(checked ^ set(self.numbers)), [])

    def test_each_is_named_by_a_unit_test_and_no_other(self):
        named = set()
        for path in support.sources(".c", folder=os.path.join("test", "unit")):
            for tags in re.findall(r'^TEST\([^"]*"([^"]*)"\)', support.read(path), re.M):
                named.update(re.findall(r"\b[A-Z]\d\b", tags))
        self.assertEqual(sorted(named ^ set(self.numbers)), [])

def exists(word, names):
    if word in names or word.strip("*") in names:
        return True
    if "*" in word:                                        # `*_is_valid`, `atomic64_*`
        pattern = re.compile(re.escape(word).replace(r"\*", r"\w*") + "$")
        return any(pattern.match(name) for name in names)
    return False

def long_lines(path, text, columns):
    return ["%s:%d: %d columns" % (path, number, len(line))
            for number, line in enumerate(text.split("\n"), 1) if len(line) > columns]

class Size(unittest.TestCase):
    LINES, COLUMNS, FUNCTION, CORE, ALL = 500, 100, 50, 17930, 25310
    # no library has them beside Linux's
    ELSEWHERE = ("src/os/windows/", "src/os/bsd/", "src/os/without.c")

    def test_files_stay_short(self):
        lengths = sorted(((support.read(p).count("\n"), p) for p in core_sources()), reverse=True)
        total = sum(n for n, _ in lengths)
        print("\n%d lines in %d files; the longest:" % (total, len(lengths)))
        for n, path in lengths[:8]:
            print("%6d %s" % (n, path))
        self.assertEqual(["%s: %d lines" % (p, n) for n, p in lengths if n > self.LINES], [])
        self.assertLess(total, self.ALL)
        # without what only the checked build calls (gates.Levels), and assertions
        core = sum(n - len(re.findall(r"^ +ASSERT", support.read(p), re.M)) for n, p in lengths
                   if p != os.path.join("src", "stock", "heap.c")
                   and not p.startswith(self.ELSEWHERE)
                   and layer_of(p) not in (None, LAYERS.index("api"), LAYERS.index("support")))
        self.assertLess(core, self.CORE)

    def test_lines_stay_short(self):
        """In all that is written by hand: C, C++, Python and the models."""
        paths = [p for folder in ("src", "include", "test", "lab", "tools")
                 for p in support.sources(".c", ".h", ".cc", ".py", ".pml", folder=folder)]
        self.assertGreater(len(paths), 200)
        wrong = [where for p in paths for where in long_lines(p, support.read(p), self.COLUMNS)]
        self.assertEqual(wrong, [])

    def test_a_line_that_is_too_long_is_found(self):
        text = "a" * 100 + "\n" + "a" * 101 + "\n" + "\N{LEFTWARDS ARROW}" * 100 + "\n"
        self.assertEqual(long_lines("x.c", text, 100), ["x.c:2: 101 columns"])

    def test_functions_stay_short(self):
        wrong = []
        for path in core_sources():
            start = None
            for i, line in enumerate(code_of(support.read(path)).split("\n"), 1):
                if re.match(r"\w.*\)\s*\{\s*$", line):
                    start = i
                elif line.startswith("}") and start is not None:
                    if i - start > self.FUNCTION:
                        wrong.append("%s:%d: %d lines" % (path, start, i - start))
                    start = None
        self.assertEqual(wrong, [])

@unittest.skipUnless(support.has("clang-format-14"), "no clang-format-14")
class Format(unittest.TestCase):
    TABLES = 25                                            # that may be exempt

    @staticmethod
    def wrong(paths):
        style = "--style=file:" + os.path.join(support.SOURCE, ".clang-format")
        said = support.run(["clang-format-14", "--dry-run", style, *paths], timeout=300).stderr
        return set(re.findall(r"^(.+?):\d+:\d+: warning", said, re.M))

    def test_c_and_cpp_stand_as_the_formatter_has_them(self):
        paths = [os.path.join(support.SOURCE, p) for f in ("src", "include", "test", "lab", "tools")
                 for p in support.sources(".c", ".h", ".cc", ".cpp", folder=f)]
        self.assertGreater(len(paths), 200)
        count = os.cpu_count()
        with concurrent.futures.ThreadPoolExecutor(count) as threads:
            wrong = set().union(*threads.map(self.wrong, (paths[i::count] for i in range(count))))
        if wrong:
            self.fail("run ./dev format, or\n" + "\n".join(
                "clang-format-14 -i " + os.path.relpath(p, support.SOURCE) for p in sorted(wrong)))
        exempt = sum(support.read(p).count("/* clang-format off */") for p in paths)
        self.assertLessEqual(exempt, self.TABLES)

    def test_a_file_that_does_not_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a.c", "int f(void) { return 0; }\n"), ("b.c", "int  g;\n")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            b = os.path.join(folder, "b.c")
            self.assertEqual(self.wrong([os.path.join(folder, "a.c"), b]), {b})

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
