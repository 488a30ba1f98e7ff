"""Preprocess: split the checked table, and encode both parts by the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenhand.data_contracts.arrow import (
    group_labels,
    known_groups,
    label_codes,
)
from evenhand.data_contracts.checking import check_encoded, encoded_columns
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.scanning import Scan, scan
from evenhand.fairlib.arrays import Bool, Int, Int8, Str
from evenhand.fairlib.preprocessing.encoder import (
    ColumnSpec,
    FittedColumn,
    TableEncoder,
    category_name,
)
from evenhand.fairlib.splits import drawn_rows, persons
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.dataset import (
    Block,
    StoredTable,
    matrix_table,
    write_block,
    write_targets,
)
from evenhand.tasks.execution.step import IN_THIS_PROCESS, StepContext, StepResult, in_units
from evenhand.tasks.registry.row_digests import described_columns
from evenhand.tasks.sentence_rows import no_mention, terms_of, vectors_folder

if TYPE_CHECKING:
    import pandas as pd


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
        specs.append(
            ColumnSpec(column.name, kind, positive, low, high, order, column.missing or ())
        )
        if column.is_text and text:
            specs[-1] = replace(specs[-1], encoder=text["encoder"], size=text["size"])
    place = {"binary": 1, "onehot": 2}
    return sorted(specs, key=lambda spec: place.get(spec.kind, 0))


def preprocess(context: StepContext) -> StepResult:
    """Write ``train/`` and ``test/``, ``encoder.json``, and the results of checking both matrices.

    The encoder is fitted to the training rows and the contract only.
    """
    contract = Contract.from_dict(context.parameters["contract"])
    table = StoredTable(context.inputs["checked"])
    label = contract.label
    y = label_codes(table[label.name], label).astype(np.int8)  # of all rows, as all that follows
    sensitive = {
        column.name: group_labels(table[column.name], column) for column in contract.sensitive
    }
    by_groups = context.parameters.get("strata") == "groups"
    by = context.parameters["split"].get("by")
    people = None if by is None else numbered(table[by])
    held = split_rows(context.parameters, table, contract, y, sensitive, people)
    for part, rows in (("training", ~held), ("test", held)):
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
                f"the class {label.classes[lacking[0]]}{others} of the label {label.name!r} has no "
                f"{part} "
                "rows: collect rows, join it with another class, or use a stratified split."
            )
        for column in contract.sensitive:
            _check_groups(column, sensitive[column.name], rows, part)

    encoder = TableEncoder(
        column_specs(contract, context.parameters.get("text")), contract.unseen_categories
    )  # type: ignore[arg-type]
    execution = context.execution
    if any(spec.kind == "text" for spec in encoder.columns):
        # the vectors of sentences are computed once, here
        execution = IN_THIS_PROCESS
        encoder.cache = vectors_folder()
        encoder.callback = lambda done, all_: context.progress(done, all_, {})
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
        for part, rows in (("training rows", ~held), ("test rows", held)):
            if not mentions[rows].any():
                raise no_mention(terms, part)
    # units of work read the split from a file
    np.save(folder / "trained.npy", ~held)
    inputs = _Inputs.of(table, encoder, folder / "trained.npy")
    with input_errors():
        fit_column = partial(_fitted, inputs, encoder)
        encoder.with_fitted(in_units(fit_column, encoder.columns, execution))
    encode_block = partial(_encoded, inputs, encoder, folder)
    scans = list(in_units(encode_block, table.places(), execution))
    sizes = {}
    for name, taken in (("train", ~held), ("test", held)):
        places = np.flatnonzero(taken)
        sizes[f"{name}_rows"] = len(places)
        found = [part[name] for part in scans if name in part]

        def read(
            names: Sequence[str] | None, found: Any = found, part: Path = folder / name
        ) -> Any:
            return found if names is None else StoredTable(part / "X").blocks(names)

        result = check_encoded(read, encoder.kinds_, rows=len(places), contract=contract)
        if not result.success:
            raise InputError(f"the encoded matrix breaks its contract: {result.violations[0]}")
        checks += len(result.checks)
        groups = {key: values[taken] for key, values in sensitive.items()}
        measured = {key: item[taken] for key, item in numbers.items()}
        units = None if people is None else people[taken]
        unit = context.parameters["split"].get("unit", "person")
        write_targets(folder / name, y[taken], places, groups, measured, units, unit)
        outputs[name] = (folder / name, "dataset")
        outputs |= context.write_json(
            f"{name}_result", result.to_json(), "validation", sort_keys=True
        )
    encoder.save(folder / "encoder.json")
    values: list[Any] = list(label.classes)
    if not values:
        known = label.allowed or pc.unique(table[label.name]).to_pylist()
        negative = next(value for value in known if value is not None and value != label.positive)
        values = [negative, label.positive]
    facts = {
        **sizes,
        "features": len(encoder.feature_names_),
        "checks": checks,
        "label_values": values,  # for 0, 1 and so on
    }
    notes = _text_notes(contract, table, encoder)
    facts |= {"notes": notes} if notes else {}
    return StepResult(outputs, facts)


def split_rows(
    parameters: Mapping[str, Any],
    table: StoredTable,
    contract: Contract,
    y: Int | Int8,
    sensitive: Mapping[str, Str],
    people: Int | None = None,
) -> Bool:
    """Whether each row is a test row by a job's split and seed, for labels and groups of shape
    (n,).

    `people` are the numbers of ``split.by``.
    """
    split = parameters["split"]
    strata = None
    if split["stratify"]:
        by_groups = parameters.get("strata") == "groups"
        crossed = (y, sensitive, split["test"], contract.label)
        strata = group_strata(sensitive) if by_groups else _class_strata(*crossed)
    draw = partial(drawn_rows, share=split["test"], seed=parameters["seed"])
    with input_errors("the table cannot be split: "):
        if split.get("hash") is not None:
            return _hashed(table, contract, split, parameters["seed"])
        if people is not None:  # each with the label of the first row
            first, own = persons(people)
            return draw(len(first), None if strata is None else strata[first])[own]
        return draw(len(y), strata)


@dataclass(frozen=True)
class _Inputs:
    """The model inputs of a table as pandas reads them, one column or one block of rows at
    a time.
    """

    table: StoredTable
    names: list[str]
    # of whole numbers of which one is missing: pandas makes them floats, here in every block
    with_gaps: set[str]
    split: Path  # a file that says which rows are training rows

    @classmethod
    def of(cls, table: StoredTable, encoder: TableEncoder, split: Path) -> _Inputs:
        """The columns that an encoder reads."""
        names = [spec.name for spec in encoder.columns]
        schema = table.schema
        whole = [name for name in names if pa.types.is_integer(schema.field(name).type)]
        return cls(table, names, {name for name in whole if table[name].null_count}, split)

    def trained(self, rows: slice) -> Bool:
        """Whether rows are training rows."""
        return np.array(np.load(self.split, mmap_mode="r")[rows])

    def frame(self, table: pa.Table) -> pd.DataFrame:
        """Rows of some columns as pandas reads them."""
        for position, name in enumerate(table.column_names):
            if name in self.with_gaps:
                table = table.set_column(position, name, table[name].cast(pa.float64(), safe=False))
        return table.to_pandas()


def _fitted(inputs: _Inputs, encoder: TableEncoder, spec: ColumnSpec) -> FittedColumn:
    """Encoding of one column, by the training rows."""
    values = inputs.table[spec.name].filter(pa.array(inputs.trained(slice(None))))
    if spec.kind in ("onehot", "binary"):  # the distinct values are enough
        values = pc.unique(values)
    with input_errors():
        return encoder.fit_column(spec, inputs.frame(pa.table({spec.name: values})))


def _encoded(inputs: _Inputs, encoder: TableEncoder, folder: Path, place: Block) -> dict[str, Scan]:
    """Write the encoded training and test rows of a block, if it has any, and read them for their
    check.
    """
    block = place.read(inputs.names)
    trained = inputs.trained(place.rows)
    scans = {}
    for name, taken in (("train", trained), ("test", ~trained)):
        if taken.any():
            with input_errors():
                # by columns, which Arrow reads without a copy
                matrix = encoder.transform(inputs.frame(block.filter(pa.array(taken))), order="F")
            part = matrix_table(matrix, encoder.feature_names_, encoder.groups_, encoder.kinds_)
            codes = [
                column for column, kind in encoder.kinds_.items() if kind in ("onehot", "binary")
            ]
            write_block(part, folder / name / "X", place.number, codes)
            scans[name] = scan(part, encoded_columns(encoder.kinds_), None)
            del matrix, part  # before the next ones are made
    return scans


def _class_strata(
    y: Int | Int8, sensitive: Mapping[str, Str], test: float, label: Column
) -> Int | Int8:
    """Labels, shape (n,), crossed with the groups where there are classes and rows suffice for
    that.
    """
    crossed = group_strata({"": y.astype(str), **sensitive}) if label.classes else y
    fit = len(np.unique(crossed)) <= min(test, 1.0 - test) * len(y)
    return crossed if fit else y


def group_strata(sensitive: Mapping[str, Str]) -> Int:
    """Number the crossed groups of all attributes, for a stratified split; shape (n,).

    A group of one row cannot be split. All such groups share one stratum; a single one joins the
    largest stratum.
    """
    codes = [np.unique(values, return_inverse=True)[1] for values in sensitive.values()]
    _, strata, sizes = np.unique(
        np.stack(codes, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    alone = sizes == 1
    shared = len(sizes) if alone.sum() > 1 else int(sizes.argmax())
    return np.where(alone[strata], shared, strata).astype(np.int64)


def numbered(values: pa.ChunkedArray) -> Int:
    """A number for the value of each row, shape (n,), equal for equal values."""
    return (
        values.combine_chunks()
        .dictionary_encode()
        .indices.fill_null(-1)
        .to_numpy()
        .astype(np.int64)
    )


def _hashed(table: StoredTable, contract: Contract, split: Mapping[str, Any], seed: int) -> Bool:
    """Whether the hash of each row holds it out, shape (n,), which does not depend on other
    rows.
    """
    from evenhand.fairlib.proxies.hash_uniform import (
        hash_uniforms,
    )  # imported lazily, as it imports numba

    names = described_columns(contract) if split["hash"] == "row" else split["hash"]
    drawn = [hash_uniforms(block, names, seed) for block in table.blocks(names)]
    return np.asarray(np.concatenate(drawn) < split["test"])


def _text_notes(contract: Contract, table: StoredTable, encoder: TableEncoder) -> list[str]:
    """Numbers of empty sentences, and of those with more words than the encoder reads."""
    notes = []
    for column in contract.features:
        if not column.is_text:
            continue
        values = table[column.name]
        most = encoder.longest(column.name)
        if values.null_count:
            notes.append(
                f"{values.null_count:,} sentences of {column.name} are empty: read as missing"
            )
        words = pc.count_substring_regex(values, r"\S+")
        cut = 0 if most is None else pc.sum(pc.greater(words, most)).as_py() or 0
        if cut:
            notes.append(
                f"{cut:,} sentences of {column.name} have over {most} words: the encoder reads no "
                "further"
            )
    return notes


def _check_groups(column: Column, groups: Str, rows: Bool, part: str) -> None:
    """Raise InputError if a group of the contract or of the table has no rows in a part of the
    split.
    """
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
