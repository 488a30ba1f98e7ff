"""Damaged and hostile inputs, made by chance from a seed: tables of each format, jobs, contracts, gates, and
models as folders and archives.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import yaml

from tests.flows.people import CONTRACT, JOB, make_people
from tests.workbooks import write_workbook

# A command, the files that it is given by their names, and perhaps a folder: its source, and the
# content of one of its files.
Case = dict[str, Any]
HOSTILE = (
    "",
    " ",
    "\0",
    "\x1b[2J",
    "\u202e",
    "\ufeff",
    "\udc80",
    "é",
    "=1+1",
    "-0",
    "1e39",
    "1e400",
    "-1e308",
    "nan",
    "inf",
    "9" * 400,
    "1_000",
    "0x1f",
    "1.234,56",
    "2024-02-30",
    "0000-00-00",
    "99999-01-01",
    "true",
    "null",
    "<script>",
    "a" * 70_000,
    '"',
    "'",
    ",",
    "\n",
    "\r",
    "{}",
    "[]",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    *HOSTILE,
)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Change some bytes, cut, repeat or insert."""
    data = bytearray(content)
    for _ in range(chance.randrange(1, 5)):
        place = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(5)
        if kind == 0 and data:
            data[place] = chance.randrange(256)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            del data[place : place + chance.randrange(200)]
        elif kind == 3:
            data[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(40)))
        else:
            data[place:place] = data[place : place + chance.randrange(400)]
    return bytes(data)


def odd_table(chance: random.Random, table: pa.Table | None = None) -> pa.Table:
    """A table of people in which some cells, names, types or columns are odd."""
    if table is None:
        table = make_people(120)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(table.num_columns)
        name = table.column_names[place]
        kind = chance.randrange(6)
        if kind == 0:
            if table.num_columns > 2:
                table = table.remove_column(place)
        elif kind == 1:
            names = list(table.column_names)
            names[place] = chance.choice(HOSTILE).encode(errors="ignore").decode() or "x"
            table = table.rename_columns(names)
        elif kind == 2:
            table = table.append_column(name, table.column(place))
        elif kind == 3:
            texts = ["" if cell is None else str(cell) for cell in table.column(place).to_pylist()]
            for _ in range(chance.randrange(1, 30) if texts else 0):
                cell = chance.choice(HOSTILE).encode(errors="ignore").decode()
                texts[chance.randrange(len(texts))] = cell
            table = table.set_column(place, name, pa.array(texts))
        elif kind == 4:
            odd = chance.choice(ODD_COLUMNS)
            table = table.set_column(place, name, odd(table.num_rows))
        else:
            table = table.slice(0, chance.randrange(4))
    return table


ODD_COLUMNS: tuple[Callable[[int], pa.Array], ...] = (
    lambda rows: pa.nulls(rows),
    lambda rows: pa.nulls(rows, pa.float16()),
    lambda rows: pa.array([1e39] * rows),
    lambda rows: pa.array([2**64 - 1] * rows, pa.uint64()),
    lambda rows: pa.array([[1, None]] * rows),
    lambda rows: pa.array([{"a": 1, "b": "x"}] * rows),
    lambda rows: pa.array([b"\xff\x00"] * rows),
    lambda rows: pa.array([b"abcd"] * rows, pa.binary(4)),
    lambda rows: pa.array(["a", None] * rows, pa.string())[:rows].dictionary_encode(),
    lambda rows: pa.array([-(2**62)] * rows, pa.timestamp("us", tz="UTC")),
    lambda rows: pa.array([2**62] * rows, pa.timestamp("ns")),
    lambda rows: pa.array([2**31 - 1] * rows, pa.date32()),
    lambda rows: pa.array([1] * rows, pa.time64("us")),
    lambda rows: pa.array([10**9] * rows, pa.duration("s")),
    lambda rows: pa.array([1] * rows).cast(pa.decimal256(70, 5)),
    lambda rows: pa.array(["x" * 5000] * rows, pa.large_string()),
    lambda rows: pa.array([True, None] * rows)[:rows],
    lambda rows: pa.array(range(rows)).cast(pa.float32()),
)


