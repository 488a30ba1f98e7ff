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
from evenhand.data_contracts.table_check import CheckResult
from evenhand.fairlib.arrays import Bool, Float, Int, Int8, Str
from evenhand.fairlib.preprocessing.encoder import (
    ColumnSpec,
    FittedColumn,
    TableEncoder,
    category_name,
)
from evenhand.fairlib.splits import drawn_rows, persons, with_every_group
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.dataset import (
    Block,
    StoredTable,
    matrix_table,
    write_block,
    write_targets,
)
from evenhand.tasks.execution.step import (
    IN_THIS_PROCESS,
    ExecutionContext,
    Outputs,
    StepContext,
    StepResult,
    in_units,
)
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
        spec = _column_spec(column)
        if column.is_text and text:
            spec = replace(spec, encoder=text["encoder"], size=text["size"])
        specs.append(spec)
    place = {"binary": 1, "onehot": 2}
    return sorted(specs, key=lambda spec: place.get(spec.kind, 0))


def _column_spec(column: Column) -> ColumnSpec:
    """Encoding of one model input, without the encoder of sentences."""
    kind: Any = column.encoding
    if column.logical_type == "date" and column.encoding == "standard":
        kind = "date"
    spec = ColumnSpec(column.name, kind, missing=column.missing or (), other=column.other or "")
    if kind == "binary":
        return replace(spec, positive=category_name(column.positive))
    if kind == "unit":
        low: Any = column.minimum
        high: Any = column.maximum
        return replace(spec, minimum=low, maximum=high)
    if kind == "ordinal":
        return replace(spec, order=tuple(map(category_name, column.allowed or ())))
    return spec


def preprocess(context: StepContext) -> StepResult:
    """Write ``train/`` and ``test/``, ``encoder.json``, and the results of checking both matrices.

    The encoder is fitted to the training rows and the contract only.
    """
    contract = Contract.from_dict(context.parameters["contract"])
    table = StoredTable(context.inputs["checked"])
    targets = _Targets.of(table, contract, context.parameters)
    held = split_rows(
        context.parameters, table, contract, targets.y, targets.sensitive, targets.people
    )
    by_groups = context.parameters.get("strata") == "groups"
    _check_part("training", ~held, contract, targets, labels=not by_groups)
    _check_part("test", held, contract, targets, labels=not by_groups)

    specs = column_specs(contract, context.parameters.get("text"))
    encoder = TableEncoder(specs, contract.unseen_categories)  # type: ignore[arg-type]
    execution = context.execution
    if any(spec.kind == "text" for spec in encoder.columns):
        # the vectors of sentences are computed once, here
        execution = IN_THIS_PROCESS
        encoder.cache = vectors_folder()
        # a word of few people may name one of them
        encoder.min_texts = context.parameters.get("min_texts", encoder.min_texts)
        if targets.people is not None and context.parameters["split"].get("unit") != "group":
            encoder.people = targets.people[~held]
        encoder.callback = lambda done, total: context.progress(done, total, {})
    if context.parameters.get("terms"):
        _check_terms(context.parameters, table, held)
    scans = _encode(table, encoder, held, context.workdir, execution)

    outputs: Outputs = {"encoder": (context.workdir / "encoder.json", "encoder")}
    sizes = {}
    checks = 0
    for name, in_part in (("train", ~held), ("test", held)):
        folder = context.workdir / name
        rows = np.flatnonzero(in_part)
        sizes[f"{name}_rows"] = len(rows)
        part_scans = [blocks[name] for blocks in scans if name in blocks]
        result = _check_matrix(folder, part_scans, encoder, contract, len(rows))
        checks += len(result.checks)
        targets.write(folder, in_part, rows, context.parameters["split"].get("unit", "person"))
        outputs[name] = (folder, "dataset")
        outputs |= context.write_json(
            f"{name}_result", result.to_json(), "validation", sort_keys=True
        )
    encoder.save(context.workdir / "encoder.json")

    facts: dict[str, Any] = {
        **sizes,
        "features": len(encoder.feature_names_),
        "checks": checks,
        "label_values": _label_values(table, contract.label),  # for 0, 1 and so on
    }
    notes = _text_notes(contract, table, encoder)
    if notes:
        facts["notes"] = notes
    return StepResult(outputs, facts)


@dataclass(frozen=True)
class _Targets:
    """Of all rows of a table what no model input needs: labels, groups, numbers and people."""

    y: Int8  # codes of the labels, shape (n,)
    sensitive: dict[str, Str]  # by attribute the group of each row
    numbers: dict[str, Float]  # by attribute that has ranges of numbers the numbers themselves
    people: Int | None  # of a job with ``split.by`` a number for the value of each row

    @classmethod
    def of(cls, table: StoredTable, contract: Contract, parameters: Mapping[str, Any]) -> _Targets:
        """Read them from the checked table."""
        label = contract.label
        sensitive = {}
        numbers = {}
        for column in contract.sensitive:
            sensitive[column.name] = group_labels(table[column.name], column)
            if column.bins is not None:
                values = table[column.name].to_pandas()
                numbers[column.name] = values.to_numpy(dtype=np.float64)
        people = None
        by = parameters["split"].get("by")
        if by is not None:
            people = numbered(table[by])
        codes = label_codes(table[label.name], label)
        return cls(codes.astype(np.int8), sensitive, numbers, people)

    def write(self, folder: Path, in_part: Bool, rows: Int, unit: str) -> None:
        """Write those of the rows of a part of the split, which are `rows`."""
        groups = {name: values[in_part] for name, values in self.sensitive.items()}
        numbers = {name: values[in_part] for name, values in self.numbers.items()}
        people = None
        if self.people is not None:
            people = self.people[in_part]
        write_targets(folder, self.y[in_part], rows, groups, numbers, people, unit)


