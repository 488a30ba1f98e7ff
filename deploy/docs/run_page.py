"""Pictures of a run's page on Prefect's own pages, for docs/how-to/on-call.md: its log, and its
artifacts.

Start the services and train a model, then run this with their variables set:

    sh deploy/local.sh start FOLDER; . FOLDER/env
    prefect --no-prompt deploy --name campaign --prefect-file deploy/prefect.yaml
    prefect deployment run retrain/campaign --watch
    python deploy/docs/run_page.py docs/how-to

It takes the newest flow run whose name says that it published a version. It needs Chromium with its
driver, and the development extra.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import sys
import time
import urllib.request
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTH = 1280
LOG_HEIGHT = 2050
ARTIFACTS_HEIGHT = 1210
COLOURS = 48
PATIENCE_S = 90.0


def main() -> None:
    """Write both pictures into the folder of the first argument."""
    folder = Path(sys.argv[1])
    api = os.environ["PREFECT_API_URL"]
    password = os.environ["PREFECT_API_AUTH_STRING"]
    token = base64.b64encode(password.encode()).decode()
    run = newest_published(api, token)
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={WIDTH},{LOG_HEIGHT}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        address = api.removesuffix("/api")
        browser.get(f"{address}/")
        script = "localStorage.setItem('prefect-password', arguments[0])"
        browser.execute_script(script, token)
        browser.get(f"{address}/runs/flow-run/{run['id']}")
        wait_for_text(browser, "published")
        # the log is loaded after the page
        wait_for_text(browser, "report ")
        time.sleep(2)
        save(browser, folder / "run-page.png")
        browser.set_window_size(WIDTH, ARTIFACTS_HEIGHT)
        browser.find_element("xpath", "//*[text()='Artifacts']").click()
        wait_for_text(browser, "Numbers of ")
        time.sleep(2)
        save(browser, folder / "run-artifacts.png")
    finally:
        browser.quit()


def save(browser: webdriver.Chrome, path: Path) -> None:
    """Write the picture of the page in few colours, so that it is small."""
    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def newest_published(api: str, token: str) -> dict[str, str]:
    """Ask the server for the newest run that has published a version."""
    body = json.dumps({"sort": "START_TIME_DESC", "limit": 200}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    request = urllib.request.Request(f"{api}/flow_runs/filter", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        runs = json.load(answer)
    for run in runs:
        if "(published version" in run["name"]:
            return dict(run)
    raise SystemExit("no run has published a version: start one first.")


def wait_for_text(browser: webdriver.Chrome, text: str) -> None:
    """Return when the page shows a text; end if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        shown = browser.execute_script("return document.body.innerText")
        if text in shown.replace("\xa0", " "):
            return
        time.sleep(0.5)
    raise SystemExit(f"the page never shows {text!r}: {shown[:2000]}")


if __name__ == "__main__":
    main()
