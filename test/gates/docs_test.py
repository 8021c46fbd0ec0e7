"""What the documentation is held to: its links lead somewhere, the names that it quotes exist,
and its lines are not too long."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import support  # noqa: E402

FENCED = re.compile(r"^```.*?^```|^    [^\n]*$", re.M | re.S)

def pages():
    for directory, folders, names in os.walk(support.SOURCE):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "build")
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(directory, name), support.SOURCE)

def prose(page):
    """The page without what stands in fences or is indented as code; as many lines as before."""
    return FENCED.sub(lambda m: "\n" * m.group(0).count("\n"), support.read(page))

def numbered(pattern, text):
    for m in re.finditer(pattern, text):
        yield text.count("\n", 0, m.start()) + 1, m.group(1)

def anchors(page):
    """The names by which the headings of a page are linked to."""
    for title in re.findall(r"^#+ (.*)$", prose(page), re.M):
        yield re.sub(r"[^\w\- ]", "",
                     re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")

class Lines(unittest.TestCase):
    """Prose is wrapped. Tables and headings are not, nor a line that is one link, nor pages that
    the laboratory writes."""
    COLUMNS = 100
    EXEMPT = re.compile(r"[|#]|\s*(?:[-*] )?!?\[[^\]]*\]\([^)]*\)\W*$")

    def long(self, page, text):
        return ["%s:%d: %d columns" % (page, number, len(line))
                for number, line in enumerate(text.split("\n"), 1)
                if len(line) > self.COLUMNS and not self.EXEMPT.match(line)]

    def test_prose_is_wrapped(self):
        wrong = [line for page in pages() if not prose(page).startswith("# The laboratory: ")
                 for line in self.long(page, prose(page))]
        self.assertEqual(wrong, [])

    def test_a_long_line_is_found(self):
        for line in "a" * 101, "- [a](b) " + "a" * 92:
            self.assertEqual(self.long("x", line), ["x:1: 101 columns"])
        for line in "a" * 100, "| " + "a" * 99, "## " + "a" * 98, "- [a](%s)." % ("b" * 95):
            self.assertEqual(self.long("x", line), [])

class Links(unittest.TestCase):
    def test_links_in_the_documentation_lead_to_files_that_exist(self):
        wrong = []
        for page in pages():
            for line, link in numbered(r"\]\(([^)\s]+)\)", prose(page)):
                if re.match(r"\w+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (os.path.normpath(os.path.join(os.path.dirname(page), path)) if path
                          else page)
                if not os.path.exists(os.path.join(support.SOURCE, target)):
                    wrong.append("%s:%d: %s" % (page, line, link))
                elif anchor and target.endswith(".md") and anchor not in anchors(target):
                    wrong.append("%s:%d: %s has no such heading" % (page, line, link))
        self.assertEqual(wrong, [])

    def test_tasks_and_experiments_that_pages_name_exist(self):
        tasks = set(re.findall(r"^task_(\w+)\(\)", support.read("dev"), re.M))
        folder = os.path.join(support.SOURCE, "lab", "freehold_lab", "experiments")
        shipped = {name for file in os.listdir(folder) for name in (file, file[:-len(".toml")])}
        wrong = []
        for page in pages():
            text = support.read(page)
            wrong += ["%s:%d: ./dev %s" % (page, line, task)
                      for line, task in numbered(r"\./dev ([a-z][\w-]*)", text)
                      if task.replace("-", "_") not in tasks]
            wrong += ["%s:%d: lab run %s" % (page, line, name)
                      for line, name in numbered(r"\blab run ([a-z][\w.-]*)", text)
                      if name not in shipped | {"mine.toml"}]
        self.assertEqual(wrong, [])

    def test_every_decision_is_in_the_list(self):
        folder = os.path.join("docs", "decisions")
        listed = set(re.findall(r"\]\(([^)]+)\)", support.read(os.path.join(folder, "README.md"))))
        there = {n for n in os.listdir(os.path.join(support.SOURCE, folder)) if n.endswith(".md")
                 and n != "README.md"}
        self.assertEqual(sorted(there - listed), [])

    def test_each_processor_with_a_cross_compiler_has_its_row(self):
        table = support.read("README.md").split("## Processors and systems")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (?:x86-64, (?=musl))?(\w+)(?:, glibc)? \|", table, re.M)
        files = {n[:-len(".cmake")] for n in os.listdir(os.path.join(support.SOURCE, "cmake"))
                 if "set(fh_machine" in support.read(os.path.join("cmake", n))}
        tried = re.search(r"^    case \$1 in\n +([\w |]+)\) machines=", support.read("dev"), re.M)
        self.assertEqual(set(rows), files)
        self.assertEqual(set(tried[1].split(" | ")), files)

    def test_the_map_names_every_source(self):
        text = support.read(os.path.join("src", "README.md"))
        sources = [os.path.relpath(p, "src") for p in support.sources(".c", ".h")]
        self.assertEqual([p for p in sources if "`%s`" % p not in text],
                         ["all.c"] if "`all.c`" not in text else [])

def code_of(path, text):
    """Of C: a name that only comments use does not exist."""
    if not path.endswith((".c", ".h", ".cc", ".hpp")):
        return text
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)

def function_of(code, name):
    """What stands between the braces of a function, in one line; "" if it is not defined there."""
    found = re.search(r"^(?![#} ])[^;{}]*\b%s\([^;{}]*\) \{([^\n]*\}$|.*?^\})" % name, code,
                      re.M | re.S)
    return re.sub(r"\s+", " ", found.group(1)) if found else ""

class Weakening(unittest.TestCase):
    def test_each_row_is_of_an_operation_that_the_function_has(self):
        """Up to the first argument's end."""
        table = support.read("docs/concurrency.md").split("<!-- weakening")[1]
        rows = re.findall(r"^\| `(\w+)`, ([\w.]+) \| `(.*?)\)`", table.replace("\\|", "|"), re.M)
        self.assertGreater(len(rows), 50)
        code = {os.path.basename(p): code_of(p, support.read(p))
                for p in support.sources(".c", ".h", folder="src")}
        wrong = [" ".join(row) for row in rows
                 if row[2] not in function_of(code.get(row[1], ""), row[0])]
        self.assertEqual(wrong, [])

    def test_an_operation_of_another_function_is_not_found(self):
        code = "static int f(int n) {\n  return g(&n);\n}\nint h(void) { return f(1); }\n"
        self.assertIn("g(&n", function_of(code, "f"))
        self.assertEqual([function_of(code, name) for name in ("h", "g")], [" return f(1); }", ""])

