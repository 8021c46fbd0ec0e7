"""report.py - a results file as one self-contained page, as CSV, JSON and PNG, and as Markdown

Holds:   the page needs nothing but itself: style, script, plotly's own script and
         all data are in it.
"""

import json
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import jinja2
import pandas
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from freehold_lab import __version__, drawing, pictures, pressure, tables
from freehold_lab.analysis import frame, ratios, slope
from freehold_lab.peers import PEERS
from freehold_lab.places import PACKAGE, Failed
from freehold_lab.runner import CAUSES

RATIOS = ("time", "peak", "integral", "faults", "calls")


class Section:
    def __init__(self, name, title, text=""):
        self.name, self.title, self.text = name, title, text
        self.pictures, self.tables = [], []

    def add(self, *found):
        for thing in found:
            if thing is not None:
                (self.pictures if isinstance(thing, drawing.Picture) else self.tables).append(thing)


def write(path, out, base=None, with_png=True, markdown=None, study=None):
    """Makes the page and its files in the folder `out`, and the pages `markdown` and `study` if
    they are named; returns the first one's path. Ratios are to `base`, the experiment's own if
    there is none."""
    results = frame.read(path)
    base = base or (results.plan.base if results.plan.base in results.names else results.names[0])
    if base not in set(results.runs.allocator):
        raise Failed(f"no runs of {base} to compare with; there are "
                     f"{', '.join(results.runs.allocator.unique())}")
    palette = drawing.Palette(results.names)
    sections = sections_of(results, base, palette)
    try:
        if markdown:
            write_markdown(results, Path(markdown), sections[:1], "--markdown")
        if study:
            write_markdown(results, Path(study), laid_out(sections), "--study")
        return write_files(results, out, base, palette, sections, with_png)
    except OSError as problem:
        raise Failed(f"{out}: {problem.strerror or problem}") from None


def sections_of(results, base, palette):
    by_response, overall = {}, {}
    for response in [name for name in RATIOS if results.runs[name].notna().any()]:
        by_response[response], resampled = ratios.by_cell(
            results.runs, response, base, is_counted=response == "calls")
        overall[response] = ratios.overall(by_response[response], resampled)
    first = Section("overall", "All workloads",
                    f"Ratios are to {base}; below 1 the allocator needs less.")
    first.add(pictures.speed_and_memory(overall, base, palette),
              pictures.scaled_to_largest(results, palette),
              *pictures.scaled_bars(by_response, base, palette), *pressure.of_results(results),
              tables.program_table(results),
              *tables.overall_tables(overall, base),
              *tables.workload_tables(results.runs, by_response, base, results.names),
              *tables.power_tables(results.runs))
    sections = [first]
    for part in [part for part in results.plan.parts if len(results.part(part.name))]:
        about = results.workloads[part.workload].about
        section = Section(drawing.file_name("part", part.name), part.name, about)
        section.add(*pictures.of_part(results, part.name, palette),
                    *tables.of_part(results, part.name, by_response, base))
        add_slopes(section, results, part, palette)
        sections.append(section)
    return sections


def add_slopes(section, results, part, palette):
    runs, factors = frame.with_factors(results.part(part.name))
    for factor in [factor for factor in part.slopes if pictures.is_numeric(runs[factor])]:
        others = [other for other in factors if other != factor and runs[other].nunique() > 1]
        found = slope.by_allocator(runs, factor, others)
        if len(found):
            section.add(pictures.slopes(part.name, found, factor, others, palette),
                        tables.slope_table(part.name, factor, found))


def facts_of(results):
    runs = results.runs
    begun = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(results.begun["started"]))
    discarded = f"the first {results.plan.discard}" if results.plan.discard else "none"
    return (f"{len(runs):,} runs that count, begun {begun}; {results.plan.replicates} replicates, "
            f"{discarded} discarded; all allocators of a group of runs side by side in random "
            f"order, seed {results.begun['seed']}.")


