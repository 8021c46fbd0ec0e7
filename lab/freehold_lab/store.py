"""store.py - the results file: one experiment on one machine, in SQLite, each run
kept as soon as it ended

Holds:   what was written once is never changed; runs of a block that was disturbed stay, marked as
         superseded by the `attempt` that follows. A file belongs to one plan: the experiment's
         text, the allocators and the seed.
"""

import json
import sqlite3
import time
from pathlib import Path

from freehold_lab.places import Failed

SCHEMA = """
create table if not exists experiment (name text, file text, seed integer, started real,
  version text, machine text, command text);
create table if not exists allocator (name text primary key, path text, version text,
  variables text, sha256 text, left_out text);
create table if not exists run (id integer primary key, block integer, attempt integer,
  position integer, part text, workload text, cell text, levels text, replicate integer,
  allocator text, ended text, started real, wall real, user real, system real, peak real,
  integral real, faults integer, figure real, load real, steal real, foreign_share real,
  frequency real, temperature real, figures text, resident text);
create unique index if not exists run_once on run (block, attempt, allocator);
create table if not exists block (block integer, attempt integer, disturbed text,
  primary key (block, attempt));
create table if not exists count (part text, cell text, allocator text, calls text,
  primary key (cell, allocator));
create table if not exists need (cell text, allocator text, peak real,
  primary key (cell, allocator));
create table if not exists note (at real, text text);
"""


def is_pressed(ended, figures):
    """Did a run end as it did because of its limit of memory? Then that is what was to be found,
    and no failure."""
    group = figures.get("group", {})
    return ended != "ok" and bool(group.get("killed") or group.get("met"))


COSTS = ("wall", "user", "system", "peak", "integral", "faults")


class Store:
    def __init__(self, path, fresh=False):
        self.path = Path(path)
        if fresh and self.path.exists():
            self.path.rename(self.path.with_suffix(f".{int(self.path.stat().st_mtime)}.sqlite"))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.base = sqlite3.connect(self.path, timeout=10)
            self.base.row_factory = sqlite3.Row
            self.base.execute("pragma synchronous = full")
            self.base.executescript(SCHEMA)
        except (sqlite3.Error, OSError) as problem:
            raise Failed(f"{self.path}: {problem}") from None

    def close(self):
        self.base.close()

    def write(self, statement, *values):
        try:
            with self.base:
                self.base.execute(statement, values)
        except sqlite3.Error as problem:
            raise Failed(f"{self.path}: {problem}; all runs before this one are kept, the same "
                         "command goes on "
                         "from there") from None

    def insert(self, table, **row):
        marks = ", ".join("?" * len(row))
        self.write(f"insert into {table} ({', '.join(row)}) values ({marks})", *row.values())

    def rows(self, query, *values):
        try:
            return [dict(row) for row in self.base.execute(query, values)]
        except sqlite3.Error as problem:
            raise Failed(f"{self.path}: {problem}") from None

    def experiment(self):
        """What the file was begun with, or None if it is new."""
        found = self.rows("select * from experiment")
        return {**found[0], "machine": json.loads(found[0]["machine"])} if found else None

    def begin(self, experiment, seed, version, machine, command, allocators, left_out):
        self.write("delete from allocator")     # of a beginning that did not come to its end
        for allocator in allocators:
            record = allocator.record()
            self.insert("allocator", **{**record, "variables": json.dumps(record["variables"])},
                        left_out=None)
        for name, reason in left_out.items():
            self.insert("allocator", name=name, left_out=reason)
        self.insert("experiment", name=experiment.name, file=experiment.text, seed=seed,
                    started=time.time(),
                    version=version, machine=json.dumps(machine), command=command)

    def allocators(self):
        return self.rows("select * from allocator where left_out is null order by rowid")

    def left_out(self):
        rows = self.rows("select * from allocator where left_out is not null order by rowid")
        return {row["name"]: row["left_out"] for row in rows}

    def note(self, text):
        """Something the reader of the results has to know."""
        self.insert("note", at=time.time(), text=text)

    def notes(self):
        return [row["text"] for row in self.rows("select text from note order by rowid")]

    def add_run(self, block, attempt, position, cell, replicate, allocator, ended, surroundings,
                costs, figure, figures):
        self.insert("run", block=block, attempt=attempt, position=position, part=cell.part,
                    workload=cell.workload, cell=cell.key,
                    levels=json.dumps({factor: level.value for factor, level in cell.levels}),
                    replicate=replicate, allocator=allocator, ended=ended, started=time.time(),
                    **{name: costs.get(name) for name in COSTS}, figure=figure, **surroundings,
                    figures=json.dumps(figures), resident=json.dumps(costs.get("resident", [])))

    def runs(self):
        """All runs that count: of each block the last attempt that was brought to an end,
        else what there is of it."""
        return self.rows("""
          select run.*, ifnull(block.disturbed, '') as disturbed
          from run left join block using (block, attempt)
          where attempt = ifnull((select max(attempt) from block b where b.block = run.block),
                                 (select max(attempt) from run r where r.block = run.block))
          order by id""")

    def done(self):
        """(block, attempt, allocator) of every run that is there."""
        return {(row["block"], row["attempt"], row["allocator"])
                for row in self.rows("select block, attempt, allocator from run")}

    def failed(self):
        """(cell, allocator) -> how its runs ended that crashed, hung or could not run. Not those
        that a limit of memory ended."""
        found = {}
        for row in self.rows("select * from run where ended != 'ok' order by id"):
            if is_pressed(row["ended"], json.loads(row["figures"])):
                continue
            found.setdefault((row["cell"], row["allocator"]), []).append(row["ended"])
        return found

    def worst_shares(self, block, attempt):
        """The most that others took of the processors in any run of it."""
        return self.rows('select max(steal) as steal, max(foreign_share) as "foreign" from run '
                         'where block = ? and '
                         "attempt = ?", block, attempt)[0]

    def end_block(self, block, attempt, disturbed):
        self.insert("block", block=block, attempt=attempt, disturbed=disturbed)

    def blocks(self):
        """block -> (the last attempt that was judged, what disturbed it or '')"""
        return {row["block"]: (row["attempt"], row["disturbed"])
                for row in self.rows("select * from block order by block, attempt")}

    def attempts(self, bounds):
        """Every attempt at a block that was judged: what disturbed it, and how many runs it had.
        And how many of these lost more than the `bounds`, and whether a later attempt counts
        instead."""
        return self.rows("""
          select block, attempt, disturbed, count(run.id) as runs,
            ifnull(sum(steal > ?), 0) as steal, ifnull(sum(foreign_share > ?), 0) as "foreign",
            attempt < (select max(attempt) from block b where b.block = block.block)
              as is_superseded
          from block left join run using (block, attempt)
          group by block, attempt order by block, attempt""", bounds["steal"], bounds["foreign"])

    def add_count(self, cell, allocator, calls):
        self.insert("count", part=cell.part, cell=cell.key, allocator=allocator,
                    calls=json.dumps(calls))

    def needs(self):
        """cell without limit -> allocator -> its peak there, in bytes."""
        found = {}
        for row in self.rows("select * from need order by rowid"):
            found.setdefault(row["cell"], {})[row["allocator"]] = row["peak"]
        return found

    def counts(self):
        return {(row["cell"], row["allocator"]): json.loads(row["calls"])
                for row in self.rows("select * from count")}