class Grades(unittest.TestCase):
    @staticmethod
    def who_know(code):
        """The functions that name the constant SECURE."""
        functions = re.finditer(r"^(?![#} ])[^;{}]*?\b(\w+)\([^;{}]*\) \{([^\n]*\}$|.*?^\})", code,
                                re.M | re.S)
        return {m[1] for m in functions if re.search(r"\bSECURE\b", m[2])}

    def test_design_names_all_below_the_secure_layer_that_know_of_the_grade(self):
        listed = support.read("docs/design.md").split("these functions alone know of the grade")[1]
        known = {name for folder in ("base", "os", "support", "arena", "slab", "stock", "heap")
                 for p in support.sources(".c", ".h", folder=os.path.join("src", folder))
                 for name in self.who_know(code_of(p, support.read(p)))}
        self.assertEqual(set(re.findall(r"`(\w+)`", listed.split("\n\n")[0])), known)

    def test_a_function_that_knows_is_found(self):
        code = "int g(void) { return 1; }\nint f(int n) {\n  return SECURE ? n : 0;\n}\n"
        self.assertEqual(self.who_know(code), {"f"})

class Words(unittest.TestCase):
    """A word of which the core makes a file, or a type that a header shows, is one of the language
    or stands in the table of words in design.md."""
    PLAIN = set("""
        aside attempt bitmap bytes count counts enter fast fh firstclass fits free freed grow
        here kind lengthened many maps option outcome own owned part pool purge report resize
        shape shrink slow starts state stats thread upkeep visit visitor""".split())
    TYPES_OF_C = re.compile(r"atomic(8|16|32|64)?|ptr|u?int(8|16|32|64|ptr)|size|bool")
    # the word of the table of which these are forms
    FORMS = {"lacks": "lack", "slices": "slice", "places": "place", "tails": "tail",
             "holes": "hole", "lanes": "lane", "runs": "run", "pages": "page",
             "paged": "page", "frames": "frame",
             "sampled": "sample", "sleepers": "sleeper", "taken": "sleeper", "users": "user"}

    @staticmethod
    def table():
        text = support.read(os.path.join("docs", "design.md"))
        rows = text.split("## 2. Words", 1)[1].split("\n## ", 1)[0]
        return set(re.findall(r"\w+", " ".join(re.findall(r"^\| ([^|]*) \|", rows, re.M))))

    @classmethod
    def used(cls):
        for folder in ("arena", "slab", "stock", "heap"):
            for path in support.sources(".c", ".h", folder=os.path.join("src", folder)):
                yield os.path.splitext(os.path.basename(path))[0], path
                if path.endswith(".h"):
                    for name in re.findall(r"\b(\w+)_t\b", code_of(path, support.read(path))):
                        yield name, path

    def test_words_of_files_and_types_stand_in_the_table(self):
        known = self.table() | self.PLAIN
        words = {(word, path) for name, path in self.used() for word in name.split("_")}
        self.assertGreater(len(words), 80)
        self.assertEqual(sorted((word, path) for word, path in words
                                if self.FORMS.get(word, word) not in known
                                and not self.TYPES_OF_C.fullmatch(word)), [])

    def test_no_word_is_called_plain_that_is_not_used(self):
        words = {word for name, _ in self.used() for word in name.split("_")}
        self.assertEqual(sorted(self.PLAIN - words | self.PLAIN & self.table()), [])

