"""What the app shows of the case store: the cases, and one of them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.flows.app.registry_views import Screen, short_date, when_cell
from evenhand.flows.case import PAGE
from evenhand.tasks.cases.case_page import OUTCOMES, case_document, case_page, letter
from evenhand.tasks.cases.case_store import CASE, CaseStore
from evenhand.tasks.errors import InputError
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Section, Table, Value
from evenhand.tasks.pages.texts import lack
from evenhand.tasks.registry.ledger import Record

MOST_CASES = 200
# Sections that explain a decision, before the forms that review and correct it.
EVIDENCE = ("reasons", "recourse", "comparables", "alternatives")


@dataclass(frozen=True)
class CaseScreen:
    """One case: what explains the decision, and everything else that its file has.

    - `inputs`: what can be corrected: column, name in words, and value
    """

    screen: Screen
    details: Sequence[Section]
    inputs: Sequence[tuple[str, str, str]]


def cases_screen(cases: CaseStore) -> Screen:
    """The newest cases, with what was decided and reviewed."""
    log = cases.log()
    last = log.last_of()
    existing = [case for case in last if (cases.place(case) / CASE).is_file()]
    newest = list(reversed(existing))[:MOST_CASES]
    if not newest:
        text = (
            "There is no case yet. `evenhand case MODEL --rows FILE` writes one for every adverse "
            "decision about the people of a table."
        )
        return Screen("Cases", [text], [])
    rows = [_row(cases, case, last[case]) for case in newest]
    columns = ["Person", "Decision", "Review", "Model", "Decided (UTC)", "Kept until"]
    sections = [Section("cases", "All cases", [Table("Cases, newest first", columns, rows)])]
    if log.faults:
        sections.insert(0, Section("faults", "Faults of the log", list(log.faults)))
    count = formats.plural(len(existing), "case")
    if len(existing) > MOST_CASES:
        count = f"The newest {MOST_CASES} of {len(existing):,} cases"
    lead = f"{count}. Each explains one decision; a person can review and correct it here."
    return Screen("Cases", [lead], sections)


def _row(cases: CaseStore, case: str, last: Record) -> list[Value]:
    address = f"/cases/{case}"
    try:
        content = cases.read(case, last)
    except InputError:
        changed = Cell("changed since it was recorded", kind="refused")
        return [Cell("not known", (case,), href=address), changed, None, None, None, None]
    decision = content["decision"]
    kind = "passed" if decision["favourable"] else "refused"
    review: Value = lack("not reviewed")
    if content["reviews"]:
        review = OUTCOMES[content["reviews"][-1]["outcome"]].removeprefix("The decision was ")
    return [
        Cell(formats.sentence(person_of(content)), (f"case {case}",), href=address),
        Cell(decision["shown"], kind=kind),
        review,
        content["model"]["shown"],
        when_cell(content["made"]["when"]),
        _day(content["keep_until"]),
    ]


def person_of(content: Mapping[str, Any]) -> str:
    """Who a case is about: the ids of the person, else the row of the table."""
    subject = content["subject"]
    if subject["identity"]:
        return ", ".join(f"{name} {value}" for name, value in subject["identity"].items())
    return f"row {subject['row']:,} of {subject['table']}"


def _day(iso: str) -> Cell:
    """A day as the other dates of the app."""
    day = datetime.date.fromisoformat(iso)
    moment = formats.moment(datetime.datetime.combine(day, datetime.time()).isoformat())
    return Cell(short_date(moment.partition(",")[0]), time=iso)


def case_screen(cases: CaseStore, case: str) -> CaseScreen:
    """One case, as its file shows it; an `InputError` if there is none, or it was changed."""
    content = cases.read(cases.find(case))
    page = case_document(content)
    facts: list[list[Value]] = [[name, cell] for name, cell in page.front.facts]
    table = Table("What this case is about", ["Fact", "Value"], facts, pairs=True)
    details = [section for section in page.sections if section.id not in EVIDENCE]
    details.append(Section("facts", "This case", [table]))
    evidence = [section for section in page.sections if section.id in EVIDENCE]
    lead = [*page.front.headline, *(_replayed(replay) for replay in content["replays"][-1:])]
    title = f"{formats.sentence(person_of(content))}: {page.front.title}"
    return CaseScreen(Screen(title, lead, evidence), details, _inputs(content))


def _replayed(replay: Mapping[str, Any]) -> str:
    """The newest time that a case was decided again, in a sentence."""
    corrected = [f"{name} = {value}" for name, value in replay["corrected"].items()]
    how = f" with {formats.join(corrected)}" if corrected else ""
    return f"{replay['who']} had it decided again{how}: {replay['result']}."


def _inputs(content: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The inputs of a case that can be corrected."""
    inputs = []
    for entry in content["inputs"]["used"]:
        unit = f" {entry['unit']}" if entry["unit"] else ""
        name = formats.sentence(entry["name"])
        inputs.append((entry["column"], name, f"{entry['shown']}{unit}"))
    return inputs


def case_file(cases: CaseStore, case: str) -> str:
    """The file of a case as HTML; an `InputError` if it was changed."""
    case = cases.find(case)
    content = cases.read(case)
    return cases.page(case, PAGE) or case_page(content)


def case_letter(cases: CaseStore, case: str) -> str:
    """The letter to the person of a case, in the case's language; an `InputError` if it was
    changed.
    """
    return letter(cases.read(cases.find(case)))
