"""Fetch the files of a table from a disk, a URL or a database; a generated table has no files.

Fetching is not cached. The digests of the files are part of the key of the step that reads them.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import fsspec

from evenhand.fairlib.datasets.recipes import RECIPES, RawFile
from evenhand.fairlib.execution import Progress
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.execution.store import (
    Artifact,
    Store,
    cache_folder,
    sha256_of_file,
    sha256_of_path,
)
from evenhand.tasks.sources.databases import missing_package, open_database
from evenhand.tasks.sources.lakes import lake_of
from evenhand.tasks.sources.queries import check_query
from evenhand.tasks.written_input import nearest_file

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


FETCH = "fetch kB"  # name of the progress bar
TIMEOUT_S = 60
# A server that sends nothing for so long is given up; an answer may last as long as it needs.
STALL_S = 60.0
# Bytes of one download: a server may never end its answer, or send one that unpacks to more.
LARGEST_DOWNLOAD = 1 << 37
MAX_MEMBER = 2**30  # bytes of an unpacked file
COPY_BYTES = 1 << 20
QUERY_ROWS = 1 << 16  # of a query's result in memory
# What makes a connection refuse to write. Of other databases the query is only read before.
READ_ONLY = {
    "sqlite": ("PRAGMA query_only = ON",),
    "postgresql": ("SET TRANSACTION READ ONLY",),
    "mysql": ("SET SESSION TRANSACTION READ ONLY",),
    "mariadb": ("SET SESSION TRANSACTION READ ONLY",),
    "oracle": ("SET TRANSACTION READ ONLY",),
    "duckdb": ("ROLLBACK", "BEGIN TRANSACTION READ ONLY"),  # in place of the one that is open
}


def data_folder() -> Path:
    """Folder of the publishers' raw files: ``EVENHAND_DATA``, or a per-user cache."""
    return Path(os.environ.get("EVENHAND_DATA") or cache_folder("data"))


def needs_network(source: Mapping[str, Any]) -> bool:
    """Whether fetching may use the network, so that it is retried."""
    if source.get("sql"):
        return True
    if source.get("path"):
        return "://" in source["path"] and not source["path"].startswith(("file://", "memory://"))
    recipe = RECIPES.get(source["name"])
    return recipe is not None and any(raw.url and _present(raw) is None for raw in recipe.files)


def _present(raw: RawFile) -> Path | None:
    folders = (data_folder(), cache_folder("data"))
    places = (
        place for folder in folders for place in (folder / raw.name, *folder.glob(f"*/{raw.name}"))
    )
    return next((place for place in places if place.is_file()), None)


def fetch_source(
    store: Store, source: Mapping[str, Any], *, progress: Progress | None = None
) -> dict[str, Artifact]:
    """Copy a table's files to this machine; return their handles by name, none for a generated
    table.

    `source` is the job's ``table``: a known name, a ``path`` (local, or an fsspec URL), or ``sql``
    and ``connection``. ``progress(done, total)`` is called in kB for every downloaded file of known
    size. Raises `InputError` if the source does not exist or cannot be reached, or a digest differs
    from the pinned one.
    """
    if source.get("sql"):
        return {"query.parquet": _query(store, source)}
    if source.get("path"):
        return _from_path(store, source, progress)
    recipe = RECIPES.get(source["name"])
    return (
        {}
        if recipe is None
        else {raw.name: _known_file(store, raw, progress) for raw in recipe.files}
    )


def local_file(path: Path) -> Artifact:
    """Handle of a user's file or folder, which stays where it is; an `InputError` if it is
    unreadable.
    """
    try:
        digest, files, size = sha256_of_path(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}): check its permissions."
        ) from None
    return Artifact(str(path.resolve()), digest, "source", size, files)


def _check_digest(path: Path, expected: str, name: str) -> None:
    if path.is_dir():
        raise InputError(
            f"table.sha256 pins one file, but {name} is a folder: take it out of the job."
        )
    digest = sha256_of_file(path)
    if digest != expected:
        raise InputError(
            f"{name} has sha256 {digest[:12]}…, expected {expected[:12]}…: it is another version "
            "or damaged; fetch it again from its publisher."
        )