def _without_what_the_format_lacks(table: pa.Table) -> pa.Table:
    for place, field in reversed(list(enumerate(table.schema))):
        kinds = (
            pa.types.is_nested,
            pa.types.is_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_dictionary,
        )
        if any(is_kind(field.type) for is_kind in kinds):
            table = table.remove_column(place)
        elif not pa.types.is_string(field.type):
            texts = [None if cell is None else str(cell) for cell in _cells(table.column(place))]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _cells(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # a date that Python does not have
        return [None] * len(column)


def as_csv(table: pa.Table, chance: random.Random) -> bytes:
    """The table as CSV, with some delimiter and encoding."""
    plain = _without_what_the_format_lacks(table)
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(delimiter=chance.choice(",;\t|"))
    pyarrow.csv.write_csv(plain, out, options)
    text = out.getvalue().decode()
    return text.encode(chance.choice(("utf-8", "utf-8-sig", "latin-1", "utf-16")), "replace")


def as_parquet(table: pa.Table, chance: random.Random) -> bytes:
    """The table as Parquet."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression=chance.choice(("snappy", "zstd", "none")))
    return out.getvalue()


def as_arrow(table: pa.Table, chance: random.Random) -> bytes:
    """The table as an Arrow file, or a stream."""
    out = io.BytesIO()
    make = chance.choice((pa.ipc.new_file, pa.ipc.new_stream))
    with make(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def as_feather(table: pa.Table, chance: random.Random) -> bytes:
    """The table as Feather."""
    out = io.BytesIO()
    pyarrow.feather.write_feather(table, out, chance.choice(("lz4", "zstd", "uncompressed")))
    return out.getvalue()


def as_json_lines(table: pa.Table, chance: random.Random) -> bytes:
    """The table as a JSON object a line, some of them odd."""
    plain = _without_what_the_format_lacks(table)
    lines = [json.dumps(row) for row in plain.to_pylist()]
    for _ in range(chance.randrange(3)):
        odd = chance.choice(
            ("{", "[1]", "null", "{}", '{"a": ' * 500, '{"age": 1e400}', "[" * 5000)
        )
        lines.insert(chance.randrange(len(lines) + 1), odd)
    return "\n".join(lines).encode()


def as_excel(table: pa.Table, chance: random.Random) -> bytes:
    """The table as a workbook; sometimes with entities that grow, or a part that unpacks to much."""
    plain = _without_what_the_format_lacks(table)
    rows = [plain.column_names, *[list(row.values()) for row in plain.slice(0, 40).to_pylist()]]
    texts = [[printable(cell) for cell in row] for row in rows]
    book: Any = io.BytesIO()
    write_workbook(book, {"people": texts})
    content = book.getvalue()
    if chance.randrange(4):
        return content
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as parts,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as changed,
    ):
        for part in parts.namelist():
            data = parts.read(part)
            if part.startswith("xl/worksheets/"):
                data = chance.choice(
                    (LAUGHS + data.split(b"?>", 1)[-1], data[:-60] + b" " * 30_000_000)
                )
            changed.writestr(part, data)
    return out.getvalue()


LAUGHS = (
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'ha'>"
    + b"".join(
        b"<!ENTITY %c '%s'>" % (letter + 1, b"&%c;" % letter * 10) for letter in range(97, 107)
    )
    + b"]>"
)


def printable(cell: Any) -> str:
    """A cell's text, without what XML cannot hold."""
    return "".join(letter for letter in str(cell)[:200] if letter.isprintable())


FORMATS = {
    "csv": as_csv,
    "parquet": as_parquet,
    "arrow": as_arrow,
    "feather": as_feather,
    "jsonl": as_json_lines,
    "xlsx": as_excel,
}


def table_case(number: int) -> Case:
    """A table that `init` reads, odd or damaged."""
    chance = random.Random(number)
    ending, write = list(FORMATS.items())[number % len(FORMATS)]
    table = make_people(120)
    if chance.randrange(3):
        table = odd_table(chance)
    content = _written(write, table, chance)
    if chance.randrange(2):
        content = damaged(content, chance)
    if ending == "jsonl" and chance.randrange(2):
        ending = "csv"  # no format that is read, under a name that is
    name = f"odd.{ending}"
    return {
        "command": ["init", name, "--label", "paid", "--sensitive", "sex", "--output", "out"],
        "files": {name: content},
    }


def _written(
    write: Callable[[pa.Table, random.Random], bytes], table: pa.Table, chance: random.Random
) -> bytes:
    """The table in a format; that of the plain people where the format has no such value."""
    try:
        return write(table, chance)
    except (pa.ArrowException, ValueError, TypeError):
        return write(make_people(120), chance)


def _odd_document(document: Any, chance: random.Random) -> Any:
    """Replace, add or remove something at some depth of a document."""
    place = document
    for _ in range(chance.randrange(5)):
        inner = [item for item in _children(place) if isinstance(item, dict | list) and item]
        if not inner:
            break
        place = chance.choice(inner)
    value = chance.choice(VALUES)
    if isinstance(place, dict) and place:
        key = chance.choice(list(place))
        action = chance.randrange(3)
        if action == 0:
            place[key] = value
        elif action == 1:
            del place[key]
        else:
            place[chance.choice(HOSTILE)] = value
    elif isinstance(place, list) and place:
        place[chance.randrange(len(place))] = value
    return document


def _children(place: Any) -> list[Any]:
    return list(place.values()) if isinstance(place, dict) else list(place)


GROWING = (
    "a: &a [x, x]\n"
    + "".join(
        f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *{'a' if n == 0 else f'b{n - 1}'}]\n"
        for n in range(30)
    ),
    "a: " + "[" * 3000 + "]" * 3000,
    "a: " + "{b: " * 800 + "1" + "}" * 800,
    "a: &a\n  b: *a\n",
    "? [a, b]\n: 1\n",
    "!!python/object/apply:os.system ['touch pwned']",
    "a: !!binary 'xx'",
    "a: 0o777777777777777777777777",
    "a: 1:2:3:4",
    "a: 2001-99-99",
    'a: "\\ud800"',
    "%YAML 9.9\n---\na: 1",
    "--- 1\n--- 2",
)


