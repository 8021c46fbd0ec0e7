"""runner.py - carries an experiment out: block after block, every run kept, disturbed blocks again

Holds:   a run is written before the next one starts. A block counts with its last attempt. What
         cuts a run short (ctrl-C, a full disk, a crash of this program) costs that run only: the
         same command goes on from there.
"""

import json
import random
import shlex
from dataclasses import dataclass

from freehold_lab import __version__, machine
from freehold_lab.group import Group
from freehold_lab.launch import Counted, Launch, Mapped, can_count
from freehold_lab.places import Broken, Failed
from freehold_lab.progress import Progress, clear
from freehold_lab.store import is_pressed


# failures of an allocator in a cell, after which it is not run there again
GIVE_UP = 2
# Responses that are counted in runs of their own.
COUNTED = {"calls", "system_calls", "asked"}
# What can disturb a block, in words.
CAUSES = {"steal": "stolen by the hypervisor", "foreign": "used by other programs"}


@dataclass
class Setting:
    """What a file of results belongs to."""
    experiment: object
    allocators: list
    left_out: dict
    seed: int | None
    command: list


def open_plan(store, setting, say):
    """Begins a new file or goes on with an old one; returns the plan."""
    names = [allocator.name for allocator in setting.allocators]
    begun = store.experiment()
    if begun is None:
        seed = random.SystemRandom().randrange(1 << 32) if setting.seed is None else setting.seed
        store.begin(setting.experiment, seed, __version__, machine.description(),
                    shlex.join(setting.command), setting.allocators, setting.left_out)
        return setting.experiment.plan(names, seed)
    check_same(store, begun, setting, names)
    done = len(store.blocks())
    plan = setting.experiment.plan(names, begun["seed"])
    if done:
        say(f"{store.path}: {done} of {len(plan)} blocks are there; going on")
    return plan


def check_same(store, begun, setting, names):
    """Only the plan that a file was begun with may go on in it."""
    if begun["file"] != setting.experiment.text:
        raise Failed(f"{store.path} belongs to another experiment or an older state of its file; "
                     "name another with "
                     "--results, or begin anew with --fresh")
    if setting.seed not in (None, begun["seed"]):
        raise Failed(f"{store.path} was begun with --seed {begun['seed']}")
    before = [allocator["name"] for allocator in store.allocators()]
    if names != before:
        raise Failed(f"{store.path} was begun with {', '.join(before)}, now there are "
                     f"{', '.join(names)}; name "
                     "another file with --results, or begin anew with --fresh")
    for allocator in setting.allocators:
        old = store.rows("select * from allocator where name = ?", allocator.name)[0]
        now = allocator.record()
        if (old["sha256"], json.loads(old["variables"])) != (now["sha256"], now["variables"]):
            raise Failed(f"{allocator.name} is not the library, or has not the variables, that "
                         f"{store.path} was begun with; begin anew with --fresh")


