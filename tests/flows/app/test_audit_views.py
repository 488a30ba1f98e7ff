"""Audits of uploaded tables: what is shown, what is refused, and that nothing is kept."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from evenhand.flows.app import audit_views
from evenhand.flows.app.audit_views import AUDIT, MOST_BYTES
from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.execution.store import Store
from tests.flows.app.test_server import readable

HOST = "127.0.0.1:8000"
# In place of `evenhand audit`: it writes what an audit writes, and what it got.
WRITES = """
import json, os, pathlib, sys
table, store = sys.argv[2], sys.argv[4]
run = pathlib.Path(store) / "runs" / "1"
run.mkdir(parents=True)
(run / "report.html").write_text("<html>" + pathlib.Path(table).read_text() + "</html>")
names = sorted(name for name in os.environ if name.startswith(("EVENHAND", "MLFLOW")))
metrics = {"impact_ratio.sex": 0.5, "impact_ratio.sex.low": 0.4, "impact_ratio.sex.high": 0.6}
notes = [" ".join(sys.argv[5:]), f"names {names}", os.path.dirname(table)]
print(json.dumps({"metrics": metrics, "notes": notes}))
"""


class Office:
    """A browser of a person with some role."""

    def __init__(self, store: Path, role: str = "case worker") -> None:
        self.sessions = Sessions({}, Person("ana", role))
        settings = AppSettings(
            registry=f"sqlite:///{store}/mlflow.db",
            store=Store(str(store)),
            sessions=self.sessions,
            hosts=frozenset({HOST}),
        )
        app = build_app(settings)
        self.client = TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)
        self.client.get("/sign-in", params={"token": self.sessions.one_time_token})

    @property
    def session(self) -> Any:
        return self.sessions.of_cookie(self.client.cookies[COOKIE])

    def send(self, content: bytes = b"sex,p\nF,1\n", name: str = "t.csv", **fields: str) -> Any:
        sent = {"form_token": self.session.form_token, "prediction": "p", "sensitive": "sex"}
        return self.client.post("/audit", data=sent | fields, files={"file": (name, content)})


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "store")


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(audit_views, "COMMAND", (sys.executable, "-c", WRITES))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("EVENHAND_KEY", "secret.pem")


def test_an_audit_is_shown_and_its_table_deleted(
    office: Office, writes: None, tmp_path: Path
) -> None:
    answer = office.send(positive="--store=/", threshold="0.4", name="../../evil.csv")
    assert (answer.status_code, answer.headers["location"]) == (303, "/audit/result")
    text = readable(office.client.get("/audit/result").text)
    assert "Impact ratio" in text
    assert "Impact ratio by sex impact_ ratio. sex 0.500 0.400 to 0.600" in text
    assert (
        "--json --prediction=p --sensitive=sex --positive=--store=/ --threshold=0.4" in text.lower()
    )
    assert "Names []" in text
    report = office.client.get("/audit/report")
    assert report.text == "<html>sex,p\nF,1\n</html>"
    assert "default-src 'none'" in report.headers["content-security-policy"]
    assert [path for path in tmp_path.iterdir() if path.name.startswith("evenhand-audit")] == []
    token = office.session.form_token
    assert office.client.post("/audit/delete", data={"form_token": token}).status_code == 303
    assert office.client.get("/audit/report").status_code == 404
    assert AUDIT not in office.session.kept


def test_a_wrong_form_keeps_its_values(office: Office) -> None:
    empty = office.send(b"", label="<b>")
    assert empty.status_code == 422
    assert "Choose a file that is not empty." in empty.text
    assert 'value="&lt;b&gt;"' in empty.text
    assert "ends with .csv, .tsv or .parquet" in office.send(name="t.exe").text
    missing = office.send(prediction=" ")
    assert "Give the name of a column" in missing.text
    form = {"prediction": "p", "sensitive": "sex"}
    files = {"file": ("t.csv", b"x")}
    assert office.client.post("/audit", data=form, files=files).status_code == 403
    assert office.client.post("/audit", data=form).status_code == 400


def test_a_failing_audit_says_why(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    error = json.dumps({"error": "--prediction: there is no column 'p'."})
    for script, words in (
        (f"print({error!r})", "“Column of the predictions”: there is no column"),
        ("print('killed')", "may need more memory"),
        ("import time; time.sleep(9)", "took longer than two minutes"),
    ):
        monkeypatch.setattr(audit_views, "COMMAND", (sys.executable, "-c", script))
        monkeypatch.setattr(audit_views, "LONGEST_S", 1.0)
        answer = office.send()
        assert answer.status_code == 422
        assert words in readable(answer.text)
    assert office.session.kept == {}


def test_a_table_has_a_size_and_a_role(office: Office, tmp_path: Path) -> None:
    # refused by its stated length, before anything of it is read
    token = office.session.form_token
    headers = {"content-length": str(MOST_BYTES * 2), "content-type": "multipart/form-data"}
    assert office.client.post("/audit", content=b"x", headers=headers).status_code == 413
    large = office.client.post("/sign-out", data={"form_token": token, "x": "y" * 20_000})
    assert large.status_code == 413
    viewer = Office(tmp_path / "store", "viewer")
    assert viewer.client.get("/audit").status_code == 403
    assert viewer.send().status_code == 403
    assert viewer.client.get("/audit/report").status_code == 403


# one real audit, in its own process: the options and the files are those of the command
@pytest.mark.long
def test_a_real_table_is_audited(office: Office, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["sex,score,paid"]
    for _ in range(400):
        sex = rng.choice(["F", "M"])
        score = rng.uniform(0.0, 0.7) if sex == "F" else rng.uniform(0.3, 1.0)
        lines.append(f"{sex},{score:.3f},{int(rng.uniform() < score)}")
    table = "\n".join(lines).encode()
    answer = office.send(table, prediction="score", label="paid", positive="1")
    assert answer.status_code == 303, readable(answer.text)
    text = readable(office.client.get("/audit/result").text)
    ratio = re.search(r"impact_ ratio\. sex (0\.\d+)", text)
    assert ratio is not None, text
    women = np.mean([float(line.split(",")[1]) >= 0.5 for line in lines[1:] if line[0] == "F"])
    men = np.mean([float(line.split(",")[1]) >= 0.5 for line in lines[1:] if line[0] == "M"])
    assert float(ratio.group(1)) == pytest.approx(women / men, abs=0.001)
    assert "<svg" in office.client.get("/audit/report").text
    refused = office.send(table, prediction="none")
    assert "none" in readable(refused.text)
    assert not list(tmp_path.rglob("*.csv"))
