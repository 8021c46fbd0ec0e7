"""What the prose of pages and comments is held to: no sentence has more than 30 words.

A sentence ends at a full stop, a question mark or an exclamation mark. It also ends with its piece
of the layout: a paragraph, heading, item, table cell, contract line, or column after two spaces.
What stands in backticks is one word, as is a list of such words with commas between. Blocks of code
are left out, and the lines of a model that a program reads."""
import ast
import io
import os
import re
import sys
import tokenize
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import docs_test  # noqa: E402
import source_test  # noqa: E402
import support  # noqa: E402

MOST = 30
# what begins a piece: a heading, an item, a label or number of a contract, a decorator's name
PIECE = re.compile(r"#+ |[-*] |\d+\. |[A-Z]\w+(?: by)?: |[A-Z]\d+\b|S-[a-z]+\b|@\w+ ")
SENTENCE = re.compile(r"\S.*?(?:[.!?][)\"'*`]*(?=\s|$)|\n\n|$)", re.S)
NAMES = re.compile(r"`[^`]*`(?:,?(?: and| or)? `[^`]*`)*")
READ_BY_PROGRAMS = re.compile(r" \* (?:Stands for|and in|[a-z-]+: -D)")

def sentences(lines):
    """Of lines, each a number and a text: where each sentence begins, and its words."""
    text, starts = "", []
    for number, line in lines:
        line = re.sub(r"\]\([^)]*\)", "]", line.strip())
        text += "\n\n" if not line or PIECE.match(line) else " "
        starts.append((len(text), number))
        text += re.sub(r" {2,}|\|", "\n\n", line) + ("\n\n" if line.startswith("#") else "")
    for m in SENTENCE.finditer(text):
        yield max(n for at, n in starts if at <= m.start()), " ".join(m.group(0).split())

def long_sentences(path, texts):
    for lines in texts:
        for number, sentence in sentences(lines):
            words = len(re.findall(r"\S*\w\S*", NAMES.sub("X", sentence)))
            if words > MOST:
                yield "%s:%d: %d words: %s ..." % (path, number, words, sentence[:60])

def of_page(text):
    return [enumerate(docs_test.FENCED.sub(lambda m: "\n" * m.group(0).count("\n"),
                                           text).split("\n"), 1)]

def of_c(text):
    for number, comment in source_test.comments_of(text):
        lines = re.sub(r"^/[/*]+|\*+/$", "", comment).split("\n")
        yield [(number + i, re.sub(r"^\s*\*(?= |$)", "", line)) for i, line in enumerate(lines)
               if not READ_BY_PROGRAMS.match(line)]

def of_python(text):
    for node in ast.walk(ast.parse(text)):
        if (isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
                and ast.get_docstring(node) is not None):
            first = node.body[0]
            yield enumerate(first.value.value.split("\n"), first.lineno)
    comments, last = [], (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start != (last[0] + 1, last[1]):
                yield comments
                comments = []
            comments.append((token.start[0], token.string.lstrip("#")))
            last = token.start
    yield comments

class Sentences(unittest.TestCase):
    maxDiff = None
    FOLDERS = ("src", "include", "test", "tools", "lab")

    def files(self, *suffixes):
        return [p for folder in self.FOLDERS for p in support.sources(*suffixes, folder=folder)]

    def check(self, paths, parts):
        self.assertEqual([wrong for p in paths
                          for wrong in long_sentences(p, parts(support.read(p)))], [])

    def test_pages_have_no_long_sentence(self):
        self.check(docs_test.pages(), of_page)

    def test_comments_of_c_have_no_long_sentence(self):
        self.check(self.files(".c", ".h", ".cc", ".hpp", ".pml"), of_c)

    def test_comments_of_python_have_no_long_sentence(self):
        self.check(self.files(".py"), of_python)

    def test_a_long_sentence_is_found_with_its_line(self):
        half = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        long = half + "fifteen sixteen\n" + half + "fifteen."
        wrong = ["x:2: 31 words: %s ..." % half[:60]]
        self.assertEqual(list(long_sentences("x", of_page("A title\n" + long))),
                         ["x:1: 33 words: A title %s ..." % half[:52]])
        self.assertEqual(list(long_sentences("x", of_page("# A title\n" + long))), wrong)
        self.assertEqual(list(long_sentences("x", of_c("\n/* " + long + " */"))), wrong)
        self.assertEqual(list(long_sentences("x", of_python("\n'''" + long + "'''"))), wrong)
        for short in (half + "fifteen. " + half, half + "\n- " + half, half + "fifteen | " + half,
                      half + "`a b`, `c` and `d`\n" + half + "sixteen"):
            self.assertEqual(list(long_sentences("x", of_page(short))), [])

if __name__ == "__main__":
    support.main(sys.modules["__main__"])
