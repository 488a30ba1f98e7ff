"""How long the screens of ``evenhand app`` take on a registry of many versions.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.speed.app_speed [--versions 200] [--repeats 9]``. One
model is published by a run; the other versions are copies of its files, each with its own record and
evaluation. A second model asks for one feature after another: `ask` is the page that begins an
interview, `question` its first question, and `answered` the page after an answer. The server runs
in this process. Times are those to the first byte, on an idle server, in milliseconds: the median
and the largest. Then 50 readers ask at the same moment for the screens in turn.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.common import log, provenance, write_result
from benchmarks.speed.trust_cost import NAME, RUN, copy_versions, evenhand

# the agent is trained for a moment: its screens cost the same
AGENT = "german-dadi"
RUN_OF_AGENT = (
    "run",
    AGENT,
    "--direct",
    "--set",
    "method.n_iterations=100",
    "--set",
    "method.pretrain_iterations=400",
    "--set",
    "gates={accuracy: {min: 0.01}}",
    "--set",
    "publish.without_policy=true",
)
ASK = f"/models/{AGENT}/versions/1/ask"
READERS = 50
ASKED_EACH = 4


def main() -> None:
    """Measure every screen, then many readers, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--versions", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EVENHAND_STORE"] = folder
        log("versions")
        evenhand(*RUN)
        evenhand(*RUN_OF_AGENT)
        copy_versions(f"sqlite:///{Path(folder).resolve() / 'mlflow.db'}", options.versions)
        log("cases")
        asked = addresses(options.versions, make_cases_of(Path(folder)))
        with served(Path(folder)) as (host, cookie, form_token):
            log("screens")
            screens = first_bytes(host, cookie, asked, options.repeats)
            log("interview")
            screens |= interview(host, cookie, form_token, options.repeats)
            # begun: readers see its question
            asked["question"] = ASK
            log("readers")
            readers = many_readers(host, cookie, asked)
    result: dict[str, Any] = provenance(
        shlex.join(["python", "-m", "benchmarks.speed.app_speed", *sys.argv[1:]])
    )
    result |= {
        "note": options.note,
        "versions": options.versions,
        "repeats": options.repeats,
        "target": {"first_byte_ms": 200, "readers": READERS, "errors": 0},
        "first_byte_ms": screens,
        "readers": readers,
    }
    write_result("app_speed", result)
    print(json.dumps({key: value for key, value in result.items() if key != "packages"}, indent=1))


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Serve the app of a store in a thread; give its host, the cookie of a session and the token
    of its forms.
    """
    import uvicorn

    from evenhand.flows.app.people import Person
    from evenhand.flows.app.server import build_app
    from evenhand.flows.app.sessions import COOKIE, Sessions
    from evenhand.flows.app.web import AppSettings
    from evenhand.flows.commands.app_command import listen
    from evenhand.tasks.cases.case_store import CaseStore
    from evenhand.tasks.execution.store import Store

    listener = listen("127.0.0.1", 0)
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    sessions = Sessions({}, Person("reader", "owner"))
    settings = AppSettings(
        registry=f"sqlite:///{folder.resolve() / 'mlflow.db'}",
        store=Store(str(folder)),
        sessions=sessions,
        hosts=frozenset({host}),
        cases=CaseStore(folder / "cases"),
    )
    config = uvicorn.Config(build_app(settings), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        cookie = sessions.by_token(sessions.one_time_token)
        session = None if cookie is None else sessions.of_cookie(cookie)
        if session is None:
            raise RuntimeError("the session did not begin")
        yield host, f"{COOKIE}={cookie}", session.form_token
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def addresses(versions: int, case: str) -> dict[str, str]:
    """The screens that are measured, by name."""
    return {
        "models": "/",
        "model": f"/models/{NAME}",
        "version": f"/models/{NAME}/versions/{versions}",
        "comparison": f"/models/{NAME}/compare?first={versions - 1}&second={versions}",
        "runs": "/runs",
        "person": f"/models/{NAME}/versions/{versions}/person",
        "jobs": "/jobs",
        "audit": "/audit",
        "cases": "/cases",
        "case": f"/cases/{case}",
        "ask": ASK,
    }


def make_cases_of(folder: Path) -> str:
    """Write case files of the adverse decisions about the run's table; return one of them."""
    from evenhand.flows.case import CaseOptions, case_store, make_cases
    from evenhand.tasks.execution.store import Store

    (table,) = (folder / "artifacts" / "raw").glob("*.parquet")
    store = Store(str(folder))
    options = CaseOptions(model=f"models:/{NAME}/1", rows=str(table), proofs=False, recourse=False)
    (*_, made) = make_cases(options, store, case_store(store))
    return made.cases[-1]


