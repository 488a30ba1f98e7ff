"""How it was made: steps, job, models, data, settings, machine and code, and the files beside the page."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.texts import summary_of

PAGES = {"run": 1000, "evaluation": 1000, "drift": 1000, "filter": 1000, "sweep": 1000}
NEEDS = ("run",)

Pairs = list[tuple[str, str]]


def build(documents: Documents) -> list[Section]:
    """The steps with their times; tables of names and values for everything that is recorded."""
    steps = documents["run"].get("steps")
    return [*([_steps(steps)] if steps else []), _made(documents)]


def _steps(taken: Sequence[Json]) -> Section:
    """A row a step, with a bar of its time."""
    total, longest = sum(step["seconds"] for step in taken), max(step["seconds"] for step in taken)
    reused = any(step["cached"] for step in taken)
    cached = (
        "Steps whose inputs had not changed were reused from the cache."
        if reused
        else "Every step was computed."
    )
    rows = [
        [
            step["name"],
            Cell(formats.seconds(step["seconds"]), bar=step["seconds"] / longest if longest else 0.0),
            "reused from the cache" if step["cached"] else "computed",
        ]
        for step in taken
    ]
    lead = f"{formats.seconds(total)} in all. {cached}"
    return Section("steps", "Steps", [lead, Table("Time of each step", ["Step", "Time", "Result"], rows)])


def _made(documents: Documents) -> Section:
    run = documents["run"]
    groups: list[tuple[str, Pairs]] = []
    for caption, key, rows in (
        ("The job", "job", _job),
        ("The table", "table", _table),
        ("The model", "judged", _model),
        ("The baseline", "baseline", _model),
        ("The data", "data", _data),
    ):
        if run.get(key):
            groups.append((caption, rows(run[key])))
    groups += [(caption, [(name, value) for name, value in rows]) for caption, rows in run.get("made", [])]
    if documents.get("summary"):
        groups += _filter(documents)
    if documents.get("metrics") and "settings" in documents["metrics"]:
        groups.append(("The evaluation", _evaluation(documents)))
    groups.append(("The machine and the code", [("Run", run["id"]), *machine(run["environment"])]))
    blocks: list[Block] = [Table(caption, ["What", "Value"], rows, pairs=True) for caption, rows in groups]
    files = [[Cell(file["name"], href=file["href"]), file["href"]] for file in run.get("files", [])]
    if files:
        blocks += [
            Heading("Files of this run"),
            Table("Files beside this page", ["File", "Name"], files, pairs=True),
        ]
    return Section("made", "How it was made", blocks)


def _job(job: Json) -> Pairs:
    seed = "not set" if job.get("seed") is None else str(job["seed"])
    method = f"{job['method']}: {summary_of(job['method'])}"
    return [("Job", job["name"]), ("Method", method), ("Seed", seed), *formats.flatten(job["parameters"])]


def _table(table: Json) -> Pairs:
    return [
        ("Table", table["name"]),
        ("Rows", formats.count(table["rows"])),
        ("Training rows", formats.count(table["train_rows"])),
        ("Test rows", formats.count(table["test_rows"])),
        ("Features", formats.count(table["features"])),
        ("Fingerprint (SHA-256)", table["fingerprint"]),
        ("Contract", f"{table['contract_name']}, version {table['contract_version']}"),
    ]


def _model(model: Json) -> Pairs:
    return [
        ("Model", model["name"]),
        ("Version", "not registered" if model["version"] is None else str(model["version"])),
        ("Address", model["uri"]),
        ("Method", f"{model['method']}: {summary_of(model['method'])}"),
        ("Contract", f"{model['contract']['name']}, version {model['contract']['version']}"),
        ("Content (SHA-256)", model["content"]),
    ]


def _data(data: Json) -> Pairs:
    rows = [("Data", data["shown"])]
    if "rows" in data:
        rows += [
            ("Rows", formats.count(data["rows"])),
            ("Rows set aside", formats.count(data["rows_set_aside"])),
        ]
    rows.append(("Fingerprint (SHA-256)", data["fingerprint"]))
    return rows + [(name, str(value)) for name, value in data.get("more", {}).items()]


def _evaluation(documents: Documents) -> Pairs:
    metrics = documents["metrics"]
    settings = metrics["settings"]
    rows = [
        ("Rows evaluated", formats.count(metrics["n"])),
        ("Level of the intervals", f"{100 * settings.get('level', 0.95):g}%"),
        ("Bootstrap draws", formats.count(settings.get("draws"))),
        ("Rows that a rate needs", formats.count(settings.get("min_cell"))),
    ]
    if documents.get("comparison"):
        rows.append(
            ("Draws of the paired bootstrap", formats.count(documents["comparison"]["settings"]["draws"]))
        )
    return rows


def _filter(documents: Documents) -> list[tuple[str, Pairs]]:
    run = documents["run"]
    proxy, proxies = run["proxy"], documents["summary"]["proxies"]
    return [
        (
            "The run",
            [
                ("Job", run["job_name"]),
                ("Proxy", f"{proxy['name']}, version {proxy['version']}"),
                ("Input", run["input"]),
                ("Output", run["output"]),
                ("Time", formats.seconds(run["seconds"])),
            ],
        ),
        ("The settings", formats.flatten(documents["settings"])),
        (
            "Proxies that filtered the output's files",
            [
                (f"Version {item['version']}", f"{formats.plural(item['files'], 'file')}; SHA-256 {digest}")
                for digest, item in sorted(proxies.items())
            ],
        ),
    ]


def machine(environment: Json) -> Pairs:
    """The commit, the machine and the packages that computed something."""
    commit = environment.get("git_commit") or "not recorded"
    if environment.get("git_commit") and environment.get("git_dirty"):
        commit += ", with changes not committed"
    return [
        ("Git commit", commit),
        ("Python", environment["python"]),
        ("Machine", environment.get("machine") or "not recorded"),
        *sorted(environment.get("packages", {}).items()),
    ]