def document_case(number: int) -> Case:
    """A job or a contract with something odd in it, as text or as bytes."""
    chance = random.Random(number)
    contract = number % 2 == 1
    source = yaml.safe_load(yaml.safe_dump(CONTRACT if contract else JOB, sort_keys=False))
    for _ in range(chance.randrange(1, 4)):
        source = _odd_document(source, chance)
    text = yaml.safe_dump(source, sort_keys=False, allow_unicode=bool(chance.randrange(2)))
    if chance.randrange(8) == 0:
        text += "\n" + chance.choice(GROWING)
    elif chance.randrange(8) == 0:
        text = chance.choice(GROWING)
    content = text.encode(errors="surrogatepass")
    if chance.randrange(3) == 0:
        content = damaged(content, chance)
    if contract:
        command = ["run", "people.yaml", "--direct", "--set", "contract=odd.contract.yaml"]
        return {"command": command, "files": {"odd.contract.yaml": content}}
    return {"command": ["run", "odd.yaml", "--direct"], "files": {"odd.yaml": content}}


def predict_case(number: int) -> Case:
    """New rows for a published model, in a format that `predict` reads."""
    chance = random.Random(number)
    ending = ("csv", "parquet", "xlsx")[number % 3]
    table = make_people(40)
    if chance.randrange(4):
        table = odd_table(chance, table)
    content = _written(FORMATS[ending], table, chance)
    if not chance.randrange(3):
        content = damaged(content, chance)
    name = f"odd.{ending}"
    command = ["predict", f"models:/{JOB['name']}@champion", "--direct"]
    return {"command": [*command, "--input", name, "--output", "out"], "files": {name: content}}


GATES: dict[str, Any] = {
    "auc": {"min": 0.1},
    "demographic_parity_difference.sex": {"max": 0.9, "groups": ["F", "M"]},
    "accuracy": {"min": 0.1, "stat": "value"},
}


