"""What MLflow shows of published models, and that others can serve them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.tasks.steps.publish_step import example_of, packages_of
from tests.flows.people import Bench, Done

pytestmark = pytest.mark.usefixtures("flow_environment")

FEATURES = ["income", "job", "owner", "since"]
EQUAL = "decision={equal: {criterion: equalized_odds, attribute: age}}"
LIBRARIES = {"torch", "xgboost", "numba", "safetensors"}
# loads a model and predicts its example, and gives the libraries that were imported
LOAD = """
import json, sys
import mlflow
model = mlflow.pyfunc.load_model(sys.argv[1])
example = model.metadata.load_input_example(sys.argv[1])
found = model.predict(example.assign(unknown=1))
print(json.dumps([found.to_dict("list"), sorted(set(sys.argv[2].split(",")) & set(sys.modules))]))
"""


def folder(store: Path) -> Path:
    """The one published model."""
    (found,) = (path.parent for path in store.glob("mlflow-artifacts/**/artifacts/MLmodel"))
    return found


def signature(place: Path) -> dict[str, Any]:
    found = yaml.safe_load((place / "MLmodel").read_text())
    columns = {side: json.loads(found["signature"][side]) for side in ("inputs", "outputs")}
    return columns | {"metadata": found["metadata"]}


def loaded(place: Path) -> tuple[dict[str, Any], list[str]]:
    """Prediction of the example in a fresh process, and the libraries that it imports."""
    command = [sys.executable, "-W", "ignore", "-c", LOAD, str(place), ",".join(LIBRARIES)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    prediction, imported = json.loads(done.stdout.splitlines()[-1])
    return prediction, imported


def required(place: Path) -> set[str]:
    lines = (place / "requirements.txt").read_text().splitlines()
    return {line.partition("==")[0].replace("xgboost-cpu", "xgboost") for line in lines}


def test_a_classifier_describes_columns_and_predicts_its_example(published: Done) -> None:
    place = folder(published.store)
    found = signature(place)
    assert [(item["name"], item["required"]) for item in found["inputs"]] == [
        (n, False) for n in FEATURES
    ]
    assert [(item["name"], item["type"]) for item in found["outputs"]] == [
        ("prediction", "string"),
        ("probability", "double"),
    ]
    assert found["metadata"]["inputs"]["income"] == {"type": "number", "required": True}
    (row,) = json.loads((place / "input_example.json").read_text())["data"]
    assert row == [0, "clerk", False, "2000-01-01"]
    prediction, imported = loaded(place)
    assert prediction["prediction"][0] in ("yes", "no")
    assert set(imported) <= required(place)
    assert required(place) & {"torch", "numba"} == set()
    assert "xgboost" in required(place)


@pytest.mark.long
def test_a_proxy_describes_itself(published_proxy: Done) -> None:
    place = folder(published_proxy.store)
    assert [item["name"] for item in signature(place)["outputs"]] == ["acceptance_probability"]
    _, imported = loaded(place)
    assert set(imported) <= required(place)
    assert required(place) & {"torch", "xgboost"} == set()


@pytest.mark.long
def test_the_attribute_of_decisions_by_group_is_an_input(publishing: Bench) -> None:
    assert publishing.run("--set", EQUAL, "--set", "gates={}").code == 0
    place = folder(publishing.store)
    assert [item["name"] for item in signature(place)["inputs"]] == [*FEATURES, "age"]
    prediction, imported = loaded(place)  # the example's age is 0, of the youngest group
    assert prediction["prediction"][0] in ("yes", "no")
    assert set(imported) <= required(place)


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("gbdt", {"xgboost"}),
        ("budro", {"xgboost"}),
        ("sensei", {"torch"}),
        ("faias", {"torch"}),
        ("dadi", set()),
        ("logistic", set()),
        ("proxy", {"numba"}),
    ],
)
def test_a_method_needs_its_own_packages_only(
    tmp_path: Path, method: str, wanted: set[str]
) -> None:
    assert set(packages_of(tmp_path, method)) & {"torch", "xgboost", "numba"} == wanted


def test_an_example_has_declared_values_only(tmp_path: Path) -> None:
    feature: dict[str, Any] = {"role": "feature", "is_feature": True}
    columns = (
        Column("code", "integer", encoding="onehot", **feature),
        Column("town", "string", **feature),
        Column("age", "integer", minimum=18, maximum=90, **feature),
        Column("debt", "number", maximum=-5, **feature),
        Column("rank", "string", encoding="ordinal", allowed=("low", "high"), **feature),
        Column("paid", "boolean", True, role="label", positive=True),
    )
    contract = Contract(name="a", version="1", description="", columns=columns)
    training = pd.DataFrame(
        {"code": [7, 7, 3], "town": [None, "Ulm", "Aachen"], "rank": ["high"] * 3}
    )
    specs = [ColumnSpec("code", "onehot"), ColumnSpec("town", "onehot")]
    specs += [ColumnSpec("rank", "ordinal", order=("low", "high"))]
    TableEncoder(specs).fit(training).save(tmp_path / "encoder.json")
    (tmp_path / "inputs.json").write_text(json.dumps({"features": [c.name for c in columns[:-1]]}))
    row = example_of(tmp_path, contract).iloc[0].to_dict()
    assert row == {"code": 3, "town": "Aachen", "age": 18, "debt": -5, "rank": "low"}


@pytest.mark.long
def test_mlflow_serves_a_published_model(published: Done) -> None:
    place = folder(published.store)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(place)]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    rows = pd.DataFrame({"income": [3900, 100], "job": ["cook", None], "owner": [True, False]})
    body = {"dataframe_split": rows.assign(job="cook", since="2021-01-01").to_dict("split")}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as server:
        try:
            until = time.monotonic() + 120
            while True:
                request = urllib.request.Request(  # noqa: S310 - this machine's server
                    f"http://127.0.0.1:{port}/invocations",
                    json.dumps(body).encode(),
                    {"Content-Type": "application/json"},
                )
                try:
                    with urllib.request.urlopen(request) as answer:  # noqa: S310
                        found_rows = json.loads(answer.read())["predictions"]
                    break
                except OSError:
                    assert server.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.2)
        finally:
            os.killpg(server.pid, 15)
    assert [row["prediction"] for row in found_rows] == ["yes", "no"]
    assert found_rows[0]["probability"] > 0.5 > found_rows[1]["probability"]


def test_an_agent_needs_xgboost_where_trees_predict(tmp_path: Path) -> None:
    (tmp_path / "model" / "trees").mkdir(parents=True)
    assert "xgboost" in packages_of(tmp_path, "dadi")
