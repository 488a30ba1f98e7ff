"""One run as one HTML page that needs nothing else: no script, no network, no font."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenhand.tasks.reporting import figures, formats, markup, words
from evenhand.tasks.reporting.champion import champion_sentence, since_champion
from evenhand.tasks.reporting.context import Environment as Machine
from evenhand.tasks.reporting.context import Evaluation, Gates, Grid, ReportContext, parse_context


@cache
def environment() -> Environment:
    """The pages' templates, with their filters."""
    templates = Environment(
        loader=PackageLoader("evenhand.tasks.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "percent", "count", "interval", "seconds", "moment", "breakable"):
        templates.filters[name] = getattr(formats, name)
    templates.filters["link"] = formats.relative_link
    templates.filters["phrase"] = words.metric_phrase
    return templates


def gate_rows(gates: Gates, interval: str) -> list[dict[str, Any]]:
    """Give a row a gate: what it asked and found, its verdict, and by how much it passed or failed."""
    rows = []
    for result in gates.results:
        status = "passed" if result.passed else result.status
        symbol, verdict = words.GATE_STATUS.get(status, words.GATE_STATUS["refused"])
        said, margin = words.gate_words(result, interval), words.margin(result)
        if margin is None:
            distance = "cannot be told"
        elif margin < 0:
            distance = f"{formats.number(-margin)} {words.too(result)}"
        else:
            distance = f"{formats.number(margin)} to spare"
        rows.append(
            {
                "metric": words.metric(result.metric),
                "name": result.metric,
                "asked": said.asked,
                "compared": said.compared,
                "value": said.found,
                "symbol": symbol,
                "verdict": verdict,
                "kind": status if status in words.GATE_STATUS else "refused",
                "distance": distance,
                "text": "" if result.passed else result.text,
            }
        )
    return rows


def _gates(context: ReportContext) -> dict[str, Any] | None:
    if context.gates is None:
        return None
    return {"rows": gate_rows(context.gates, context.interval), "verdict": context.gates.verdict}


def machine_rows(environment: Machine) -> list[tuple[str, str]]:
    """Name the commit, the machine and the packages that computed something."""
    commit = environment.git_commit or "not recorded"
    if environment.git_commit and environment.git_dirty:
        commit += ", with changes not committed"
    return [
        ("Git commit", commit),
        ("Python", environment.python),
        ("Machine", environment.machine or "not recorded"),
        *sorted(environment.packages.items()),
    ]


def evaluation_rows(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Say how an evaluation was made."""
    settings = evaluation.settings
    return [
        ("Rows judged", formats.count(evaluation.n)),
        ("Level of the intervals", f"{100 * settings.level:g}%"),
        ("Bootstrap draws", formats.count(settings.draws)),
        ("Rows that a rate needs", formats.count(settings.min_cell)),
    ]


def _made(context: ReportContext) -> list[dict[str, Any]]:
    job, table = context.job, context.table
    features = table.features if isinstance(table.features, int) else len(table.features)
    seed = "not set" if job.seed is None else str(job.seed)
    groups: list[tuple[str, list[tuple[str, str]]]] = [
        (
            "The job",
            [("Job", job.name), ("Method", f"{job.method}: {words.method(job.method)}"), ("Seed", seed)]
            + formats.flatten(job.parameters),
        ),
        (
            "The table",
            [
                ("Table", table.name),
                ("Rows", formats.count(table.rows)),
                ("Rows to learn from", formats.count(table.train_rows)),
                ("Rows held back to judge", formats.count(table.test_rows)),
                ("Features", formats.count(features)),
                ("Fingerprint (SHA-256)", table.fingerprint),
                ("Contract", f"{table.contract_name}, version {table.contract_version}"),
            ],
        ),
        (
            "The machine and the code",
            [("Run", context.run_id), *machine_rows(context.environment)],
        ),
    ]
    if context.evaluation is not None:
        groups.insert(2, ("The evaluation", evaluation_rows(context.evaluation)))
    return [{"caption": caption, "rows": rows} for caption, rows in groups]


def _named_rows(grid: Grid) -> bool:
    """Whether rows have names that a narrow page must not squeeze: it scrolls instead."""
    return len(grid.columns) > 3 and any(len(str(row[0])) > 20 for row in grid.rows)


def _sections(context: ReportContext) -> list[dict[str, Any]]:
    return [
        {
            "id": f"extra-{i}",
            "title": section.title,
            "paragraphs": [markup.paragraph(text) for text in section.html_safe_paragraphs],
            "table": section.table,
            "named_rows": section.table is not None and _named_rows(section.table),
            "folded": section.folded,
            "svgs": [markup.drawing(image) for image in (section.svg, section.svg_narrow) if image],
        }
        for i, section in enumerate(context.sections, start=1)
    ]


def cell(value: str | int | float | bool | None) -> str:
    """Show one cell of a section's table."""
    if value is None:
        return formats.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return formats.count(value)
    return formats.number(value) if isinstance(value, float) else value


def headline(context: ReportContext) -> list[str]:
    """Answer in sentences; what changed since the champion comes after what the gates said."""
    first, *rest = words.headline(context)
    told = champion_sentence(context)
    if told is None:
        return [first, *rest]
    outcome = len(words.outcome(context))
    return [first, *rest[:outcome], told, *rest[outcome:]]


def render_report(context: Mapping[str, Any]) -> str:
    """Write the report of one run.

    Parameters
    ----------
    context : mapping
        Plain JSON with the keys of :class:`tasks.reporting.context.ReportContext`. Where ``headline`` is
        empty it is written from the rest.

    Returns
    -------
    str
        A whole HTML document. The same context gives the same text.

    Raises
    ------
    ValueError
        If the context does not fit the model, or a section's SVG does more than draw.
    """
    checked = parse_context(context)
    symbol, status = words.STATUS[checked.status]
    parts: dict[str, Any] = {
        "gates": _gates(checked),
        "champion": since_champion(checked),
        "metrics": figures.metrics(checked),
        "rates": figures.rates(checked.evaluation) if checked.evaluation else [],
        "scores": figures.scores(checked.histograms),
        "training": figures.training(checked),
        "sections": _sections(checked),
        "steps": figures.steps(checked.steps),
        "made": _made(checked),
    }
    titles = {
        "gates": "Gates",
        "champion": "What changed since the champion",
        "metrics": "How good, how even",
        "rates": "Group by group",
        "scores": "Scores",
        "training": "Training",
        "steps": "Steps",
        "made": "How it was made",
    }
    contents: list[tuple[str, str]] = []
    for name, part in parts.items():
        if name == "sections":
            contents += [(section["id"], section["title"]) for section in part]
        elif part:
            contents.append((name, titles[name]))
    template = environment().get_template("report.html.j2")
    return template.render(
        c=checked,
        headline=checked.headline or headline(checked),
        symbol=symbol,
        status=status,
        contents=contents,
        cell=cell,
        **parts,
    )
