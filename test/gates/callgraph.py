"""The call graph of the release build with each function's stack, as the compiler writes it
(gcc -fcallgraph-info=su)."""
import os
import re
import subprocess
import tempfile

import support

INDIRECT = "__indirect_call"
# what a function of libc takes: clock_gettime, the deepest, by measurement
OUTSIDE_FRAME = 48


def reach(calls, entries):
    seen, todo = set(), list(entries)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(calls.get(name, ()))
    return seen


class CallGraph:
    """`frames`: bytes of stack of each function of ours, return address included. `calls`: names
    that it calls, a tail call like any other. `dynamic`: functions whose frame has no constant
    size."""

    def __init__(self, text):
        self.frames, self.calls, self.dynamic = {}, {}, []
        names = {INDIRECT: INDIRECT}
        for title, label in re.findall(r'^node: \{ title: "([^"]+)" label: "([^"]*)"', text, re.M):
            lines = label.split("\\n")
            found = re.search(r"(\d+) bytes \((\w+)", label)
            names[title] = lines[0] if found or title == INDIRECT else title
            if title == INDIRECT or not found:
                continue
            self.frames[lines[0]] = int(found.group(1))
            if found.group(2) == "dynamic":
                self.dynamic.append(lines[0])
        for source, target in re.findall(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"',
                                         text, re.M):
            name = re.sub(r"^.*:(\w+)\.localalias$", r"\1", names.get(target, target))
            self.calls.setdefault(names[source],
                                  set()).add(INDIRECT if target == INDIRECT else name)
        # fh_NAME is an alias of NAME (TWIN), and an alias is no node.
        for callees in self.calls.values():
            for name in [n for n in callees if n.startswith("fh_") and n not in self.frames]:
                if name[3:] in self.frames:
                    callees.remove(name)
                    callees.add(name[3:])

    def connect(self, targets):
        """Puts what indirect calls of a function lead to in their place; whom `targets` does
        not name keeps INDIRECT."""
        for caller, callees in targets.items():
            if INDIRECT in self.calls.get(caller, ()):
                self.calls[caller] = (self.calls[caller] - {INDIRECT}) | set(callees)

    def forget(self, name):
        """A function that never returns to its caller or is bounded elsewhere: it
        counts as nothing."""
        for callees in self.calls.values():
            callees.discard(name)

    def frame(self, name):
        return self.frames.get(name, 0 if name == INDIRECT else OUTSIDE_FRAME)

    def reached_from(self, entries):
        return reach(self.calls, entries)

    def rings(self):
        """The sets of functions that call each other in a circle."""
        reached = {name: reach(self.calls, self.calls.get(name, ())) for name in self.frames}
        rings = {frozenset(other for other in reached[name] if name in reached.get(other, ()))
                 | {name}
                 for name in self.frames if name in reached[name]}
        return sorted(map(sorted, rings))

    def deepest(self, entry):
        """(bytes, path) of the deepest walk; `entry` reaches no ring."""
        known = {}

        def walk(name):
            if name not in known:
                below, rest = max(map(walk, sorted(self.calls.get(name, ()))), default=(0, []),
                                  key=lambda found: found[0])
                known[name] = self.frame(name) + below, [name] + rest
            return known[name]

        return walk(entry)


def of_release_build(*flags):
    """None if the compiler writes no call graph."""
    with tempfile.TemporaryDirectory() as folder:
        command = [support.COMPILER, *support.FLAGS, *flags, "-w", "-fcallgraph-info=su", "-c",
                   "src/all.c", "-o", os.path.join(folder, "all.o")]
        if subprocess.run(command, cwd=support.SOURCE, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        found = [name for name in os.listdir(folder) if name.endswith(".ci")]
        if not found:
            return None
        with open(os.path.join(folder, found[0]), encoding="utf-8") as file:
            return CallGraph(file.read())
