"""How it was made: steps, job, models, data, settings, machine and code, and the files next to the
page.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Documents,
    Heading,
    Json,
    Section,
    Table,
    Value,
)
from evenhand.tasks.pages.texts import called, summary_of

PAGES = dict.fromkeys(("run", "evaluation", "drift", "filter", "predict", "sweep", "tune"), 1000)
NEEDS = ("run",)
COMPARED = "mean squared fair distance of at most {budget:.3g}, among {compared:,} people"

Pairs = Sequence[tuple[str, Value]]


def build(documents: Documents) -> Section:
    """Tables of names and values for everything that is recorded."""
    run = documents["run"]
    groups: list[tuple[str, Pairs]] = []
    if run.get("steps"):
        groups.append(("Time of each step", _steps(run["steps"])))
    if run.get("job"):
        groups.append(("The job", _job(run["job"])))
    parts = (
        ("table", "The table", _table),
        ("judged", "The model", _model),
        ("baseline", "The baseline", _model),
        ("data", "The data", _data),
    )
    for key, caption, pairs in parts:
        if run.get(key):
            groups.append((caption, pairs(run[key])))
    groups += run.get("made", [])
    if "proxy" in run:
        groups += _filter(documents)
    if "settings" in (documents.get("metrics") or {}):
        groups.append(("The evaluation", _evaluation(documents)))
    groups.append(("The machine and the code", [("Run", run["id"]), *_machine(run["environment"])]))
    blocks: list[Block] = [
        Table(caption, ["What", "Value"], rows, pairs=True) for caption, rows in groups
    ]
    files = [[Cell(file["name"], href=file["href"]), file["href"]] for file in run.get("files", [])]
    if files:
        blocks.append(Heading("Files of this run"))
        blocks.append(Table("Files next to this page", ["File", "Name"], files, pairs=True))
    return Section("made", "How it was made", blocks)


def _job(job: Json) -> Pairs:
    seed = "not set"
    if job.get("seed") is not None:
        seed = str(job["seed"])
    return [
        ("Job", job["name"]),
        ("Method", f"{job['method']}: {summary_of(job['method'])}"),
        ("Seed", seed),
        *formats.flatten(job["parameters"]),
    ]


def _steps(taken: Sequence[Json]) -> Pairs:
    rows = []
    for step in taken:
        text = formats.seconds(step["seconds"])
        if step["cached"]:
            text += ", reused from the cache"
        rows.append((step["name"], text))
    rows.append(("All", formats.seconds(sum(step["seconds"] for step in taken))))
    return rows


def _table(table: Json) -> Pairs:
    rows: list[tuple[str, Value]] = [
        ("Table", table["name"]),
        ("Rows", table["rows"]),
        ("Training rows", table["train_rows"]),
        ("Test rows", table["test_rows"]),
        ("Features", table["features"]),
        ("Fingerprint (SHA-256)", table["fingerprint"]),
    ]
    column = table.get("split_by")
    if column:
        text = (
            f"those with an equal {column}; intervals draw them together, but for those of "
            "certificates, counterfactual tokens, membership and questions"
        )
        if table.get("split_unit") == "group":
            text += "; a metric needs so many rows, as a value names a group and no person"
        rows.append(("Rows that stay together", text))
    contract = f"{table['contract_name']}, version {table['contract_version']}"
    rows.append(("Contract", contract))
    if table.get("positive"):
        rows.append(("Positive means", table["positive"]))
    if table.get("favourable"):
        rows.append(("Favourable outcome", table["favourable"]))
    return rows


def _model(model: Json) -> Pairs:
    version = "not registered"
    if model["version"] is not None:
        version = str(model["version"])
    rows = [
        ("Model", model["name"]),
        ("Version", version),
        ("Address", model["uri"]),
        ("Method", f"{model['method']}: {summary_of(model['method'])}"),
    ]
    if model["contract"]:
        rows.append(("Contract", called(model["contract"])))
    rows.append(("Content (SHA-256)", model["content"]))
    return rows


def _data(data: Json) -> Pairs:
    counts = {"Rows": "rows", "Rows set aside": "rows_set_aside"}
    return [
        ("Data", data["shown"]),
        *((text, data[key]) for text, key in counts.items() if key in data),
        ("Fingerprint (SHA-256)", data["fingerprint"]),
        *((name, str(value)) for name, value in data.get("more", {}).items()),
    ]


def _evaluation(documents: Documents) -> Pairs:
    metrics = documents["metrics"]
    comparison = documents.get("comparison")
    settings = metrics["settings"]
    rows: list[tuple[str, Value]] = [
        ("Rows evaluated", metrics["n"]),
        ("Level of the intervals", f"{100 * settings.get('level', 0.95):g}%"),
        ("Bootstrap draws", settings.get("draws")),
        ("Rows that a rate needs", settings.get("min_cell")),
    ]
    if "threshold" in settings:
        rows.append(("Selected from", str(settings["threshold"])))
    if "compared" in settings:
        rows.append(("Certificate", COMPARED.format(**settings)))
    if comparison:
        rows.append(("Draws of the paired bootstrap", comparison["settings"]["draws"]))
    return rows


def _filter(documents: Documents) -> list[tuple[str, Pairs]]:
    run = documents["run"]
    proxies = documents["summary"]["proxies"]
    used = [
        (f"Version {item['version']}", f"{formats.plural(item['files'], 'file')}; SHA-256 {digest}")
        for digest, item in sorted(proxies.items())
    ]
    settings = [*formats.flatten(documents["settings"]), ("Time", formats.seconds(run["seconds"]))]
    return [("The settings", settings), ("Proxies that filtered the output's files", used)]


def _machine(environment: Json) -> Pairs:
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
