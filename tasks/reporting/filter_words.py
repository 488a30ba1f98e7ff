"""What a filter run did and what came of it, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.filter_numbers import ExpectedShare, distance, expected_by_attribute, files_by
from evenhand.tasks.reporting.filter_plots import share_interval

__all__ = ["badge", "cautions", "coin", "drift", "headline", "interval_name", "other_proxies"]

Json = Mapping[str, Any]


def badge(context: Json) -> tuple[str, str, str]:
    """Class of the badge, its symbol and its text."""
    summary = context["summary"]
    failed, files = len(files_by(context, "failed")), len(summary["files"])
    if failed:
        return "failed", "\u2715", f"{failed:,} of {formats.plural(files, 'file')} failed"
    if context["status"] == "failed":
        return "failed", "!", "Did not finish"
    if not summary["rows_in"]:
        return "insufficient_evidence", "?", "No rows to filter"
    if summary["drift"] and summary["drift"]["warning"]:
        return "insufficient_evidence", "?", "Filtered, but the rows have drifted"
    return "passed", "\u2713", "Filtered"


def headline(context: Json) -> list[str]:
    """Say how many rows were kept, what failed, what balance to expect, and whether the rows have drifted."""
    warned = context["summary"]["drift"] and context["summary"]["drift"]["warning"]
    said = [drift(context)] if context["summary"]["rows_in"] else []
    return [
        _kept(context),
        *_failed(context),
        *(said if warned else []),
        *_balance(context),
        *([] if warned else said),
        *other_proxies(context),
    ]


def interval_name(context: Json) -> str:
    """Name the intervals of the expected shares."""
    return f"{100 * context['summary']['balance']['level']:g}% interval"


def drift(context: Json) -> str:
    """Say whether the rows are like the training rows, and if not, what to do."""
    found = context["summary"]["drift"]
    if found is None:
        return "Drift cannot be judged: no row in the output was judged by this version of the proxy."
    value, limit = formats.apart(found["psi"], context["settings"]["max_drift"])
    index = f"population stability index {value}"
    if not found["warning"]:
        return f"The rows fall into the proxy groups much as the training rows did ({index}, limit {limit})."
    return (
        f"The rows are not like the training rows: they fall into other proxy groups ({index}, above the "
        f"limit of {limit}). The expected balance may be wrong for them. Retrain the proxy on labelled rows "
        "of this kind, and filter again with that version."
    )


def other_proxies(context: Json) -> list[str]:
    """Say which files in the output another version of the proxy filtered."""
    own = str(context["proxy"]["version"])
    others = [item for item in context["summary"]["proxies"].values() if str(item["version"]) != own]
    if not others:
        return []
    files = sum(item["files"] for item in others)
    versions = formats.join([f"version {item['version']}" for item in others])
    were = "file that was" if files == 1 else "files that were"
    return [
        f"The output also holds {files:,} {were} filtered by another proxy ({versions}) and not in this "
        "input. The row counts cover them; the expected shares and the drift do not. To have all of one "
        "kind, filter them again, or choose an empty output."
    ]


def coin(context: Json) -> str:
    """Say what decides about a row, and which rows share their fate."""
    key, seed = context["settings"]["key"], context["settings"]["seed"]
    if key is None:
        return (
            f"No key was set: a row’s coin is a hash of its features and the seed {seed}. Rows with equal "
            "features share their fate, all kept or all left out, so the number of kept rows can lie farther "
            "from what was expected. A key that tells rows apart (filter.key) gives each a coin of its own."
        )
    columns = formats.join([f"“{name}”" for name in key])
    return (
        f"A row’s coin is a hash of its key ({columns}) and the seed {seed}. Rows with an equal key toss the "
        "same coin."
    )


def cautions(context: Json) -> list[tuple[str, str]]:
    """List what the page does not say: a lead and the rest."""
    return [
        (
            "The shares are expectations, not counts.",
            "Nobody’s group was looked at, and none is known here. The shares follow from how the proxy "
            "groups were composed on labelled rows that were held out; the interval is about the number of "
            "these rows only.",
        ),
        (
            "Other people, other shares.",
            "If the batch’s people differ from the labelled sample within a proxy group, the balance does "
            "not hold, and nothing here can show it: drift compares only how many rows fall into each proxy "
            "group. A small labelled sample of the kept rows would show it.",
        ),
        ("A coin is tossed for every row.", coin(context)),
    ]


def _kept(context: Json) -> str:
    summary = context["summary"]
    done, skipped = len(files_by(context, "done")), len(files_by(context, "skipped"))
    files = formats.plural(done + skipped + summary["others"], "file")
    if not summary["rows_in"]:
        if not done + skipped + summary["others"]:
            return "Nothing was filtered, and the output holds no row."
        return f"There was nothing to filter: {files} without a row."
    share = formats.percent(summary["rows_out"] / summary["rows_in"])
    said = (
        f"The output holds {formats.count(summary['rows_out'])} of "
        f"{formats.plural(summary['rows_in'], 'row')} ({share}), from {files}."
    )
    if skipped and not done and not files_by(context, "failed"):
        said += " All files of the input were filtered before and have not changed: nothing was left to do."
    elif skipped:
        were = "was" if skipped == 1 else "were"
        said += f" {skipped:,} of them {were} filtered in an earlier run."
    if summary["others"]:
        are = "is" if summary["others"] == 1 else "are"
        said += f" {summary['others']:,} {are} of earlier runs and not in this input."
    return said


def _failed(context: Json) -> list[str]:
    failed, files = len(files_by(context, "failed")), len(context["summary"]["files"])
    cure = (
        "The table of files has the reasons: mend them and run the filter again; files that are done are not "
        "done again."
    )
    if failed:
        if failed == files:
            which = "The one file of the input" if files == 1 else f"All {files:,} files of the input"
        else:
            which = f"{failed:,} of the {files:,} files of the input"
        rows = "its" if failed == 1 else "their"
        return [f"{which} failed, and none of {rows} rows is in the output. {cure}"]
    return ["The run did not finish: start it again, and it goes on."] * (context["status"] == "failed")


def _balance(context: Json) -> list[str]:
    if not context["summary"]["rows_in"]:
        return []
    by_attribute = expected_by_attribute(context)
    if not by_attribute:
        return [without_balance(context)]
    level = interval_name(context)
    sentences = [said for name, shares in by_attribute.items() for said in _rarest(name, shares, level)]
    everyone = [item for shares in by_attribute.values() for item in shares]
    wanted = [item.wanted for item in everyone]
    after = distance([item.expected for item in everyone], wanted)
    before = distance([item.training for item in everyone], wanted)
    if after is not None and before is not None:
        sentences.append(
            f"Taken together, the expected shares lie {formats.number(after)} from the wanted ones; those of "
            f"the training rows lie {formats.number(before)} from them."
        )
    worse = [f"“{item.group}”" for item in everyone if item.farther]
    if worse:
        sentences.append(
            f"Expected to be farther from the wanted share than in training: {formats.join(worse)}."
        )
    return sentences


def without_balance(context: Json) -> str:
    """Say why no shares can be expected."""
    if context["balance"] is None:
        return (
            "What balance to expect cannot be told: the proxy came without the measurements of its "
            "held-out rows. Publish it again with them."
        )
    return "What balance to expect cannot be told: no row is expected to be kept by this version."


def _rarest(attribute: str, shares: list[ExpectedShare], level: str) -> list[str]:
    known = [item for item in shares if item.training is not None and item.expected is not None]
    if not known:
        return []
    rare = min(known, key=lambda item: item.training or 0.0)
    return [
        f"By {words.attribute(attribute)}: the rarest group, “{rare.group}”, is expected to go from "
        f"{formats.percent(rare.training)} of the training rows to {formats.percent(rare.expected)} of the "
        f"kept rows ({level} {share_interval(rare.low, rare.high)}; wanted: {formats.percent(rare.wanted)})."
    ]