def ask(host: str, cookie: str, address: str) -> tuple[int, float]:
    """Status of an address, and milliseconds to the first byte of its answer."""
    connection = http.client.HTTPConnection(host, timeout=120)
    begun = time.perf_counter()
    connection.request("GET", address, headers={"Cookie": cookie})
    answer = connection.getresponse()
    answer.read(1)
    milliseconds = 1000 * (time.perf_counter() - begun)
    answer.read()
    connection.close()
    return answer.status, milliseconds


def first_bytes(host: str, cookie: str, screens: dict[str, str], repeats: int) -> dict[str, Any]:
    """Median and largest time of each screen, after one that is not counted."""
    result = {}
    for name, address in screens.items():
        times = [ask(host, cookie, address) for _ in range(repeats + 1)][1:]
        if any(status != 200 for status, _ in times):
            raise RuntimeError(f"{address} did not answer")
        milliseconds = [time_ms for _, time_ms in times]
        median = round(statistics.median(milliseconds), 1)
        result[name] = {"median": median, "largest": round(max(milliseconds), 1)}
    return result


def interview(host: str, cookie: str, form_token: str, repeats: int) -> dict[str, Any]:
    """Time the first question of an interview, and an answer with the page that follows.

    Leaves an interview that has begun.
    """
    send(host, cookie, {"form_token": form_token, "act": "begin"})
    result = first_bytes(host, cookie, {"question": ASK}, repeats)
    times = []
    for _ in range(repeats + 1):
        skipped = {"form_token": form_token, "act": "skip", "number": "0"}
        begun = time.perf_counter()
        send(host, cookie, skipped)
        status, _ = ask(host, cookie, ASK)
        times.append(1000 * (time.perf_counter() - begun))
        if status != 200:
            raise RuntimeError("the interview did not go on")
        send(host, cookie, {"form_token": form_token, "act": "begin"})
    counted = times[1:]
    median = round(statistics.median(counted), 1)
    result["answered"] = {"median": median, "largest": round(max(counted), 1)}
    return result


def send(host: str, cookie: str, fields: dict[str, str]) -> None:
    """Send a form of the interview."""
    connection = http.client.HTTPConnection(host, timeout=120)
    headers = {
        "Cookie": cookie,
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"http://{host}",
    }
    connection.request("POST", ASK, body=urlencode(fields), headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != 303:
        raise RuntimeError(f"{ASK} answered {answer.status}")


def many_readers(host: str, cookie: str, screens: dict[str, str]) -> dict[str, Any]:
    """Let many ask at once; count the answers that are no page."""
    asked = list(screens.values()) * READERS
    with ThreadPoolExecutor(READERS) as pool:
        answers = list(
            pool.map(lambda address: ask(host, cookie, address), asked[: READERS * ASKED_EACH])
        )
    milliseconds = [time_ms for _, time_ms in answers]
    return {
        "asked": len(answers),
        "errors": sum(status != 200 for status, _ in answers),
        "median_ms": round(statistics.median(milliseconds), 1),
    }


if __name__ == "__main__":
    main()
