"""Case files: explain decisions of a published model, keep them, review, replay and delete them."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand.data_contracts.errors import ContractError, ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract
from evenhand.tasks.cases.case_page import case_page, letter
from evenhand.tasks.cases.case_store import CaseStore, new_case
from evenhand.tasks.cases.equally_good import other_decisions
from evenhand.tasks.cases.explained_model import (
    FORMAT,
    ExplainedModel,
    Person,
    Wanted,
    metric_of_version,
)
from evenhand.tasks.cases.letter_texts import LANGUAGES, primary
from evenhand.tasks.errors import InputError, input_errors, without_secrets
from evenhand.tasks.execution.fingerprint import now
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.bundle import Bundle, open_bundle
from evenhand.tasks.registry.client import case_terms, tracking_uri
from evenhand.tasks.registry.ledger import actor
from evenhand.tasks.registry.policy import LONGEST_REASON
from evenhand.tasks.registry.policy_alternatives import search_for_alternatives
from evenhand.tasks.registry.policy_terms import evaluating_version

# Reported for a law from 2027 (not verified): records of adverse decisions for three years.
KEEP_DAYS = 3 * 365
# Cases that are written under one lock.
BLOCK = 50
PAGE = "case.html"
LETTER = "letter.html"


@dataclass(frozen=True)
class CaseOptions:
    """Options of `evenhand case`."""

    model: str
    rows: str
    row: str | None = None
    contract: str | None = None
    language: str = "en"
    metric: Path | None = None
    radius: float = 0.1
    recourse: bool = True
    proofs: bool = True
    with_letter: bool = False
    with_pdf: bool = False
    keep_days: int = KEEP_DAYS


@dataclass(frozen=True)
class CasesMade:
    """Cases that were made, how many people were read, and how many rows broke the contract."""

    cases: list[str]
    people: int
    broken: int
    adverse: int


def case_store(store: Store, folder: Path | None = None) -> CaseStore:
    """The case store in a folder, or that of a store on this machine."""
    if folder is None:
        if not store.is_local:
            raise InputError(
                "the store is at a URL, and case files stay on this machine: give --cases FOLDER."
            )
        folder = Path(store.path("cases"))
    return CaseStore(folder)


def open_model(
    text: str, store: Store, scratch: Path, contract: str | None = None
) -> ExplainedModel:
    """Open a published classifier with what its contract says for case files.

    `contract` is a file that says it instead; it must describe the same table.
    """
    bundle = open_bundle(text, store, scratch)
    if contract is not None:
        stated = _contract(contract, bundle)
        return ExplainedModel(_with_names(bundle, stated), stated.case_terms, stated)
    terms: Mapping[str, Any] = {}
    if bundle.version is not None:
        terms = case_terms(tracking_uri(store), bundle.name, bundle.version)
    return ExplainedModel(bundle, terms)


def _equally_good(bundle: Bundle, store: Store) -> dict[str, Any] | None:
    """What a search for alternatives to the version recorded; None without one."""
    if bundle.version is None:
        return None
    return search_for_alternatives(tracking_uri(store), bundle.name, bundle.version)


def _decided(
    model: ExplainedModel, people: Sequence[Person], *, only_adverse: bool
) -> dict[int, tuple[Person, bool]]:
    """By the number of a row the person, and whether the decision is positive."""
    if not people:
        return {}
    decided = {}
    _, positives, _ = model.decide(people)
    for person, is_positive in zip(people, positives.tolist(), strict=True):
        if model.is_adverse(is_positive) or not only_adverse:
            decided[person.row] = (person, is_positive)
    return decided


def _contract(path: str, bundle: Bundle) -> Contract:
    """The contract of a file; an `InputError` if it lacks an input of the model."""
    with input_errors("--contract: ", ContractError):
        contract = load_contract(path)
        for name in bundle.inputs["features"]:
            contract.column(name)
    return contract


def _with_names(bundle: Bundle, contract: Contract) -> Bundle:
    """The bundle with the names of values of a contract, where it has none of its own."""
    if bundle.value_names:
        return bundle
    return replace(bundle, value_names=contract.value_names)


def make_cases(options: CaseOptions, store: Store, cases: CaseStore) -> Iterator[CasesMade]:
    """Make a case of one row, or of every adverse decision of a table; yield what was made so far
    after every block.
    """
    if options.with_pdf:
        # a missing library is named before anything is written
        _as_pdf("<title>test</title>")
    with store.workdir() as scratch:
        model = open_model(options.model, store, scratch, options.contract)
        _say_missing_texts(model, options)
        with input_errors(f"--rows {without_secrets(options.rows)}: ", ContractViolation):
            read = model.read(options.rows)
        people = read.people
        if options.row is not None:
            people = [_chosen(people, options.row, options.rows)]
        decided = _decided(model, people, only_adverse=options.row is None)
        people = [person for person, _ in decided.values()]
        reasons_wanted = _wanted(options, model, store)
        alternatives = _equally_good(model.bundle, store)
        others = None
        if alternatives is not None and people:
            others = other_decisions(alternatives, store, options.rows, decided)
        made: list[str] = []
        for start in range(0, len(people), BLOCK):
            block = people[start : start + BLOCK]
            contents = []
            explained = model.explain(block, reasons_wanted)
            for person, parts in zip(block, explained, strict=True):
                content = _content(options, model, person, parts)
                content["alternatives"] = alternatives
                if alternatives is not None and others is not None:
                    content["alternatives"] = {**alternatives, "person": others.about(person)}
                contents.append(content)
            with cases.writing():
                made += [cases.add(content, _pages(content, options)) for content in contents]
            yield CasesMade(list(made), len(read.people), read.broken, len(people))
        if not people:
            yield CasesMade([], len(read.people), read.broken, 0)


def pages(
    content: Mapping[str, Any], *, with_letter: bool, with_pdf: bool = False
) -> dict[str, str | bytes]:
    """The pages of a case by the name of their file."""
    texts = {PAGE: case_page(content)}
    if with_letter:
        texts[LETTER] = letter(content)
    files: dict[str, str | bytes] = dict(texts)
    if with_pdf:
        for name, text in texts.items():
            files[pdf_name(name)] = _as_pdf(text)
    return files


def _pages(content: Mapping[str, Any], options: CaseOptions) -> dict[str, str | bytes]:
    return pages(content, with_letter=options.with_letter, with_pdf=options.with_pdf)


def pdf_name(page: str) -> str:
    """The name of a page's file as PDF."""
    return str(Path(page).with_suffix(".pdf"))


