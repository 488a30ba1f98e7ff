"""Preprocess: check the table against its contract, split it, and encode both parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import coerce, group_labels, known_groups, label_codes
from evenhand.data_contracts.checking import check_encoded, check_table, raise_for
from evenhand.data_contracts.errors import CheckCrashed, ContractError, ContractViolation
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.arrays import Int, Str
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder, category_name
from evenhand.tasks.dataset import Dataset, write_dataset
from evenhand.tasks.errors import InputError, NotCarriedOut, input_errors
from evenhand.tasks.sentences import no_mention, terms_of, vectors_folder
from evenhand.tasks.step import StepContext, StepResult

if TYPE_CHECKING:
    import pandas as pd


def contract(context: StepContext) -> StepResult:
    """Write the rows that meet the contract and the check's result; with quarantine also the other rows."""
    declared = Contract.from_dict(context.parameters["contract"])
    try:
        table = coerce(pq.read_table(context.inputs["raw"]), declared)
        result = check_table(table, declared, callback=lambda done, total: context.progress(done, total, {}))
        raise_for(result)
    except (ContractViolation, ContractError) as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the contract could not be checked: {error}") from error
    folder = context.workdir
    checked = table if result.keep.all() else table.filter(pa.array(result.keep))
    pq.write_table(checked, folder / "checked.parquet")
    outputs = {"checked": (folder / "checked.parquet", "checked")}
    outputs |= context.write_json("result", result.to_json(), "validation", sort_keys=True)
    if result.rows_kept < result.rows:
        pq.write_table(table.filter(pa.array(~result.keep)), folder / "quarantine.parquet")
        outputs["quarantine"] = (folder / "quarantine.parquet", "quarantine")
    facts = {"rows": result.rows, "rows_kept": result.rows_kept, "checks": len(result.checks)}
    return StepResult(outputs, facts)


def column_specs(contract: Contract, text: Mapping[str, Any] | None = None) -> list[ColumnSpec]:
    """Encoding of every model input, in the order of the papers' tables: numbers, binary, one-hot.

    `text` has the ``encoder`` of sentences and its ``size``.
    """
    specs = []
    for column in contract.features:
        is_date = column.logical_type == "date" and column.encoding == "standard"
        kind: Any = "date" if is_date else column.encoding
        positive = category_name(column.positive) if kind == "binary" else None
        low: Any = column.minimum if kind == "unit" else None
        high: Any = column.maximum if kind == "unit" else None
        order = tuple(map(category_name, column.allowed or ())) if kind == "ordinal" else ()
        specs.append(ColumnSpec(column.name, kind, positive, low, high, order, column.missing or ()))
        if column.is_text and text:
            specs[-1] = replace(specs[-1], encoder=text["encoder"], size=text["size"])
    place = {"binary": 1, "onehot": 2}
    return sorted(specs, key=lambda spec: place.get(spec.kind, 0))


