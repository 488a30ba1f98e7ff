"""The page of a filter run: rows kept, files, the balance to expect, and drift of the proxy
groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Front,
    Heading,
    Json,
    Section,
    Table,
)
from evenhand.tasks.pages.sections.proxy_section import share_blocks, share_rows, share_sentences
from evenhand.tasks.pages.texts import known, lack

NEEDS = ("summary", "settings")
# A longer table is folded; a table of files and a chart have at most so many rows.
MOST_OPEN = 12
MOST_FILES = 200
MOST_DRAWN = 30
# How the page was made is folded.
FOLDS = True


def front(documents: Documents) -> Front:
    """Build the front."""
    run = documents["run"]
    facts = [("Proxy", Cell(texts.called(run["proxy"]), code=run["proxy"]["uri"]))]
    facts += [(name.capitalize(), Cell("", code=run[name])) for name in ("input", "output")]
    title = f"{run['job_name']}: filtered rows"
    meta = [f"Run {run['id']}"]
    headline_texts = headline(documents)
    return Front(
        "filter report",
        title,
        meta,
        headline_texts,
        run["created"],
        badge=badge(documents),
        facts=facts,
    )


def badge(documents: Documents) -> tuple[str, str, str]:
    """Class of the badge, its symbol and its text."""
    summary = documents["summary"]
    failed = len(files_by(summary, "failed"))
    files = len(summary["files"])
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
    """Say how many rows were kept, what failed, what balance to expect, and whether the rows have
    drifted.
    """
    summary = documents["summary"]
    middle = []
    if summary["rows_in"]:
        drift = [drift_sentence(documents)]
        balance = _balance(documents)
        warned = summary["drift"] and summary["drift"]["warning"]
        middle = [*balance, *drift]
        if warned:
            middle = [*drift, *balance]
    return [_kept(summary), *_failed(documents), *middle, *_other_proxies(documents)]


def _kept(summary: Json) -> str:
    done = len(files_by(summary, "done"))
    skipped = len(files_by(summary, "skipped"))
    count = done + skipped + summary["others"]
    files = formats.plural(count, "file")
    if not summary["rows_in"] and count:
        return f"There was nothing to filter: {files} without a row."
    if not summary["rows_in"]:
        return "Nothing was filtered, and the output has no row."
    share = formats.percent(summary["rows_out"] / summary["rows_in"])
    rows = formats.plural(summary["rows_in"], "row")
    text = f"The output has {formats.count(summary['rows_out'])} of {rows} ({share}), from {files}."
    if skipped and not done and not files_by(summary, "failed"):
        text += " All files of the input were filtered before and have not changed."
    elif skipped:
        text += (
            f" Of these, {formats.plural(skipped, 'file was', 'files were')} filtered in an "
            "earlier run."
        )
    if summary["others"]:
        other_files = formats.plural(summary["others"], "file is", "files are")
        text += f" {other_files} of earlier runs and not in this input."
    return text


def _failed(documents: Documents) -> list[str]:
    summary = documents["summary"]
    failed = len(files_by(summary, "failed"))
    files = len(summary["files"])
    if failed:
        return [
            f"{failed:,} of {formats.plural(files, 'file')} of the input failed; none of their "
            "rows is in the output. The table of files has the reasons: correct the files and "
            "run the filter again; finished files are skipped."
        ]
    if documents["run"]["status"] == "failed":
        return ["The run did not finish: start it again, and it continues."]
    return []


def _other_proxies(documents: Documents) -> list[str]:
    """Say which files in the output another version of the proxy filtered."""
    version = str(documents["run"]["proxy"]["version"])
    proxies = documents["summary"]["proxies"].values()
    other_proxies = [item for item in proxies if str(item["version"]) != version]
    if not other_proxies:
        return []
    files = formats.plural(sum(item["files"] for item in other_proxies), "file")
    versions = formats.join([f"version {item['version']}" for item in other_proxies])
    return [
        f"The output also contains {files} filtered by another proxy ({versions}) and not in this "
        "input. The row counts include them; the expected shares and the drift do not. Filter "
        "them again, or choose an empty output, to have files of one proxy only."
    ]


def _balance(documents: Documents) -> list[str]:
    shares = expected_by_attribute(documents)
    balance = documents["summary"]["balance"]
    if not shares:
        return [without_balance(documents)]
    sentences = share_sentences(shares, "the training rows", "the kept rows, as expected")
    before = []
    target = []
    for rows in shares.values():
        before += [row["before"] for row in rows]
        target += [row["target"] for row in rows]
    if None not in before:
        ends = formats.interval(balance["imbalance_low"], balance["imbalance_high"])
        sentences.append(
            "The imbalance (distance of all shares from the target) is expected to be "
            f"{formats.number(balance['imbalance'])} ({texts.interval_name(balance)} {ends}); "
            f"that of the training rows is {formats.number(math.dist(before, target))}."
        )
    return sentences


def drift_sentence(documents: Documents) -> str:
    """Say whether the rows are like the training rows, and if not, what to do."""
    drift = documents["summary"]["drift"]
    if drift is None:
        return (
            "Drift cannot be judged: no row of the output was filtered by this version of the "
            "proxy."
        )
    value, limit = formats.apart(drift["psi"], documents["settings"]["max_drift"])
    index = f"population stability index {value}"
    if not drift["warning"]:
        return (
            f"The rows fall into the proxy groups as the training rows did ({index}, limit "
            f"{limit})."
        )
    return (
        f"The rows are not like the training rows: they fall into other proxy groups ({index}, "
        f"above the limit of {limit}). The expected balance may be wrong for them. Retrain the "
        "proxy on labelled rows of this kind and filter again with that version."
    )


def without_balance(documents: Documents) -> str:
    """Say why no shares can be expected."""
    if documents.get("balance") is None:
        return (
            "The expected balance is not known: the proxy was published without the measurements "
            "of its held-out rows. Publish it again with them."
        )
    return "The expected balance is not known: no row is expected to be kept by this version."


def files_by(summary: Json, status: str) -> list[Json]:
    """Files of the input with one status, by name."""
    return [file for file in summary["files"] if file["status"] == status]


def expected_by_attribute(documents: Json) -> dict[str, list[dict[str, Any]]]:
    """Shares of the groups among training rows and kept rows, as of `share_rows`; empty if not
    known.
    """
    balance = documents.get("balance")
    expected = documents["summary"]["balance"]
    if balance is None or expected is None:
        return {}
    columns = {"after": expected["shares"]} | {
        key: expected[key] for key in ("target", "low", "high")
    }
    return share_rows(balance["attributes"], before=balance["base_rates_train"], **columns)


def build(documents: Documents) -> Iterator[Section]:
    """Files and rows, expected shares, proxy groups with their drift, cautions."""
    summary = documents["summary"]
    yield Section("files", "Files", file_blocks(summary))
    yield Section("rows", "Rows", _rows(summary))
    yield Section("shares", "Expected balance", _shares(documents))
    yield Section("groups", "Proxy groups and drift", _groups(documents), folded=True)
    yield Section("cautions", "What this does not say", _cautions(documents))


def file_blocks(summary: Json, verb: str = "filtered", out: str = "kept") -> list[Block]:
    """Say what became of the files of the input."""
    blocks: list[Block] = []
    failed = files_by(summary, "failed")
    if failed:
        blocks.append(f"A file that fails leaves no row in the output; the other files are {verb}.")
        blocks.append(_failed_files(failed))
    fine = [file for file in summary["files"] if file["status"] != "failed"]
    if fine:
        blocks.append(_files(fine, verb, out))
    ignored = summary["ignored"]
    if ignored:
        listed = ", ".join(ignored[:MOST_OPEN])
        if len(ignored) > MOST_OPEN:
            listed += f" and {len(ignored) - MOST_OPEN:,} more"
        blocks.append(f"Ignored, as their names are neither of Parquet nor of CSV: {listed}.")
    return blocks


def _failed_files(failed: Sequence[Json]) -> Table:
    """The files that failed, and why."""
    mark = Cell("failed", kind="failed", symbol="\u2715")
    rows = [[Cell(file["name"], (file["reason"],)), mark] for file in failed[:MOST_FILES]]
    which = "Failed files"
    if len(failed) > MOST_FILES:
        which = f"The first {MOST_FILES:,} of {len(failed):,} failed files"
    return Table(f"{which}, and why", ["File and reason", "Result"], rows)


def _files(fine: Sequence[Json], verb: str, out: str) -> Table:
    """The files that did not fail, with their counts of rows."""
    counts = {"rows_in": "Rows in", "rows_out": f"Rows {out}", "quarantined": "Set aside"}
    if not any(file["quarantined"] for file in fine):
        del counts["quarantined"]
    status = {"done": verb, "skipped": f"{verb} before"}
    rows = []
    for file in fine[:MOST_FILES]:
        numbers = [file[key] for key in counts]
        rows.append([file["name"], status[file["status"]], *numbers])
    caption = "Files of the input that are in the output"
    if len(fine) > len(rows):
        caption += (
            f": the first {MOST_FILES} of {len(fine):,}; the JSON file next to this page has all"
        )
    head = ["File", "Result", *counts.values()]
    return Table(caption, head, rows, folded=len(rows) > MOST_OPEN)


def _rows(summary: Json) -> list[Block]:
    blocks: list[Block] = []
    rows_in = summary["rows_in"]
    left_out = summary["left_out"]
    if rows_in:
        blocks.append(_row_counts(summary))
    else:
        blocks.append("No file that could be filtered has a row.")
    if rows_in or left_out:
        text = "None: the files have no sensitive column that the proxy does not need."
        if left_out:
            names = ", ".join(f"`{name}`" for name in left_out)
            text = (
                f"Sensitive columns are no input of the proxy and are not in the output: {names}."
            )
        blocks += [Heading("Columns that were left out"), text]
    if summary["quarantined"]:
        blocks += [
            Heading("Rows that were set aside"),
            f"{formats.plural(summary['quarantined'], 'row')} outside the data contract, neither "
            "kept nor rejected, in `_evenhand/quarantine` (of a table, in `TABLE_quarantine`) of "
            "the output: correct them at the source, and the changed files are filtered again.",
        ]
    return blocks


def _row_counts(summary: Json) -> Table:
    """What became of the rows that were read."""
    rows_in = summary["rows_in"]
    not_kept = rows_in - summary["rows_out"] - summary["quarantined"] - summary["dropped"]
    counts = [
        ("Kept", f"{round(summary['expected_out']):,} expected", summary["rows_out"]),
        ("Not kept", "by their random numbers", not_kept),
        ("Set aside", "they break the data contract", summary["quarantined"]),
        ("Left out", "a sensitive model input is missing", summary["dropped"]),
        ("All rows read", "", rows_in),
    ]
    rows = []
    for name, remark, count in counts:
        if count or name == "Kept":
            rows.append([Cell(name, (remark,)), count, formats.percent(count / rows_in)])
    return Table("Rows of all files in the output", ["Rows", "Number", "Share"], rows)


def _shares(documents: Documents) -> list[Block]:
    shares = expected_by_attribute(documents)
    if not shares:
        return [] if documents["summary"]["rows_in"] else [without_balance(documents)]
    lead = (
        "Group shares to expect among the kept rows, from the compositions of the proxy groups "
        f"on labelled held-out rows. The {texts.interval_name(documents['summary']['balance'])} "
        "covers the number of those rows only."
    )
    return [lead, *share_blocks(shares, "training rows", "expected of the kept rows")]


def _groups(documents: Documents) -> list[Block]:
    """Rows by proxy group, numbered as on the proxy's own page: the largest in training first."""
    summary = documents["summary"]
    balance = documents.get("balance")
    masses = summary["masses"]
    drift = summary["drift"]
    judged = sum(masses)
    if judged <= 0:
        return []
    training: Any = [None] * len(masses)
    sizes = masses
    if balance:
        training = balance["masses"]
        sizes = training
    order = sorted(range(len(masses)), key=lambda j: -sizes[j])
    rows = []
    bars = []
    for place, j in enumerate(order, start=1):
        share = masses[j] / judged
        bars.append({"group": str(place), "before": training[j], "after": share})
        accepted: float | Cell = lack("no rows")
        if masses[j]:
            accepted = summary["expected_by_group"][j] / masses[j]
        rows.append(
            [
                str(place),
                known(training[j], formats.percent, "not known"),
                formats.percent(share),
                round(masses[j]),
                accepted,
                round(summary["expected_by_group"][j]),
            ]
        )
    head = ["Proxy group", "Share of training rows", "Share of this batch", "Rows"]
    head += ["Acceptance probability", "Expected to be kept"]
    caption = "Rows by proxy group"
    table = Table(caption, head, rows, folded=len(rows) > MOST_OPEN)
    numbered = ""
    shares: Block = table
    if balance:
        numbered = " Their numbers are those of the proxy’s own page."
        shares = _groups_chart(caption, bars, table)
    return [
        "The proxy puts each row into a proxy group by its ordinary features, if need be into "
        "several by shares; each proxy group keeps its rows with a probability of its "
        f"own.{numbered} The rows are those of the files that this version of the proxy filtered.",
        shares,
        f"By a chi-square test of these shares (statistic {formats.number(drift['chi_square'])}) "
        f"the p-value is {formats.p_value(drift['p_value'])}. With many rows it is small for any "
        "difference, so the population stability index decides about the warning.",
    ]


