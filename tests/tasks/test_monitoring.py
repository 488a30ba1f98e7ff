"""Drift measured between a profile and a batch, and what may be shown of it."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.evaluation.drift import change_between
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.gates import parse_gates
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.drift_limits import (
    check_drift_gates,
    default_drift_gates,
    drift_metrics,
)
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.monitoring import Settings, bin_labels, compare_label, labels_of
from evenhand.tasks.steps.measure_drift_step import measure_drift
from evenhand.tasks.steps.preprocess_step import column_specs
from evenhand.tasks.steps.profile_step import profile

SECRET = "zzyzx-group"
NEW = "brand-new-job"


def contract() -> Contract:
    columns = (
        Column(
            "income",
            "number",
            True,
            "",
            role="feature",
            is_feature=True,
            minimum=0.0,
            maximum=10_000.0,
        ),
        Column("job", "string", False, "", role="feature", is_feature=True),
        Column("since", "date", True, "", role="feature", is_feature=True),
        Column("sex", "string", True, "", role="sensitive"),
        Column("paid", "string", True, "", role="label", allowed=("no", "yes"), positive="yes"),
    )
    return Contract("people", "1", "", columns)


def people(
    rows: int, seed: int, women: float = 0.4, income: float = 3000.0
) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "income": np.clip(rng.normal(income, 500, rows), 0, 9_999).tolist(),
        "job": rng.choice(["clerk", "cook", "smith"], rows, p=[0.5, 0.3, 0.2]).tolist(),
        "since": [
            dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 900, rows)
        ],
        "sex": np.where(rng.random(rows) < women, "F", "M").tolist(),
        "paid": np.where(rng.random(rows) < 0.3, "yes", "no").tolist(),
    }


def context(folder: Path, parameters: dict[str, Any], inputs: dict[str, Path]) -> StepContext:
    folder.mkdir()
    return StepContext(parameters, inputs, folder, lambda done, total, values: None)


Measure = Callable[..., dict[str, Any]]


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    """Hold a table against 2,000 training rows; a proxy's bundle, so that no model is needed."""
    table = pa.table(people(2000, 0))
    pq.write_table(table, tmp_path / "checked.parquet")
    (tmp_path / "train").mkdir()
    pq.write_table(pa.table({"row": range(2000)}), tmp_path / "train" / "y.parquet")
    features = [column.name for column in contract().features]
    profiled = profile(
        context(
            tmp_path / "profile",
            {"contract": contract().to_dict(), "features": features, "min_cell": 5},
            {"checked": tmp_path / "checked.parquet", "train": tmp_path / "train"},
        )
    )
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    profiled.outputs["reference"][0].rename(bundle / "reference.json")
    encoder = TableEncoder(column_specs(contract())).fit(table.to_pandas())
    encoder.save(bundle / "encoder.json")
    (bundle / "inputs.json").write_text(json.dumps({"features": features}))
    runs = iter(range(100))

    def run(batch: Any, **changes: Any) -> dict[str, Any]:
        number = next(runs)
        raw = tmp_path / f"raw-{number}.parquet"
        pq.write_table(pa.table(batch), raw)
        settings = {"draws": 100, "level": 0.95, "min_cell": 5}
        parameters = {"contract": contract().to_dict(), "settings": settings, "seed": 0}
        parameters |= {"tested": None, "terms": {}, "exchanged": {}}
        done = measure_drift(
            context(
                tmp_path / f"run-{number}",
                {**parameters, **changes},
                {"raw": raw, "bundle": bundle},
            )
        )
        return {name: json.loads(path.read_text()) for name, (path, _) in done.outputs.items()}

    return run


def values(found: dict[str, Any]) -> dict[str, float | None]:
    return {name: metric["value"] for name, metric in found["metrics"]["metrics"].items()}


def test_a_fresh_sample_of_the_same_law_has_not_drifted(measure: Measure) -> None:
    for seed in range(1, 6):
        found = values(measure(people(1000, seed)))
        assert found["psi_max"] < 0.05
        assert found["unseen_max"] == 0.0
        assert found["outside_contract_max"] == 0.0
        assert found["group_share_change.sex"] < 0.08
        assert min(found[f"p_value.{name}"] for name in ("income", "job", "since")) > 0.001


def test_a_shifted_number_is_found_in_its_column_alone(measure: Measure) -> None:
    found = values(measure(people(1000, 1, income=3700.0)))
    assert found["psi.income"] > 0.5
    assert found["p_value.income"] < 1e-6
    assert found["psi_max"] == found["psi.income"]
    assert max(found["psi.job"], found["psi.since"]) < 0.05


