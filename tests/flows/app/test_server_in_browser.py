"""The app in a real browser: a whole decision by mouse and keyboard, on a phone's width too, and
what axe-core finds on every screen.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.flows.commands.app_command import listen
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.ledger import history
from tests.flows.people import Done

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromium-driver"),
]
MODEL = "people-gbdt"
WIDTHS = (1280, 360)
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  found => done(found.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)])));
"""


class Browser:
    """A browser that has signed in to an app of its own."""

    def __init__(self, driver: Any, settings: AppSettings, address: str) -> None:
        self.driver = driver
        self.settings = settings
        self.address = address
        driver.get(f"{address}/sign-in?token={settings.sessions.one_time_token}")

    def resize(self, width: int, scheme: str = "light") -> None:
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def expect(self, words: str) -> None:
        """Wait until the page says something."""
        from selenium.webdriver.support.ui import WebDriverWait

        places = f'//main[contains(normalize-space(.), "{words}")]'
        WebDriverWait(self.driver, 120).until(
            lambda driver: driver.find_elements("xpath", places), message=words
        )

    def click(self, words: str) -> None:
        """Press the button, or follow the link, with some words."""
        places = f"//button[normalize-space()='{words}'] | //a[normalize-space()='{words}']"
        self.driver.find_element("xpath", places).click()


@pytest.fixture
def browser(bench: Any, two_versions: Done) -> Iterator[Browser]:
    from selenium import webdriver

    two_versions.copied_to(bench.store)
    listener = listen("127.0.0.1", 0)
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    settings = AppSettings(
        registry=f"sqlite:///{bench.store.resolve()}/mlflow.db",
        store=Store(str(bench.store)),
        sessions=Sessions({}, Person("ana", "owner")),
        hosts=frozenset({host}),
        allow_changes=True,
    )
    config = uvicorn.Config(build_app(settings), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    try:
        while not server.started:
            time.sleep(0.05)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            driver.execute_cdp_cmd("Network.enable", {})
            driver.implicitly_wait(60)
            yield Browser(driver, settings, f"http://{host}")
        finally:
            driver.quit()
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


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


def test_screens_have_no_fault_and_ask_nobody_else(browser: Browser) -> None:
    places = ["/", "/runs", f"/models/{MODEL}", f"/models/{MODEL}/versions/2", "/nowhere"]
    places.append(f"/models/{MODEL}/compare?first=1&second=2")
    places.append(f"/models/{MODEL}/versions/1/person")
    for place in places:
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                browser.resize(width, scheme)
                browser.driver.get(f"{browser.address}{place}")
                inside = browser.driver.execute_script(
                    "return document.documentElement.scrollWidth <= window.innerWidth"
                )
                assert inside, (place, width)
                browser.driver.execute_script(
                    (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
                )
                assert browser.driver.execute_async_script(AXE) == [], (place, width, scheme)
    asked = set()
    for entry in browser.driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            asked.add(event["params"]["request"]["url"])
    # the browser draws its own marks of fields from data: addresses
    elsewhere = [url for url in asked if not url.startswith((browser.address, "data:"))]
    assert elsewhere == []


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
