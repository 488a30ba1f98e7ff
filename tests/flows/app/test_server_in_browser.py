"""The app in a real browser: a whole decision by mouse and keyboard, on a phone's width too, and
what axe-core finds on every screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from evenhand.flows.app.demonstration import prepare
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.ledger import history
from tests.flows.app.browsing import Browser, browsing, needs_browser
from tests.flows.people import Done

pytestmark = [pytest.mark.long, needs_browser]
MODEL = "people-gbdt"
WIDTHS = (1280, 360)
# In place of `evenhand run`: a run that ends once there is a file.
RUNS = """
import pathlib, sys, time
print("train  10 %, about 9 s left", file=sys.stderr, flush=True)
time.sleep(1)
print("train  60 %, about 1 s left", file=sys.stderr, flush=True)
while not pathlib.Path(GO).exists():
    time.sleep(0.1)
"""
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  found => done(found.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)])));
"""


@pytest.fixture
def browser(bench: Any, two_versions: Done) -> Iterator[Browser]:
    two_versions.copied_to(bench.store)
    script = RUNS.replace("GO", repr(str(bench.folder / "go")))
    with browsing(bench.store, script=script) as browser:
        yield browser


@pytest.fixture
def interviewer(agent_store: Path) -> Iterator[Browser]:
    with browsing(agent_store, "case worker") as browser:
        yield browser


@pytest.mark.parametrize("width", WIDTHS)
def test_a_decision_from_the_first_screen_to_the_last(browser: Browser, width: int) -> None:
    browser.resize(width)
    browser.click(MODEL)
    browser.click("Compare")
    browser.expect("version 1 and version 2")
    browser.click(MODEL)
    browser.expect("Versions, newest first")
    browser.click("version 2")
    browser.expect("It may become champion.")
    # refused without a reason: the browser itself stops the form
    browser.click("Refuse")
    browser.driver.find_element("id", "refuse-reason").send_keys("women are refused more often")
    browser.click("Refuse")
    browser.expect("Your refusal is recorded.")
    browser.expect("ana refused it")
    browser.driver.find_element("id", "approve-reason").send_keys("explained by the report")
    browser.click("Approve")
    browser.expect("Your approval is recorded.")
    browser.expect("It may become champion.")
    browser.click("Make it champion")
    browser.expect("This version is the champion now.")
    chain = history(browser.settings.registry, MODEL)
    assert chain.aliases["champion"] == "2"
    assert [record.kind for record in chain.records[-3:]] == ["refusal", "approval", "move"]
    browser.click("Sign out")
    browser.expect("Open the link that")