def test_a_new_category_is_drift_and_not_an_error(measure: Measure) -> None:
    batch = people(1000, 1)
    batch["job"][:100] = [NEW] * 100
    found = measure(batch)
    assert values(found)["unseen.job"] == 0.1
    assert values(found)["psi.job"] > 0.2
    bins = {item["name"]: item["now"] for item in found["drift"]["columns"]["job"]["bins"]}
    assert bins["never seen in training"] == 0.1
    assert NEW not in json.dumps(found)


def test_values_out_of_range_are_drift_and_not_an_error(measure: Measure) -> None:
    batch = people(1000, 1)
    batch["income"][:30] = [20_000.0] * 30
    found = measure(batch)
    assert values(found)["outside_contract.income"] == 0.03
    (broken,) = found["drift"]["columns"]["income"]["broken"]
    assert broken["rows"] == 30
    assert "20000" not in json.dumps(found)


def test_missing_values_are_counted(measure: Measure) -> None:
    batch = people(1000, 1)
    batch["job"][:250] = [None] * 250
    batch["income"][:40] = [None] * 40
    batch["income"][40] = math.nan
    found = measure(batch)
    assert values(found)["missing_change.job"] == 0.25
    assert values(found)["missing_change.income"] == pytest.approx(0.041)
    assert values(found)["psi.job"] > 0.2


def test_a_changed_share_of_a_group_is_found(measure: Measure) -> None:
    found = measure(people(1000, 1, women=0.7))
    change = found["metrics"]["metrics"]["group_share_change.sex"]
    assert change["value"] == pytest.approx(0.3, abs=0.04)
    assert change["low"] > 0.2
    assert found["drift"]["groups"]["sex"]["rows"][0]["group"] == "F"


def test_a_changed_label_is_found(measure: Measure) -> None:
    batch = people(1000, 1)
    batch["paid"] = [
        "yes" if sex == "F" else paid for sex, paid in zip(batch["sex"], batch["paid"], strict=True)
    ]
    found = values(measure(batch))
    assert found["label_rate_change"] == pytest.approx(0.28, abs=0.05)
    assert found["label_rate_change.sex"] == pytest.approx(0.7, abs=0.05)


def test_a_missing_column_is_no_evidence(measure: Measure) -> None:
    batch = people(500, 1)
    del batch["sex"], batch["paid"]
    found = measure({**batch, "note": ["x"] * 500})
    metrics = found["metrics"]["metrics"]
    for name in ("group_share_change.sex", "label_rate_change", "label_rate_change.sex"):
        assert metrics[name]["status"] == "insufficient_evidence"
        assert "the batch" in metrics[name]["reason"]
    assert metrics["psi.income"]["status"] == "ok"
    assert found["drift"]["ignored_columns"] == 1
    assert found["drift"]["groups"]["sex"]["rows"][0]["now"] is None


def test_a_handful_of_rows_is_no_evidence(measure: Measure) -> None:
    found = measure(people(10, 1))["metrics"]["metrics"]
    for name in (
        "psi.income",
        "psi_max",
        "unseen.job",
        "missing_change.job",
        "group_share_change.sex",
    ):
        assert found[name]["status"] == "insufficient_evidence", name


def test_few_people_of_a_group_are_not_shown(measure: Measure) -> None:
    batches = []
    for few in (1, 4):
        batch = people(500, 1)
        batch["sex"] = ["F"] * few + ["M"] * (500 - few)
        batches.append(measure({**batch, "paid": ["no"] * 500}))
    one, four = (found["drift"]["groups"]["sex"]["rows"] for found in batches)
    assert one[0]["few"]
    assert one[0]["now"] is None
    assert one[0]["label_now"] is None
    assert values(batches[0])["group_share_change.sex"] > 0.3
    assert values(batches[0])["group_share_change.sex"] == pytest.approx(
        values(batches[1])["group_share_change.sex"], abs=1e-2
    )
    assert four[0]["few"]


def test_new_groups_are_told_together_without_their_names(measure: Measure) -> None:
    batch = people(500, 1)
    batch["sex"][:50] = [SECRET] * 50
    found = measure(batch)
    assert SECRET not in json.dumps(found)
    rows = {row["group"]: row for row in found["drift"]["groups"]["sex"]["rows"]}
    assert rows["other"]["now"] == 0.1
    assert rows["other"]["then"] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda batch: batch.pop("job"), "column 'job'"),
        (lambda batch: batch.update(income=["a lot"] * 100), "type number"),
        (lambda batch: batch.update({key: [] for key in batch}), "at least 1 row"),
        (lambda batch: batch.update(jobs=batch.pop("job")), "rename column 'jobs'"),
    ],
)
def test_a_batch_that_cannot_be_compared_is_refused(
    measure: Measure, change: Any, message: str
) -> None:
    batch = people(100, 1)
    batch["sex"][0] = SECRET
    change(batch)
    with pytest.raises(InputError, match=message) as caught:
        measure(batch)
    assert SECRET not in str(caught.value)
    assert "a lot" not in str(caught.value)


