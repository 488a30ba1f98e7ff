"""``evenhand case``: case files of single decisions, their review, replay and deletion."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand.flows.case import (
    KEEP_DAYS,
    LETTER,
    PAGE,
    CaseOptions,
    CasesMade,
    case_store,
    expired,
    make_cases,
    pdf_name,
    today,
)
from evenhand.flows.case import replay as replay_case
from evenhand.flows.case import review as review_case
from evenhand.flows.commands.terminal import print_table
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.cases.case_page import OUTCOMES
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.signatures import read_public_keys
from evenhand.tasks.registry.signed_records import signing_with


def make(
    *,
    model: str,
    rows: str,
    row: str | None,
    contract: str | None,
    language: str,
    metric: Path | None,
    radius: float,
    no_recourse: bool,
    no_proof: bool,
    with_letter: bool,
    with_pdf: bool,
    keep_days: int | None,
    key: Path | None,
    cases: Path | None,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Write case files of one row, or of all adverse decisions of a table."""
    store, place = _opened(store_url, cases)
    if radius < 0:
        raise InputError(f"--radius is {radius:g}: give a fair distance of at least 0.")
    options = CaseOptions(
        model=model,
        rows=rows,
        row=row,
        contract=contract,
        language=language,
        metric=metric,
        radius=radius,
        recourse=not no_recourse,
        proofs=not no_proof,
        with_letter=with_letter,
        with_pdf=with_pdf,
        keep_days=KEEP_DAYS if keep_days is None else keep_days,
    )
    made = CasesMade([], 0, 0, 0)
    with signing_with(key):
        for made in make_cases(options, store, place):
            if made.adverse > len(made.cases):
                sys.stderr.write(f"evenhand: {len(made.cases):,} of {made.adverse:,} cases\n")
    if as_json:
        folders = [str(place.place(case)) for case in made.cases]
        counts = {"people": made.people, "broken": made.broken, "cases": made.cases}
        print(json.dumps({**counts, "folders": folders}))
        return
    for case in made.cases:
        for name in _file_names(options):
            print(place.place(case) / name)
    if not made.cases:
        print(f"none of {made.people:,} decisions is adverse: no case was made.")
    if made.broken:
        sys.stderr.write(f"evenhand: {made.broken:,} rows break the contract and were left out.\n")


def _file_names(options: CaseOptions) -> list[str]:
    """Files of a case that people read."""
    names = [PAGE]
    if options.with_letter:
        names.append(LETTER)
    if options.with_pdf:
        names += [pdf_name(name) for name in names]
    return names


def review(
    *,
    case: str,
    outcome: str,
    reason: str,
    key: Path | None,
    cases: Path | None,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Record the outcome of a human review."""
    if outcome not in OUTCOMES:
        raise InputError(f"--outcome is {outcome!r}, expected {' or '.join(OUTCOMES)}.")
    if not reason.strip():
        raise InputError("--reason is empty: say in a sentence why.")
    _, place = _opened(store_url, cases)
    with signing_with(key):
        content = review_case(place, place.find(case), outcome, reason.strip())
    _print_entry(content["reviews"][-1], f"{OUTCOMES[outcome]}.", as_json=as_json)


def replay(
    *,
    case: str,
    corrected: Sequence[str] | None,
    model: str | None,
    key: Path | None,
    cases: Path | None,
    store_url: str | None,
    as_json: bool = False,
) -> int:
    """Decide a case again on the same version; the exit code is 1 if the decision differs."""
    store, place = _opened(store_url, cases)
    values = _pairs(corrected or ())
    with signing_with(key):
        outcome = replay_case(place, place.find(case), store, corrected=values, model=model)
    text = f"{outcome.result}{_recorded_review(outcome.content)}"
    _print_entry(outcome.content["replays"][-1], text, as_json=as_json)
    return int(not outcome.is_identical)


def _recorded_review(content: Mapping[str, Any]) -> str:
    """Say what the last review of a case decided; empty if nobody reviewed it."""
    for entry in content["reviews"][-1:]:
        outcome = OUTCOMES[entry["outcome"]][0].lower() + OUTCOMES[entry["outcome"]][1:]
        return f"\nReview of {entry['when'][:10]} by {entry['who']}: {outcome}: {entry['reason']}"
    return ""


def delete(
    *,
    case: str | None,
    is_expired: bool,
    reason: str,
    key: Path | None,
    cases: Path | None,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Delete one case, or all whose time is over; the log keeps that it was deleted."""
    _, place = _opened(store_url, cases)
    if (case is None) != is_expired:
        raise InputError("name a case, or give --expired, and not both.")
    if case is None:
        names = expired(place, today())
    else:
        names = [place.find(case)]
    with signing_with(key), place.writing():
        for name in names:
            place.delete(name, reason)
    if as_json:
        print(json.dumps({"deleted": names}))
    else:
        print(f"deleted {len(names):,} case{'' if len(names) == 1 else 's'}.")


def verify_cases(
    *,
    anchor: Path | None,
    signed_by: Sequence[Path] | None,
    cases: Path | None,
    store_url: str | None,
    as_json: bool = False,
) -> int:
    """Check the log and all case files; the exit code is 1 if anything was changed."""
    _, place = _opened(store_url, cases)
    last_record = None
    if anchor is not None and anchor.is_file():
        last_record = _read_anchor(anchor)
    faults = place.faults(read_public_keys(signed_by or ()), last_record)
    if anchor is not None and last_record is None and not faults:
        anchor.write_text(json.dumps(place.anchor()))
    records = len(place.log().records)
    if as_json:
        print(json.dumps({"records": records, "faults": faults}))
    else:
        for fault in faults:
            print(fault)
        if not faults:
            print(f"{records:,} records of {len(place.log().last_of()):,} cases hold.")
    return int(bool(faults))


def ls(*, cases: Path | None, store_url: str | None, as_json: bool = False) -> None:
    """List the cases: no value of a person."""
    _, place = _opened(store_url, cases)
    listed: dict[str, dict[str, Any]] = {}
    for record in place.log().records:
        case = record.content["case"]
        if record.kind == "case":
            listed[case] = {"case": case, "made": record.when[:16], **record.content}
            listed[case]["state"] = "not reviewed"
        elif case in listed and record.kind in ("review", "deletion"):
            listed[case]["state"] = "reviewed" if record.kind == "review" else "deleted"
    entries = list(listed.values())
    if as_json:
        print(json.dumps(entries))
        return
    rows = [["case", "made", "model", "kept until", "state"]]
    for entry in entries:
        rows.append([entry[key] for key in ("case", "made", "model", "keep_until", "state")])
    print_table(rows)


def _opened(store_url: str | None, cases: Path | None) -> tuple[Store, CaseStore]:
    prepare_environment(store_url)
    store = Store(store_url)
    return store, case_store(store, cases)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--correct wants NAME=VALUE, and {text!r} has no equals sign.")
        values[name] = value
    return values


def _read_anchor(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        raise InputError(f"--anchor {path} cannot be read as JSON.") from None
    if not isinstance(content, dict):
        raise InputError(f"--anchor {path} is no file that this command wrote.")
    return content


def _print_entry(entry: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(entry))
    else:
        print(text)
