"""Contract: check the raw table against its data contract, and set rows aside that break it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import (
    Unfit,
    coerce_batch,
    fitting,
)
from evenhand.data_contracts.checking import check_table, raise_for
from evenhand.data_contracts.errors import CheckCrashed, ContractError, ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.scanning import Scan, noted_scan, scan
from evenhand.fairlib.arrays import Bool
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.dataset import (
    Block,
    StoredTable,
    take_over,
    write_block,
)
from evenhand.tasks.execution.step import Parts, StepContext, StepResult, in_units


def contract(context: StepContext) -> StepResult:
    """Write the rows that meet the contract and the check's result; with quarantine also the other
    rows.

    Parameters are the ``contract`` and, optionally, ``ignored_columns``, which are left out unread.
    Blocks that a check against this contract kept whole are not read again.
    """
    declared = Contract.from_dict(context.parameters["contract"])
    raw = StoredTable(context.inputs["raw"])
    folder = context.workdir
    ignored = context.parameters.get("ignored_columns", ())
    names_read = [name for name in raw.column_names if name not in ignored]
    unsigned = _large_unsigned(raw, names_read)
    typed = StoredTable(folder / "checked")
    places = raw.places()
    made_of = []
    for place in places:
        content = repr((place.digest(), unsigned))
        made_of.append(hashlib.sha256(content.encode()).hexdigest())
    earlier = [context.earlier.get(digest) for digest in made_of]

    def read(names: Sequence[str] | None) -> Iterator[pa.Table | Scan]:
        if names is not None:
            return typed.blocks(names)
        write = partial(_typed, typed.path, declared, unsigned, names_read if ignored else None)
        units = list(zip(places, earlier, strict=True))
        return fitting(in_units(write, units, context.execution), declared)

    try:
        result = check_table(
            read, declared, callback=lambda done, total: context.progress(done, total, {})
        )
        raise_for(result)
    except (ContractViolation, ContractError) as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the contract could not be checked: {error}") from error
    outputs = {"checked": (typed.path, "checked")}
    outputs |= context.write_json("result", result.to_json(), "validation", sort_keys=True)
    if result.rows_kept < result.rows:
        quarantine = folder / "quarantine.parquet"
        _write_quarantine(quarantine, typed, places, result.keep)
        outputs["quarantine"] = (quarantine, "quarantine")
    facts = {"rows": result.rows, "rows_kept": result.rows_kept, "checks": len(result.checks)}
    parts: Parts = {}
    for place in places:
        if result.keep[place.rows].all():
            parts[made_of[place.number]] = ("checked", f"{place.number:06d}.parquet")
    return StepResult(outputs, facts, parts)


def _large_unsigned(raw: StoredTable, wanted: Sequence[str]) -> list[str]:
    """Wanted columns with numbers that only the unsigned type holds, which then all blocks have."""
    names = []
    for field in raw.schema:
        if field.name not in wanted or field.type != pa.uint64():
            continue
        if (pc.max(raw[field.name]).as_py() or 0) >= 2**63:
            names.append(field.name)
    return names


def _write_quarantine(file: Path, typed: StoredTable, places: Sequence[Block], keep: Bool) -> None:
    """Move the rows for which `keep` is false from the typed table to a file."""
    schema = typed.schema.remove_metadata()
    with pq.ParquetWriter(file, schema) as writer:
        for place in places:
            if not keep[place.rows].all():
                block = typed.path / f"{place.number:06d}.parquet"
                _set_aside(block, keep[place.rows], writer)
    if not any(typed.path.iterdir()):
        write_block(schema.empty_table(), typed.path, 0)


def _typed(
    folder: Path,
    contract: Contract,
    unsigned: Sequence[str],
    wanted: Sequence[str] | None,
    unit: tuple[Block, tuple[Path, str] | None],
) -> tuple[Scan | None, Unfit]:
    """Write a block of the raw table with the contract's types, and read it for the check.

    The block is read with all columns, or the wanted ones. It comes with its file in
    an earlier result, or None.
    """
    place, earlier = unit
    name = f"{place.number:06d}.parquet"
    if take_over(earlier, folder, name):
        noted = noted_scan(folder / name, contract.columns)
        if noted is not None:
            return noted, Unfit(len(noted.bad))
    table, unfit = coerce_batch(place.read(wanted), contract, unsigned)
    if unfit.counts:
        return None, unfit
    block_scan = scan(table, contract.columns, contract)
    write_block(block_scan.noted(table), folder, place.number)
    return block_scan, unfit


def _set_aside(file: Path, keep: Bool, writer: pq.ParquetWriter) -> None:
    """Move the rows of a block for which `keep` is false elsewhere."""
    block = pq.read_table(file).replace_schema_metadata()
    writer.write_table(block.filter(pa.array(~keep)))
    file.unlink()
    if keep.any():
        write_block(block.filter(pa.array(keep)), file.parent, int(file.stem))
