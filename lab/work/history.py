"""history.py COMMITS - writes a history of Python's standard library as a stream for
git fast-import

Each commit adds a few of its files, edits some that are there, renames one now and then, and merges
a side branch. That is the shape a repository gets in use. Names and dates are fixed, so the object
names are the same every time.
"""

import random
import sys
import sysconfig
from pathlib import Path


def write(text):
    sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode())


def edited(random_, text):
    """The text with a few of its lines doubled, dropped or moved."""
    lines = text.splitlines(keepends=True)
    for _ in range(random_.randint(1, 6)):
        if len(lines) < 4:
            break
        at, to = random_.randrange(len(lines)), random_.randrange(len(lines))
        choice = random_.randrange(3)
        if choice == 0:
            lines.insert(to, lines[at])
        elif choice == 1:
            del lines[at]
        else:
            lines.insert(to, lines.pop(at))
    return b"".join(lines)


def commit(number, branch, changes, merged=None):
    message = f"change {number}\n"
    write(f"commit refs/heads/{branch}\nmark :{number}\ncommitter A Person <person@example.org> "
          f"{1600000000 + number * 3600} +0000\ndata {len(message)}\n{message}")
    if number > 1:
        write(f"from :{number - 1}\n")
    if merged:
        write(f"merge :{merged}\n")
    for change in changes:
        write(change)


def put(name, text):
    return b"M 644 inline %s\ndata %d\n%s\n" % (name.encode(), len(text), text)


def main(commits):
    random_ = random.Random(5)
    top = Path(sysconfig.get_paths()["stdlib"])
    waiting = sorted(path for folder in (top, top / "asyncio", top / "email", top / "json")
                     for path in folder.glob("*.py"))
    if len(waiting) < 100:
        sys.exit(f"{top}: only {len(waiting)} Python sources")
    tree, renamed = {}, 0
    for number in range(1, commits + 1):
        changes = []
        for path in [waiting.pop(0) for _ in range(min(2, len(waiting)))]:
            name = str(path.relative_to(top))
            tree[name] = path.read_bytes()
            changes.append(put(name, tree[name]))
        for name in random_.sample(sorted(tree), min(3, len(tree))):
            tree[name] = edited(random_, tree[name])
            changes.append(put(name, tree[name]))
        if number % 17 == 0:
            old, new = sorted(tree)[number % len(tree)], f"moved/{renamed}.py"
            tree[new] = tree.pop(old)
            changes.append(f'R {old} {new}\n')
            renamed += 1
        commit(number, "main", changes, merged=number - 9 if number % 40 == 0 else None)
    write("done\n")


main(int(sys.argv[1]))
