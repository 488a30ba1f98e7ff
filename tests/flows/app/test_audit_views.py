"""Audits of uploaded tables: what is shown, what is refused, and that nothing is kept."""

from __future__ import annotations

import gc
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from evenhand.flows.app import audit_routes, audit_views
from evenhand.flows.app.audit_choices import PENDING, PendingAudit, TableColumn, columns_of, guesses
from evenhand.flows.app.audit_views import AUDIT, MOST_BYTES
from evenhand.flows.app.columns_process import described_columns
from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.uploads import Upload
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


# In place of the process that looks at a table: the columns of the tables of these tests.
DESCRIBES = """
import json, sys
named = {"is_number": False, "is_share": False, "values": []}
paid = named | {"name": "paid", "values": ["0", "1"]}
columns = [named | {"name": "sex", "values": ["F", "M"]}, paid]
columns.append(named | {"name": "p", "is_number": True, "is_share": True})
assert open(sys.argv[1]).read()
print(json.dumps({"columns": columns}))
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

    def upload(self, content: bytes = b"sex,p\nF,1\n", name: str = "t.csv") -> Any:
        sent = {"form_token": self.session.form_token}
        return self.client.post("/audit", data=sent, files={"file": (name, content)})

    def choose(self, **fields: str) -> Any:
        sent = {"form_token": self.session.form_token, "prediction": "p", "sensitive sex": "yes"}
        return self.client.post("/audit/columns", data=sent | fields)

    def send(self, content: bytes = b"sex,p\nF,1\n", name: str = "t.csv", **fields: str) -> Any:
        uploaded = self.upload(content, name)
        if uploaded.status_code != 303:
            return uploaded
        return self.choose(**fields)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "store")


@pytest.fixture
def describes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_views, "COLUMNS_COMMAND", (sys.executable, "-c", DESCRIBES))


@pytest.fixture
def writes(describes: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(audit_views, "COMMAND", (sys.executable, "-c", WRITES))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("EVENHAND_KEY", "secret.pem")


def test_an_audit_is_shown_and_its_table_deleted(
    office: Office, writes: None, tmp_path: Path
) -> None:
    good = json.dumps(["p", "--store=/"])
    answer = office.send(positive=good, threshold="0.4", name="../../evil.csv")
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


def test_a_wrong_file_is_refused_at_its_field(office: Office, describes: None) -> None:
    empty = office.upload(b"")
    assert empty.status_code == 422
    assert "Choose a file that is not empty." in empty.text
    assert "ends with .csv, .tsv or .parquet" in office.upload(name="t.exe").text
    files = {"file": ("t.csv", b"x")}
    assert office.client.post("/audit", data={"x": "y"}, files=files).status_code == 403
    assert office.client.post("/audit", data={"x": "y"}).status_code == 400
    assert office.session.kept == {}
    assert office.choose().status_code == 400


def test_columns_are_choices_with_guesses(office: Office, describes: None) -> None:
    assert office.upload(name="C:\\people\\t <b>.csv").headers["location"] == "/audit/columns"
    page = office.client.get("/audit/columns").text
    assert "Columns of t &lt;b&gt;.csv" in page
    assert '<option value="p" selected>' in page
    assert 'name="sensitive sex" value="yes" checked' in page
    assert '<option value="[&#34;paid&#34;, &#34;1&#34;]" selected>paid = 1</option>' in page


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prediction": "none"}, "Choose the column that has the predictions."),
        ({"sensitive sex": ""}, "Choose at least one column"),
        ({"label": "<script>"}, "Choose one of the columns."),
        ({"label": "p"}, "This column has the predictions"),
        ({"label": "sex"}, "sex is chosen twice"),
        ({"label": "paid", "favourable": '["sex", "F"]'}, "This is a value of sex"),
        ({"positive": "{"}, "Choose one of the values."),
    ],
)
def test_a_wrong_choice_keeps_all_values(
    office: Office, describes: None, fields: dict[str, str], words: str
) -> None:
    office.upload()
    answer = office.choose(**({"threshold": "0.375"} | fields))
    assert answer.status_code == 422
    assert words in readable(answer.text)
    assert 'value="0.375"' in answer.text
    assert "<script" not in answer.text


def test_a_table_waits_in_memory_and_not_for_long(
    office: Office, describes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    office.upload(b"sex,p\nsecret,1\n")
    pending = office.session.kept[PENDING]
    assert "secret" not in repr(office.session) + repr(pending)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    # no more than a few wait at once
    monkeypatch.setattr(audit_routes, "MOST_WAITING", 1)
    assert "Other tables wait" not in office.upload().text
    pending = office.session.kept[PENDING]
    pending.until = 0.0
    assert office.client.get("/audit/columns").status_code == 404
    assert pending.upload.content is None
    assert PENDING not in office.session.kept
    # signing out takes the table with it
    office.upload()
    waiting = office.client.app.state.waiting  # type: ignore[attr-defined]
    del pending
    office.client.post("/sign-out", data={"form_token": office.session.form_token})
    gc.collect()
    assert len(waiting) == 0
    # others who upload have to wait
    app: Any = office.client.app
    kept = PendingAudit(Upload(content=b"x"), [], time.monotonic() + 60)
    app.state.waiting.add(kept)
    office = Office(tmp_path / "store")
    office.client.app.state.waiting = app.state.waiting  # type: ignore[attr-defined]
    assert "Other tables wait" in office.upload().text


def test_the_columns_of_a_real_table_are_described(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("sex;score;note;1\nF;0,5;a;2\nM;0,25;b;3\n")
    columns = columns_of({"columns": described_columns(table)})
    assert [column.name for column in columns] == ["sex", "score", "note", "1"]
    assert columns[0] == TableColumn("sex", values=["F", "M"])
    assert columns[1].is_share
    assert not columns[3].is_share


def test_guesses_are_those_that_a_person_would_make() -> None:
    columns = [
        TableColumn("customerId", is_number=True),
        TableColumn("ageGroup", values=["old", "young"]),
        TableColumn("Race", values=["a", "b", "c"]),
        TableColumn("defaulted", is_number=True, is_share=True, values=["0", "1"]),
        TableColumn("PD_score", is_number=True, is_share=True),
    ]
    assert guesses(columns) == {
        "prediction": "PD_score",
        "sensitive ageGroup": "yes",
        "sensitive Race": "yes",
        "label": "defaulted",
        "favourable": '["defaulted", "0"]',
        "positive": '["defaulted", "1"]',
    }
    assert guesses([TableColumn("a"), TableColumn("b", values=["x", "y"])]) == {}


def test_a_failing_audit_says_why(
    office: Office, describes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = json.dumps({"error": "--prediction: there is no column 'p'."})
    for script, words in (
        (f"print({error!r})", "“Predictions”: there is no column"),
        ("print('killed')", "may need more memory"),
        ("import time; time.sleep(9)", "took longer than two minutes"),
    ):
        monkeypatch.setattr(audit_views, "COMMAND", (sys.executable, "-c", script))
        monkeypatch.setattr(audit_views, "LONGEST_S", 60.0)
        office.upload()
        monkeypatch.setattr(audit_views, "LONGEST_S", 1.0)
        answer = office.choose()
        assert answer.status_code == 422
        assert words in readable(answer.text)
    # the table waits for another choice, until it is deleted
    form = {"form_token": office.session.form_token, "what": "table"}
    assert office.client.post("/audit/delete", data=form).status_code == 303
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
    assert viewer.upload().status_code == 403
    assert viewer.choose().status_code == 403
    assert viewer.client.get("/audit/columns").status_code == 403
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
    paid = json.dumps(["paid", "1"])
    answer = office.send(table, prediction="score", label="paid", positive=paid, favourable=paid)
    assert answer.status_code == 303, readable(answer.text)
    text = readable(office.client.get("/audit/result").text)
    ratio = re.search(r"impact_ ratio\. sex (0\.\d+)", text)
    assert ratio is not None, text
    women = np.mean([float(line.split(",")[1]) >= 0.5 for line in lines[1:] if line[0] == "F"])
    men = np.mean([float(line.split(",")[1]) >= 0.5 for line in lines[1:] if line[0] == "M"])
    assert float(ratio.group(1)) == pytest.approx(women / men, abs=0.001)
    assert "<svg" in office.client.get("/audit/report").text
    refused = office.send(table, prediction="sex", **{"sensitive sex": "", "sensitive paid": "yes"})
    assert "sex" in readable(refused.text).partition("wait")[0]
    assert refused.status_code == 422
    assert not list(tmp_path.rglob("*.csv"))
