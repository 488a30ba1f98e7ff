"""The front of a filter run's page: how many rows were kept, what failed, and the balance to expect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.model import Cell, Documents, Front, Json


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


# sentences and numbers that sections show too


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
