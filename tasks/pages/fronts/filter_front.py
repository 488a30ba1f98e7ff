"""The page of a filter run: rows kept, files, the balance to expect, and drift of the proxy
groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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


def front(documents: Documents) -> Front:
    """Build the front."""
    run = documents["run"]
    facts = [("Proxy", Cell(texts.called(run["proxy"]), code=run["proxy"]["uri"]))]
    facts += [(name.capitalize(), Cell("", code=run[name])) for name in ("input", "output")]
    title = f"{run['job_name']}: filtered rows"
    meta = [f"Run {run['id']}"]
    found = headline(documents)
    return Front(
        "filter report", title, meta, found, run["created"], badge=badge(documents), facts=facts
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
        middle = [*drift, *balance] if warned else [*balance, *drift]
    return [_kept(summary), *_failed(documents), *middle, *_other_proxies(documents)]


def _kept(summary: Json) -> str:
    done = len(files_by(summary, "done"))
    skipped = len(files_by(summary, "skipped"))
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
        text += (
            f" Of these, {formats.plural(skipped, 'file was', 'files were')} filtered in an "
            "earlier run."
        )
    if summary["others"]:
        others = formats.plural(summary["others"], "file is", "files are")
        text += f" {others} of earlier runs and not in this input."
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
    own = str(documents["run"]["proxy"]["version"])
    proxies = documents["summary"]["proxies"].values()
    others = [item for item in proxies if str(item["version"]) != own]
    if not others:
        return []
    files = formats.plural(sum(item["files"] for item in others), "file")
    versions = formats.join([f"version {item['version']}" for item in others])
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
    known = [row for rows in shares.values() for row in rows]
    if None not in [row["before"] for row in known]:
        before = math.dist([row["before"] for row in known], [row["target"] for row in known])
        ends = formats.interval(balance["imbalance_low"], balance["imbalance_high"])
        sentences.append(
            "The imbalance (distance of all shares from the target) is expected to be "
            f"{formats.number(balance['imbalance'])} ({texts.interval_name(balance)} {ends}); "
            f"that of the training rows is {formats.number(before)}."
        )
    return sentences


def drift_sentence(documents: Documents) -> str:
    """Say whether the rows are like the training rows, and if not, what to do."""
    found = documents["summary"]["drift"]
    if found is None:
        return (
            "Drift cannot be judged: no row of the output was filtered by this version of the "
            "proxy."
        )
    value, limit = formats.apart(found["psi"], documents["settings"]["max_drift"])
    index = f"population stability index {value}"
    if not found["warning"]:
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
    yield Section("groups", "Proxy groups and drift", _groups(documents))
    yield Section("cautions", "What this does not say", _cautions(documents))


def file_blocks(summary: Json, verb: str = "filtered", out: str = "kept") -> list[Block]:
    """Say what became of the files of the input."""
    files = summary["files"]
    failed = files_by(summary, "failed")
    fine = [file for file in files if file["status"] != "failed"]
    blocks: list[Block] = []
    if failed:
        mark = Cell("failed", kind="failed", symbol="\u2715")
        rows = [[Cell(file["name"], (file["reason"],)), mark] for file in failed[:MOST_FILES]]
        many = len(failed) > MOST_FILES
        which = (
            f"The first {MOST_FILES:,} of {len(failed):,} failed files" if many else "Failed files"
        )
        blocks.append(f"A file that fails leaves no row in the output; the other files are {verb}.")
        blocks.append(Table(f"{which}, and why", ["File and reason", "Result"], rows))
    counts = {"rows_in": "Rows in", "rows_out": f"Rows {out}", "quarantined": "Set aside"}
    if not any(file["quarantined"] for file in fine):
        del counts["quarantined"]
    status = {"done": verb, "skipped": f"{verb} before"}
    shown = fine[:MOST_FILES]
    table = [
        [file["name"], status[file["status"]], *(file[key] for key in counts)] for file in shown
    ]
    if table:
        caption = "Files of the input that are in the output"
        if len(fine) > len(shown):
            caption += (
                f": the first {MOST_FILES} of {len(fine):,}; the JSON file beside this page has all"
            )
        head = ["File", "Result", *counts.values()]
        blocks.append(Table(caption, head, table, folded=len(table) > MOST_OPEN))
    if summary["ignored"]:
        named = summary["ignored"][:MOST_OPEN]
        rest = len(summary["ignored"]) - MOST_OPEN
        more = f" and {rest:,} more" if rest > 0 else ""
        blocks.append(
            f"Ignored, as their names are neither of Parquet nor of CSV: {', '.join(named)}{more}."
        )
    return blocks


def _rows(summary: Json) -> list[Block]:
    rows_in = summary["rows_in"]
    left_out = summary["left_out"]
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
    kept = summary["expected_by_group"]
    drift = summary["drift"]
    judged = sum(masses)
    if judged <= 0:
        return []
    training = balance["masses"] if balance else [None] * len(masses)
    sizes: Any = training if balance else masses
    order = sorted(range(len(masses)), key=lambda j: -sizes[j])
    rows = []
    bars = []
    for place, j in enumerate(order, start=1):
        share = masses[j] / judged
        then = training[j]
        bars.append({"group": str(place), "before": then, "after": share})
        accepted = kept[j] / masses[j] if masses[j] else lack("no rows")
        shares = known(then, formats.percent, "not known"), formats.percent(share)
        rows.append([str(place), *shares, round(masses[j]), accepted, round(kept[j])])
    head = ["Proxy group", "Share of training rows", "Share of this batch", "Rows"]
    head += ["Acceptance probability", "Expected to be kept"]
    caption = "Rows by proxy group"
    table = Table(caption, head, rows, folded=len(rows) > MOST_OPEN)
    numbered = ""
    shown = list[Block]([table])
    if balance:
        numbered = " Their numbers are those of the proxy’s own page."
        data = {"rows": bars[:MOST_DRAWN], "before": "training rows", "after": "rows of this batch"}
        pairs = (
            (bar["group"], *map(formats.percent, (bar["before"], bar["after"]))) for bar in bars
        )
        said = "; ".join(f"group {group} from {then} to {now}" for group, then, now in pairs)
        left = texts.left_out(bars[:MOST_DRAWN], bars, "The largest proxy groups")
        shown = [Chart("group_charts.group_shares", data, caption, f"{said}.", left, table)]
    return [
        "The proxy puts each row into a proxy group by its ordinary features, if need be into "
        "several by shares; each proxy group keeps its rows with a probability of its "
        f"own.{numbered} The rows are those of the files that this version of the proxy filtered.",
        *shown,
        f"By a chi-square test of these shares (statistic {formats.number(drift['chi_square'])}) "
        f"the p-value is {formats.p_value(drift['p_value'])}. With many rows it is small for any "
        "difference, so the population stability index decides about the warning.",
    ]


def _cautions(documents: Documents) -> list[Block]:
    key = documents["settings"]["key"]
    seed = documents["settings"]["seed"]
    drawn = (
        f"No key was set: a row’s random number is a hash of its features and the seed {seed}. "
        "Rows with equal features are all kept or all left out, so the number of kept rows can "
        "differ more from the expected one. A key that tells rows apart (`filter.key`) gives "
        "each row a number of its own."
    )
    if key is not None:
        drawn = (
            "A row’s random number is a hash of its key "
            f"({formats.join([f'“{name}”' for name in key])}) and "
            f"the seed {seed}. Rows with an equal key have the same number."
        )
    return [
        "**The shares are expectations, not counts.** The groups of these people are not known.",
        "**Other people have other shares.** If the batch’s people differ from the labelled "
        "sample within a proxy group, the balance does not hold, and this page cannot show it: "
        "drift compares only how many rows fall into each proxy group. A small labelled sample "
        "of the kept rows would show it.",
        f"**Rows are kept at random.** {drawn}",
    ]