def check_screen(browser: Browser, place: str) -> None:
    """The screen that is open has no fault of accessibility, and scrolls in one direction."""
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            browser.resize(width, scheme)
            inside = browser.driver.execute_script(
                "return document.documentElement.scrollWidth <= window.innerWidth"
            )
            assert inside, (place, width)
            browser.driver.execute_script(
                (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
            )
            assert browser.driver.execute_async_script(AXE) == [], (place, width, scheme)


def test_screens_have_no_fault_and_ask_nobody_else(browser: Browser, bench: Any) -> None:
    places = ["/", "/runs", f"/models/{MODEL}", f"/models/{MODEL}/versions/2", "/nowhere"]
    places.append(f"/models/{MODEL}/compare?first=1&second=2")
    places.append(f"/models/{MODEL}/versions/1/person")
    places += ["/jobs", "/audit", "/cases", "/sign-in"]
    for place in places:
        browser.driver.get(f"{browser.address}{place}")
        check_screen(browser, place)
    # a form with faults, and a run in progress
    browser.driver.get(f"{browser.address}/audit")
    browser.click("Go on to the columns")
    browser.expect("Nothing was read")
    check_screen(browser, "a form with faults")
    table = bench.folder / "predictions.csv"
    table.write_text("sex,score,paid\n" + "F,0.2,no\nM,0.7,yes\n" * 20)
    browser.driver.find_element("id", "file").send_keys(str(table))
    browser.click("Go on to the columns")
    browser.expect("Columns of predictions.csv")
    check_screen(browser, "the columns of a table")
    asked = set()
    for entry in browser.driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            asked.add(event["params"]["request"]["url"])
    # the browser draws its own marks of fields from data: addresses
    elsewhere = [url for url in asked if not url.startswith((browser.address, "data:"))]
    assert elsewhere == []


def test_a_run_shows_its_progress_without_a_reload(browser: Browser, bench: Any) -> None:
    browser.driver.get(f"{browser.address}/jobs")
    browser.driver.find_element("xpath", "//button[@aria-label='Run hiring-gbdt']").click()
    browser.expect("It runs, started by ana.")
    browser.driver.execute_script("window.first = true")
    browser.expect("train 60 %")
    assert browser.driver.execute_script("return window.first")
    assert browser.driver.find_element("id", "bar").get_property("value") == 60
    check_screen(browser, "a run in progress")
    (bench.folder / "go").touch()
    browser.expect("It ended, and all gates passed.")
    check_screen(browser, "a run that has ended")


@pytest.mark.parametrize("width", WIDTHS)
def test_an_interview_by_keyboard_to_the_end(interviewer: Browser, width: int) -> None:
    from selenium.webdriver.common.keys import Keys

    interviewer.resize(width)
    interviewer.driver.get(f"{interviewer.address}/models/people-dadi/versions/1")
    interviewer.click("Ask a person, one question at a time, only what is fair to ask")
    check_screen(interviewer, "the beginning")
    interviewer.resize(width)
    interviewer.click("Begin")
    for number in range(1, 5):
        if "The decision is" in interviewer.driver.find_element("tag name", "main").text:
            break
        interviewer.expect(f"Question {number} of at most 4")
        if number == 1:
            check_screen(interviewer, "a question")
            interviewer.picture("app-question")
            interviewer.resize(width)
        field = interviewer.driver.find_element("xpath", "//*[@name='answer']")
        kind = field.get_attribute("type")
        if kind == "radio":
            field.send_keys(Keys.SPACE)
        else:
            field.send_keys("01012021" if kind == "date" else "3000")
        field.send_keys(Keys.ENTER)
    interviewer.expect("The decision is")
    interviewer.expect("What was asked")
    check_screen(interviewer, "the decision")
    interviewer.click("Delete the answers")
    interviewer.expect("one at a time")


# what the documentation shows: the demonstration, trained here
def test_the_demonstration_looks_as_in_the_docs(tmp_path: Path) -> None:
    prepare_environment(str(tmp_path / "store"))
    steps: list[str] = []
    assert prepare(Store(str(tmp_path / "store")), steps.append)
    # all is there already
    begun = len(steps)
    assert prepare(Store(str(tmp_path / "store")), steps.append)
    assert len(steps) == begun
    with browsing(tmp_path / "store") as browser:
        browser.driver.get(f"{browser.address}/models/hiring-gbdt")
        browser.expect("Version 1 is the champion")
        browser.click("Compare")
        browser.expect("Impact ratio by gender")
        browser.picture("app-compare")
        browser.driver.get(f"{browser.address}/models/hiring-gbdt/versions/2")
        browser.expect("It may become champion.")
        browser.picture("app-version")
        browser.driver.get(f"{browser.address}/cases")
        browser.driver.find_element("xpath", "//main//tbody//a").click()
        browser.expect("Principal reasons")
        check_screen(browser, "a case")
        browser.picture("app-case")


def test_what_a_person_writes_stays_out_of_the_store(browser: Browser) -> None:
    browser.driver.get(f"{browser.address}/models/{MODEL}/versions/2")
    browser.driver.find_element("id", "refuse-reason").send_keys("a reason of the chain alone")
    browser.click("Refuse")
    browser.expect("Your refusal is recorded.")
    folder = Path(browser.settings.store.url)
    named = [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and b"a reason of the chain alone" in path.read_bytes()
    ]
    assert named == ["mlflow.db"]
