"""A headless browser that has signed in to an app of a store."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from evenhand.flows.app.job_runs import JobRunner
from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.flows.commands.app_command import listen
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.execution.store import Store

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromium-driver"
)
# The pictures of the documentation are written here; EVENHAND_WRITE_RESULTS=1 replaces those of docs.
PICTURES = Path(__file__).parents[3] / "docs" / "how-to"


class Browser:
    """A browser that has signed in to an app of its own."""

    def __init__(self, driver: Any, settings: AppSettings, address: str) -> None:
        self.driver = driver
        self.settings = settings
        self.address = address
        driver.get(f"{address}/sign-in?token={settings.sessions.one_time_token}")

    def become(self, person: Person) -> None:
        """Go on as another person, who has signed in."""
        cookie = self.settings.sessions.by_proxy(person)
        self.driver.add_cookie({"name": COOKIE, "value": cookie, "path": "/"})

    def resize(self, width: int, scheme: str = "light") -> None:
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, name: str) -> None:
        """Take a picture of the top of the screen, for the documentation if that is wanted."""
        self.resize(1000)
        picture = self.driver.get_screenshot_as_png()
        assert len(picture) > 10_000
        if os.environ.get("EVENHAND_WRITE_RESULTS"):
            (PICTURES / f"{name}.png").write_bytes(picture)

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


@contextlib.contextmanager
def browsing(
    store: Path, role: str = "owner", script: str = "", *, logs: bool = True
) -> Iterator[Browser]:
    """Serve the app of a store, and open it in a browser; `script` stands in for runs of jobs.

    `logs`: whether the browser keeps a log of its requests, which takes time.
    """
    from selenium import webdriver

    listener = listen("127.0.0.1", 0)
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    settings = AppSettings(
        registry=f"sqlite:///{store.resolve()}/mlflow.db",
        store=Store(str(store)),
        sessions=Sessions({}, Person("ana", role)),
        hosts=frozenset({host}),
        cases=CaseStore(Path(Store(str(store)).path("cases"))),
        allow_changes=True,
    )
    app = build_app(settings)
    app.state.runner = JobRunner(str(store), (sys.executable, "-c", script))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    if logs:
        options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    try:
        while not server.started:
            time.sleep(0.05)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            if logs:
                driver.execute_cdp_cmd("Network.enable", {})
            driver.implicitly_wait(60)
            yield Browser(driver, settings, f"http://{host}")
        finally:
            driver.quit()
    finally:
        app.state.runner.close()
        server.should_exit = True
        thread.join()
        listener.close()
