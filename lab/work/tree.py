import random
random.seed(1)
class Node:
    def __init__(self, key): self.key, self.left, self.right = key, None, None
root, table = Node(0.5), {}
for i in range(30000):
    at, key = root, random.random()
    while True:
        side = "left" if key < at.key else "right"
        if getattr(at, side) is None:
            setattr(at, side, Node(key))
            break
        at = getattr(at, side)
    table[str(i)] = [i] * (i % 20)
    if i % 3 == 0: table.pop(str(i // 2), None)
