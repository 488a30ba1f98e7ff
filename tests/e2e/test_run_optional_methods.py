"""Methods that an optional extra brings, with it and without."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.methods.registry import METHODS

BLOCKED = ("fairlearn",)


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in BLOCKED else found(name)
    )


@pytest.fixture
def readable(bench: Any) -> Any:
    """People whose sex is a model input."""
    bench.properties["sex"]["customProperties"].append({"property": "use", "value": "feature"})
    return bench


def command(*arguments: str) -> Any:
    """Carry a command line out in this process."""
    from evenhand.flows.cli import app

    return CliRunner().invoke(app, list(arguments))


def test_the_list_says_what_is_not_installed(without_extra: None) -> None:
    lines = command("methods").stdout.splitlines()
    note = "(not installed: pip install 'evenhand[comparators]')"
    noted = {line.split()[0] for line in lines if line.endswith(note)}
    assert noted == {name for name, spec in METHODS.items() if spec.extra == "comparators"}
    assert "adversarial-debiasing" in noted


def test_the_list_has_no_note_at_what_is_installed() -> None:
    done = command("methods")
    assert "adversarial-debiasing" in done.stdout
    noted = {line.split()[0] for line in done.stdout.splitlines() if "not installed" in line}
    # an extra of 100 MB, which tests do without
    assert noted <= {"catboost"}


@pytest.mark.parametrize("more", [["run"], ["sweep", "--over", "method.adversary_weight=0.1,1"]])
def test_a_job_fails_before_anything_runs(bench: Any, without_extra: None, more: list[str]) -> None:
    bench.job["method"] = {"name": "adversarial-debiasing"}
    done = command(*more, str(bench.write()), "--direct", "--store", str(bench.store))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "evenhand: job people-gbdt: method adversarial-debiasing needs an optional extra: "
        "pip install 'evenhand[comparators]'"
    ]
    assert not list(bench.store.glob("steps/*"))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ({"name": "reweigh-logistic", "attribute": "sexx"}, "method.attribute names 'sexx'"),
        (
            {"name": "exponentiated-gradient", "constraint": "parity"},
            "method.constraint is 'parity'",
        ),
    ],
)
def test_words_that_a_method_does_not_know(
    readable: Any, method: dict[str, Any], said: str
) -> None:
    readable.job["method"] = method
    done = readable.run()
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_a_method_that_compares_groups_needs_a_sensitive_column(bench: Any) -> None:
    for name in ("sex", "age"):
        bench.properties[name]["customProperties"] = [{"property": "role", "value": "feature"}]
    bench.job["method"] = {"name": "reweigh-logistic"}
    done = bench.run()
    assert done.code == 2
    assert "has no sensitive column, and reweigh-logistic compares the groups of one" in done.err


PREDICT = """
import json, sys
import mlflow, pyarrow.parquet as pq

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("fairlearn", "evenhand.flows", "evenhand.tasks")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
mlflow.set_tracking_uri(sys.argv[1])
for uri, path in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
    model = mlflow.pyfunc.load_model(uri)
    print(json.dumps(model.predict(pq.read_table(path).to_pandas()).to_dict("list")))
"""
METHODS_OF_EXTRA: list[dict[str, Any]] = [
    {"name": "reweigh-logistic", "threshold": 0.7},
    {"name": "exponentiated-gradient", "attribute": "sex"},
]


@pytest.mark.long
def test_what_is_published_decides_as_what_was_measured(publishing: Any) -> None:
    """By a threshold of its own, in a process that lacks the extra."""
    publishing.properties["sex"]["customProperties"].append({"property": "use", "value": "feature"})
    given, expected = [], []
    for method in METHODS_OF_EXTRA:
        publishing.job |= {"method": method, "calibration": "none", "decision": "own"}
        done = publishing.run("--json", "--set", f"publish.model={method['name']}")
        assert done.code == 0, done.err
        measured = pq.read_table(done.json["artifacts"]["evaluate.predictions"]).to_pandas()
        threshold = method.get("threshold", np.nextafter(0.5, 1))
        np.testing.assert_array_equal(
            measured["prediction"] == 1, measured["probability"] >= threshold
        )
        if "threshold" in method:
            # a threshold of one half would decide otherwise
            assert ((measured["probability"] >= 0.5) != (measured["prediction"] == 1)).any()
        rows = publishing.folder / f"{method['name']}.parquet"
        pq.write_table(publishing.table.take(measured["row"].to_list()), rows)
        given += [done.json["model"]["uri"], str(rows)]
        expected.append(measured)
    finished = subprocess.run(
        [sys.executable, "-c", PREDICT, f"sqlite:///{publishing.store / 'mlflow.db'}", *given],
        cwd=publishing.folder.parent,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        | {"MLFLOW_DISABLE_TELEMETRY": "true"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    answers = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    for found, measured in zip(answers, expected, strict=True):
        assert found["probability"] == measured["probability"].to_list()
        assert found["prediction"] == [
            "yes" if positive else "no" for positive in measured["prediction"]
        ]
