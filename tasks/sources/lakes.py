"""Tables of Delta Lake and Apache Iceberg: the rows of their current version, from a folder or a
bucket.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

METADATA = ".metadata.json"
PRODUCTS = {"delta": "Delta Lake", "iceberg": "Apache Iceberg"}
Kind = Literal["delta", "iceberg"]


# A folder of this machine, or the URL of one in a bucket.
LakePlace = Path | str
# Stores of objects whose folders may be tables; those of the tests are s3.
BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")
# AWS' own variables: the packages do not read all of them alike.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def lake_of(place: LakePlace) -> Kind | None:
    """Kind of a table in a folder, or with this file of metadata. Its folder holds old versions
    too.
    """
    if isinstance(place, str):
        return _lake_of_url(place)
    if place.name.endswith(METADATA) or next((place / "metadata").glob(f"*{METADATA}"), None):
        return "iceberg"
    return "delta" if (place / "_delta_log").is_dir() else None


def is_lake(location: str) -> bool:
    """Whether an address is the folder of a lake's table, on this machine or in a bucket."""
    return lake_of(place_of(location)) is not None


def place_of(location: str) -> LakePlace:
    """Return the folder of an address; of an address in a bucket the address itself."""
    if "://" in location:
        return location.rstrip("/")
    return Path(location).expanduser()


def name_of(place: LakePlace) -> str:
    """Return the last part of a folder's path or address, for messages and names of partitions."""
    return PurePosixPath(str(place)).name


def _lake_of_url(url: str) -> Kind | None:
    """Look at the folder of a bucket; one that cannot be listed is reported by who reads it."""
    if url.partition("://")[0] not in BUCKETS:
        return None
    if url.endswith(METADATA):
        return "iceberg"
    # imported lazily: most tables are files of this machine
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        names = {PurePosixPath(entry).name for entry in filesystem.ls(path, detail=False)}
    except Exception:  # noqa: BLE001 - every file system has its own exceptions
        return None
    if "_delta_log" in names:
        return "delta"
    if "metadata" in names and _metadata_in_bucket(url):
        return "iceberg"
    return None


def _metadata_in_bucket(url: str) -> list[str]:
    """Return the addresses of a table's files of metadata, as they are now."""
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(f"{url}/metadata")
    filesystem.invalidate_cache(path)
    metadata_files = filesystem.glob(f"{path}/*{METADATA}")
    return [str(filesystem.unstrip_protocol(entry)) for entry in sorted(metadata_files)]


def _of_environment(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def open_delta(place: LakePlace) -> Any:
    """Open a table of Delta Lake; keys of a bucket are those of the environment."""
    from deltalake import DeltaTable

    options = {}
    if isinstance(place, str) and place.startswith("s3"):
        endpoint = _of_environment(ENDPOINTS)
        if endpoint:
            options["aws_endpoint_url"] = endpoint
            options["allow_http"] = str(endpoint.startswith("http://")).lower()
        options["aws_region"] = _of_environment(REGIONS) or "us-east-1"
    return DeltaTable(place, storage_options=options or None)


def open_iceberg(place: LakePlace, name: str) -> Any:
    """Open a table of Iceberg by its current file of metadata; `name` is for messages."""
    from pyiceberg.table import StaticTable

    properties = {}
    endpoint = _of_environment(ENDPOINTS)
    if endpoint:
        properties["s3.endpoint"] = endpoint
    properties["s3.region"] = _of_environment(REGIONS) or "us-east-1"
    return StaticTable.from_metadata(str(current_metadata(place, name)), properties)


def open_lake(path: Path, kind: Kind, name: str) -> pa.RecordBatchReader:
    """Open the current version of a table, or of Iceberg that of a file of metadata; `name` is for
    messages.

    Raises `InputError` for a missing extra, a table that its package cannot read, and one with two
    last versions; also when the reader comes to a file that is missing.
    """
    import pyarrow as pa

    with lake_errors(name, kind):
        if kind == "iceberg":
            schema, batches = _iceberg(path, name)
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
    from evenhand.tasks.sources.row_group_blocks import group_blocks, row_groups_of

    rows: Any = open_delta(folder).to_pyarrow_dataset()
    files = rows.get_fragments()

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            for group in row_groups_of(file):
                yield from group_blocks(group, rows.schema)

    return rows.schema, batches()


def _iceberg(path: Path, name: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    batches = open_iceberg(path, name).scan().to_arrow_batch_reader()
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


def current_metadata(place: LakePlace, name: str) -> LakePlace:
    """The file of metadata with the highest number: ``v12.metadata.json`` or
    ``00012-ID.metadata.json``.
    """
    if str(place).endswith(METADATA):
        return place
    files: list[LakePlace]
    if isinstance(place, str):
        files = [*_metadata_in_bucket(place)]
    else:
        files = [*sorted((place / "metadata").glob(f"*{METADATA}"))]
    numbers: dict[int, list[LakePlace]] = {}
    for file in files:
        match = re.match(r"v?(\d+)", name_of(file))
        number = -1
        if match is not None:
            number = int(match[1])
        numbers.setdefault(number, []).append(file)
    last = numbers[max(numbers)]
    if len(last) > 1:
        raise InputError(
            f"{name} has two last versions, {name_of(last[0])} and {name_of(last[1])}: only its "
            "catalog knows which counts; give that file as the table's path."
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