def _known_file(store: Store, raw: RawFile, progress: Progress | None) -> Artifact:
    path = _present(raw)
    if path is None and not raw.url:
        raise InputError(
            f"{raw.name} is its owner's, and cannot be fetched: put your copy in the folder "
            "EVENHAND_DATA."
        )
    if path is None:
        path = cache_folder("data") / raw.name
        with store.workdir() as folder:
            part = folder / "download"
            _download(raw.url, part, progress)
            if raw.member is not None:
                part = _extract(part, raw.member, folder)
            _check_digest(part, raw.sha256, raw.url)
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            shutil.copyfile(part, temporary)
            temporary.replace(path)
    if raw.sha256:
        _check_digest(path, raw.sha256, str(path))
    return local_file(path)


def _extract(archive: Path, member: str, folder: Path) -> Path:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as stream:
            if (
                opened.getinfo(member).file_size > MAX_MEMBER
            ):  # more than the stated size is not read
                raise InputError(
                    f"the downloaded archive's {member} is too large: fetch the file by hand."
                )
            target = folder / "member"
            with target.open("wb") as out:
                shutil.copyfileobj(stream, out)
            return target
    except (zipfile.BadZipFile, KeyError, RuntimeError, zlib.error):
        raise InputError(
            f"the downloaded archive holds no {member}: fetch the file by hand."
        ) from None


def _download(url: str, target: Path, progress: Progress | None) -> None:
    options: dict[str, Any] = {}
    if url.startswith(("http://", "https://")):
        import aiohttp

        options["client_kwargs"] = {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=STALL_S)
        }
    try:
        if not url.startswith(("http://", "https://")):
            filesystem, path = fsspec.core.url_to_fs(url)
            if filesystem.isdir(path):
                filesystem.get(path.rstrip("/") + "/", f"{target}/", recursive=True)
                return
        with fsspec.open(url, "rb", **options) as stream, target.open("wb") as out:
            is_whole = _copy(stream, out, progress)
    except ImportError:
        raise InputError(missing_package(url)) from None
    except Exception as error:  # noqa: BLE001 - every file system has its own exceptions
        raise InputError(
            f"{without_secrets(url)} cannot be reached or holds nothing ({type(error).__name__}): "
            "check the address and the network."
        ) from None
    if not is_whole:
        raise InputError(
            f"{without_secrets(url)} does not end: its server sent more than "
            f"{LARGEST_DOWNLOAD >> 20:,} MiB. Fetch the file by hand, or correct the address."
        )