def gates_case(number: int) -> Case:
    """Gates for `policy set` or `evaluate`, with something odd in them."""
    chance = random.Random(number)
    gates = yaml.safe_load(yaml.safe_dump(GATES))
    for _ in range(chance.randrange(1, 4)):
        gates = _odd_document(gates, chance)
    text = yaml.safe_dump(gates, sort_keys=False, allow_unicode=bool(chance.randrange(2)))
    if chance.randrange(6) == 0:
        text = chance.choice(GROWING)
    content = text.encode(errors="surrogatepass")
    if chance.randrange(4) == 0:
        content = damaged(content, chance)
    name = JOB["name"]
    commands = (
        ["policy", "set", "odd-model", "--gates", "odd.yaml"],
        [
            "evaluate",
            name,
            "--data",
            "people.csv",
            "--gates",
            "odd.yaml",
            "--direct",
            "--no-record",
        ],
    )
    return {"command": commands[number % 2], "files": {"odd.yaml": content}}


def folder_case(number: int, model: Path) -> Case:
    """A copy of a model's folder with one damaged or added file."""
    chance = random.Random(number)
    files = sorted(path for path in model.rglob("*") if path.is_file())
    path = chance.choice(files)
    name = str(path.relative_to(model))
    content = damaged(path.read_bytes(), chance)
    if content == path.read_bytes():
        content += b"x"
    kind = chance.randrange(6)
    if kind == 0 and path.suffix == ".json":
        document = _odd_document(json.loads(path.read_text()), chance)
        content = _as_json(document)
    elif kind == 1:
        name = f"{name}{chance.choice(('.pth', 'x', '.py', '/x'))}"
        name = name.replace("/x", "-x")
    command = ["predict", "odd-model", "--direct", "--input", "people.csv", "--output", "out"]
    return {"command": command, "folder": ("odd-model", model, name, content)}


def _as_json(document: Any) -> bytes:
    try:
        return json.dumps(document).encode()
    except (TypeError, ValueError):
        return b"{}"


MEMBERS = (
    "../pwned",
    "/tmp/pwned",
    "artifacts/../../pwned",
    "code/x.pth",
    "MLmodel/x",
    "a" * 300,
    "code/" + "d/" * 300 + "x.py",
    "code\\x.py",
    "code/con.py",
    "\x1b[2J",
    "",
)
# what a manifest might say of a file's bytes
BYTES: tuple[Any, ...] = (
    -1,
    2**63,
    10**400,
    1e300,
    float("inf"),
    float("nan"),
    "1",
    None,
    [],
    True,
)


def archive_case(number: int, archive: bytes) -> Case:
    """An archive of a model in which bytes, a member or the manifest is odd."""
    chance = random.Random(number)
    kind = number % 4
    if kind == 0:
        content = damaged(archive, chance)
    else:
        content = _odd_archive(archive, chance, kind)
    command = ["predict", "odd.zip", "--direct", "--input", "people.csv", "--output", "out"]
    return {"command": command, "files": {"odd.zip": content}}


def _odd_archive(archive: bytes, chance: random.Random, kind: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    manifest = json.loads(parts["manifest.json"])
    modes: dict[str, int] = {}
    name = chance.choice(sorted(set(parts) - {"manifest.json"}))
    if kind == 1:
        added = chance.choice(MEMBERS) or "x" * 70_000
        parts[added] = b"import os"
        if chance.randrange(2):
            digest = hashlib.sha256(b"import os").hexdigest()
            manifest["files"][added] = {"bytes": 9, "sha256": digest}
    elif kind == 2:
        entry = manifest["files"][name]
        entry["bytes"] = chance.choice(BYTES)
        if chance.randrange(3) == 0:
            parts[name] = bytes(20_000_000)
        if chance.randrange(3) == 0:
            manifest = _odd_document(manifest, chance)
    else:
        modes[name] = chance.choice((stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFCHR))
        if chance.randrange(2):
            modes = {}
            parts[name] = damaged(parts[name], chance)
    parts["manifest.json"] = _as_json(manifest)
    return _zipped(parts, modes)


def _zipped(parts: dict[str, bytes], modes: dict[str, int]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            member = zipfile.ZipInfo(name[:60_000])
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (modes.get(name, stat.S_IFREG) | 0o644) << 16
            archive.writestr(member, data)
    return out.getvalue()
