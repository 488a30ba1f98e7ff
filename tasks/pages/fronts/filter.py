"""The front of a filter run's page: how many rows were kept, what failed, and the balance to expect."""

from __future__ import annotations

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.filter_numbers import ExpectedShare, distance, expected_by_attribute, files_by
from evenhand.tasks.pages.model import Cell, Documents, Front


def front(documents: Documents) -> Front:
    """Build the front."""
    run = documents["run"]
    proxy = run["proxy"]
    alias = f", {proxy['alias']}" if proxy.get("alias") else ""
    facts = [("Proxy", Cell(f"{proxy['name']}, version {proxy['version']}{alias}", code=proxy["uri"]))]
    facts += [(name.capitalize(), Cell("", code=run[name])) for name in ("input", "output")]
    return Front(
        "filter report",
        f"{run['job_name']}: filtered rows",
        [(f"Run {run['id']}", None), (formats.moment(run["created"]), run["created"])],
        headline(documents),
        badge=badge(documents),
        facts=facts,
    )


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
    summary = documents["summary"]
    warned = summary["drift"] and summary["drift"]["warning"]
    drift = [drift_sentence(documents)] if summary["rows_in"] else []
    balance = _balance(documents) if summary["rows_in"] else []
    middle = [*drift, *balance] if warned else [*balance, *drift]
    return [_kept(documents), *_failed(documents), *middle, *_other_proxies(documents)]


def interval_name(documents: Documents) -> str:
    """Name of the intervals of the expected shares."""
    return f"{100 * documents['summary']['balance']['level']:g}% interval"


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


def _kept(documents: Documents) -> str:
    summary = documents["summary"]
    done, skipped = len(files_by(summary, "done")), len(files_by(summary, "skipped"))
    files = formats.plural(done + skipped + summary["others"], "file")
    if not summary["rows_in"]:
        if not done + skipped + summary["others"]:
            return "Nothing was filtered, and the output has no row."
        return f"There was nothing to filter: {files} without a row."
    share = formats.percent(summary["rows_out"] / summary["rows_in"])
    rows = formats.plural(summary["rows_in"], "row")
    text = f"The output has {formats.count(summary['rows_out'])} of {rows} ({share}), from {files}."
    if skipped and not done and not files_by(summary, "failed"):
        text += " All files of the input were filtered before and have not changed."
    elif skipped:
        text += f" {formats.plural(skipped, 'file')} of these filtered in an earlier run."
    if summary["others"]:
        text += f" {formats.plural(summary['others'], 'file')} from earlier runs and not in this input."
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


def _balance(documents: Documents) -> list[str]:
    by_attribute = expected_by_attribute(documents)
    if not by_attribute:
        return [without_balance(documents)]
    level = interval_name(documents)
    sentences = [text for name, shares in by_attribute.items() for text in _rarest(name, shares, level)]
    everyone = [item for shares in by_attribute.values() for item in shares]
    target = [item.target for item in everyone]
    after = distance([item.expected for item in everyone], target)
    before = distance([item.training for item in everyone], target)
    if after is not None and before is not None:
        sentences.append(
            "The imbalance (distance of all shares from the target) is expected to be "
            f"{formats.number(after)}; that of the training rows is {formats.number(before)}."
        )
    worse = [f"“{item.group}”" for item in everyone if item.farther]
    if worse:
        sentences.append(f"Expected to be farther from the target than in training: {formats.join(worse)}.")
    return sentences


def _rarest(attribute: str, shares: list[ExpectedShare], level: str) -> list[str]:
    known = [item for item in shares if item.training is not None and item.expected is not None]
    if not known:
        return []
    rare = min(known, key=lambda item: item.training or 0.0)
    return [
        f"By {spoken(attribute)}: the rarest group, “{rare.group}”, is {formats.percent(rare.training)} of "
        f"the training rows and expected to be {formats.percent(rare.expected)} of the kept rows ({level} "
        f"{rare.interval}; target {formats.percent(rare.target)})."
    ]
