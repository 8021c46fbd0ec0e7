"""What programs that are built already need of the library: names with their versions, prototypes,
where each field of a struct lies, values of constants. test/gates/abi.txt is the record. What
stands there stays as long as the major version does; what is new is recorded by `./dev abi`."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

RECORD = os.path.join("test", "gates", "abi.txt")
HEADER = os.path.join("include", "freehold", "freehold.h")
LIBRARIES = [os.path.join(os.path.dirname(support.LIBRARY), "libfreehold%s.so" % grade)
             for grade in ("", "-secure", "-debug")]
BOUNDS = os.path.join(os.path.dirname(support.LIBRARY), "libfreehold-bounds.so")

def symbols(library):
    """Each with its version, if it has one. The versions themselves and what the linker adds are
    no names of ours."""
    text = support.run(["nm", "-D", "--with-symbol-versions", "--defined-only", library]).stdout
    names = [line.split() for line in text.splitlines()]
    return {"symbol " + name for *_, kind, name in names
            if kind != "A" and not re.match("__(start|stop)_", name)}

def statements(text):
    """The declarations of a header, each in one line; a definition with its braces."""
    text = re.sub(r"/\*.*?\*/|^\s*#(?:[^\n\\]|\\.)*$|FH_(?:API|MALLOC|SIZE\([^)]*\))|"
                  r'extern "C" \{', " ", text, flags=re.S | re.M)
    depth, start = 0, 0
    for at, c in enumerate(text):
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == ";" and depth == 0:
            yield re.sub(r"\s+(?=[);])", "", " ".join(text[start:at].split()))
            start = at + 1

def structs(lines):
    """Name, and the names of the fields."""
    for line in lines:
        found = re.fullmatch(r"typedef struct (\w+) \{(.*)\} \w+", line)
        if found:
            yield found.group(1), re.findall(r"(\w+)(?:\[[^;]*\])?;", found.group(2))

def constants(lines):
    for line in lines:
        found = re.search(r"enum(?: \w+)? \{(.*)\}", line)
        for part in found.group(1).split(",") if found else []:
            yield part.split("=")[0].strip()

def measured(header, lines):
    """What only the compiler knows: sizes, places, values."""
    def put(text, *values):
        return 'printf("%s\\n"%s);' % (text, "".join(", (long long)(%s)" % v for v in values))

    program = ['#include "%s"' % header, "#include <stdio.h>", "int main(void) {"]
    for name, fields in structs(lines):
        program.append(put("size %s %%lld" % name, "sizeof(struct %s)" % name))
        for field in fields:
            place = "struct %s, %s" % (name, field)
            program.append(put("field %s.%s at %%lld, %%lld bytes" % (name, field),
                               "offsetof(%s)" % place,
                               "sizeof ((struct %s *)0)->%s" % (name, field)))
    program += [put("constant %s %%lld" % name, name) for name in constants(lines)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "measure")
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write("\n".join([*program, "}"]) + "\n")
        subprocess.check_call([support.COMPILER, path + ".c", "-o", path])
        return set(support.run([path]).stdout.splitlines())

def of_header(path):
    lines = list(statements(support.read(path)))
    plain = {"declaration " + line for line in lines if "{" not in line}
    return plain | measured(os.path.join(support.SOURCE, path), lines)

def present():
    return symbols(LIBRARIES[0]) | of_header(HEADER)

def recorded():
    lines = support.read(RECORD).splitlines()
    return {line for line in lines if line[:1] not in ("", "#")}

def broken(old, new):
    """What of the old is no more. A struct whose first field says how long it is may grow."""
    sizes = dict(re.findall(r"^size (\w+) (\d+)$", "\n".join(new), re.M))
    for line in sorted(old - new):
        found = re.fullmatch(r"size (\w+) (\d+)", line)
        if not (found and "field %s.struct_size at 0, 8 bytes" % found.group(1) in new
                and int(sizes.get(found.group(1), 0)) >= int(found.group(2))):
            yield line

def major():
    return re.search(r"FH_VERSION_MAJOR (\d+)", support.read(HEADER)).group(1)

def record():
    """Writes the record, unless that would break programs of the same major version."""
    old, new = support.read(RECORD), present()
    lost = list(broken(recorded(), new))
    if lost and "of version %s:" % major() in old.split("\n", 1)[0]:
        sys.exit("\n".join(["abi: programs built with version %s need these:" % major(), *lost]))
    with open(os.path.join(support.SOURCE, RECORD), "w", encoding="utf-8") as file:
        file.write("# The ABI of version %s: what abi_test.py beside this file compares. "
                   "./dev abi writes it.\n" % major() + "\n".join(sorted(new)) + "\n")

class Abi(unittest.TestCase):
    maxDiff = None

    def test_nothing_that_programs_need_has_gone_or_changed(self):
        self.assertEqual(list(broken(recorded(), present())), [])

    def test_what_is_new_is_recorded(self):
        self.assertEqual(sorted(present() - recorded()), [], "./dev abi records it")

    def test_every_grade_has_the_same_names(self):
        for library in LIBRARIES[1:]:
            self.assertEqual(symbols(library) ^ symbols(LIBRARIES[0]), set())

    def test_the_library_that_keeps_memcpy_within_blocks_has_those_names_too(self):
        more = "memcpy memmove mempcpy memset strcpy stpcpy strncpy strcat strncat".split()
        self.assertEqual(symbols(BOUNDS) ^ symbols(LIBRARIES[0]),
                         {"symbol " + name for name in more})

    def test_names_of_ours_have_a_version_and_those_of_others_have_none(self):
        """The loader gives a program's malloc@GLIBC_2.2.5 to a malloc without a version alone."""
        wrong = [name for name in symbols(LIBRARIES[0])
                 if ("@@FREEHOLD_%s." % major() in name) != name.startswith("symbol fh_")]
        self.assertEqual(wrong, [])

    def test_the_soname_has_the_major_version(self):
        for library in (*LIBRARIES, BOUNDS):
            text = support.run(["readelf", "-d", library]).stdout
            self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", text),
                             [os.path.basename(library) + "." + major()])

    def test_the_record_holds_all_kinds(self):
        counts = {kind: sum(line.startswith(kind + " ") for line in recorded())
                  for kind in ("symbol", "declaration", "size", "field", "constant")}
        least = (80, 40, 2, 40, 4)
        self.assertTrue(all(n >= low for n, low in zip(counts.values(), least)), counts)

    def test_what_is_lost_or_moved_is_found(self):
        old = {"symbol a", "size s 16", "size t 8", "field t.struct_size at 0, 8 bytes"}
        self.assertEqual(list(broken(old, old | {"symbol b"})), [])
        self.assertEqual(list(broken(old, old - {"symbol a"})), ["symbol a"])
        self.assertEqual(list(broken(old, old - {"size s 16"} | {"size s 24"})), ["size s 16"])
        self.assertEqual(list(broken(old, old - {"size t 8"} | {"size t 16"})), [])
        self.assertEqual(list(broken(old, old - {"size t 8"} | {"size t 4"})), ["size t 8"])

    def test_a_header_is_read_as_the_compiler_reads_it(self):
        text = """/* fh_no(); */
            #define FH_X 1
            FH_API void *fh_a(size_t n)
              FH_MALLOC FH_SIZE(1);
            enum { FH_N = 72 };
            typedef struct fh_s { size_t first; int many[3]; } fh_s_t;"""
        lines = list(statements(text))
        self.assertEqual(lines[0], "void *fh_a(size_t n)")
        self.assertEqual(list(structs(lines)), [("fh_s", ["first", "many"])])
        self.assertEqual(list(constants(lines)), ["FH_N"])

if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        support.main(sys.modules["__main__"])