def _as_pdf(page: str) -> bytes:
    # needs libraries of the extra documents
    from evenhand.tasks.documents.writing import html_to_pdf

    return html_to_pdf(page)


def _say_missing_texts(model: ExplainedModel, options: CaseOptions) -> None:
    """Say on stderr which texts are in another language than the one asked for."""
    language = options.language
    untranslated = []
    if options.with_letter and primary(language) not in LANGUAGES:
        written = " and ".join(LANGUAGES)
        untranslated.append(f"the letter is in English, since it is written in {written} only")
    if model.lacks_texts(language):
        untranslated.append(
            "the reasons are in English or the columns' names, since adverseReason of "
            "the contract has no such text"
        )
    if untranslated:
        sys.stderr.write(f"evenhand: --language {language}: {'; '.join(untranslated)}.\n")


def _chosen(people: Sequence[Person], row: str, table: str) -> Person:
    """The person of an id, or else of a row's number."""
    with_id = [person for person in people if row in map(str, person.identity.values())]
    if len(with_id) > 1:
        raise InputError(f"--row {row}: {len(with_id)} rows of {table} have this id.")
    if with_id:
        return with_id[0]
    numbered = [person for person in people if str(person.row) == row]
    if numbered and not any(person.identity for person in people):
        return numbered[0]
    has_ids = any(person.identity for person in people)
    cure = "give one of its ids" if has_ids else "give a row's number, counted from 1"
    raise InputError(f"--row {row}: {table} has no such row that meets the contract: {cure}.")


def _wanted(options: CaseOptions, model: ExplainedModel, store: Store) -> Wanted:
    """What the case files contain, with the fair metric that people are compared by."""
    metric = None
    digest = ""
    if options.proofs and options.metric is not None:
        from evenhand.fairlib.distances.metric_kinds import load_metric
        from evenhand.tasks.execution.store import sha256_of_path

        with input_errors(f"--metric {options.metric}: ", ValueError, OSError):
            metric = load_metric(options.metric)
            digest = sha256_of_path(options.metric)[0]
    elif options.proofs and model.bundle.version is not None:
        stored = metric_of_version(store, model.bundle.name, model.bundle.version)
        if stored is not None:
            metric, digest = stored
    if metric is not None and metric.n_features_in_ != len(model.encoder.feature_names_):
        raise InputError(
            f"--metric {options.metric} was learned from {metric.n_features_in_} columns, and the "
            f"model reads {len(model.encoder.feature_names_)}: give the metric of its run."
        )
    return Wanted(
        recourse=options.recourse,
        proofs=options.proofs,
        metric=metric,
        metric_digest=digest,
        radius=options.radius,
        language=options.language,
    )


def today() -> datetime.date:
    """The day in UTC, as all times of records are: it is the same on every machine."""
    return datetime.datetime.now(datetime.UTC).date()


def last_day_of(keep_days: int) -> datetime.date:
    """The last day of a case of today; an `InputError` if the calendar has no such day."""
    try:
        return today() + datetime.timedelta(days=keep_days)
    except OverflowError:
        raise InputError(f"--keep-days {keep_days}: there is no such day; give fewer.") from None