def _groups_chart(caption: str, bars: Sequence[Json], table: Table) -> Chart:
    """The share of each proxy group among training rows and in this batch."""
    drawn = bars[:MOST_DRAWN]
    described = []
    for bar in bars:
        then = formats.percent(bar["before"])
        now = formats.percent(bar["after"])
        described.append(f"group {bar['group']} from {then} to {now}")
    data = {"rows": drawn, "before": "training rows", "after": "rows of this batch"}
    note = texts.left_out(drawn, bars, "The largest proxy groups")
    return Chart(
        "group_charts.group_shares", data, caption, f"{'; '.join(described)}.", note, table
    )


def _cautions(documents: Documents) -> list[Block]:
    key = documents["settings"]["key"]
    seed = documents["settings"]["seed"]
    drawn = (
        f"No key was set: a row’s random number is a hash of its features and the seed {seed}. "
        "Rows with equal features are all kept or all left out, so the number of kept rows can "
        "differ more from the expected one. A key that identifies rows (`filter.key`) gives "
        "each row a number of its own."
    )
    if key is not None:
        drawn = (
            "A row’s random number is a hash of its key "
            f"({formats.join([f'“{name}”' for name in key])}) and the seed {seed}. Rows with an "
            "equal key have the same number."
        )
    return [
        "**The shares are expectations, not counts.** The groups of these people are not known.",
        "**Other people have other shares.** If the batch’s people differ from the labelled "
        "sample within a proxy group, the balance does not hold, and this page cannot show it: "
        "drift compares only how many rows fall into each proxy group. A small labelled sample "
        "of the kept rows would show it.",
        f"**Rows are kept at random.** {drawn}",
    ]
