"""How it was made: steps, job, models, data, settings, machine and code, and the files beside the
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
    parts = (("table", _table), ("judged", _model), ("baseline", _model), ("data", _data))
    job = run.get("job")
    groups: list[tuple[str, Pairs]]
    groups = [("Time of each step", _steps(run["steps"]))] if run.get("steps") else []
    if job:
        seed = "not set" if job.get("seed") is None else str(job["seed"])
        method = f"{job['method']}: {summary_of(job['method'])}"
        names = [("Job", job["name"]), ("Method", method), ("Seed", seed)]
        groups.append(("The job", [*names, *formats.flatten(job["parameters"])]))
    titles = {"judged": "The model"}
    groups += [
        (titles.get(key, f"The {key}"), pairs(run[key])) for key, pairs in parts if run.get(key)
    ]
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
        blocks.append(Table("Files beside this page", ["File", "Name"], files, pairs=True))
    return Section("made", "How it was made", blocks)


def _steps(taken: Sequence[Json]) -> Pairs:
    found = []
    for step in taken:
        reused = ", reused from the cache" if step["cached"] else ""
        found.append((step["name"], f"{formats.seconds(step['seconds'])}{reused}"))
    return [*found, ("All", formats.seconds(sum(step["seconds"] for step in taken)))]


def _table(table: Json) -> Pairs:
    names = {
        "Table": "name",
        "Rows": "rows",
        "Training rows": "train_rows",
        "Test rows": "test_rows",
    }
    names |= {"Features": "features", "Fingerprint (SHA-256)": "fingerprint"}
    contract = f"{table['contract_name']}, version {table['contract_version']}"
    positive = [("Positive means", table["positive"])] if table.get("positive") else []
    if table.get("favourable"):
        positive.append(("Favourable outcome", table["favourable"]))
    pairs = [(text, table[key]) for text, key in names.items()]
    if by := table.get("split_by"):
        text = (
            f"those with an equal {by}; intervals draw them together, but for those of "
            "certificates, "
        )
        text += "exchanged terms, membership and questions"
        if table.get("split_unit") == "group":
            text += "; a metric needs so many rows, as a value names a group and no person"
        pairs.append(("Rows that stay together", text))
    return [*pairs, ("Contract", contract), *positive]


def _model(model: Json) -> Pairs:
    return [
        ("Model", model["name"]),
        ("Version", "not registered" if model["version"] is None else str(model["version"])),
        ("Address", model["uri"]),
        ("Method", f"{model['method']}: {summary_of(model['method'])}"),
        *([("Contract", called(model["contract"]))] if model["contract"] else []),
        ("Content (SHA-256)", model["content"]),
    ]


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
    paired = (
        [("Draws of the paired bootstrap", comparison["settings"]["draws"])] if comparison else []
    )
    return [
        ("Rows evaluated", metrics["n"]),
        ("Level of the intervals", f"{100 * settings.get('level', 0.95):g}%"),
        ("Bootstrap draws", settings.get("draws")),
        ("Rows that a rate needs", settings.get("min_cell")),
        *([("Selected from", str(settings["threshold"]))] if "threshold" in settings else []),
        *([("Certificate", COMPARED.format(**settings))] if "compared" in settings else []),
        *paired,
    ]


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
