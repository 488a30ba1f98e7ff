"""The profile of training rows: right counts, and nothing about single people."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import evenhand.tasks.steps.profile_step
from evenhand.data_contracts.model import Column, Contract
from evenhand.tasks.execution.step import StepContext

RARE = "planted-rare-value"
FIRST = dt.date(2020, 1, 1)


def contract() -> Contract:
    def feature(name: str, kind: str, **more: Any) -> Column:
        return Column(name, kind, False, "", role="feature", is_feature=True, **more)

    columns = (
        feature("income", "number"),
        feature("rooms", "integer"),
        feature("job", "string"),
        feature("owner", "boolean"),
        feature("since", "date"),
        Column("sex", "string", True, "", role="sensitive", is_feature=True),
        Column("age", "integer", True, "", role="sensitive", bins=(40,)),
        Column("paid", "string", True, "", role="label", allowed=("no", "yes"), positive="yes"),
    )
    return Contract("people", "1", "", columns, missing_sensitive="own_group")


def people(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(0)
    income = rng.normal(3000, 500, rows)
    income[7] = 987654.321  # one rich person
    sex = rng.choice(["F", "M"], rows).tolist()
    sex[3], sex[4], sex[5] = RARE, RARE, None
    job = rng.choice(["clerk", "cook"], rows).tolist()
    job[9], job[10] = RARE, None
    return pa.table(
        {
            "income": pa.array([None, *income[1:].tolist()], pa.float64()),
            "rooms": [99, *rng.integers(1, 4, rows - 1).tolist()],
            "job": job,
            "owner": pa.array([None, None, *(rng.random(rows - 2) < 0.3).tolist()], pa.bool_()),
            "since": [FIRST + dt.timedelta(days=int(days)) for days in rng.integers(0, 900, rows)],
            "sex": sex,
            "age": rng.integers(20, 60, rows),
            "paid": rng.choice(["no", "yes"], rows).tolist(),
        }
    )


def profile(folder: Path, table: pa.Table, rows: list[int], least: int = 5) -> dict[str, Any]:
    pq.write_table(table, folder / "checked.parquet")
    train = folder / "train"
    train.mkdir()
    pq.write_table(pa.table({"row": rows, "label": [0] * len(rows)}), train / "y.parquet")
    workdir = folder / "work"
    workdir.mkdir()
    features = [column.name for column in contract().features]
    context = StepContext(
        {"contract": contract().to_dict(), "features": features, "min_cell": least},
        {"checked": folder / "checked.parquet", "train": train},
        workdir,
        lambda done, total, values: None,
    )
    path, kind = evenhand.tasks.steps.profile_step.profile(context).outputs["reference"]
    assert kind == "reference"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_counts_are_those_of_the_training_rows(tmp_path: Path) -> None:
    table = people()
    rows = list(range(0, 300, 2))
    reference = profile(tmp_path, table, rows)
    taken = table.take(rows).to_pydict()
    assert reference["rows"] == 150
    assert reference["label"] == {"name": "paid", "positive": Counter(taken["paid"])["yes"]}
    assert list(reference["columns"]) == ["income", "rooms", "job", "owner", "since", "sex"]
    for column in reference["columns"].values():
        assert sum(column["counts"]) + column.get("other", 0) + column["missing"] in (150, 149)
    owners = Counter(taken["owner"])
    owner = reference["columns"]["owner"]
    assert dict(zip(owner["names"], owner["counts"], strict=True)) == {
        "false": owners[False],
        "true": owners[True],
    }
    assert owner["missing"] == owners[None] == 1
    ages = Counter("<40" if age < 40 else ">=40" for age in taken["age"])
    group = reference["groups"]["age"]
    assert dict(zip(group["names"], group["counts"], strict=True)) == dict(ages)
    young = sum(a < 40 and p == "yes" for a, p in zip(taken["age"], taken["paid"], strict=True))
    assert group["positives"][group["names"].index("<40")] == young


def test_bins_count_again_to_the_same(tmp_path: Path) -> None:
    table = people()
    reference = profile(tmp_path, table, list(range(300)))["columns"]
    income = np.array([x for x in table["income"].to_pylist() if x is not None])
    edges = [-np.inf, *reference["income"]["edges"], np.inf]
    assert [
        int(((income >= a) & (income < b)).sum()) for a, b in zip(edges, edges[1:], strict=False)
    ] == reference["income"]["counts"]
    assert reference["income"]["missing"] == 1
    days = np.array([(day - dt.date(1970, 1, 1)).days for day in table["since"].to_pylist()])
    assert reference["since"]["kind"] == "date"
    assert reference["since"]["counts"][0] == (days < reference["since"]["edges"][0]).sum()


def test_nothing_tells_of_single_people(tmp_path: Path) -> None:
    table = people()
    reference = profile(tmp_path, table, list(range(300)))
    text = json.dumps(reference)
    assert RARE not in text
    assert "98765" not in text
    assert "p-0" not in text
    numbers = [x for x in table["income"].to_pylist() if x is not None]
    assert not set(reference["columns"]["income"]["edges"]) & set(numbers)
    assert all(
        min(reference["columns"][name]["counts"]) >= 20 for name in ("income", "rooms", "since")
    )
    assert max(reference["columns"]["rooms"]["edges"]) < 99
    for name in ("job", "sex"):
        column = reference["columns"][name]
        assert min(column["counts"]) >= 5
        assert column["other"] == 0 or column["other"] >= 5
    sex = reference["groups"]["sex"]
    assert min(sex["counts"]) >= 5
    assert sex["other"] == 0 or sex["other"] >= 5
    # one person without a sex is nobody's business; one without a job is a share of missing values
    assert reference["columns"]["sex"]["missing"] == 0
    assert reference["columns"]["job"]["missing"] == 1


def test_more_people_may_be_asked_for(tmp_path: Path) -> None:
    reference = profile(tmp_path, people(), list(range(300)), least=120)
    for column in (
        reference["columns"]["job"],
        reference["columns"]["sex"],
        reference["groups"]["sex"],
    ):
        assert all(count >= 120 for count in column["counts"])


def test_other_rows_change_nothing(tmp_path: Path) -> None:
    table = people()
    rows = list(range(200))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = profile(tmp_path / "a", table, rows)
    other = profile(tmp_path / "b", table.slice(0, 200), rows)
    assert one == other
    assert one["rows"] == 200