def _content(
    options: CaseOptions, model: ExplainedModel, person: Person, parts: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of a case file."""
    bundle = model.bundle
    last_day = last_day_of(options.keep_days)
    model_in_words = bundle.name
    if bundle.version is not None:
        model_in_words = f"{bundle.name}, version {bundle.version}"
    return {
        "format": FORMAT,
        "case": new_case(),
        "made": {"when": now(), "who": actor(), "evenhand": evaluating_version()},
        "language": options.language,
        "keep_until": last_day.isoformat(),
        "subject": {
            "row": person.row,
            "identity": {name: str(value) for name, value in person.identity.items()},
            "table": os.path.basename(options.rows.rstrip("/")),
        },
        "model": {
            "name": bundle.name,
            "version": bundle.version,
            "shown": model_in_words,
            "uri": bundle.uri,
            "content": bundle.digest,
            "method": bundle.evaluation["method"],
            "contract": {"name": bundle.contract.name, "version": bundle.contract.version},
        },
        **parts,
        "reviews": [],
        "replays": [],
    }


def review(cases: CaseStore, case: str, outcome: str, reason: str) -> dict[str, Any]:
    """Record what a person who looked at a case decided."""
    if len(reason) > LONGEST_REASON:
        raise InputError(
            f"the reason has {len(reason):,} characters: give at most {LONGEST_REASON:,}."
        )
    entry = {"when": now(), "who": actor(), "outcome": outcome, "reason": reason}
    return _update(cases, "review", case, "reviews", entry)


@dataclass(frozen=True)
class Replayed:
    """A decision that was made again on the same version."""

    is_identical: bool  # bit for bit; with corrected values: of the other values
    result: str
    content: dict[str, Any]


def replay(
    cases: CaseStore,
    case: str,
    store: Store,
    *,
    corrected: Mapping[str, str],
    model: str | None = None,
) -> Replayed:
    """Decide a case again on the version that decided it, perhaps with corrected values."""
    content = cases.read(case)
    with store.workdir() as scratch:
        explained = open_model(model or content["model"]["uri"], store, scratch)
        if explained.bundle.digest != content["model"]["content"]:
            raise InputError(
                f"{explained.bundle.uri} is not the version that decided the case {case}: its "
                f"content is {explained.bundle.digest[:12]}, expected "
                f"{content['model']['content'][:12]}."
            )
        outcome = replayed(explained, content, corrected)
    entry = {
        "when": now(),
        "who": actor(),
        "corrected": dict(corrected),
        "result": outcome.result,
        "is_identical": outcome.is_identical,
    }
    return replace(outcome, content=_update(cases, "replay", case, "replays", entry))


def replayed(
    explained: ExplainedModel, content: Mapping[str, Any], corrected: Mapping[str, str]
) -> Replayed:
    """Compare the decision of a case with that of the same version now."""
    values = {entry["column"]: entry["value"] for entry in content["inputs"]["used"]}
    person = explained.person_of(values)
    decision = explained.decision(person)
    earlier = content["decision"]
    same = all(decision[key] == earlier[key] for key in ("value", "probability_bits"))
    if not same:
        result = "not the same decision: the probability differs from the recorded one"
        return Replayed(False, result, dict(content))
    if not corrected:
        return Replayed(True, "the same decision, bit for bit", dict(content))
    for name in corrected:
        if name not in values:
            raise InputError(
                f"--correct {name}: the model has no such input; it has {', '.join(values)}."
            )
    changed = {**values, **{name: text or None for name, text in corrected.items()}}
    person = explained.person_of(_as_text(changed, values, corrected))
    decision = explained.decision(person)
    word = "the same" if decision["value"] == earlier["value"] else "another"
    result = f"{word} decision with the corrected values: {decision['shown']}"
    return Replayed(True, result, dict(content))


def _as_text(
    changed: Mapping[str, Any], values: Mapping[str, Any], corrected: Mapping[str, str]
) -> dict[str, Any]:
    """Corrected values in the type of the value before, where it has one."""
    typed: dict[str, Any] = {}
    for name, value in changed.items():
        typed[name] = value
        if name not in corrected or value is None:
            continue
        before = values[name]
        with input_errors(f"--correct {name}: expected a number, got {value!r}", end="."):
            try:
                if isinstance(before, bool):
                    typed[name] = {"true": True, "false": False}[value.lower()]
                elif isinstance(before, int):
                    typed[name] = int(value)
                elif isinstance(before, float):
                    typed[name] = float(value)
            except (KeyError, ValueError):
                raise ValueError("") from None
    return typed


def _update(
    cases: CaseStore, kind: str, case: str, part: str, entry: Mapping[str, Any]
) -> dict[str, Any]:
    """Add an entry to a part of a case and write it anew, with the letter and as PDF if it had
    them.

    The case is read within the lock: what others added meanwhile stays.
    """
    with cases.writing():
        content = cases.read(case)
        content[part] = [*content[part], entry]
        folder = cases.place(case)
        with_letter = (folder / LETTER).is_file()
        with_pdf = (folder / pdf_name(PAGE)).is_file()
        files = pages(content, with_letter=with_letter, with_pdf=with_pdf)
        cases.update(kind, content, files)
    return content


def expired(cases: CaseStore, day: datetime.date) -> list[str]:
    """Cases whose last day is before a day."""
    listed = []
    deleted = {
        record.content["case"] for record in cases.log().records if record.kind == "deletion"
    }
    for record in cases.log().records:
        if record.kind != "case" or record.content["case"] in deleted:
            continue
        if datetime.date.fromisoformat(record.content["keep_until"]) < day:
            listed.append(record.content["case"])
    return listed
