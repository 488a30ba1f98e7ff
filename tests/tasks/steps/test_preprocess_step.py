"""The split: both parts together are the table, in its order, stratified, and follow the seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.steps.preprocess_step import preprocess

N = 203
CONTRACT = Contract(
    "people",
    "1.0.0",
    "",
    (
        Column("sex", "string", True, "", role="sensitive", allowed=("F", "M")),
        Column("income", "number", True, "", is_feature=True, encoding="standard"),
        Column("paid", "string", True, "", role="label", allowed=("no", "yes"), positive="yes"),
    ),
)


def table(n: int = N) -> pa.Table:
    rng = np.random.default_rng(0)
    label = np.where(np.arange(n) % 5 == 0, "yes", "no")
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], n).tolist(),
            "income": np.arange(n) * 1.5,
            "paid": label.tolist(),
        }
    )


def split(folder: Path, rows: pa.Table | None = None, **changes: Any) -> tuple[Dataset, Dataset]:
    folder.mkdir()
    pq.write_table(table() if rows is None else rows, folder / "checked.parquet")
    parameters = {
        "contract": CONTRACT.to_dict(),
        "split": {"test": 0.2, "stratify": True},
        "seed": 0,
        **changes,
    }
    (folder / "work").mkdir()
    found = preprocess(
        StepContext(
            parameters,
            {"checked": folder / "checked.parquet"},
            folder / "work",
            lambda *progress: None,
        )
    )
    assert found.facts["label_values"] == ["no", "yes"]
    train, test = (read_dataset(found.outputs[part][0]) for part in ("train", "test"))
    assert (found.facts["train_rows"], found.facts["test_rows"]) == (len(train.y), len(test.y))
    return train, test


def test_the_parts_are_disjoint_complete_and_in_the_tables_order(tmp_path: Path) -> None:
    whole = table()
    parts = split(tmp_path / "a")
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(N))
    for part in parts:
        assert (np.diff(part.rows) > 0).all()
        taken = whole.take(pa.array(part.rows))
        assert part.y.tolist() == [int(value == "yes") for value in taken["paid"].to_pylist()]
        assert part.sensitive["sex"].tolist() == taken["sex"].to_pylist()
        # the order of incomes is that of the rows
        assert (np.diff(part.X[:, part.groups["income"][0]]) > 0).all()
    assert len(parts[1].y) == int(np.ceil(0.2 * N))


def test_the_rows_of_a_person_stay_together_and_are_numbered(tmp_path: Path) -> None:
    numbers = pa.array([f"p{row * 7 % 40}" for row in range(N)])
    columns = (Column("nr", "string", True, "", role="id"), *CONTRACT.columns)
    parts = split(
        tmp_path / "a",
        table().append_column("nr", numbers),
        split={"test": 0.25, "stratify": False, "by": "nr"},
        contract=Contract("people", "1.0.0", "", columns).to_dict(),
    )
    known = np.array(numbers.to_pylist())
    names = [{*known[part.rows]} for part in parts]
    assert not names[0] & names[1]
    assert (len(names[0]), len(names[1])) == (30, 10)
    for part in parts:
        assert part.people is not None
        assert len({*zip(part.people, known[part.rows], strict=True)}) == len({*part.people})
        assert len({*part.people}) == len({*known[part.rows]})
        some = np.array([3, 1])
        assert part.take(some).people.tolist() == part.people[some].tolist()
    assert split(tmp_path / "b")[0].people is None


def test_it_is_stratified_by_the_label_if_asked_to(tmp_path: Path) -> None:
    share = np.mean([value == "yes" for value in table()["paid"].to_pylist()])
    for seed in range(3):
        train, test = split(tmp_path / f"s{seed}", seed=seed)
        assert abs(test.y.sum() - share * len(test.y)) < 1
        assert abs(train.y.sum() - share * len(train.y)) < 1
    counts = {
        int(
            split(tmp_path / f"r{seed}", seed=seed, split={"test": 0.2, "stratify": False})[
                1
            ].y.sum()
        )
        for seed in range(6)
    }
    assert len(counts) > 1


def test_it_follows_the_seed(tmp_path: Path) -> None:
    one, same = split(tmp_path / "a", seed=1), split(tmp_path / "b", seed=1)
    other = split(tmp_path / "c", seed=2)
    assert one[1].rows.tolist() == same[1].rows.tolist()
    assert np.array_equal(one[0].X, same[0].X)
    assert one[1].rows.tolist() != other[1].rows.tolist()


def test_the_encoder_learns_from_the_training_rows_only(tmp_path: Path) -> None:
    train, test = split(tmp_path / "a")
    assert train.X[:, train.groups["income"][0]].mean() == pytest.approx(0.0, abs=1e-5)
    assert abs(test.X[:, test.groups["income"][0]].mean()) > 1e-4


def test_a_part_with_one_value_of_the_label_is_refused(tmp_path: Path) -> None:
    label = ["yes", *["no"] * (N - 1)]
    rows = table().set_column(2, "paid", pa.array(label))
    with pytest.raises(InputError, match="cannot be split|one value of the label"):
        split(tmp_path / "a", rows)
    with pytest.raises(InputError, match="rows have one value of the label 'paid'"):
        split(tmp_path / "b", rows, split={"test": 0.2, "stratify": False})