class Runner:
    def __init__(self, store, setting, workloads, say):
        self.store, self.setting, self.workloads, self.say = store, setting, workloads, say
        self.experiment = setting.experiment
        self.allocators = {allocator.name: allocator for allocator in setting.allocators}
        self.failed, self.needs = store.failed(), {}

    def run(self):
        """Everything that is not there yet."""
        plan = self.runnable(open_plan(self.store, self.setting, self.say))
        plan = self.with_need(plan)
        judged, done = self.store.blocks(), self.store.done()
        todo = [n for n, _ in plan if n not in judged or self.is_due_again(judged[n])]
        runs = {number: len(order) for number, (_, _, order) in plan}
        self.bar = Progress(self.experiment.name, sum(runs.values()),
                            sum(runs.values()) - sum(runs[number] for number in todo))
        try:
            for number, block in plan:
                if number in todo:
                    self.run_block(number, block, judged.get(number), done)
            if COUNTED & set(self.experiment.responses):
                self.count_all()
        finally:
            clear()
        return self.store.failed()

    def runnable(self, plan):
        """The numbered blocks whose workload can run here; the others are named, in
        the results too."""
        reasons = {name: self.workloads[name].missing()
                   for name in {cell.workload for _, cell, _ in plan}}
        for name, reason in reasons.items():
            if reason:
                self.tell(f"{name}: left out: {reason}")
        if all(reasons.values()):
            raise Failed(f"nothing to run: {next(iter(reasons.values()))}")
        return [(number, block)
                for number, block in enumerate(plan) if not reasons[block[1].workload]]

    def with_need(self, plan):
        """Finds the least need of each cell that is to be limited, in bytes: the least of the
        allocators' peaks without a limit, from one run of each. A peak is resident memory
        (Launch.costs). It has the pages of mapped files in it, but neither what the kernel holds
        for the processes nor the files that they read and write. A bisection by limits would take
        some ten runs of each allocator. Its answer would depend on the time limit, because a
        program with too little waits for its own code to be read again.

        An allocator that fails without a limit is told, and has no peak. Returns the plan without
        the blocks of cells in which all fail. Raises Broken where memory cannot be limited."""
        wanted = {cell.unlimited.key: cell.unlimited for _, (_, cell, _) in plan if cell.memory}
        if wanted:
            with Group(1 << 30):
                pass
        known = self.store.needs()
        for key, cell in wanted.items():
            due = [name for name in cell.fitting(self.allocators) if name not in known.get(key, ())]
            if due:
                self.say(f"{key}: least need")
            for name in due:
                ended, _, costs = self.launch(cell, name)
                if ended == "ok":
                    self.store.insert("need", cell=key, allocator=name, peak=costs["peak"])
        self.needs = {key: min(peaks.values()) for key, peaks in self.store.needs().items()}
        for key in wanted.keys() - self.needs.keys():
            self.tell(f"{key}: left out: no allocator completes it without a limit")
        return [(number, block) for number, block in plan
                if not block[1].memory or block[1].unlimited.key in self.needs]

    def tell(self, text):
        """To the person at the terminal and to the reader of the results; once."""
        self.say(text)
        if text not in self.store.notes():
            self.store.note(text)

    def is_given_up(self, cell, name):
        return len(self.failed.get((cell.key, name), ())) >= GIVE_UP

    def is_due_again(self, judged):
        attempt, disturbed = judged
        return bool(disturbed) and attempt < self.experiment.disturbance["retries"]

    def run_block(self, number, block, judged, done):
        """All allocators once; again as long as something disturbed them and retries are left."""
        replicate, cell, order = block
        attempt = 0 if judged is None else judged[0] + 1
        while True:
            for position, name in enumerate(order):
                if (number, attempt, name) not in done and not self.is_given_up(cell, name):
                    self.bar.show(f"{cell.key} {name}"[:60])
                    self.run_one(number, attempt, position, cell, replicate, name)
                self.bar.step()
            disturbed = self.judge(self.store.worst_shares(number, attempt))
            self.store.end_block(number, attempt, disturbed)
            if not self.is_due_again((attempt, disturbed)):
                if disturbed:
                    self.say(f"{cell.key}, replicate {replicate + 1}: still disturbed "
                             f"({disturbed}); kept, marked")
                return
            self.say(f"{cell.key}, replicate {replicate + 1}: disturbed ({disturbed}); again")
            attempt += 1
            self.bar.total += len(order)

    def judge(self, worst):
        """What disturbed a block beyond the bounds, in words; '' if nothing did."""
        return ", ".join(f"{worst[key]:.0%} of processor time {CAUSES[key]}" for key in CAUSES
                         if (worst[key] or 0) > self.experiment.disturbance[key])

    def run_one(self, number, attempt, position, cell, replicate, name):
        before = machine.Moment.now()
        ended, figures, costs = self.launch(cell, name)
        shares = machine.Moment.now().since(before)
        surroundings = {"load": before.load, "steal": shares["steal"],
                        "foreign_share": shares["foreign"],
                        "frequency": machine.frequency(), "temperature": machine.temperature()}
        self.store.add_run(number, attempt, position, cell, replicate, name, ended, surroundings,
                           costs, figures.get(self.workloads[cell.workload].figure.key), figures)

    def launch(self, cell, name):
        """One run of a cell: how it ended, its figures and its costs. A failure is told, unless it
        came of the limit of memory."""
        ended, figures, memory = "ok", {}, 0
        if cell.memory:
            memory = cell.memory * self.needs[cell.unlimited.key]
        launch = Launch(self.allocators[name], self.experiment.time_limit, cell.processors,
                        cell.variables, memory=memory)
        try:
            with launch:
                figures = self.workloads[cell.workload].run(launch, dict(cell.parameters))
        except Broken:
            raise
        except Failed as problem:
            ended = str(problem)
        if memory:
            figures = {**figures, "group": launch.told}
        if ended != "ok" and not is_pressed(ended, figures):
            self.failed.setdefault((cell.key, name), []).append(ended)
            self.tell(f"{cell.key}: {name}: {ended}"
                      + ("; it is not run there again" if self.is_given_up(cell, name)
                         else ""))
        return ended, figures, launch.costs

    def counting(self, allocator, cell):
        """How a run is started whose calls are counted: all, those for memory, or these with their
        sizes."""
        how = {"variables": cell.variables}
        if "asked" in self.experiment.responses:
            return Mapped(allocator, 10 * self.experiment.time_limit, **how)
        return Counted(allocator, 10 * self.experiment.time_limit, **how,
                       is_every="system_calls" in self.experiment.responses)

    def count_all(self):
        """System calls, once for each cell and allocator, in runs of their own: tracing slows them
        down."""
        if not can_count():
            self.tell("strace cannot trace here; system calls are not counted")
            return
        counted = self.store.counts()
        cells = [cell
                 for cell in self.experiment.cells() if not self.workloads[cell.workload].missing()]
        due = [(cell, name) for cell in cells for name in cell.fitting(self.allocators)
               if (cell.key, name) not in counted and not self.is_given_up(cell, name)]
        self.bar.total += len(due)
        for cell, name in due:
            self.bar.show(f"counting calls: {cell.key} {name}"[:60])
            try:
                with self.counting(self.allocators[name], cell) as launch:
                    self.workloads[cell.workload].run(launch, dict(cell.parameters))
                self.store.add_count(cell, name, launch.costs)
            except Failed as problem:
                self.tell(f"{cell.key}: {name}: counting its system calls: {problem}")
            self.bar.step()


def summary(store):
    """What a finished or unfinished file holds, in one line."""
    runs = store.runs()
    again = sum(attempt for attempt, _ in store.blocks().values())
    disturbed = sum(bool(why) for _, why in store.blocks().values())
    failed = [run for run in runs if run["ended"] != "ok"]
    pressed = sum(is_pressed(run["ended"], json.loads(run["figures"])) for run in failed)
    return (f"{len(runs)} runs in {len(store.blocks())} blocks, {again} blocks run again, "
            f"{disturbed} of them still "
            f"disturbed, {len(failed) - pressed} failed runs"
            + (f", {pressed} ended by a limit of memory" if pressed else ""))


def carry_out(store, setting, workloads, say):
    """The whole experiment; the exit code of the command."""
    try:
        failed = Runner(store, setting, workloads, say).run()
        say(f"{store.path}: {summary(store)}")
        return 1 if failed else 0
    except KeyboardInterrupt:
        say(f"stopped; {store.path}: {summary(store)}; the same command goes on from there")
        return 130