def preprocess(context: StepContext) -> StepResult:
    """Write ``train/`` and ``test/``, ``encoder.json``, and the results of checking both matrices.

    The encoder is fitted to the training rows and the contract only.
    """
    from sklearn.model_selection import train_test_split

    contract = Contract.from_dict(context.parameters["contract"])
    table = pq.read_table(context.inputs["checked"])
    label = contract.label
    y = label_codes(table[label.name], label)
    sensitive = {column.name: group_labels(table[column.name], column) for column in contract.sensitive}
    by_groups = context.parameters.get("strata") == "groups"
    split = context.parameters["split"]
    strata = None
    if split["stratify"]:
        strata = group_strata(sensitive) if by_groups else _class_strata(y, sensitive, split["test"], label)
    options = {"test_size": split["test"], "random_state": context.parameters["seed"]}
    kept = np.arange(len(y))
    if split.get("by") is not None:
        # every value is one unit, with the label of its first row
        kept, first = _units(table[split["by"]])
        strata = None if strata is None else strata[first]
    with input_errors("the table cannot be split: "):
        units = train_test_split(np.unique(kept), stratify=strata, **options)
    train, test = (np.flatnonzero(np.isin(kept, part)) for part in units)
    for part, rows in (("training", train), ("test", test)):
        present = np.unique(y[rows])
        if not by_groups and len(present) < 2:
            raise InputError(
                f"the {part} rows have one value of the label {label.name!r} only: "
                "use a stratified split or more rows."
            )
        if not by_groups and len(present) < len(label.classes):
            lacking = sorted({*range(len(label.classes))} - {*present.tolist()})
            others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise InputError(
                f"the class {label.classes[lacking[0]]}{others} of the label {label.name!r} has no {part} "
                "rows: collect rows, join it with another class, or use a stratified split."
            )
        for column in contract.sensitive:
            _check_groups(column, sensitive[column.name], rows, part)

    features: pd.DataFrame = table.select([column.name for column in contract.features]).to_pandas()
    encoder = TableEncoder(column_specs(contract, context.parameters.get("text")), contract.unseen_categories)  # type: ignore[arg-type]
    encoder.cache, encoder.callback = vectors_folder(), lambda done, all_: context.progress(done, all_, {})
    numbers = {
        column.name: table[column.name].to_pandas().to_numpy(dtype=np.float64)
        for column in contract.sensitive
        if column.bins is not None
    }
    folder = context.workdir
    outputs = {"encoder": (folder / "encoder.json", "encoder")}
    checks = 0
    for terms in terms_of(context.parameters).values():
        mentions = terms.versions_of(table[terms.column].to_pylist()) >= 0
        for part, rows in (("training rows", train), ("test rows", test)):
            if not mentions[rows].any():
                raise no_mention(terms, part)
    # one part after the other, each by columns, which Arrow reads without a copy
    for name, rows in (("train", train), ("test", test)):
        people = features.iloc[rows]
        with input_errors():
            if name == "train":
                encoder.fit(people)
            matrix = encoder.transform(people, order="F")
        frame = pa.table([pa.array(column) for column in matrix.T], names=encoder.feature_names_)
        result = check_encoded(frame, encoder.kinds_, rows=len(matrix), contract=contract)
        if not result.success:
            raise InputError(f"the encoded matrix breaks its contract: {result.violations[0]}")
        checks += len(result.checks)
        data = Dataset(
            matrix,
            y[rows],
            rows,
            encoder.feature_names_,
            encoder.groups_,
            {key: values[rows] for key, values in sensitive.items()},
            {key: values[rows] for key, values in numbers.items()},
        )
        write_dataset(folder / name, data, encoder.kinds_)
        outputs[name] = (folder / name, "dataset")
        outputs |= context.write_json(f"{name}_result", result.to_json(), "validation", sort_keys=True)
    encoder.save(folder / "encoder.json")
    values: list[Any] = list(label.classes)
    if not values:
        known = label.allowed or pc.unique(table[label.name]).to_pylist()
        negative = next(value for value in known if value is not None and value != label.positive)
        values = [negative, label.positive]
    facts = {
        "train_rows": len(train),
        "test_rows": len(test),
        "features": len(encoder.feature_names_),
        "checks": checks,
        "label_values": values,  # for 0, 1 and so on
    }
    notes = _text_notes(contract, table, encoder)
    facts |= {"notes": notes} if notes else {}
    return StepResult(outputs, facts)


def _class_strata(y: Int, sensitive: Mapping[str, Str], test: float, label: Column) -> Int:
    """Labels, shape (n,), crossed with the groups where there are classes and rows suffice for that."""
    crossed = group_strata({"": y.astype(str), **sensitive}) if label.classes else y
    fit = len(np.unique(crossed)) <= min(test, 1.0 - test) * len(y)
    return crossed if fit else y


def group_strata(sensitive: Mapping[str, Str]) -> Int:
    """Number the crossed groups of all attributes, for a stratified split; shape (n,).

    A group of one row cannot be split. All such groups share one stratum; a single one joins the largest
    stratum.
    """
    codes = [np.unique(values, return_inverse=True)[1] for values in sensitive.values()]
    _, strata, sizes = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True, return_counts=True)
    alone = sizes == 1
    shared = len(sizes) if alone.sum() > 1 else int(sizes.argmax())
    return np.where(alone[strata], shared, strata).astype(np.int64)


def _units(values: pa.ChunkedArray) -> tuple[Int, Int]:
    """Code of each row's value, shape (n,), and the first row of each code."""
    codes = values.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    _, first, kept = np.unique(codes, return_index=True, return_inverse=True)
    return kept, first


def _text_notes(contract: Contract, table: pa.Table, encoder: TableEncoder) -> list[str]:
    """Numbers of empty sentences, and of those with more words than the encoder reads."""
    notes = []
    for column in contract.features:
        if not column.is_text:
            continue
        values, most = table[column.name], encoder.longest(column.name)
        if values.null_count:
            notes.append(f"{values.null_count:,} sentences of {column.name} are empty: read as missing")
        words = pc.count_substring_regex(values, r"\S+")
        cut = 0 if most is None else pc.sum(pc.greater(words, most)).as_py() or 0
        if cut:
            notes.append(
                f"{cut:,} sentences of {column.name} have over {most} words: the encoder reads no further"
            )
    return notes


def _check_groups(column: Column, groups: Str, rows: Int, part: str) -> None:
    """Raise InputError if a group of the contract or of the table has no rows in a part of the split."""
    declared = known_groups(column)
    lacking = (declared | set(groups)) - set(groups[rows])
    if lacking:
        # Messages may quote names from the contract, but no value from the data.
        named = sorted(lacking & declared)
        which = f"the group {named[0]!r}" if named else "a group"
        others = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        raise InputError(
            f"{which}{others} of the sensitive column {column.name!r} has no {part} rows: "
            "merge small groups, collect rows, or take it out of the contract."
        )
