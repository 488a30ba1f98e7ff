"""Small inputs that unpack, or are read, to much more than a machine has; each in a process of its own.

`python -m tests.chaos.bombs NAME FOLDER` makes the input in an empty folder, limits its own memory,
and runs the command that reads it; the last line that it prints is a JSON object.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import stat
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.chaos.fuzz import GROWING, LAUGHS
from tests.flows.people import CONTRACT, JOB, make_people
from tests.workbooks import write_workbook

ROOT = Path(__file__).resolve().parents[2]
# What the process may reserve; what it uses is measured. The libraries reserve one or two GB.
LIMIT_BYTES = 6 << 30
LIMIT_S = 300
LARGE = 1 << 30
BLOCK = 1 << 20
INIT = ("init", "{name}", "--label", "paid", "--sensitive", "sex", "--output", "out")
RUN = ("run", "odd.yaml", "--direct")


def blocks(total: int, block: bytes) -> Iterator[bytes]:
    """A block again and again, up to so many bytes."""
    for _ in range(total // len(block)):
        yield block


def plain_csv() -> bytes:
    """The table of people as CSV."""
    import pyarrow.csv

    out = io.BytesIO()
    pyarrow.csv.write_csv(make_people(120), out)
    return out.getvalue()


def long_line(folder: Path) -> str:
    """One value of a gigabyte, compressed to a megabyte."""
    with gzip.open(folder / "odd.csv.gz", "wb", 6) as stream:
        stream.write(plain_csv())
        for block in blocks(LARGE, b"x" * BLOCK):
            stream.write(block)
    return "odd.csv.gz"


def long_quote(folder: Path) -> str:
    """A quote that never ends."""
    with gzip.open(folder / "odd.csv.gz", "wb", 6) as stream:
        stream.write(plain_csv() + b'"')
        for block in blocks(LARGE, b"x,\n" * (BLOCK // 3)):
            stream.write(block)
    return "odd.csv.gz"


def wide_csv(folder: Path) -> str:
    """A million columns."""
    names = ",".join(f"c{number}" for number in range(1_000_000))
    values = ",".join("1" for _ in range(1_000_000))
    (folder / "odd.csv").write_text(f"sex,paid,{names}\nF,yes,{values}\nM,no,{values}\n")
    return "odd.csv"


def workbook(folder: Path, change: Callable[[str, bytes], Iterator[bytes]]) -> str:
    """A workbook of people whose parts are changed."""
    table = make_people(120)
    rows = [table.column_names, *[list(row.values()) for row in table.to_pylist()]]
    texts = [[str(cell) for cell in row] for row in rows]
    write_workbook(folder / "plain.xlsx", {"people": texts})
    with (
        zipfile.ZipFile(folder / "plain.xlsx") as parts,
        zipfile.ZipFile(folder / "odd.xlsx", "w", zipfile.ZIP_DEFLATED) as changed,
    ):
        for part in parts.namelist():
            with changed.open(part, "w", force_zip64=True) as stream:
                for block in change(part, parts.read(part)):
                    stream.write(block)
    (folder / "plain.xlsx").unlink()
    return "odd.xlsx"


def is_sheet(part: str) -> bool:
    """Whether a part of a workbook holds cells."""
    return part.startswith("xl/worksheets/")


def sheet_of_blanks(folder: Path) -> str:
    """A sheet that unpacks to a gigabyte of blanks."""

    def change(part: str, data: bytes) -> Iterator[bytes]:
        if not is_sheet(part):
            yield data
            return
        yield data.removesuffix(b"</sheetData></worksheet>")
        yield from blocks(LARGE, b" " * BLOCK)
        yield b"</sheetData></worksheet>"

    return workbook(folder, change)


def sheet_of_cells(folder: Path) -> str:
    """A sheet that unpacks to a gigabyte of cells."""
    row = b"".join(b'<c r="A2"><v>1</v></c>' for _ in range(100))

    def change(part: str, data: bytes) -> Iterator[bytes]:
        if not is_sheet(part):
            yield data
            return
        yield data.removesuffix(b"</sheetData></worksheet>")
        for number in range(122, 122 + LARGE // len(row)):
            yield b'<row r="%d">' % min(number, 1_048_576) + row + b"</row>"
        yield b"</sheetData></worksheet>"

    return workbook(folder, change)


def far_cell(folder: Path) -> str:
    """One cell in the last corner of a sheet."""

    def change(part: str, data: bytes) -> Iterator[bytes]:
        cell = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
        yield data.replace(b"</sheetData>", cell)

    return workbook(folder, change)


def laughing_sheet(folder: Path) -> str:
    """Entities that grow."""

    def change(part: str, data: bytes) -> Iterator[bytes]:
        if is_sheet(part):
            data = LAUGHS + data.split(b"?>", 1)[-1].replace(b"clerk", b"&k;")
        yield data

    return workbook(folder, change)


def long_string(folder: Path) -> str:
    """A text of a gigabyte in one cell."""

    def change(part: str, data: bytes) -> Iterator[bytes]:
        if not is_sheet(part):
            yield data
            return
        before, after = data.split(b"clerk", 1)
        yield before
        yield from blocks(LARGE, b"x" * BLOCK)
        yield after

    return workbook(folder, change)


ODS = b"""<?xml version="1.0"?><office:document-content
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>
<table:table table:name="a"><table:table-row table:number-rows-repeated="1048576">
<table:table-cell office:value-type="float" office:value="1" table:number-columns-repeated="16384">
<text:p>1</text:p></table:table-cell></table:table-row></table:table>
</office:spreadsheet></office:body></office:document-content>"""
ODS_TYPE = "application/vnd.oasis.opendocument.spreadsheet"


def repeated_cells(folder: Path) -> str:
    """A row and a cell that are repeated as often as they may."""
    manifest = (
        '<?xml version="1.0"?><manifest:manifest '
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{ODS_TYPE}"/>'
        "</manifest:manifest>"
    )
    with zipfile.ZipFile(folder / "odd.ods", "w") as archive:
        archive.writestr("mimetype", ODS_TYPE)
        archive.writestr("META-INF/manifest.xml", manifest)
        archive.writestr("content.xml", ODS)
    return "odd.ods"


def repeated_rows(folder: Path) -> str:
    """A Parquet file of some kilobytes with 25 million equal rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("sex", pa.string()), ("paid", pa.string()), ("income", pa.float64())])
    rows = 1 << 22
    table = pa.table([["F"] * rows, ["yes"] * rows, [1.0] * rows], schema=schema)
    with pq.ParquetWriter(folder / "odd.parquet", schema) as writer:
        for _ in range(6):
            writer.write_table(table, row_group_size=rows)
    return "odd.parquet"


