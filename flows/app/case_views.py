"""What the app shows of the case store: the cases, and one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.flows.app.registry_views import Screen
from evenhand.flows.case import PAGE
from evenhand.tasks.cases.case_page import OUTCOMES, case_document, case_page
from evenhand.tasks.cases.case_store import CASE, CaseStore
from evenhand.tasks.errors import InputError
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Section, Table, Value

MOST_CASES = 200


def cases_screen(cases: CaseStore) -> Screen:
    """The newest cases, with what was decided and reviewed."""
    log = cases.log()
    existing = [case for case in log.last_of() if (cases.place(case) / CASE).is_file()]
    newest = list(reversed(existing))[:MOST_CASES]
    if not newest:
        text = "There is no case yet: `evenhand case MODEL --rows FILE` makes them."
        return Screen("Cases", [text], [])
    rows = [_row(cases, case) for case in newest]
    columns = ["Case", "Decision", "Review", "Made (UTC)", "Kept until"]
    sections = [Section("cases", "All cases", [Table("Cases, newest first", columns, rows)])]
    if log.faults:
        sections.insert(0, Section("faults", "Faults of the log", list(log.faults)))
    lead = f"{formats.plural(len(existing), 'case')}."
    if len(existing) > MOST_CASES:
        lead = f"The newest {MOST_CASES} of {len(existing):,} cases."
    return Screen("Cases", [lead], sections)


def _row(cases: CaseStore, case: str) -> list[Value]:
    name = Cell(case, href=f"cases/{case}")
    try:
        content = cases.read(case)
    except InputError:
        changed = Cell("changed since it was recorded", kind="refused")
        return [name, changed, None, None, None]
    decision = content["decision"]
    kind = "passed" if decision["favourable"] else "refused"
    review: Value = "none"
    if content["reviews"]:
        review = OUTCOMES[content["reviews"][-1]["outcome"]].removeprefix("The decision was ")
    when = content["made"]["when"]
    return [
        name,
        Cell(decision["shown"], kind=kind),
        review,
        Cell(formats.moment(when), time=when),
        content["keep_until"],
    ]


def case_screen(cases: CaseStore, case: str) -> Screen:
    """One case, as its file shows it; an `InputError` if there is none, or it was changed."""
    content = cases.read(cases.find(case))
    page = case_document(content)
    facts: list[list[Value]] = [[name, cell] for name, cell in page.front.facts]
    table = Table("What this case is about", ["Fact", "Value"], facts, pairs=True)
    sections = [*page.sections, Section("facts", "This case", [table])]
    lead = [*page.front.headline, *(_replayed(replay) for replay in content["replays"][-1:])]
    return Screen(page.front.title, lead, sections)


def _replayed(replay: Mapping[str, Any]) -> str:
    """The newest time that a case was decided again, in a sentence."""
    corrected = [f"{name} = {value}" for name, value in replay["corrected"].items()]
    how = f" with {formats.join(corrected)}" if corrected else ""
    return f"{replay['who']} had it decided again{how}: {replay['result']}."


def case_inputs(cases: CaseStore, case: str) -> list[tuple[str, str]]:
    """The inputs of a case that can be corrected: each column, with its name in words."""
    used = cases.read(cases.find(case))["inputs"]["used"]
    return [(entry["column"], entry.get("spoken") or entry["column"]) for entry in used]


def case_file(cases: CaseStore, case: str) -> str:
    """The file of a case as HTML; an `InputError` if it was changed."""
    case = cases.find(case)
    content = cases.read(case)
    return cases.page(case, PAGE) or case_page(content)