def notes_of(results):
    notes = [f"{name} was left out: {reason}"
             for name, reason in results.left_out.items()] + list(results.notes)
    disturbed = results.runs[results.runs.disturbed != ""]
    if len(disturbed):
        blocks = disturbed.groupby(["cell", "replicate"]).ngroups
        notes.append(f"{blocks} blocks ({len(disturbed)} runs) were disturbed beyond the bounds "
                     "at every attempt and "
                     "are in all figures nevertheless, for instance: "
                     f"{disturbed.disturbed.iloc[0]}.")
    return notes


def disturbance_table(results):
    """What disturbed the runs, how many were made again for it, and what was kept all the same."""
    bounds = results.plan.disturbance
    rows = []
    for key, cause in CAUSES.items():
        blocks = [block for block in results.attempts if cause in block["disturbed"]]
        again = [block for block in blocks if block["is_superseded"]]
        rows.append({"cause": cause, "bound": bounds[key], "blocks run again": len(again),
                     "runs made again": sum(block["runs"] for block in again),
                     "runs beyond it": sum(block[key] for block in blocks),
                     "blocks kept beyond it": len(blocks) - len(again)})
    return tables.Table("disturbance", "What disturbed the runs",
                        "A block is the runs of all allocators side by side. One in which a run "
                        "lost more than the bound, a share of all processor time, is run again "
                        "as a whole, as often as the experiment or --retries allows. Only the last "
                        "attempt counts. Stolen time is the steal of /proc/stat.",
                        pandas.DataFrame(rows))


def machine_facts(results):
    """What the machine is, one value each; its caches have a table of their own."""
    return [(name, value) for name, value in results.begun["machine"].items() if name != "caches"]


def environment_tables(results):
    found = pandas.DataFrame(results.allocators).rename(columns={"name": "allocator"})
    found["sha256"] = found.sha256.str[:16]
    yield tables.Table("allocators", "Allocators",
                       "Each proved in a child that malloc and its family are its own, and "
                       "asked again by every run.",
                       found[["allocator", "version", "path", "variables", "sha256"]])
    caches = results.begun["machine"].get("caches") or [{"level": "cannot be read here"}]
    yield tables.Table("caches", "Caches",
                       "Which processors share one: their numbers, a list for each cache.",
                       pandas.DataFrame(caches))
    yield disturbance_table(results)
    while_running = results.runs[["load", "steal", "foreign_share", "frequency",
                                  "temperature"]].describe().T
    yield tables.Table("surroundings", "The machine while it measured",
                       "Over all runs: load average before, shares of processor time stolen by a "
                       "hypervisor and used "
                       "by other programs, MHz, °C; empty where the machine does not say.",
                       while_running[["mean", "min", "50%",
                                      "max"]].rename_axis("quantity").reset_index())


def commands_of(results, report=()):
    """Lines for a shell in the repository; `report`: further arguments of the last one."""
    made = [allocator["name"] for allocator in results.allocators
            if allocator["name"] in PEERS and allocator["name"] != "libc"]
    run = shlex.split(results.begun["command"])[1:]
    seed = [] if "--seed" in run else ["--seed", str(results.begun["seed"])]
    commands = [*([["peers", *made]] if made else []), run + seed,
                ["report", str(results.path), *report]]
    return [f"./dev lab {shlex.join(command)}" for command in commands]


def write_files(results, out, base, palette, sections, with_png):
    out = Path(out)
    for folder in (out / "tables", out / "pictures"):
        folder.mkdir(parents=True, exist_ok=True)
    extra = list(environment_tables(results))
    for table in [*(table for section in sections for table in section.tables), *extra]:
        table.frame.to_csv(out / "tables" / f"{table.name}.csv", index=False)
    results.runs.drop(columns=["resident"]).to_csv(out / "runs.csv", index=False)
    record = json.dumps(as_json(results, base, sections), indent=1, default=str)
    (out / "report.json").write_text(record + "\n")
    drawn = [picture for section in sections for picture in section.pictures]
    if with_png:
        for picture in drawn:
            write_picture(picture, out / "pictures" / f"{picture.name}.png")
    page = out / "index.html"
    page.write_text(page_of(results, palette, sections, extra, drawn))
    return page


def write_picture(picture, path):
    picture.figure.write_image(path, width=1100, scale=1.5)