def test_the_seed_decides_the_intervals_and_nothing_else(measure: Measure) -> None:
    batch = people(500, 1)
    one, again, other = measure(batch), measure(batch), measure(batch, seed=1)
    assert one == again
    assert values(one) == values(other)
    metric = "psi.income"
    assert one["metrics"]["metrics"][metric]["high"] != other["metrics"]["metrics"][metric]["high"]


def test_metrics_are_those_that_gates_may_name(measure: Measure) -> None:
    found = measure(people(300, 1))
    reference = {
        "columns": {name: {"kind": c["kind"]} for name, c in found["drift"]["columns"].items()},
        "groups": found["drift"]["groups"],
    }
    assert list(found["metrics"]["metrics"]) == drift_metrics(reference, predicts=False)
    assert not [name for name in found["metrics"]["metrics"] if name.startswith("prediction")]
    assert default_drift_gates(reference) == {
        "psi.income": {"max": 0.2},
        "psi.job": {"max": 0.2},
        "psi.since": {"max": 0.2},
        "unseen.job": {"max": 0.01},
    }
    known = drift_metrics(reference, predicts=False)
    check_drift_gates(parse_gates(default_drift_gates(reference)), known)
    with pytest.raises(InputError, match=r"did you mean 'psi\.income'"):
        check_drift_gates(parse_gates({"psi.incme": {"max": 1}}), known)
    with pytest.raises(InputError, match="names no metric"):
        check_drift_gates(parse_gates({"prediction_rate": {"max": 1}}), known)


def test_of_three_labels_the_largest_change_counts() -> None:
    """Labels that are not named are together."""
    table = pa.table({"job": ["dj"] * 10 + ["nurse"] * 30 + ["poet"] * 9 + ["clown", None]})
    label = Column("job", "string", True, "", role="label", allowed=("dj", "nurse", "poet"))
    labels = labels_of(table, Contract("jobs", "1", "", (contract().columns[0], label)), {})
    assert labels is not None
    assert np.bincount(labels[labels >= 0]).tolist() == [10, 30, 9]
    assert labels[-2:].tolist() == [-1, -1]
    reference = {"rows": 100, "label": {"name": "job", "classes": {"dj": 50, "nurse": 47}}}
    settings = Settings(draws=0, level=0.95, min_cell=5, seed=0)
    found: Any = compare_label(labels, label.classes, reference, settings)
    assert [row["name"] for row in found.classes] == ["dj", "nurse", "other"]
    assert [row["now"] for row in found.classes] == pytest.approx([10 / 49, 30 / 49, 9 / 49])
    assert [row["then"] for row in found.classes] == [0.5, 0.47, 0.03]
    assert found.change.value == pytest.approx(0.5 - 10 / 49)
    assert (
        compare_label(None, label.classes, reference, settings).change.reason
        == "the batch has no label"
    )
    few = labels[:12]
    assert (
        compare_label(few, label.classes, reference, settings).change.reason
        == "12 rows are fewer than 20"
    )


def test_the_interval_of_a_change_combines_both_intervals() -> None:
    now, then = MetricValue(0.3, 0.26, 0.35), MetricValue(0.1, 0.07, 0.16)
    found = change_between(now, then)
    assert (found.value, found.low, found.high) == pytest.approx(
        (0.2, 0.2 - math.hypot(0.04, 0.06), 0.2 + math.hypot(0.05, 0.03))
    )
    assert change_between(then, now) == found
    assert change_between(now, now).low == 0.0
    assert change_between(MetricValue(0.3), then).low is None
    assert change_between(now, MetricValue.insufficient("not known")).reason == "not known"


def test_bins_are_named_as_they_were_cut() -> None:
    assert bin_labels([2.0, 3.5], "number") == ["below 2", "2 to below 3.5", "3.5 and above"]
    assert bin_labels([], "number") == ["any value"]
    assert bin_labels([5.0, math.nextafter(5.0, math.inf)], "number") == ["below 5", "5", "above 5"]
    assert bin_labels([18262.0], "date") == ["below 2020-01-01", "2020-01-01 and above"]


def test_labels_from_a_threshold_by_hand() -> None:
    label = Column("income", "number", True, role="label", at_least=2.5)
    age = Column("age", "integer", True, role="feature", is_feature=True)
    thresholded = Contract("t", "1", "", (label, age))
    table = pa.table({"income": [2.0, 2.5, None, float("nan"), 9.0], "age": [1, 2, 3, 4, 5]})
    labels = labels_of(table, thresholded, {})
    assert labels is not None
    assert labels.tolist() == [0, 1, -1, -1, 1]