class Names(unittest.TestCase):
    """A word in backticks that can only be a name of ours (it has an underscore, or is a path) must
    be one. NAME and NUMBER stand for something."""
    # names of the world outside
    ELSEWHERE = re.compile(r"pthread_\w+$")
    PLACES = ["", "src", "test", "include", "docs"]

    @classmethod
    def setUpClass(cls):
        cls.names = set()
        for folder in ("src", "include", "test", "tools", "lab", "examples"):
            for path in support.sources(".c", ".h", ".cc", ".hpp", ".py", ".pml", folder=folder):
                text = support.read(path)
                cls.names.update(re.findall(r"[A-Za-z_]\w*", code_of(path, text)))
        for path in support.sources(".rs", ".toml", folder="bindings"):
            cls.names.update(re.findall(r"[A-Za-z_]\w*", support.read(path)))

    def is_path(self, page, word):
        places = [os.path.dirname(page)] + self.PLACES
        return any(os.path.exists(os.path.join(support.SOURCE, place, word)) for place in places)

    def is_name(self, word):
        if "*" in word:
            pattern = re.compile(re.escape(word).replace(r"\*", r"\w*") + "$")
            return any(pattern.match(name) for name in self.names)
        return word in self.names or self.ELSEWHERE.match(word) is not None

    def test_names_in_backticks_exist_in_the_code(self):
        wrong = []
        for page in pages():
            for line, quoted in numbered(r"`([^`\n]+)`", prose(page)):
                if re.fullmatch(r"[A-Za-z_*][\w*]*(\(\))?", quoted) and "_" in quoted.strip("_"):
                    if (not re.search(r"NAME|NUMBER", quoted)
                            and not self.is_name(quoted.replace("()", ""))):
                        wrong.append("%s:%d: %s" % (page, line, quoted))
                elif re.fullmatch(r"(src|test|docs|include|tools|lab|heap|stock|slab|arena|api|"
                                  r"base|os|support)/[\w./-]+", quoted):
                    if not re.search(r"NAME|NUMBER", quoted) and not self.is_path(page, quoted):
                        wrong.append("%s:%d: %s" % (page, line, quoted))
        self.assertEqual(wrong, [])

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
