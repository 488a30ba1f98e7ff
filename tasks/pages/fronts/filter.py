"""The page of a filter run: rows kept, files, the balance to expect, and drift of the proxy groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Front, Heading, Json, Section, Table

NEEDS = ("summary", "settings")
# A longer table is folded; a table of files and a chart have at most so many rows.
MOST_OPEN, MOST_FILES, MOST_DRAWN = 12, 200, 30


def front(documents: Documents) -> Front:
    """Build the front."""
    run = documents["run"]
    facts = [("Proxy", Cell(texts.called(run["proxy"]), code=run["proxy"]["uri"]))]
    facts += [(name.capitalize(), Cell("", code=run[name])) for name in ("input", "output")]
    title, meta = f"{run['job_name']}: filtered rows", [f"Run {run['id']}"]
    found = headline(documents)
    return Front("filter report", title, meta, found, run["created"], badge=badge(documents), facts=facts)


def badge(documents: Documents) -> tuple[str, str, str]:
    """Class of the badge, its symbol and its text."""
    summary = documents["summary"]
    failed, files = len(files_by(summary, "failed")), len(summary["files"])
    if failed:
        return "failed", "\u2715", f"{failed:,} of {formats.plural(files, 'file')} failed"
    if documents["run"]["status"] == "failed":
        return "failed", "!", "Did not finish"
    if not summary["rows_in"]:
        return "insufficient_evidence", "?", "No rows to filter"
    if summary["drift"] and summary["drift"]["warning"]:
        return "insufficient_evidence", "?", "Filtered, but the rows have drifted"
    return "passed", "\u2713", "Filtered"


def headline(documents: Documents) -> list[str]:
    """Say how many rows were kept, what failed, what balance to expect, and whether the rows have drifted."""
    summary, middle = documents["summary"], []
    if summary["rows_in"]:
        drift, balance = [drift_sentence(documents)], _balance(documents)
        warned = summary["drift"] and summary["drift"]["warning"]
        middle = [*drift, *balance] if warned else [*balance, *drift]
    return [_kept(summary), *_failed(documents), *middle, *_other_proxies(documents)]


def _kept(summary: Json) -> str:
    done, skipped = len(files_by(summary, "done")), len(files_by(summary, "skipped"))
    known = done + skipped + summary["others"]
    files = formats.plural(known, "file")
    if not summary["rows_in"]:
        nothing = "Nothing was filtered, and the output has no row."
        return f"There was nothing to filter: {files} without a row." if known else nothing
    share = formats.percent(summary["rows_out"] / summary["rows_in"])
    rows = formats.plural(summary["rows_in"], "row")
    text = f"The output has {formats.count(summary['rows_out'])} of {rows} ({share}), from {files}."
    if skipped and not done and not files_by(summary, "failed"):
        text += " All files of the input were filtered before and have not changed."
    elif skipped:
        text += f" Of these, {formats.plural(skipped, 'file was', 'files were')} filtered in an earlier run."
    if summary["others"]:
        others = formats.plural(summary["others"], "file is", "files are")
        text += f" {others} of earlier runs and not in this input."
    return text


def _failed(documents: Documents) -> list[str]:
    summary = documents["summary"]
    failed, files = len(files_by(summary, "failed")), len(summary["files"])
    if failed:
        return [
            f"{failed:,} of {formats.plural(files, 'file')} of the input failed; none of their rows is in "
            "the output. The table of files has the reasons: correct the files and run the filter again; "
            "finished files are skipped."
        ]
    if documents["run"]["status"] == "failed":
        return ["The run did not finish: start it again, and it continues."]
    return []


def _other_proxies(documents: Documents) -> list[str]:
    """Say which files in the output another version of the proxy filtered."""
    own, proxies = str(documents["run"]["proxy"]["version"]), documents["summary"]["proxies"].values()
    others = [item for item in proxies if str(item["version"]) != own]
    if not others:
        return []
    files = formats.plural(sum(item["files"] for item in others), "file")
    versions = formats.join([f"version {item['version']}" for item in others])
    return [
        f"The output also contains {files} filtered by another proxy ({versions}) and not in this input. The "
        "row counts include them; the expected shares and the drift do not. Filter them again, or choose an "
        "empty output, to have files of one proxy only."
    ]


def _balance(documents: Documents) -> list[str]:
    by_attribute = expected_by_attribute(documents)
    if not by_attribute:
        return [without_balance(documents)]
    level = texts.interval_name(documents["summary"]["balance"])
    sentences = []
    for attribute, rows in by_attribute.items():
        known = [row for row in rows if row["baseline"] is not None and row["value"] is not None]
        for row in sorted(known, key=lambda row: float(row["baseline"]))[:1]:
            training, expected, target = (formats.percent(row[key]) for key in ("baseline", "value", "limit"))
            sentences.append(
                f"By {spoken(attribute)}: the rarest group, “{row['label']}”, is {training} of the training "
                f"rows and expected to be {expected} of the kept rows ({level} "
                f"{formats.interval(row['low'], row['high'], formats.percent)}; target {target})."
            )
    everyone = [row for rows in by_attribute.values() for row in rows]
    goal = [row["limit"] for row in everyone]
    after, before = (distance([row[key] for row in everyone], goal) for key in ("value", "baseline"))
    if after is not None and before is not None:
        sentences.append(
            "The imbalance (distance of all shares from the target) is expected to be "
            f"{formats.number(after)}; that of the training rows is {formats.number(before)}."
        )
    worse = [f"“{row['label']}”" for row in everyone if is_farther(row)]
    if worse:
        sentences.append(f"Expected to be farther from the target than in training: {formats.join(worse)}.")
    return sentences


def drift_sentence(documents: Documents) -> str:
    """Say whether the rows are like the training rows, and if not, what to do."""
    found = documents["summary"]["drift"]
    if found is None:
        return "Drift cannot be judged: no row of the output was filtered by this version of the proxy."
    value, limit = formats.apart(found["psi"], documents["settings"]["max_drift"])
    index = f"population stability index {value}"
    if not found["warning"]:
        return f"The rows fall into the proxy groups as the training rows did ({index}, limit {limit})."
    return (
        f"The rows are not like the training rows: they fall into other proxy groups ({index}, above the "
        f"limit of {limit}). The expected balance may be wrong for them. Retrain the proxy on labelled rows "
        "of this kind and filter again with that version."
    )


def without_balance(documents: Documents) -> str:
    """Say why no shares can be expected."""
    if documents.get("balance") is None:
        return (
            "The expected balance is not known: the proxy was published without the measurements of its "
            "held-out rows. Publish it again with them."
        )
    return "The expected balance is not known: no row is expected to be kept by this version."


def files_by(summary: Json, status: str) -> list[Json]:
    """Files of the input with one status, by name."""
    return [file for file in summary["files"] if file["status"] == status]


def expected_by_attribute(documents: Json) -> dict[str, list[dict[str, Any]]]:
    """Shares of the sensitive groups by attribute, as rows of a chart; empty where nothing is known of them.

    ``label`` is the group; ``value``, ``low`` and ``high`` are the share expected of the kept rows,
    ``baseline`` is the share of the training rows, ``limit`` the target; None where there are too few rows.
    """
    balance, expected = documents.get("balance"), documents["summary"]["balance"]
    if balance is None or expected is None:
        return {}
    columns = (*(expected[key] for key in ("shares", "low", "high", "target")), balance["base_rates_train"])
    names, rows = ("value", "low", "high", "limit", "baseline"), zip(*columns, strict=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for attribute, groups in balance["attributes"].items():
        for group in groups:
            known = (None if share is None or not math.isfinite(share) else share for share in next(rows))
            row = {"label": group, **dict(zip(names, known, strict=True))}
            found.setdefault(attribute, []).append(row)
    return found


def is_farther(row: Json) -> bool:
    """Whether the kept rows are expected to be farther from the target than the training rows."""
    if row["value"] is None or row["baseline"] is None:
        return False
    return bool(abs(row["value"] - row["limit"]) > abs(row["baseline"] - row["limit"]))


def distance(shares: Sequence[float | None], target: Sequence[float]) -> float | None:
    r"""Distance :math:`\lVert s - t \rVert_2` of shares from the target; None if a share is not known."""
    known = [share for share in shares if share is not None]
    return math.dist(known, target) if len(known) == len(target) else None


def build(documents: Documents) -> Iterator[Section]:
    """Files and rows, expected shares, proxy groups with their drift, cautions."""
    summary = documents["summary"]
    yield Section("files", "Files", file_blocks(summary))
    yield Section("rows", "Rows", _rows(summary))
    yield Section("shares", "Expected balance", _shares(documents))
    yield Section("groups", "Proxy groups and drift", _groups(documents))
    yield Section("cautions", "What this does not say", _cautions(documents))


def file_blocks(summary: Json, verb: str = "filtered", out: str = "kept") -> list[Block]:
    """Say what became of the files of the input."""
    files, failed = summary["files"], files_by(summary, "failed")
    fine = [file for file in files if file["status"] != "failed"]
    blocks: list[Block] = []
    if failed:
        mark = Cell("failed", kind="failed", symbol="\u2715")
        rows = [[Cell(file["name"], (file["reason"],)), mark] for file in failed[:MOST_FILES]]
        many = len(failed) > MOST_FILES
        which = f"The first {MOST_FILES:,} of {len(failed):,} failed files" if many else "Failed files"
        blocks.append(f"A file that fails leaves no row in the output; the other files are {verb}.")
        blocks.append(Table(f"{which}, and why", ["File and reason", "Result"], rows))
    counts = {"rows_in": "Rows in", "rows_out": f"Rows {out}", "quarantined": "Set aside"}
    if not any(file["quarantined"] for file in fine):
        del counts["quarantined"]
    status = {"done": verb, "skipped": f"{verb} before"}
    shown = fine[:MOST_FILES]
    table = [[file["name"], status[file["status"]], *(file[key] for key in counts)] for file in shown]
    if table:
        caption = "Files of the input that are in the output"
        if len(fine) > len(shown):
            caption += f": the first {MOST_FILES} of {len(fine):,}; the JSON file beside this page has all"
        head = ["File", "Result", *counts.values()]
        blocks.append(Table(caption, head, table, folded=len(table) > MOST_OPEN))
    if summary["ignored"]:
        named, rest = summary["ignored"][:MOST_OPEN], len(summary["ignored"]) - MOST_OPEN
        more = f" and {rest:,} more" if rest > 0 else ""
        blocks.append(f"Ignored, as their names are neither of Parquet nor of CSV: {', '.join(named)}{more}.")
    return blocks


def _rows(summary: Json) -> list[Block]:
    rows_in, left_out = summary["rows_in"], summary["left_out"]
    blocks: list[Block] = [] if rows_in else ["No file that could be filtered has a row."]
    if rows_in:
        rest = rows_in - summary["rows_out"] - summary["quarantined"] - summary["dropped"]
        found = [
            ("Kept", f"{round(summary['expected_out']):,} expected", summary["rows_out"]),
            ("Not kept", "by their random numbers", rest),
            ("Set aside", "they break the data contract", summary["quarantined"]),
            ("Left out", "a sensitive model input is missing", summary["dropped"]),
            ("All rows read", "", rows_in),
        ]
        rows = [
            [Cell(name, (remark,)), count, formats.percent(count / rows_in)]
            for name, remark, count in found
            if count or name == "Kept"
        ]
        blocks.append(Table("Rows of all files in the output", ["Rows", "Number", "Share"], rows))
    if rows_in or left_out:
        text = "None: the files have no sensitive column that the proxy does not need."
        if left_out:
            names = ", ".join(f"`{name}`" for name in left_out)
            text = f"Sensitive columns are no input of the proxy and are not in the output: {names}."
        blocks += [Heading("Columns that were left out"), text]
    if summary["quarantined"]:
        blocks += [
            Heading("Rows that were set aside"),
            f"{formats.plural(summary['quarantined'], 'row')} outside the data contract, neither kept nor "
            "rejected, in `_evenhand/quarantine` (of a table, in `TABLE_quarantine`) of the output: correct "
            "them at the source, and the changed files are filtered again.",
        ]
    return blocks


def _shares(documents: Documents) -> list[Block]:
    by_attribute = expected_by_attribute(documents)
    if not by_attribute:
        return [] if documents["summary"]["rows_in"] else [without_balance(documents)]
    level = texts.interval_name(documents["summary"]["balance"])
    blocks: list[Block] = [
        "Group shares to expect among the kept rows, from the compositions of the proxy groups on labelled "
        f"held-out rows. The {level} covers the number of those rows only."
    ]
    head = ["Group", "Training rows", "Expected of the kept rows", level, "Target"]
    for attribute, rows in by_attribute.items():
        about = spoken(attribute)
        title = f"Expected shares by {about} among the kept rows"
        table = Table(title, head, [_share_row(row) for row in rows], folded=len(rows) > MOST_OPEN)
        blocks += [Heading(f"By {about}"), _share_chart(title, rows, level), table]
    return blocks


def _share_chart(title: str, rows: list[dict[str, Any]], level: str) -> Chart:
    shown, said = texts.largest(rows, MOST_DRAWN, lambda row: row["baseline"] or 0.0), []
    for row in shown:
        said.append(
            f"{row['label']} from {formats.percent(row['baseline'])} to {formats.percent(row['value'])}"
        )
    names = {"value": "expected of the kept rows", "baseline": "training rows", "limit": "target"}
    data = {"rows": shown, "interval": level, "floor": 0.0, "names": names, "percent": True}
    caption = texts.left_out(shown, rows, "The groups that are largest in training")
    described = f"From training rows to kept rows: {'; '.join(said)}."
    return Chart("intervals.metric_intervals", data, title, described, caption)


def _share_row(row: Json) -> list[Any]:
    expected: list[Any] = [texts.lack("too few rows", span=2)]
    if row["value"] is not None:
        ends = formats.interval(row["low"], row["high"], formats.percent)
        expected = [formats.percent(row["value"]), ends]
    name = Cell(row["label"], ("farther from the target",) if is_farther(row) else ())
    training = texts.known(row["baseline"], formats.percent)
    return [name, training, *expected, formats.percent(row["limit"])]


def proxy_groups(documents: Json) -> list[dict[str, Any]]:
    """Rows by proxy group, numbered as on the proxy's own page (largest first); none if no row was judged.

    Rows that are in several proxy groups by shares count by these. ``group`` is the number, ``training`` its
    share of the training rows or None, ``share`` and ``rows`` those of the batch, of which ``kept`` and
    ``kept_rows`` are expected to be kept.
    """
    summary, balance = documents["summary"], documents.get("balance")
    masses, kept = summary["masses"], summary["expected_by_group"]
    training = balance["masses"] if balance else [None] * len(masses)
    judged = sum(masses)
    if judged <= 0:
        return []
    found = [
        {"training": part, "share": n / judged, "rows": n, "kept": k / judged, "kept_rows": k}
        for part, n, k in zip(training, masses, kept, strict=True)
    ]
    found.sort(key=lambda group: -(group["training"] if balance else group["rows"]))
    return [{"group": str(place), **group} for place, group in enumerate(found, start=1)]


def _groups(documents: Documents) -> list[Block]:
    groups = proxy_groups(documents)
    if not groups:
        return []
    numbered = " Their numbers are those of the proxy’s own page." if documents.get("balance") else ""
    rows, said, drift = [], [], documents["summary"]["drift"]
    for group in groups:
        before, share = group["training"], formats.percent(group["share"])
        then, change, beside = "not known", "not known", ""
        if before is not None:
            text = f"{100 * (group['share'] - before):+.1f}".replace("-", "\u2212")
            then, change = formats.percent(before), "0.0" if text[1:] == "0.0" else text
            beside = f" ({then} in training)"
        said.append(f"group {group['group']} {share}{beside}")
        accepted = group["kept"] / group["share"] if group["rows"] else texts.lack("no rows")
        counts = round(group["rows"]), accepted, round(group["kept_rows"])
        rows.append([group["group"], then, share, change, *counts])
    shown = groups[:MOST_DRAWN]
    caption = texts.left_out(shown, groups, "The largest proxy groups")
    described = f"{'; '.join(said[:MOST_DRAWN])}."
    head = ["Proxy group", "Share of training rows", "Share of this batch", "Difference, points", "Rows"]
    head += ["Acceptance probability", "Expected to be kept"]
    keys, title = ("group", "share", "kept", "training"), "Rows of the batch by proxy group"
    drawn = {"rows": [{key: group[key] for key in keys} for group in shown]}
    return [
        "The proxy puts each row into a proxy group by its ordinary features, if need be into several by "
        f"shares; each proxy group keeps its rows with a probability of its own.{numbered} The bars are the "
        "rows of the files that this version of the proxy filtered.",
        Chart("groups.kept_by_group", drawn, title, described, caption),
        Table("Rows by proxy group", head, rows, folded=len(rows) > MOST_OPEN),
        f"By a chi-square test of these shares (statistic {formats.number(drift['chi_square'])}) the p-value "
        f"is {formats.p_value(drift['p_value'])}. With many rows it is small for any difference, so the "
        "population stability index decides about the warning.",
    ]


def _cautions(documents: Documents) -> list[Block]:
    key, seed = documents["settings"]["key"], documents["settings"]["seed"]
    drawn = (
        f"No key was set: a row’s random number is a hash of its features and the seed {seed}. Rows with "
        "equal features are all kept or all left out, so the number of kept rows can differ more from the "
        "expected one. A key that tells rows apart (`filter.key`) gives each row a number of its own."
    )
    if key is not None:
        drawn = (
            f"A row’s random number is a hash of its key ({formats.join([f'“{name}”' for name in key])}) and "
            f"the seed {seed}. Rows with an equal key have the same number."
        )
    return [
        "**The shares are expectations, not counts.** The groups of these people are not known.",
        "**Other people have other shares.** If the batch’s people differ from the labelled sample within a "
        "proxy group, the balance does not hold, and this page cannot show it: drift compares only how many "
        "rows fall into each proxy group. A small labelled sample of the kept rows would show it.",
        f"**Rows are kept at random.** {drawn}",
    ]