def pack(picture):
    """Half as many bytes, the same pixels; without optipng the picture stays as it is."""
    if shutil.which("optipng"):
        subprocess.run(["optipng", "-quiet", "-o5", picture], check=True)


# In the names of what a study is read by. Ratios, which `--markdown` is about, are not among it.
STUDIED = re.compile("scaled-to-largest|programs-means|power|design|means|mappings|own-p|tukey$"
                     "|-by-(?!factor)|slope-table|-cells-|-box-|-line-|pressure-(?!cells)")
AGAIN = re.compile("tukey-by|figure-tukey")
AGAIN_OF_RATE = re.compile("tukey-by|wall-tukey")       # time may be given where rates are compared


def laid_out(sections):
    """Of each section what an experiment lays out after a paper, and what that rests on."""
    for section in sections:
        found = Section(section.name, section.title, section.text)
        is_rate = any("-rate-" in picture.name for picture in section.pictures)
        again = AGAIN_OF_RATE if is_rate else AGAIN
        found.add(*(thing for thing in [*section.pictures, *section.tables]
                    if STUDIED.search(thing.name) and not again.search(thing.name)))
        yield found


def write_markdown(results, page, sections, option):
    """What the sections say as the file `page`, made with `option`, its pictures beside it as
    NAME-PICTURE.png: for a repository, where a page of some megabytes is out of place."""
    page.parent.mkdir(parents=True, exist_ok=True)
    name = Path(results.path).name
    lines = [f"# The laboratory: {results.plan.name}", "", results.plan.about, ""]
    for number, section in enumerate(sections):
        lines += ([f"# {section.title}", "", section.text, ""] if number else
                  [f"{facts_of(results)} {section.text} Wins are **bold**, losses *in italics*.",
                   ""])
        lines += section_lines(section, page)
    facts = pandas.DataFrame([*machine_facts(results), ("laboratory", __version__),
                              ("results", name)], columns=["", "value"])
    lines += ["## Environment", "", tables.Table("", "", "", facts).markdown(), ""]
    for table in environment_tables(results):
        shown = tables.Table("", "", "", table.frame.drop(columns=["path"], errors="ignore"))
        lines += [f"### {table.title}", "", table.caption, "", shown.markdown(), ""]
    notes = notes_of(results) or ["Nothing was left out, and nothing failed."]
    lines += ["### What to know about these runs", "", *(f"- {note}" for note in notes), ""]
    commands = commands_of(results, [option, str(page)])
    lines += ["### To repeat it", "", *(f"    {command}" for command in commands), ""]
    page.write_text("\n".join(lines))


def section_lines(section, page):
    """A section's pictures, which are made here, and its tables."""
    for picture in section.pictures:
        beside = page.with_name(f"{page.stem}-{picture.name}.png")
        write_picture(picture, beside)
        pack(beside)
        yield from (f"![{picture.title}]({beside.name})", "",
                    f"{picture.title}. {picture.caption}", "")
    for table in section.tables:
        yield from (f"## {table.title}", "", table.caption, "", table.markdown(), "")


def as_json(results, base, sections):
    return {"experiment": results.plan.name, "base": base, "begun": results.begun,
            "allocators": results.allocators, "left_out": results.left_out,
            "failed": results.failed, "notes": notes_of(results),
            "tables": {
                table.name: json.loads(table.frame.to_json(orient="records", double_precision=15))
                       for section in sections for table in section.tables}}


def page_of(results, palette, sections, extra, drawn):
    text = {name: (PACKAGE / "page" / name).read_text()
            for name in ("page.html", "page.css", "page.js")}
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(text["page.html"])
    figures = {picture.name: json.loads(picture.figure.to_json()) for picture in drawn}
    return template.render(
        plan=results.plan, facts=facts_of(results), sections=sections, environment_tables=extra,
        allocators=[{"name": name, "colour": palette.of(name)["color"]} for name in results.names],
        environment=[*machine_facts(results), ("laboratory", __version__),
                     ("results", results.path)],
        notes=notes_of(results), commands=commands_of(results), css=Markup(text["page.css"]),
        js=Markup(text["page.js"]), plotly=Markup(get_plotlyjs()),
        pictures=Markup(json.dumps(figures).replace("</", "<\\/")))
