"""Known tables: they keep their contracts, and those of AIF360 are what its own preparation makes
of them.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_encoded, check_table
from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.steps.preprocess_step import column_specs

# table: AIF360's module and class, the raw file, and arguments where its defaults are for another
# file
PREPARED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "german-sex": (
        "GermanDataset",
        "german.data",
        {"protected_attribute_names": ["sex"], "privileged_classes": [["male"]]},
    ),
    "compas-charges": ("CompasDataset", "compas-scores-two-years.csv", {}),
    # its own file is a shorter one of the same campaign, without "unknown" and with the weekday
    "bank-age": (
        "BankDataset",
        "bank-full.csv",
        {
            "na_values": [],
            "categorical_features": [
                *("job", "marital", "education", "default", "housing"),
                *("loan", "contact", "month", "poutcome"),
            ],
        },
    ),
}
# our matrix columns that hold AIF360's protected attributes, privileged 1
PROTECTED = {
    "german-sex": {"sex=male": "sex"},
    "compas-charges": {"sex=Female": "sex", "race=Caucasian": "race"},
    "bank-age": {"age_group=25-59": "age"},
}
WIDTHS = {"german-sex": 58, "compas-charges": 401, "bank-age": 48}
Encoded = tuple[TableEncoder, np.ndarray, np.ndarray]


@functools.cache
def read(table: str, folder: Path) -> pa.Table:
    recipe, contract = RECIPES[table], load_contract(table)
    frame = recipe.read({raw.name: next(folder.rglob(raw.name)) for raw in recipe.files})
    return coerce(pa.Table.from_pandas(frame, preserve_index=False), contract)


@functools.cache
def encoded(table: str, folder: Path) -> Encoded:
    """The encoder fitted on the whole table, its matrix, and whether the label is positive."""
    contract, rows = load_contract(table), read(table, folder)
    frame = rows.to_pandas()
    encoder = TableEncoder(column_specs(contract), contract.unseen_categories).fit(frame)  # type: ignore[arg-type]
    label = contract.label
    return encoder, encoder.transform(frame), (frame[label.name] == label.positive).to_numpy()


@pytest.fixture
def prepared(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A table as AIF360 prepares the publisher's file."""

    def prepare(table: str) -> Any:
        name, file, arguments = PREPARED[table]
        read_csv = pd.read_csv
        logging.disable(logging.WARNING)  # it counts incomplete rows aloud
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from aif360 import datasets

                monkeypatch.setattr(
                    pd, "read_csv", lambda path, **given: read_csv(data_folder / file, **given)
                )
                # it asks numpy about the type of text columns, which knows those of pandas 2 only
                with pd.option_context("future.infer_string", False):
                    return getattr(datasets, name)(**arguments)
        finally:
            logging.disable(logging.NOTSET)
            monkeypatch.undo()

    return prepare


@pytest.mark.data
@pytest.mark.parametrize("table", sorted(set(RECIPES) - {"bios"}))  # the owner's file
def test_a_known_table_keeps_its_contract(table: str, data_folder: Path) -> None:
    result = check_table(read(table, data_folder), load_contract(table))
    assert result.success, result.violations[:1]
    assert result.keep.all()


@pytest.mark.data
@pytest.mark.parametrize("table", sorted(WIDTHS))
def test_numbers_fill_the_unit_interval(table: str, data_folder: Path) -> None:
    """The bounds in the contract are those of the public table."""
    encoder, matrix, _ = encoded(table, data_folder)
    assert matrix.shape[1] == WIDTHS[table]
    units = [j for j, kind in enumerate(encoder.kinds_.values()) if kind == "unit"]
    assert units == list(range(len(units))), "numbers come first"
    assert not [name for name, kind in encoder.kinds_.items() if kind == "standard"]
    np.testing.assert_array_equal(matrix[:, units].min(axis=0), 0.0)
    np.testing.assert_array_equal(matrix[:, units].max(axis=0), 1.0)


@pytest.mark.data
@pytest.mark.parametrize(
    "table",
    [
        "german-sex",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("bank-age", "compas-charges")),
    ],
)
def test_the_encoded_matrix_keeps_its_contract(table: str, data_folder: Path) -> None:
    encoder, matrix, _ = encoded(table, data_folder)
    columns = pa.table([pa.array(column) for column in matrix.T], names=encoder.feature_names_)
    assert check_encoded(columns, encoder.kinds_, rows=len(matrix)).success


@pytest.mark.data
@pytest.mark.parametrize("table", sorted(PREPARED))
def test_it_is_what_aif360_makes_of_the_same_file(
    table: str, data_folder: Path, prepared: Callable[[str], Any]
) -> None:
    encoder, matrix, positive = encoded(table, data_folder)
    theirs = prepared(table)
    np.testing.assert_array_equal(theirs.labels[:, 0] == theirs.favorable_label, positive)
    columns = dict(zip(theirs.feature_names, theirs.features.T, strict=True))
    seen = set()
    for name, ours in zip(encoder.feature_names_, matrix.T, strict=True):
        known = PROTECTED[table].get(name, name)
        expected = columns[known]
        if encoder.kinds_[name] == "unit":
            expected = (expected - expected.min()) / (expected.max() - expected.min())
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-7, err_msg=name)
        seen.add(known)
    # a column of two values is one of ours and two of theirs
    spare = {"default=no", "housing=no", "loan=no"} if table == "bank-age" else set()
    assert set(columns) - seen == spare


@pytest.mark.data
def test_a_charge_that_no_training_row_had_is_zeros(data_folder: Path) -> None:
    contract = load_contract("compas-charges")
    frame = read("compas-charges", data_folder).to_pandas()
    half = len(frame) // 2
    encoder = TableEncoder(column_specs(contract), contract.unseen_categories).fit(frame[:half])  # type: ignore[arg-type]
    charges = encoder.transform(frame[half:])[:, encoder.groups_["c_charge_desc"]].sum(axis=1)
    unseen = ~frame["c_charge_desc"][half:].isin(frame["c_charge_desc"][:half]).to_numpy()
    assert 0 < unseen.sum() < half
    np.testing.assert_array_equal(charges, np.where(unseen, 0.0, 1.0))
