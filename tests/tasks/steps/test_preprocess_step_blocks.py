"""Steps on a table of several blocks give what they give on one block."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xgboost as xgb

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.mapped import is_paged, mapped_file
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.dataset import StoredTable, dataset_of, read_dataset
from evenhand.tasks.execution.step import ExecutionContext, StepContext, StepResult
from evenhand.tasks.execution.store import sha256_of_path
from evenhand.tasks.steps.contract_step import contract
from evenhand.tasks.steps.controls_step import controls
from evenhand.tasks.steps.preprocess_step import preprocess
from evenhand.tasks.steps.profile_step import profile
from evenhand.tasks.steps.train_step import train

N = 700
CONTRACT = Contract(
    "people",
    "1.0.0",
    "",
    (
        Column(
            "sex",
            "string",
            True,
            "",
            role="sensitive",
            allowed=("F", "M"),
            is_feature=True,
            encoding="onehot",
        ),
        Column("age", "integer", True, "", role="sensitive", bins=(30, 60)),
        Column("income", "number", False, "", is_feature=True, encoding="standard", minimum=0),
        Column("children", "integer", False, "", is_feature=True, encoding="onehot"),
        Column("since", "date", True, "", is_feature=True, encoding="calendar"),
        Column("paid", "string", True, "", role="label", allowed=("no", "yes"), positive="yes"),
    ),
    on_violation="quarantine",
    quarantine_share=0.5,
)


def people() -> pa.Table:
    rng = np.random.default_rng(0)
    income = rng.gamma(2.0, 20.0, N)
    sex = rng.choice(["F", "M"], N)
    label = np.where(income + 30 * (sex == "M") + rng.normal(0, 20, N) > 50, "yes", "no")
    numbers = income.tolist()
    numbers[600], numbers[5] = -1.0, -2.0  # to quarantine, in two blocks
    # no number is missing in the first blocks
    children = [None if row > 500 and row % 7 == 0 else int(row % 4) for row in range(N)]
    return pa.table(
        {
            "sex": sex.tolist(),
            "age": [str(value) for value in rng.integers(18, 90, N)],
            "income": numbers,
            "children": children,
            "since": [f"20{row % 20:02d}-0{1 + row % 9}-11" for row in range(N)],
            "paid": label.tolist(),
        }
    )


def run(
    folder: Path,
    function: Any,
    parameters: dict[str, Any],
    divide: Any = map,
    **inputs: Path,
) -> StepResult:
    folder.mkdir(parents=True)
    execution = ExecutionContext(divide=divide)
    context = StepContext(parameters, inputs, folder, lambda *progress: None, execution=execution)
    result: StepResult = function(context)
    return result


def steps(folder: Path, block: int, divide: Any = map) -> dict[str, StepResult]:
    """The steps up to the profile on a table whose blocks have so many rows."""
    folder.mkdir()
    pq.write_table(people(), folder / "raw.parquet", row_group_size=block)
    described = CONTRACT.to_dict()
    raw = folder / "raw.parquet"
    found = {"contract": run(folder / "c", contract, {"contract": described}, divide, raw=raw)}
    checked = found["contract"].outputs["checked"][0]
    split = {"contract": described, "split": {"test": 0.2, "stratify": True}, "seed": 0}
    found["preprocess"] = run(folder / "p", preprocess, split, divide, checked=checked)
    features = [column.name for column in CONTRACT.features]
    counted = {"contract": described, "features": features, "min_cell": 5}
    trained = found["preprocess"].outputs["train"][0]
    found["profile"] = run(folder / "r", profile, counted, divide, checked=checked, train=trained)
    return found


def test_many_blocks_give_the_artifacts_of_one(tmp_path: Path) -> None:
    whole, parts = steps(tmp_path / "whole", N), steps(tmp_path / "parts", 90)
    for step, result in whole.items():
        assert parts[step].facts == result.facts
        for name, (path, _) in result.outputs.items():
            other = parts[step].outputs[name][0]
            if path.suffix == ".json":
                assert json.loads(other.read_text()) == json.loads(path.read_text()), name
            elif path.is_file() or name == "checked":
                assert pq.read_table(other).equals(pq.read_table(path)), name
            else:
                one, two = read_dataset(path), read_dataset(other)
                assert np.array_equal(one.X, two.X)
                for key in ("y", "rows"):
                    assert np.array_equal(getattr(one, key), getattr(two, key))
                for key in ("sensitive", "numbers"):
                    for attribute, values in getattr(one, key).items():
                        assert np.array_equal(getattr(two, key)[attribute], values)
    checked = parts["contract"].outputs["checked"][0]
    assert len(StoredTable(checked).places()) == 8
    assert len(StoredTable(checked)["income"]) == N - 2
    quarantined = pq.read_table(parts["contract"].outputs["quarantine"][0])
    assert quarantined["income"].to_pylist() == [-2.0, -1.0]


def sent(item: Any) -> Any:
    return pickle.loads(pickle.dumps(item))  # noqa: S301 - own bytes


def elsewhere(function: Any, units: Any) -> Any:
    """Units as other processes run them: pickled, the last one first, and each a second time, as if
    lost.
    """
    for unit in units:
        sent(function)(sent(unit))
    results = [sent(sent(function)(sent(unit))) for unit in reversed(units)]
    return reversed(results)


def test_units_elsewhere_give_the_same_bytes(tmp_path: Path) -> None:
    here = steps(tmp_path / "here", 90)
    there = steps(tmp_path / "there", 90, elsewhere)
    for step, result in here.items():
        assert there[step].facts == result.facts
        for name, (path, _) in result.outputs.items():
            assert sha256_of_path(there[step].outputs[name][0]) == sha256_of_path(path), (
                step,
                name,
            )
    assert len(list((tmp_path / "there" / "p" / "test" / "X").iterdir())) == 8
    wrong = people().set_column(1, "age", [[*people()["age"].to_pylist()[:-1], "old"]])
    pq.write_table(wrong, tmp_path / "wrong.parquet", row_group_size=90)
    said = []
    for divider in (map, elsewhere):
        with pytest.raises(InputError) as caught:
            run(
                tmp_path / str(divider),
                contract,
                {"contract": CONTRACT.to_dict()},
                divider,
                raw=tmp_path / "wrong.parquet",
            )
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert f"1 of {N} rows with text that is no whole number" in said[0]


def test_a_matrix_in_a_file_trains_the_same_model(tmp_path: Path) -> None:
    trained = steps(tmp_path / "a", 90)["preprocess"].outputs["train"][0]
    found = []
    for place in ({}, {"on_disk": "rows"}):
        shared = {"method": "gbdt", "arguments": {"n_steps": 20}, "seed": 0, **place}
        rule = {"threshold": "own", "rate": None, "costs": None, "equal": None}
        folder = tmp_path / f"run-{len(found)}"
        model = run(folder / "train", train, shared, train=trained)
        compared = {**shared, "calibration": "none", "decision": rule}
        blind = run(folder / "controls", controls, compared, train=trained)
        both = (model.outputs["model"][0], blind.outputs["blind"][0])
        found.append([(path / "booster.ubj").read_bytes() for path in both])
        # nothing but the outputs is left
        assert sorted(path.name for path in (folder / "train").iterdir()) == ["model"]
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]
    context = StepContext(
        {"on_disk": "pages"}, {"train": trained}, tmp_path, lambda *progress: None
    )
    assert is_paged(dataset_of(context, "train").X)
    data = read_dataset(trained)
    assert mapped_file(data.X) is None
    # one object for each group, not for each row
    assert {*map(type, data.sensitive["sex"])} == {str}
    assert len({*map(id, data.sensitive["sex"])}) == 2


def test_a_failure_of_bins_in_files_is_not_the_job_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = steps(tmp_path / "a", 90)["preprocess"].outputs["train"][0]

    def fails(*arguments: Any, **options: Any) -> None:
        raise xgb.core.XGBoostError("vector::_M_range_check: 3 >= 3")

    monkeypatch.setattr(xgb, "train", fails)
    monkeypatch.setattr(xgb.Booster, "update", fails)
    for place, kind in (({"on_disk": "pages"}, NotCarriedOut), ({}, InputError)):
        shared = {"method": "gbdt", "arguments": {"n_steps": 20}, "seed": 0, **place}
        with pytest.raises(kind, match="gbdt.*_M_range_check"):
            run(tmp_path / kind.__name__, train, shared, train=trained)


@pytest.mark.parametrize("key", ["row", ["income", "since"]])
def test_a_split_by_hash_stays_when_rows_are_appended(tmp_path: Path, key: Any) -> None:
    table = people().slice(10, 490)
    again = table.slice(0, 100)  # equal rows
    held = []
    for number, whole in enumerate(
        (table, pa.concat_tables([table, again, people().slice(510, 80)]))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(whole, folder / "raw.parquet", row_group_size=77)
        described = CONTRACT.to_dict()
        found = run(folder / "c", contract, {"contract": described}, raw=folder / "raw.parquet")
        split = {
            "contract": described,
            "split": {"test": 0.2, "stratify": True, "hash": key},
            "seed": 3,
        }
        parts = run(folder / "p", preprocess, split, checked=found.outputs["checked"][0])
        assert parts.facts["train_rows"] + parts.facts["test_rows"] == len(whole)
        held.append({*read_dataset(parts.outputs["test"][0]).rows.tolist()})
    assert {row for row in held[1] if row < 490} == held[0]
    assert {row - 490 for row in held[1] if 490 <= row < 590} == {
        row for row in held[0] if row < 100
    }
    assert 60 < len(held[0]) < 140
    split["split"] = {"test": 0.2, "stratify": False, "hash": ["income", "income"]}
    with pytest.raises(InputError, match=r"^the table cannot be split: .*each only once"):
        run(folder / "q", preprocess, split, checked=found.outputs["checked"][0])
