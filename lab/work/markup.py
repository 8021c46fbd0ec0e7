"""markup.py BYTES FILE - writes a document of nested tags and words, the same every time"""

import random
import sys

TAGS = ("b", "i", "u", "p", "r", "g", "c", "m", "y", "k")
WORDS = "free hold slab heap page block arena thread owner anchor map".split()


def document(size):
    chance, stack, written, length = random.Random(7), [], [], 0
    while length < size or stack:
        turn = chance.random()
        if length < size and len(stack) < 12 and turn < 0.3:
            stack.append(chance.choice(TAGS))
            piece = f"<{stack[-1]}>"
        elif stack and (length >= size or turn < 0.55):
            piece = f"</{stack.pop()}>"
        else:
            piece = chance.choice((" ", chance.choice(WORDS)))
        written.append(piece)
        length += len(piece)
    return "".join(written)


def main(size, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(document(size))


main(int(sys.argv[1]), sys.argv[2])
