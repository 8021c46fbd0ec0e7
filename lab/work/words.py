"""words.py FILES... - a python3 program on real text: parses, counts, sorts, rewrites
and serialises source files"""

import ast
import collections
import hashlib
import json
import re
import sys
import tokenize

WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def read(path):
    with tokenize.open(path) as file:
        return file.read()


def main(paths):
    words = collections.Counter()
    followers = collections.defaultdict(collections.Counter)
    nodes = collections.Counter()
    outlines = []
    for path in paths:
        text = read(path)
        found = WORD.findall(text)
        words.update(found)
        for word, following in zip(found, found[1:]):
            followers[word][following] += 1
        tree = ast.parse(text)
        nodes.update(type(node).__name__ for node in ast.walk(tree))
        outlines.append([node.name for node in ast.walk(tree)
                         if isinstance(node, (ast.FunctionDef, ast.ClassDef))])
    index = {word: sorted(after.items(), key=lambda x: (-x[1], x[0]))[:5]
             for word, after in followers.items()}
    text = json.dumps({"index": index, "outlines": outlines, "nodes": nodes}, sort_keys=True,
                      indent=1)
    again = json.loads(text)
    assert again["outlines"] == outlines
    print(len(paths), "files", sum(words.values()), "words", len(words), "different")
    for word, times in sorted(words.items(), key=lambda x: (-x[1], x[0]))[:20]:
        print(f"{times:8} {word}")
    print(hashlib.sha256(text.encode()).hexdigest())


main(sys.argv[1:])