def _check_part(
    part: str, rows: Bool, contract: Contract, targets: _Targets, *, labels: bool
) -> None:
    """Raise InputError if a part of the split lacks a group, or, where `labels` matter, a label."""
    label = contract.label
    present = np.unique(targets.y[rows])
    if labels and len(present) < 2:
        raise InputError(
            f"the {part} rows have one value of the label {label.name!r} only: use a stratified "
            "split or more rows."
        )
    if labels and len(present) < len(label.classes):
        absent = sorted({*range(len(label.classes))} - {*present.tolist()})
        more_classes = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise InputError(
            f"the class {label.classes[absent[0]]}{more_classes} of the label {label.name!r} has "
            f"no {part} rows: collect rows, join it with another class, or use a stratified split."
        )
    for column in contract.sensitive:
        _check_groups(column, targets.sensitive[column.name], rows, part)


def _check_terms(parameters: Mapping[str, Any], table: StoredTable, held: Bool) -> None:
    """Raise InputError if no sentence of a part of the split has a term of a list."""
    for terms in terms_of(parameters).values():
        mentions = terms.versions_of(table[terms.column].to_pylist()) >= 0
        for part, rows in (("training rows", ~held), ("test rows", held)):
            if not mentions[rows].any():
                raise no_mention(terms, part)


def _encode(
    table: StoredTable,
    encoder: TableEncoder,
    held: Bool,
    folder: Path,
    execution: ExecutionContext,
) -> list[dict[str, Scan]]:
    """Fit the encoder to the training rows, write both matrices, and return their blocks' scans."""
    # units of work read the split from a file
    np.save(folder / "trained.npy", ~held)
    inputs = _Inputs.of(table, encoder, folder / "trained.npy")
    fit_column = partial(_fitted, inputs, encoder)
    with input_errors():
        encoder.with_fitted(in_units(fit_column, encoder.columns, execution))
    encode_block = partial(_encoded, inputs, encoder, folder)
    return list(in_units(encode_block, table.places(), execution))


def _check_matrix(
    folder: Path, scans: list[Scan], encoder: TableEncoder, contract: Contract, rows: int
) -> CheckResult:
    """Check the encoded matrix in a folder against its contract; raise InputError if it breaks
    it.
    """

    def read(names: Sequence[str] | None) -> Any:
        if names is None:
            return scans
        return StoredTable(folder / "X").blocks(names)

    result = check_encoded(read, encoder.kinds_, rows=rows, contract=contract)
    if not result.success:
        raise InputError(f"the encoded matrix breaks its contract: {result.violations[0]}")
    return result


def _label_values(table: StoredTable, label: Column) -> list[Any]:
    """The values of the label, in the order of their codes."""
    if label.classes:
        return list(label.classes)
    label = label.outcome
    values = label.allowed or pc.unique(table[label.name]).to_pylist()
    negative = next(value for value in values if value is not None and value != label.positive)
    return [negative, label.positive]


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
    strata: Int | Int8 | None = None
    if split["stratify"]:
        if parameters.get("strata") == "groups":
            strata = group_strata(sensitive)
        else:
            strata = _class_strata(y, sensitive, split["test"], contract.label)
    draw = partial(drawn_rows, share=split["test"], seed=parameters["seed"])
    with input_errors("the table cannot be split: "):
        if split.get("hash") is not None:
            return _hashed(table, contract, split, parameters["seed"])
        if people is None:
            held = draw(len(y), strata)
            if strata is None:
                return held
            return with_every_group(held, sensitive, parameters["seed"])
        # each person with the label and the groups of the first row
        first_rows, person = persons(people)
        if strata is None:
            return draw(len(first_rows), None)[person]
        held = draw(len(first_rows), strata[first_rows])
        first_groups = {name: values[first_rows] for name, values in sensitive.items()}
        return with_every_group(held, first_groups, parameters["seed"])[person]


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
    for name, in_part in (("train", trained), ("test", ~trained)):
        if in_part.any():
            with input_errors():
                # by columns, which Arrow reads without a copy
                matrix = encoder.transform(inputs.frame(block.filter(pa.array(in_part))), order="F")
            part = matrix_table(matrix, encoder.feature_names_, encoder.groups_, encoder.kinds_)
            codes = []
            for column, kind in encoder.kinds_.items():
                if kind in ("onehot", "binary"):
                    codes.append(column)
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
    if not label.classes:
        return y
    crossed = group_strata({"": y.astype(str), **sensitive})
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
    # imported lazily, as it imports numba
    from evenhand.fairlib.proxies.hash_uniform import hash_uniforms

    names = split["hash"]
    if names == "row":
        names = described_columns(contract)
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
        cut = 0
        if most is not None:
            cut = pc.sum(pc.greater(words, most)).as_py() or 0
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
    absent = (declared | set(groups)) - set(groups[rows])
    if not absent:
        return
    # Messages may quote names from the contract, but no value from the data.
    message = "a group"
    declared_absent = sorted(absent & declared)
    if declared_absent:
        message = f"the group {declared_absent[0]!r}"
    if len(absent) > 1:
        message += f" (and {len(absent) - 1} more)"
    raise InputError(
        f"{message} of the sensitive column {column.name!r} has no {part} rows: "
        "merge small groups, collect rows, or take it out of the contract."
    )