def repeated_text(folder: Path) -> str:
    """A text of two megabytes that a hundred thousand rows of a Parquet file repeat."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 100_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 2_000_000])
    table = pa.table({"sex": ["F"] * rows, "paid": ["yes", "no"] * (rows // 2), "text": text})
    pq.write_table(table.replace_schema_metadata(), folder / "odd.parquet", store_schema=False)
    return "odd.parquet"


def compressed_text(folder: Path) -> str:
    """Eight hundred texts of two megabytes that a Parquet file holds in some kilobytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("sex", pa.string()), ("paid", pa.string()), ("text", pa.string())])
    some = pa.record_batch([["F"] * 10, ["yes", "no"] * 5, ["x" * 2_000_000] * 10], schema=schema)
    with pq.ParquetWriter(
        folder / "odd.parquet", schema, use_dictionary=False, compression="zstd", store_schema=False
    ) as writer:
        for _ in range(80):
            writer.write_batch(some)  # into one row group
    return "odd.parquet"


def repeated_bytes(folder: Path) -> str:
    """Bytes of a fixed width of a megabyte that a hundred thousand rows repeat."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.binary(1_000_000)
    schema = pa.schema([("sex", pa.string()), ("paid", pa.string()), ("text", kind)])
    some = pa.table(
        [["F"] * 100, ["yes", "no"] * 50, pa.array([b"x" * 1_000_000] * 100, kind)], schema=schema
    )
    with pq.ParquetWriter(folder / "odd.parquet", schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(some)
    return "odd.parquet"


def long_lists(folder: Path) -> str:
    """Two hundred lists of a million equal numbers each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    length = 1_000_000
    numbers = pa.Array.from_buffers(pa.int8(), length, [None, pa.py_buffer(bytes(length))])
    lists = pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), numbers)
    schema = pa.schema([("sex", pa.string()), ("paid", pa.string()), ("text", lists.type)])
    some = pa.record_batch([pa.array(["F"]), pa.array(["yes"]), lists], schema=schema)
    with pq.ParquetWriter(folder / "odd.parquet", schema, compression="zstd") as writer:
        for _ in range(200):
            writer.write_batch(some)
    return "odd.parquet"


