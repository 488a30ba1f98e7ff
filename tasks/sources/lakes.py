"""Tables of Delta Lake and Apache Iceberg: the rows of their current version, from a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

METADATA = ".metadata.json"
PRODUCTS = {"delta": "Delta Lake", "iceberg": "Apache Iceberg"}
Kind = Literal["delta", "iceberg"]


def lake_of(path: Path) -> Kind | None:
    """Kind of a table in a folder, or with this file of metadata. Its folder holds old versions
    too.
    """
    if path.name.endswith(METADATA) or next((path / "metadata").glob(f"*{METADATA}"), None):
        return "iceberg"
    return "delta" if (path / "_delta_log").is_dir() else None


def is_lake(location: str) -> bool:
    """Whether an address is the folder of a lake's table on this machine."""
    return "://" not in location and lake_of(Path(location).expanduser()) is not None


def open_lake(path: Path, kind: Kind, name: str) -> pa.RecordBatchReader:
    """Open the current version of a table, or of Iceberg that of a file of metadata; `name` is for
    messages.

    Raises `InputError` for a missing extra, a table that its package cannot read, and one with two
    last versions; also when the reader comes to a file that is missing.
    """
    import pyarrow as pa

    metadata = path
    if kind == "iceberg":
        metadata = current_metadata(path, name)
    with lake_errors(name, kind):
        if kind == "iceberg":
            schema, batches = _iceberg(metadata)
        else:
            schema, batches = _delta(path)

    def blocks() -> Iterator[pa.RecordBatch]:
        with lake_errors(name, kind):
            for batch in batches:
                yield batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, blocks())


@contextmanager
def lake_errors(name: str, kind: Kind) -> Iterator[None]:
    """Make errors of the packages in this block an `InputError` of one line."""
    try:
        yield
    except (MemoryError, InputError):
        raise
    except ImportError:
        raise InputError(
            f"{name} is a table of {PRODUCTS[kind]}, which needs an optional extra: pip install "
            f"'evenhand[{kind}]'."
        ) from None
    except Exception as error:  # noqa: BLE001 - both packages have many
        raise _unreadable(name, kind, error) from None


def _delta(folder: Path) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    from deltalake import DeltaTable

    from evenhand.tasks.sources.row_group_blocks import group_blocks, row_groups_of

    rows: Any = DeltaTable(folder).to_pyarrow_dataset()
    files = rows.get_fragments()

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            for group in row_groups_of(file):
                yield from group_blocks(group, rows.schema)

    return rows.schema, batches()


def _iceberg(metadata: Path) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    from pyiceberg.table import StaticTable

    batches = StaticTable.from_metadata(str(metadata)).scan().to_arrow_batch_reader()
    return plain_schema(batches.schema), batches


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema with plain text and without metadata: pyiceberg reads text as large_string, and
    numbers its fields.
    """
    import pyarrow as pa

    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_large_string(kind):
            kind = pa.string()
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def current_metadata(path: Path, name: str) -> Path:
    """The file of metadata with the highest number: ``v12.metadata.json`` or
    ``00012-ID.metadata.json``.
    """
    if path.is_file():
        return path
    numbers: dict[int, list[Path]] = {}
    for file in sorted((path / "metadata").glob(f"*{METADATA}")):
        match = re.match(r"v?(\d+)", file.name)
        number = -1
        if match is not None:
            number = int(match[1])
        numbers.setdefault(number, []).append(file)
    last = numbers[max(numbers)]
    if len(last) > 1:
        raise InputError(
            f"{name} has two last versions, {last[0].name} and {last[1].name}: only its catalog "
            "knows which counts; give that file as the table's path."
        )
    return last[0]


def _unreadable(name: str, kind: Kind, error: Exception) -> InputError:
    """An error in one line; the messages of both packages are long, and quote paths."""
    if isinstance(error, FileNotFoundError):
        reason = "a file of its current version is missing: restore it"
    elif "reader features" in str(error):
        features = ", ".join(sorted(re.findall(r"'(\w+)'", str(error))))
        reason = (
            f"it uses {features}, which the package deltalake does not read: write a copy without"
        )
    else:
        reason = f"{type(error).__name__}: it is damaged, or newer than the installed package"
    return InputError(f"{name} cannot be read as a table of {PRODUCTS[kind]} ({reason}).")
