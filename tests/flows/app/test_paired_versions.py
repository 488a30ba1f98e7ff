"""Paired differences of two versions: those of the library on the same rows, or why there are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare
from evenhand.flows.app.paired_versions import NotPaired, PairedDifferences, paired_differences
from evenhand.tasks.execution.store import Store

N = 60
SETTINGS = {"draws": 50, "level": 0.9, "min_cell": 5, "seed": 3, "intersections": False}


class Versions:
    """A store with two runs that measured two versions on the same held-out rows."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(str(folder))
        rng = np.random.default_rng(0)
        self.rows = np.arange(N) * 2
        self.label = rng.integers(0, 2, N)
        self.sex = np.array(["f", "m"] * (N // 2), dtype=object)
        self.scores = [rng.random(N), rng.random(N)]
        self.contents = [self._content(each) for each in range(2)]
        for each in range(2):
            self.write_run(each)

    def outcomes(self, each: int, places: Any = slice(None)) -> Outcomes:
        score = self.scores[each][places]
        decided = (score > 0.5).astype(np.int64)
        return Outcomes(self.label[places], decided, score, {"sex": self.sex[places]})

    def _content(self, each: int) -> dict[str, Any]:
        accuracy = float(np.mean(self.outcomes(each).y_pred == self.label))
        return {
            "kind": "run",
            "metrics": f"metrics{each}",
            "judged_digest": "a",
            "settings": SETTINGS,
            "favourable": {"code": 1},
            "values": {"accuracy": accuracy},
        }

    def write_run(self, each: int, places: Any = slice(None), checked: str = "c") -> None:
        """Write the run of a version, which was measured on some of the rows."""
        artifacts = Path(self.store.path("artifacts"))
        held_out = artifacts / "dataset" / f"test{each}"
        shutil.rmtree(held_out, ignore_errors=True)
        (held_out / "X").mkdir(parents=True)
        schema = pa.schema([], {b"evenhand": b'{"groups": {}, "kinds": {}}'})
        pq.write_table(pa.table([], schema=schema), held_out / "X" / "0.parquet")
        rows = self.rows[places]
        outcomes = self.outcomes(each, places)
        pq.write_table(pa.table({"row": rows, "label": outcomes.y_true}), held_out / "y.parquet")
        pq.write_table(pa.table({"group:sex": self.sex[places]}), held_out / "S.parquet")
        predicted = {"row": rows, "label": outcomes.y_true, "probability": outcomes.score}
        (artifacts / "predictions").mkdir(exist_ok=True)
        pq.write_table(
            pa.table(predicted | {"prediction": outcomes.y_pred}),
            artifacts / "predictions" / f"p{each}.parquet",
        )
        # where the store was when the run ended
        elsewhere = "/elsewhere/artifacts"
        verdict = {
            "artifacts": {
                "evaluate.metrics": f"{elsewhere}/metrics/metrics{each}.json",
                "evaluate.predictions": f"{elsewhere}/predictions/p{each}.parquet",
                "preprocess.test": f"{elsewhere}/dataset/test{each}",
                "contract.checked": f"{elsewhere}/checked/{checked}",
            }
        }
        self.store.write_text(json.dumps(verdict), "runs", f"run{each}", "verdict.json")

    def why_not(self) -> str:
        with pytest.raises(NotPaired) as error:
            paired_differences(self.store, *self.contents)
        return str(error.value)


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "store")


def test_differences_are_those_of_the_library(versions: Versions) -> None:
    pairs = PairedDifferences(versions.store)
    paired = pairs.of(*versions.contents)
    expected = compare(versions.outcomes(1), versions.outcomes(0), **SETTINGS)
    assert paired.differences == expected.differences
    assert (paired.rows, paired.left_out, paired.level) == (N, 0, 0.9)
    accuracy = paired.differences["accuracy"]
    assert accuracy.value == pytest.approx(
        np.mean(versions.outcomes(1).y_pred == versions.label)
        - np.mean(versions.outcomes(0).y_pred == versions.label)
    )
    # kept: the files are not read again
    shutil.rmtree(versions.store.path("artifacts"))
    assert pairs.of(*versions.contents) is paired


def test_only_rows_held_out_of_both_count(versions: Versions) -> None:
    versions.write_run(0, slice(0, 50))
    versions.write_run(1, slice(10, N))
    paired = paired_differences(versions.store, *versions.contents)
    both = slice(10, 50)
    expected = compare(versions.outcomes(1, both), versions.outcomes(0, both), **SETTINGS)
    assert paired.differences == expected.differences
    assert (paired.rows, paired.left_out) == (40, 20)
    versions.write_run(1, slice(50, N))
    assert versions.why_not() == "no row was held out of both"


def test_why_there_are_no_differences_is_said(versions: Versions) -> None:
    first, second = versions.contents
    versions.write_run(1, checked="d")
    assert versions.why_not() == "they were measured on different tables"
    versions.write_run(1)
    second["judged_digest"] = "b"
    assert versions.why_not() == "they have other labels or sensitive columns"
    second["judged_digest"] = "a"
    first["kind"] = "evaluate"
    assert "keeps no predictions" in versions.why_not()
    first["kind"] = "run"
    second["metrics"] = "of another store"
    assert versions.why_not() == "this store has no run that measured one of them"


def test_other_predictions_than_measured_are_refused(versions: Versions) -> None:
    versions.scores[1] = versions.scores[1][::-1]
    versions.write_run(1)
    assert versions.why_not() == "the predictions in the store do not give the recorded values"
    shutil.rmtree(versions.store.path("artifacts"))
    assert "any more" in versions.why_not()
