"""Preprocess: split, then one-hot and scale with what the training rows and the contract alone say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.checking import check_encoded
from evenhand.data_contracts.groups import bin_names, group_labels
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.page import validation_html
from evenhand.data_contracts.result import CheckResult
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder, category_name
from evenhand.fairlib.preprocessing.split import split_rows
from evenhand.tasks.dataset import write_dataset
from evenhand.tasks.errors import InputError
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP", "column_specs"]


def column_specs(contract: Contract) -> list[ColumnSpec]:
    """Encoding of every model input, numeric columns first, as the papers' tables have them."""
    specs = []
    for column in contract.features:
        kind: Any = "date" if column.logical_type == "date" else column.encoding
        positive = category_name(column.positive) if kind == "binary" else None
        bounds: tuple[Any, ...] = (column.minimum, column.maximum) if kind == "unit" else ()
        specs.append(ColumnSpec(column.name, kind, positive, *bounds))
    order = {"standard": 0, "unit": 0, "date": 0, "binary": 1, "onehot": 2}
    return sorted(specs, key=lambda spec: order[spec.kind])


def preprocess(context: StepContext) -> StepResult:
    """Write ``train/``, ``test/``, ``encoder.json``."""
    contract = Contract.from_dict(context.parameters["contract"])
    table = pq.read_table(context.inputs["checked"])
    label = contract.label
    y = np.array([value == label.positive for value in table[label.name].to_pylist()], dtype=np.int64)
    sensitive = {column.name: group_labels(table[column.name], column) for column in contract.sensitive}
    by_groups = context.parameters.get("strata") == "groups"
    split = context.parameters["split"]
    try:
        train, test = split_rows(
            group_strata(sensitive) if by_groups else y,
            test=split["test"],
            stratify=split["stratify"],
            seed=context.parameters["seed"],
        )
    except ValueError as error:
        raise InputError(f"the table cannot be split: {error}") from None
    parts = {"training": train, "test": test}
    if not by_groups:
        _check_labels(contract, y, parts)
    _check_groups(contract, sensitive, parts)

    features: pd.DataFrame = table.select([column.name for column in contract.features]).to_pandas()
    encoder = TableEncoder(column_specs(contract), contract.unseen_categories)  # type: ignore[arg-type]
    try:
        encoder.fit(features.iloc[train])
        matrices = {
            "train": encoder.transform(features.iloc[train]),
            "test": encoder.transform(features.iloc[test]),
        }
    except ValueError as error:
        raise InputError(str(error)) from None
    reports = {name: _check_matrix(matrix, encoder, contract) for name, matrix in matrices.items()}
    numbers = {
        column.name: table[column.name].to_pandas().to_numpy(dtype=np.float64)
        for column in contract.sensitive
        if column.bins is not None
    }
    for name, rows in (("train", train), ("test", test)):
        write_dataset(
            context.workdir / name,
            X=matrices[name],
            y=y[rows],
            rows=rows,
            names=encoder.feature_names_,
            groups=encoder.groups_,
            kinds=encoder.kinds_,
            sensitive={key: values[rows] for key, values in sensitive.items()},
            numbers={key: values[rows] for key, values in numbers.items()},
        )
    encoder.save(context.workdir / "encoder.json")
    (context.workdir / "validation.json").write_text(
        json.dumps({name: report.to_json() for name, report in reports.items()}, sort_keys=True)
    )
    for name, report in reports.items():
        page = validation_html(report.to_json())
        (context.workdir / f"{name}.html").write_text(page, encoding="utf-8")
    facts = {
        "train_rows": len(train),
        "test_rows": len(test),
        "features": len(encoder.feature_names_),
        "checks": sum(len(report.checks) for report in reports.values()),
        "label_values": _label_values(contract, table),
    }
    names: dict[str, Path] = {name: context.workdir / name for name in ("train", "test", "encoder.json")}
    return StepResult(
        {
            "train": (names["train"], "dataset"),
            "test": (names["test"], "dataset"),
            "encoder": (names["encoder.json"], "encoder"),
            "validation": (context.workdir / "validation.json", "validation"),
            "train_page": (context.workdir / "train.html", "validation-page"),
            "test_page": (context.workdir / "test.html", "validation-page"),
        },
        facts,
    )


def _label_values(contract: Contract, table: pa.Table) -> list[Any]:
    """The label's values for 0 and 1."""
    label = contract.label
    known = label.allowed or pc.unique(table[label.name]).to_pylist()
    negative: list[Any] = [value for value in known if value is not None and value != label.positive]
    return [negative[0], label.positive]


def group_strata(sensitive: Mapping[str, NDArray[np.str_]]) -> NDArray[np.int64]:
    """
    Number the crossed groups of all attributes, shape (n,).

    Those of a single row, which no split can divide, share one stratum; a single one of these joins the
    largest.
    """
    codes = [np.unique(values, return_inverse=True)[1] for values in sensitive.values()]
    _, strata, sizes = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True, return_counts=True)
    alone = sizes == 1
    home = len(sizes) if alone.sum() > 1 else int(sizes.argmax())
    return np.where(alone[strata], home, strata).astype(np.int64)


def _check_labels(contract: Contract, y: NDArray[np.int64], parts: dict[str, NDArray[np.int64]]) -> None:
    """Both labels must occur in both parts: else nothing can be learned or compared."""
    for part, rows in parts.items():
        if np.unique(y[rows]).size < 2:
            raise InputError(
                f"the {part} rows have one value of the label {contract.label.name!r} only: "
                "use a stratified split or more rows."
            )


def _check_groups(
    contract: Contract, sensitive: dict[str, NDArray[np.str_]], parts: dict[str, NDArray[np.int64]]
) -> None:
    """Every group must occur in both parts."""
    for part, rows in parts.items():
        for column in contract.sensitive:
            declared = _declared(column)
            lacking = (declared | set(sensitive[column.name])) - set(sensitive[column.name][rows])
            if lacking:
                # a name from the contract may be said, a value from the data may not
                named = sorted(lacking & declared)
                which = f"the group {named[0]!r}" if named else "a group"
                others = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
                raise InputError(
                    f"{which}{others} of the sensitive column {column.name!r} has no {part} rows: "
                    "merge small groups, collect rows, or take it out of the contract."
                )


def _declared(column: Column) -> set[str]:
    if column.bins is not None:
        return set(bin_names(column))
    if column.allowed is None:
        return set()
    values = pa.array(list(column.allowed))
    return set(group_labels(values, column).tolist())


def _check_matrix(matrix: NDArray[np.float32], encoder: TableEncoder, contract: Contract) -> CheckResult:
    frame = pa.table([pa.array(column) for column in matrix.T], names=encoder.feature_names_)
    result = check_encoded(frame, encoder.kinds_, rows=len(matrix), contract=contract)
    if not result.success:
        raise InputError(f"the encoded matrix breaks its contract: {result.violations[0]}")
    return result


STEP = Step("preprocess", preprocess)