def _copy(stream: Any, out: BinaryIO, progress: Progress | None) -> bool:
    """Copy a remote file, and return whether it ended before it was too large; report progress if
    the server gives its size.
    """
    size = getattr(stream, "size", None)
    done = 0
    while chunk := stream.read(COPY_BYTES):
        out.write(chunk)
        done += len(chunk)
        if done > LARGEST_DOWNLOAD:
            return False
        if progress is not None and size and done <= size:
            progress(-(-done // 1000), -(-size // 1000))
    return True


def _from_path(
    store: Store, source: Mapping[str, Any], progress: Progress | None
) -> dict[str, Artifact]:
    location = os.path.expandvars(source["path"])  # a secret stays in the environment
    remote = "://" in location and not location.startswith("file://")
    with store.workdir() as folder:
        if remote:
            public_path = without_secrets(location)
            path = folder / (Path(location.split("?")[0]).name or "table")
            _download(location, path, progress)
        else:
            path = Path(location.removeprefix("file://")).expanduser()
            public_path = str(path)
            if not path.exists():
                raise InputError(
                    f"there is no file {path}{nearest_file(path)}: check the table's path in the "
                    "job."
                )
        if path.is_dir():
            from evenhand.tasks.sources.table_reader import files_of

            if not lake_of(path) and not files_of(path):
                raise InputError(
                    f"{public_path} holds no table: give a file, or a folder of Parquet or CSV "
                    "files."
                )
        if source.get("sha256"):
            _check_digest(path, source["sha256"], public_path)
        return {path.name: store.put(path, "source") if remote else local_file(path)}


def _query(store: Store, source: Mapping[str, Any]) -> Artifact:
    """Run a query and keep its result as Parquet; never more than ``QUERY_ROWS`` rows are in
    memory.
    """
    import pandas as pd
    import sqlalchemy

    from evenhand.tasks.sources.query_dialects import (
        check_functions,
        check_parsed_query,
        close_files,
        may_read_files,
    )

    check_query(source["sql"])
    engine = open_database(source.get("connection") or "", "table.connection")
    backend = engine.url.get_backend_name()
    with_files = backend == "duckdb" and may_read_files(engine.url)
    unknown_functions = check_parsed_query(source["sql"], backend, files=with_files)
    database = engine.url.database
    is_file = database not in (None, "", ":memory:") and not str(database).startswith("file:")
    if backend == "sqlite" and is_file and not Path(str(database)).is_file():
        # SQLite would create an empty database under a misspelt name.
        raise InputError(
            f"table.connection names the file {database}, which does not exist: correct it."
        )
    with store.workdir() as folder:
        parts: list[Path] = []
        try:
            with engine.connect() as opened:
                for statement in READ_ONLY.get(backend, ()):
                    opened.exec_driver_sql(statement)
                if backend == "duckdb":
                    close_files(engine.url, opened)
                check_functions(unknown_functions, backend, opened)
                # a cursor of the server: the driver would fetch all rows at once
                streamed = opened.execution_options(stream_results=True)
                for frame in pd.read_sql(
                    sqlalchemy.text(source["sql"]), streamed, chunksize=QUERY_ROWS
                ):
                    parts.append(folder / f"{len(parts)}.parquet")
                    _write_part(frame, parts[-1])
        except (sqlalchemy.exc.SQLAlchemyError, pd.errors.DatabaseError) as error:
            cause = error.__cause__ or error  # pandas wraps some errors
            reason = str(getattr(cause, "orig", None) or type(cause).__name__).splitlines()[0]
            raise InputError(
                f"table.sql failed ({reason}): correct the query or the connection."
            ) from None
        finally:
            engine.dispose()
        return store.put(_joined(parts, folder / "query.parquet"), "source")


def _write_part(frame: pd.DataFrame, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = []
    for name, series in frame.items():
        try:
            columns.append(_as_arrow(series))
        except pa.ArrowException:  # some drivers return several types; the message quotes a value
            raise _mixed(name) from None
    try:
        pq.write_table(pa.table(columns, names=list(map(str, frame.columns))), path)
    except pa.ArrowNotImplementedError:  # such as a struct without fields
        raise InputError(
            "a column of table.sql is of a nested type that cannot be stored: select its parts, or "
            "CAST it to text."
        ) from None


def _as_arrow(series: pd.Series[Any]) -> pa.Array:
    """Convert a column of a query's result."""
    import pandas as pd
    import pyarrow as pa

    if not isinstance(series.dtype, pd.DatetimeTZDtype):
        return pa.array(series, from_pandas=True)
    # without the time zone, because pandas warns where Arrow takes the values of such a column
    in_utc = pa.array(series.dt.tz_convert(None), from_pandas=True)
    return in_utc.cast(pa.timestamp(in_utc.type.unit, tz=pa.lib.tzinfo_to_string(series.dt.tz)))


def _joined(parts: list[Path], target: Path) -> Path:
    """Write the parts of a result as one file; whole numbers of one part may have gaps in
    another.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas = [pq.read_schema(part).remove_metadata() for part in parts]
    fields = []
    for column in zip(*schemas, strict=True):
        kinds = [pa.schema([field]) for field in column]
        try:
            fields.append(pa.unify_schemas(kinds, promote_options="permissive").field(0))
        except pa.ArrowException:
            raise _mixed(column[0].name) from None
    with pq.ParquetWriter(target, pa.schema(fields)) as writer:
        for part in parts:
            writer.write_table(pq.ParquetFile(part).read().cast(writer.schema, safe=False))
    return target


def _mixed(name: object) -> InputError:
    return InputError(
        f"the column {name!r} of table.sql mixes types of values: CAST it to one in the query."
    )