def repeated_arrow_text(folder: Path) -> str:
    """A text of two megabytes in the dictionary of an Arrow file, which all rows repeat."""
    import pyarrow as pa

    rows = 100_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 2_000_000])
    table = pa.table({"sex": ["F"] * rows, "paid": ["yes", "no"] * (rows // 2), "text": text})
    with pa.ipc.new_file(str(folder / "odd.arrow"), table.schema) as writer:
        writer.write_table(table)
    return "odd.arrow"


def unpacked_arrow(folder: Path) -> str:
    """An Arrow file whose compressed buffers say that they unpack to much."""
    import pyarrow as pa

    rows = 20_000_000
    table = pa.table(
        {"sex": ["F", "M"] * (rows // 2), "paid": pa.array(["yes"] * rows), "n": [0] * rows}
    )
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(folder / "odd.arrow"), table.schema, options=options) as writer:
        for _ in range(10):
            writer.write_table(table)
    return "odd.arrow"


def large_claim(folder: Path) -> str:
    """An Arrow file in which a buffer claims to unpack to 2^60 bytes."""
    import pyarrow as pa

    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = make_people(2000)
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table)
    content = out.getvalue()
    size = struct.pack("<q", 2000 * 8)
    (folder / "odd.arrow").write_bytes(content.replace(size, struct.pack("<q", 1 << 60)))
    return "odd.arrow"


def growing_job(folder: Path) -> None:
    """A job whose aliases grow to 2^31 values."""
    text = yaml.safe_dump(JOB, sort_keys=False)
    (folder / "odd.yaml").write_text(text + "notes:\n" + _indented(GROWING[0]))


def growing_contract(folder: Path) -> None:
    """A contract whose aliases grow."""
    job = {**JOB, "contract": "odd.contract.yaml"}
    (folder / "odd.yaml").write_text(yaml.safe_dump(job))
    text = yaml.safe_dump(CONTRACT, sort_keys=False)
    (folder / "odd.contract.yaml").write_text(text + "notes:\n" + _indented(GROWING[0]))


def deep_job(folder: Path) -> None:
    """A job of a hundred thousand lists in each other."""
    (folder / "odd.yaml").write_text("a: " + "[" * 100_000 + "]" * 100_000)


def long_job(folder: Path) -> None:
    """A job of 30 MB."""
    (folder / "odd.yaml").write_text("a: [" + "1, " * 10_000_000 + "1]")


def long_number(folder: Path) -> None:
    """A number of ten million digits in a job."""
    text = yaml.safe_dump({**JOB, "seed": 0}, sort_keys=False)
    (folder / "odd.yaml").write_text(text.replace("seed: 0", "seed: " + "9" * 10_000_000))


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _regular(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    return member


def large_archive(folder: Path) -> str:
    """An archive of a model whose only file unpacks to a gigabyte; the manifest lists -1 bytes."""
    entry = {"bytes": -1, "sha256": "0" * 64}
    manifest = {"format": 1, "name": "a", "version": "1", "files": {"MLmodel": entry}}
    with zipfile.ZipFile(folder / "odd.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_regular("manifest.json"), json.dumps(manifest))
        with archive.open(_regular("MLmodel"), "w", force_zip64=True) as stream:
            for block in blocks(LARGE, bytes(BLOCK)):
                stream.write(block)
    return "odd.zip"


def large_manifest(folder: Path) -> str:
    """An archive whose manifest unpacks to a gigabyte."""
    with (
        zipfile.ZipFile(folder / "odd.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(_regular("manifest.json"), "w", force_zip64=True) as stream,
    ):
        stream.write(b'{"format": 1, "files": {')
        for block in blocks(LARGE, b" " * BLOCK):
            stream.write(block)
    return "odd.zip"


PREDICT = ("predict", "{name}", "--direct", "--input", "people.csv", "--output", "out")
BOMBS: dict[Callable[[Path], str | None], tuple[str, ...]] = {
    long_line: INIT,
    long_quote: INIT,
    wide_csv: INIT,
    sheet_of_blanks: INIT,
    sheet_of_cells: INIT,
    far_cell: INIT,
    laughing_sheet: INIT,
    long_string: INIT,
    repeated_cells: INIT,
    repeated_rows: INIT,
    repeated_text: INIT,
    compressed_text: INIT,
    repeated_bytes: INIT,
    long_lists: INIT,
    repeated_arrow_text: INIT,
    unpacked_arrow: INIT,
    large_claim: INIT,
    growing_job: RUN,
    growing_contract: RUN,
    deep_job: RUN,
    long_job: RUN,
    long_number: RUN,
    large_archive: PREDICT,
    large_manifest: PREDICT,
}


def run(bomb: Callable[[Path], str | None], folder: Path) -> dict[str, Any]:
    """Make a bomb and run its command within the limits; how it ended, and the memory used."""
    (folder / "people.csv").write_bytes(plain_csv())
    (folder / "people.contract.yaml").write_text(yaml.safe_dump(CONTRACT))
    name = bomb(folder)
    made = [path for path in folder.iterdir() if path.name.startswith("odd")]
    size = sum(path.stat().st_size for path in made)
    command = [part.format(name=name) for part in BOMBS[bomb]]
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({LIMIT_BYTES},) * 2);"
        f"resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT_S},) * 2);"
        "from evenhand.flows.cli import main; main()"
    )
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MLFLOW_")}
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command],
        cwd=folder,
        env={**kept, "EVENHAND_STORE": "store", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # processor time is limited: on a machine with other work a command takes longer
        _, err = process.communicate(timeout=10 * LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = err.strip().splitlines()
    return {
        "code": process.returncode,
        "file_kb": size // 1000,
        "peak_memory_mb": used.ru_maxrss // 1000,
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "seconds": round(time.monotonic() - started, 1),
        "lines": lines[-3:],
        "left": sorted(path.name for path in (folder / "out").glob("*")),
    }


def bomb_named(name: str) -> Callable[[Path], str | None]:
    """The bomb of this name."""
    (bomb,) = [bomb for bomb in BOMBS if bomb.__name__ == name]
    return bomb


def tried(name: str) -> dict[str, Any]:
    """Try a bomb in a process of its own, whose children are counted alone."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos.bombs", name, folder],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(bomb_named(sys.argv[1]), Path(sys.argv[2]))) + "\n")
