"""What the bindings say again of the header: structs, constants and functions, with their types.
`./dev bindings` runs them. This reads them, and needs no compiler of another language."""
import ctypes
import os
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "bindings", "python", "src"))
import abi_test  # noqa: E402
import freehold  # noqa: E402
import support  # noqa: E402

RUST = "bindings/rust/freehold-sys/src/lib.rs"
IN_RUST = {"void": "c_void", "char": "c_char", "int": "c_int", "size_t": "usize", "bool": "bool",
           "uint64_t": "u64", "int64_t": "i64", "fh_profile_t": "c_int"}
IN_PYTHON = {"void": None, "int": ctypes.c_int, "size_t": ctypes.c_size_t, "bool": ctypes.c_bool,
             "int64_t": ctypes.c_int64, "fh_profile_t": ctypes.c_int, "char *": ctypes.c_char_p,
             "void *": ctypes.c_void_p, "int64_t *": ctypes.POINTER(ctypes.c_int64)}


def in_rust(c_type):
    """`const char *` is `*const c_char`; what points to a function has no star in Rust."""
    *parts, last = re.findall(r"const|\w+|\*", c_type)
    words = [*parts, last]
    base = next(word for word in words if word not in ("const", "*"))
    if base == "fh_visitor_t":
        return base
    said = IN_RUST.get(base, base)
    is_const = "const" in words[:words.index(base)]
    for word in words[words.index(base) + 1:]:
        if word == "*":
            said, is_const = "*%s %s" % ("const" if is_const else "mut", said), False
        else:
            is_const = True
    return said


def declared(text):
    """Type and name of `const char *name`, `char name[32]`."""
    kind, name, count = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", text.strip()).groups()
    return kind.strip(), name, count


def of_header():
    """Structs, as name and type in Rust of each field; functions, as the types of C."""
    lines = list(abi_test.statements(support.read(abi_test.HEADER)))
    structs, functions = {}, {}
    for line in lines:
        found = re.fullmatch(r"typedef struct \w+ \{(.*)\} (\w+)", line)
        if found:
            fields = [declared(field) for field in found.group(1).split(";") if field.strip()]
            structs[found.group(2)] = [
                (name, "[%s; %s]" % (in_rust(kind), count) if count else in_rust(kind))
                for kind, name, count in fields]
        found = re.fullmatch(r"([^{(]*?)(\bfh_\w+)\((.*)\)", line)
        if found and not line.startswith("typedef"):
            given = [] if found.group(3) == "void" else found.group(3).split(",")
            functions[found.group(2)] = (found.group(1).strip(), [declared(a)[0] for a in given])
    return lines, structs, functions


def of_rust(text):
    structs = {name: re.findall(r"pub (\w+): (.*),", body)
               for name, body in re.findall(r"pub struct (\w+) \{\n(.*?)\n\}", text, re.S)}
    functions = {}
    for name, given, result in re.findall(r"pub fn (\w+)\(([^)]*)\)(?:\s*-> ([^;]+))?;", text):
        types = [a.split(":")[1].strip() for a in given.split(",") if a.strip()]
        functions[name] = (result or "c_void", types)
    constants = dict(re.findall(r"pub const (\w+): \w+ = (\d+);", text))
    return structs, functions, constants


class Bindings(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.lines, self.structs, self.functions = of_header()
        self.assertGreater(len(self.structs), 3)
        self.assertGreater(len(self.functions), 50)

    def test_structs_of_rust_have_the_fields_of_the_header(self):
        ours = {name: fields for name, fields in of_rust(support.read(RUST))[0].items()
                if name != "fh_heap_t"}                 # of which nobody sees the inside
        self.assertEqual(ours, self.structs)

    def test_functions_of_rust_have_the_types_of_the_header(self):
        ours = of_rust(support.read(RUST))[1]
        self.assertGreater(len(ours), 30)
        self.assertEqual(ours, {
            name: tuple([in_rust(result), [in_rust(kind) for kind in given]])
            for name, (result, given) in self.functions.items() if name in ours})

    def test_constants_have_the_values_of_the_header(self):
        ours = of_rust(support.read(RUST))[2]
        ours.update(("FH_PROFILE_" + kind.upper(), n) for kind, n in freehold.KINDS.items())
        values = abi_test.measured(os.path.join(support.SOURCE, abi_test.HEADER), self.lines)
        self.assertEqual({"constant %s %s" % c for c in ours.items()} - values, set())
        self.assertGreater(len(ours), 3)

    def test_functions_of_python_have_the_types_of_the_header(self):
        def in_python(c_type):
            return IN_PYTHON[re.sub("const ", "", c_type)]

        with mock.patch.object(freehold, "library_path", lambda: support.LIBRARY), \
                mock.patch.object(freehold, "is_preloaded", lambda: False):
            library = freehold._library()
        used = set(re.findall(r"_library\(\)\.(fh_\w+)", support.read(
            "bindings/python/src/freehold/__init__.py")))
        self.assertGreater(len(used), 6)
        for name in used:
            function, (result, given) = getattr(library, name), self.functions[name]
            self.assertEqual((name, function.restype, list(function.argtypes)),
                             (name, in_python(result), [in_python(kind) for kind in given]))

    def test_a_field_of_rust_that_moved_or_has_another_type_is_found(self):
        text = support.read(RUST)
        for old, new in (("pub quota: u64,\n    pub name: [c_char; 32]",
                          "pub name: [c_char; 32],\n    pub quota: u64"),
                         ("pub quota: usize", "pub quota: u64"),
                         ("pub pressure_raises: u64,\n", "")):
            self.assertIn(old, text)
            self.assertNotEqual(of_rust(text.replace(old, new))[0], of_rust(text)[0])


if __name__ == "__main__":
    support.main(sys.modules["__main__"])
