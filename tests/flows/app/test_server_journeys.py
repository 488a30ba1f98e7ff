"""Three whole journeys in a browser, on a phone's width: two versions are compared and decided
about, a case is corrected, reviewed and printed, and a viewer is refused.

All screens and widths, and what axe-core finds on them, are in `test_server_in_browser.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenhand.flows.app.people import Person
from evenhand.flows.case import CaseOptions, case_store, make_cases
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.ledger import history
from tests.flows.app.browsing import Browser, browsing, needs_browser
from tests.flows.people import Done, make_people

MODEL = "people-gbdt"
PHONE = 360


# one browser and one app for all: a browser takes seconds to start
@needs_browser
def test_three_journeys_from_the_first_screen(bench: Any, two_versions: Done) -> None:
    two_versions.copied_to(bench.store)
    case = _one_case(bench.store)
    with browsing(bench.store, logs=False) as browser:
        browser.resize(PHONE)
        _compare_refuse_approve_promote(browser)
        _correct_review_print(browser, case)
        _refused_by_role(browser, case)


def _one_case(folder: Path) -> str:
    import pyarrow.csv

    store = Store(str(folder))
    table = folder.parent / "new.csv"
    pyarrow.csv.write_csv(make_people(12, seed=5), table)
    model = f"models:/{MODEL}/1"
    options = CaseOptions(model=model, rows=str(table), proofs=False, recourse=False)
    (*_, made) = make_cases(options, store, case_store(store))
    return made.cases[0]


def _compare_refuse_approve_promote(browser: Browser) -> None:
    browser.click(MODEL)
    browser.click("Compare")
    browser.expect("Both were measured on the same")
    browser.click("Approve or refuse version 2")
    browser.driver.find_element("id", "refuse-reason").send_keys("women are refused more often")
    browser.click("Refuse")
    browser.expect("It cannot become champion")
    browser.click("Approve")
    browser.expect("It may become champion.")
    browser.click("Make it champion")
    browser.expect("This version is the champion now.")
    chain = history(browser.settings.registry, MODEL)
    assert chain.aliases["champion"] == "2"
    assert [record.kind for record in chain.records[-3:]] == ["refusal", "approval", "move"]


def _correct_review_print(browser: Browser, case: str) -> None:
    assert browser.settings.cases is not None
    browser.click("Cases")
    place = f"//a[@href='/cases/{case}']"
    browser.driver.find_element("xpath", place).click()
    browser.click("Correct and decide again")
    value = browser.driver.find_element("id", "value")
    browser.driver.find_element("css selector", "#column option[value='income']").click()
    value.send_keys("much")
    browser.click("Decide again")
    browser.expect("Expected a number, got 'much'.")
    value = browser.driver.find_element("id", "value")
    assert value.get_attribute("value") == "much"
    value.clear()
    value.send_keys("99999")
    browser.click("Decide again")
    browser.expect("had it decided again with income = 99999")
    browser.driver.find_element("id", "changed").click()
    browser.driver.find_element("id", "review-reason").send_keys("the income was wrong")
    browser.click("Record the review")
    browser.expect("The decision was changed by ana.")
    content = browser.settings.cases.read(case)
    assert [entry["corrected"] for entry in content["replays"]] == [{"income": "99999"}]
    browser.click("The file to print")
    browser.expect("the income was wrong")
    browser.click("Back to the case")
    browser.expect("Review and correct")


def _refused_by_role(browser: Browser, case: str) -> None:
    browser.become(Person("vera", "viewer"))
    browser.driver.get(f"{browser.address}/models/{MODEL}/versions/1")
    browser.expect("Newest evaluation")
    # not by `find_elements`, which waits a minute for what is rightly absent
    assert browser.driver.execute_script("return document.querySelectorAll('form.act').length") == 0
    browser.driver.get(f"{browser.address}/cases/{case}")
    browser.expect("Your role, viewer, does not include this.")
