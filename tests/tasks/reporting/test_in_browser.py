"""Every kind of page in a real browser: it loads nothing, fits a phone, and axe-core finds no grave fault."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from evaluation_example import alone, evaluation_context
from filter_example import filter_context
from index_example import index_context
from since_champion_example import with_champion
from test_sweep_report import GOAL
from test_sweep_report import example as sweep_example
from test_sweep_report import page as sweep_page

from evenhand.tasks.reporting.evaluation import render_evaluation
from evenhand.tasks.reporting.filtering import render_filter
from evenhand.tasks.reporting.index import render_index
from evenhand.tasks.reporting.page import render_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"
)

MOST_BYTES = 2_000_000
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
DESK = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PAGES: dict[str, Callable[[], str]] = {
    "run": lambda: render_report(with_champion()),
    "sweep": lambda: sweep_page(sweep_example(best=GOAL)),
    "sweep over methods": lambda: sweep_page(sweep_example(over="method=gbdt,reweigh,budro")),
    "filter": lambda: render_filter(filter_context()),
    "evaluation": lambda: render_evaluation(evaluation_context()),
    "evaluation alone": lambda: render_evaluation(alone()),
    "index": lambda: render_index(index_context(33)),
}
BIG = "index of 200 runs"
WITHOUT_PLOTS = {"index"}
# text that ends beside the page: nothing scrolls to it
WIDTHS = "return [document.documentElement.scrollWidth, window.innerWidth]"
PLOTS = """
return [...document.querySelectorAll("svg")].map(plot => plot.getBoundingClientRect())
  .filter(box => box.width || box.height).map(box => [box.width, box.height])
"""
EVERY_RULE: dict[str, Any] = {}
# colours do not change with the width, and nothing else changes with the scheme
CONTRAST = {"runOnly": ["color-contrast"]}
NOT_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"], ...arguments[0]}).then(
  found => done(found.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)])),
  error => done([["critical", "axe", [String(error)]]]));
"""


class Browser:
    """One Chromium, and what it said about the page that it has open."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.driver.execute_cdp_cmd("Network.enable", {})

    def open(self, path: Path, screen: dict[str, Any], scheme: str = "light") -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.logs("performance")
        self.logs("browser")
        self.driver.get(path.as_uri())

    def logs(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.driver.get_log(kind)
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def faults(self, rules: Mapping[str, Any]) -> list[Any]:
        """What axe-core finds by these rules, of serious or critical impact."""
        # the page itself allows no script: this one comes from outside of it
        self.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(AXE, rules)
        return [fault for fault in found if fault[0] in ("serious", "critical")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    written = {}
    for name, render in {**PAGES, BIG: lambda: render_index(index_context(200))}.items():
        written[name] = folder / f"{name.replace(' ', '-')}.html"
        written[name].write_text(render(), encoding="utf-8")
    return written


@pytest.mark.parametrize("name", PAGES)
def test_loads_nothing_and_draws_its_plots(name: str, browser: Browser, pages: dict[str, Path]) -> None:
    for screen in (DESK, PHONE):
        browser.open(pages[name], screen)
        asked = browser.requests()
        assert asked == [pages[name].as_uri()]
        assert browser.logs("browser") == []
        plots = browser.run(PLOTS)
        assert bool(plots) == (name not in WITHOUT_PLOTS)
        assert all(width > 20 and height > 10 for width, height in plots)
        assert browser.run("return document.querySelectorAll('svg.wide').length") == browser.run(
            "return document.querySelectorAll('svg.narrow').length"
        )
    assert pages[name].stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", EVERY_RULE), ("dark", CONTRAST)], ids=["light", "dark"]
)
def test_axe_finds_no_serious_fault(
    name: str, scheme: str, rules: dict[str, Any], browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages[name], DESK, scheme)
    browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.faults(rules) == []


@pytest.mark.parametrize("name", PAGES)
def test_fits_a_phone(name: str, browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages[name], PHONE)
    browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    needed, there = browser.run(WIDTHS)
    assert there == 390
    assert needed <= there
    assert browser.faults(NOT_CONTRAST) == []


def test_faults_are_found(browser: Browser, tmp_path: Path) -> None:
    """The tests above can fail: a page with faults has them found."""
    page = tmp_path / "faulty.html"
    page.write_text(
        '<html lang="en"><head><title>t</title><link rel="stylesheet" href="http://localhost:9/a.css"></head>'
        '<body><img src="missing.png"><p style="color:#ccc;background:#fff">pale</p>'
        '<div style="width:800px">wide</div></body></html>'
    )
    browser.open(page, PHONE)
    assert "http://localhost:9/a.css" in browser.requests()
    assert browser.logs("browser") != []
    needed, there = browser.run(WIDTHS)
    assert needed > 390 or there > 390
    assert {"image-alt", "color-contrast"} <= {fault[1] for fault in browser.faults(EVERY_RULE)}


def shown_rows(browser: Browser) -> int:
    script = "return [...document.querySelectorAll('tr[data-job]')].filter(row => row.offsetHeight).length"
    return int(browser.run(script))


def test_an_index_of_200_runs_has_all_its_rows_and_filters_them(
    browser: Browser, pages: dict[str, Path]
) -> None:
    assert pages[BIG].stat().st_size < MOST_BYTES
    browser.open(pages[BIG], DESK)
    spent = browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert spent > 0
    assert shown_rows(browser) == 200
    browser.run("document.getElementById('outcome-refused').click()")
    refused = shown_rows(browser)
    assert 0 < refused < 200
    browser.run("document.getElementById('kind-sweep').click()")
    swept = shown_rows(browser)
    assert 0 < swept < refused
    browser.run("document.getElementById('outcome-all').click()")
    assert shown_rows(browser) > swept
    browser.run("document.getElementById('kind-all').click()")
    assert shown_rows(browser) == 200
    browser.run("document.getElementById('job-0').click()")
    assert 0 < shown_rows(browser) < 200
