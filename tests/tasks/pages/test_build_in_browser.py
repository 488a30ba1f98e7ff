"""Every kind of page in a real browser: it loads nothing, fits a phone, and axe-core finds no grave
fault.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from demo_documents import demo_documents
from filter_documents import filter_documents
from page_examples import (
    alone_documents,
    drift_documents,
    evaluation_documents,
    index_documents,
    run_documents,
    with_champion,
)
from sweep_documents import method_documents, proxy_documents, sweep_documents
from tune_documents import tune_documents

from evenhand.tasks.pages.build import write_page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"
)

MOST_BYTES = 2_000_000
PHONE = {"width": 360, "height": 780, "deviceScaleFactor": 2, "mobile": True}
DESK = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
Pages = Mapping[str, tuple[str, Callable[[], dict[str, Any]]]]
# in `make test`; the others are in the long suite
FIRST: Pages = {
    "run": ("run", lambda: with_champion(run_documents())),
    "index": ("index", lambda: index_documents(33)),
}
OTHERS: Pages = {
    "sweep": ("sweep", sweep_documents),
    "sweep over methods": ("sweep", method_documents),
    "sweep of proxies": ("sweep", proxy_documents),
    "tune": ("tune", tune_documents),
    "filter": ("filter", filter_documents),
    "evaluation": ("evaluation", evaluation_documents),
    "evaluation alone": ("evaluation", alone_documents),
    "drift": ("drift", drift_documents),
    "demo": ("demo", demo_documents),
}
NAMES = [*FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
WITHOUT_PLOTS = {"index"}
# text that ends beside the page: nothing scrolls to it
WIDTHS = "return [document.documentElement.scrollWidth, window.innerWidth]"
PLOTS = """
return [...document.querySelectorAll("svg")].map(plot => plot.getBoundingClientRect())
  .filter(box => box.width || box.height).map(box => [box.width, box.height])
"""
OPEN = "document.querySelectorAll('details').forEach(part => part.open = true)"
EVERY_RULE: dict[str, Any] = {}
# colours do not change with the width, and nothing else changes with the scheme
CONTRAST = {"runOnly": ["color-contrast"]}
NOT_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}
# What a person does to print a part, or all of them; the page itself has no script.
OPEN_A_PART = "document.querySelector('details.part').open = true"
PRINT_ALL = "document.getElementById('print-all').click()"
A4 = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
DECIDING = [
    *("Who gets the unfavourable outcome", "Errors by group"),
    "What is missing or uncertain",
]
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"], ...arguments[0]}).then(
  found => done(found.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)])),
  error => done([["critical", "axe", [String(error)]]]));
"""


class Browser:
    """One Chromium, and its logs of the page that it has open."""

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

    def printed_pages(self) -> int:
        """Number of A4 pages that the page as it is now prints."""
        printed = self.driver.execute_cdp_cmd("Page.printToPDF", A4)
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))

    def faults(self, rules: Mapping[str, Any]) -> list[Any]:
        """Violations of serious or critical impact that axe-core finds by these rules."""
        # the page itself allows no script: this one comes from outside of it
        self.driver.execute_script(
            (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
        )
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
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write a page once."""
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str) -> Path:
        path = folder / f"{name.replace(' ', '-')}.html"
        if not path.exists():
            kind, documents = {**FIRST, **OTHERS}[name]
            path.write_text(write_page(kind, documents()), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("name", NAMES)
def test_loads_nothing_and_draws_its_plots(
    name: str, browser: Browser, written: Callable[[str], Path]
) -> None:
    page = written(name)
    for screen in (DESK, PHONE):
        browser.open(page, screen)
        assert browser.requests() == [page.as_uri()]
        assert browser.logs("browser") == []
        plots = browser.run(PLOTS)
        assert bool(plots) == (name not in WITHOUT_PLOTS)
        assert all(width > 20 and height > 10 for width, height in plots)
        assert browser.run("return document.querySelectorAll('svg.wide').length") == browser.run(
            "return document.querySelectorAll('svg.narrow').length"
        )
    assert page.stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", EVERY_RULE), ("dark", CONTRAST)], ids=["light", "dark"]
)
def test_axe_finds_no_serious_fault(
    name: str, scheme: str, rules: dict[str, Any], browser: Browser, written: Callable[[str], Path]
) -> None:
    browser.open(written(name), DESK, scheme)
    browser.run(OPEN)
    assert browser.faults(rules) == []


@pytest.mark.parametrize("name", NAMES)
def test_fits_a_phone(name: str, browser: Browser, written: Callable[[str], Path]) -> None:
    browser.open(written(name), PHONE)
    browser.run(OPEN)
    needed, there = browser.run(WIDTHS)
    assert there == PHONE["width"]
    assert needed <= there
    assert browser.faults(NOT_CONTRAST) == []


# pages of proxies and of the long ones are in the long suite
PRINTED = ["run", *(pytest.param(name, marks=pytest.mark.long) for name in ("evaluation", "tune"))]


@pytest.mark.parametrize("name", PRINTED)
def test_two_printed_pages_are_for_deciding(
    name: str, browser: Browser, written: Callable[[str], Path]
) -> None:
    """Folded parts are printed if they are open, and all of them on request."""
    browser.open(written(name), DESK)
    first = browser.printed_pages()
    assert first <= 2
    browser.run(OPEN_A_PART)
    with_a_part = browser.printed_pages()
    browser.open(written(name), DESK)
    browser.run(PRINT_ALL)
    with_all = browser.printed_pages()
    assert first <= with_a_part <= with_all
    assert with_all > first


def test_what_decides_is_open_and_the_rest_is_folded(
    browser: Browser, written: Callable[[str], Path]
) -> None:
    browser.open(written("run"), DESK)
    script = "return [...document.querySelectorAll('main > section > h2')].map(h => h.textContent)"
    assert browser.run(script) == [*DECIDING, "Details"]
    hidden = "return [...document.querySelectorAll('.folded')].map(part => part.checkVisibility())"
    assert set(browser.run(hidden)) == {False}
    # the Enter key opens a part, and a link to what a part holds does
    browser.run("document.querySelector('details.part summary').focus()")
    browser.driver.switch_to.active_element.send_keys("\ue007")
    opened = "return [...document.querySelectorAll('details.part')].map(part => part.open)"
    assert browser.run(opened)[:2] == [True, False]
    browser.run("location.hash = 'rates'")
    browser.driver.implicitly_wait(1)
    assert browser.run("return document.getElementById('rates').closest('details').open")


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
    assert max(needed, there) > PHONE["width"]
    assert {"image-alt", "color-contrast"} <= {fault[1] for fault in browser.faults(EVERY_RULE)}
