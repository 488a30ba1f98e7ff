"""Digests of rows: whether two tables hold the same rows, and keyed ones of a model's training
rows.

A published model has a record of its training rows, from which the owner of the registry estimates
how many rows of another table it was trained on (:mod:`evenhand.tasks.registry.row_overlap`). Each
row is recorded by several views, of all columns or of all but some, so that a row with a changed
value is recognised too. The digests are keyed, and the key stays with the owner: without it they
are numbers without a relation to any person, in one version as in a hundred.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.model import Contract
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

Digests = NDArray[np.uint64]

RECORD = "training_rows.json"  # of a bundle
KEY_VARIABLE = "EVENHAND_OVERLAP_KEY"
KEY_FILE = "overlap.key"  # of a store
KEY_BYTES = 32
# Names of the measures of overlap with such records, as evaluations have them: that of today, and
# that of records without a key, which older versions published.
KEYED = "keyed-digests"
BITS = "bits"
# A changed value is in one of these blocks of columns: the view without the block is unchanged.
BLOCKS = 4
EXACT = "all"
IDENTIFIED = "with ids"
ROUNDED = "rounded"
DISCRETE = "discrete"
# Of a larger table a sample is recorded: the rows with the smallest digests.
RECORDED_ROWS = 100_000
# A row that is not recorded has the digest of a recorded one with probability below 1 / 256.
SPARE_BITS = 8
# The length of a sealed record is a multiple of it.
PADDED_BYTES = 1024
SIGNIFICANT_DIGITS = 2
# Between the values of a row, for no value, and before the code of one of the three in a value.
SEPARATOR = "\x1f"
NOTHING = "\x00"
ESCAPE = "\x1e"
EVERY_DIGEST = 1 << 64


def row_digests(table: pa.Table, salt: str, columns: Sequence[str] | None = None) -> list[bytes]:
    """A digest of 16 bytes of each row; the order of the columns does not count."""
    names = sorted(table.column_names if columns is None else columns)
    texts = []
    for name in names:
        values = table[name].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        texts.append(pc.fill_null(_without_separators(values.cast(pa.string())), NOTHING))
    joined = pc.binary_join_element_wise(*texts, SEPARATOR).cast(pa.binary())
    key = hashlib.sha256("\x1f".join([salt, *names]).encode()).digest()
    return [hashlib.blake2b(text, digest_size=16, key=key).digest() for text in joined.to_pylist()]


def _without_separators(texts: pa.Array) -> pa.Array:
    """Write the characters that stand between values, and for none, in other ones: else a text
    could move from one column to the next, or be in place of none, with the same digest.
    """
    for code, character in enumerate((ESCAPE, SEPARATOR, NOTHING)):
        texts = pc.replace_substring(texts, character, f"{ESCAPE}{code}")
    return texts


def digest_of_rows(table: pa.Table, salt: str) -> str:
    """sha256 of a table's rows in any order."""
    return hashlib.sha256(b"".join(sorted(row_digests(table, salt)))).hexdigest()


def described_columns(contract: Contract) -> list[str]:
    """Columns by which two rows count as the same: inputs, sensitive columns and the label,
    no ids.
    """
    described = (*contract.features, *contract.sensitive, contract.label)
    return list(dict.fromkeys(column.name for column in described))


def recorded_columns(contract: Contract) -> list[str]:
    """Columns by which training rows are recorded: those that describe a row, and all others."""
    all_names = [column.name for column in contract.columns]
    return list(dict.fromkeys([*described_columns(contract), *all_names]))


def row_views(table: pa.Table, rows: int, contract: Contract) -> dict[str, Digests]:
    """Public digests of a part of a table of so many `rows`, by view.

    The views are ``all`` columns that describe a row; ``with ids``, the other columns too;
    ``without 0`` and so on, all but a block of columns; ``rounded``, numbers to two significant
    digits; and ``discrete``, without numbers. A view that would be equal to another is left out.
    Of a large table each view has its smallest digests only.
    """
    names = sorted(described_columns(contract))
    number_names = [name for name in names if _is_number(table[name].type)]
    hashed = {name: _column_digests(table[name], name) for name in names}
    total = np.zeros(table.num_rows, np.uint64)
    for digests in hashed.values():
        total += digests
    views = {EXACT: total}
    other_names = [name for name in recorded_columns(contract) if name not in hashed]
    if other_names and set(other_names) <= set(table.column_names):
        views[IDENTIFIED] = total.copy()
        for name in other_names:
            views[IDENTIFIED] += _column_digests(table[name], name)
    views |= _without_blocks(total, hashed)
    views |= _without_digits(total, hashed, table, number_names)
    limit = _limit(rows)
    smallest = {}
    for view, digests in views.items():
        mixed = _mixed(digests ^ _salt(f"view {view}"))
        smallest[view] = mixed[mixed <= limit]
    return smallest


def _without_blocks(total: Digests, hashed: Mapping[str, Digests]) -> dict[str, Digests]:
    """The views without one block of columns each."""
    names = sorted(hashed)
    views = {}
    for block in range(min(BLOCKS, len(names))):
        left_out = names[block::BLOCKS]
        if len(left_out) == len(names):
            continue
        remaining = total.copy()
        for name in left_out:
            remaining -= hashed[name]
        views[f"without {block}"] = remaining
    return views


def _without_digits(
    total: Digests, hashed: Mapping[str, Digests], table: pa.Table, number_names: Sequence[str]
) -> dict[str, Digests]:
    """The views with rounded numbers, and without numbers."""
    if not number_names:
        return {}
    rounded = total.copy()
    discrete = total.copy()
    for name in number_names:
        values = _rounded(_numbers(table[name]))
        rounded += _mixed(values.view(np.uint64) ^ _salt(name)) - hashed[name]
        discrete -= hashed[name]
    views = {ROUNDED: rounded}
    if len(number_names) < len(hashed) - 1:
        views[DISCRETE] = discrete
    return views


def table_of_views(views: Mapping[str, Digests]) -> pa.Table:
    """Digests as a table with the columns ``view`` and ``digest``; views may differ in length."""
    names: list[str] = []
    for view, digests in views.items():
        names += [view] * len(digests)
    digest = np.concatenate([np.empty(0, dtype=np.uint64), *views.values()])
    return pa.table({"view": pa.array(names, pa.string()).dictionary_encode(), "digest": digest})


def views_of_table(table: pa.Table) -> dict[str, Digests]:
    """The digests of :func:`table_of_views`, by view."""
    view = np.asarray(table["view"].cast(pa.string()).to_pylist(), dtype=object)
    digest = table["digest"].to_numpy()
    return {name: digest[view == name] for name in dict.fromkeys(view.tolist())}


def join_views(parts: Iterable[Mapping[str, Digests]]) -> dict[str, Digests]:
    """The digests of a table by view, from those of its parts, sorted."""
    joined: dict[str, list[Digests]] = {}
    for part in parts:
        for view, digests in part.items():
            joined.setdefault(view, []).append(digests)
    return {view: np.sort(np.concatenate(digests)) for view, digests in joined.items()}


def record_of(views: Mapping[str, Digests], rows: int, key: bytes) -> dict[str, Any]:
    """The record that is published of a table of so many training rows.

    It is sealed with the key: a person who gets copies of somebody's row into the table would else
    see in the next version whether there was one before. The same rows give the same record.
    """
    bits = min(63, max(1, rows - 1).bit_length() + SPARE_BITS)
    recorded = {}
    for view, digests in views.items():
        recorded[view] = _packed(keyed(digests, view, key, bits))
    text = json.dumps({"bits": bits, "views": recorded}, sort_keys=True).encode()
    # equal rows make it a little shorter
    padded = text.ljust(-(-len(text) // PADDED_BYTES) * PADDED_BYTES)
    head = {"format": 3, "key_name": key_name(key), "rows": rows}
    sealed = _sealing(key).encrypt(padded, [_covered(head)])
    return {**head, "sealed": base64.b64encode(sealed).decode()}


def opened_views(record: Mapping[str, Any], key: bytes) -> tuple[dict[str, str], int]:
    """The texts of a record's views, for :func:`recorded_digests`, and the bits of a digest.

    Raises `InputError` for a record that is not what this key has sealed.
    """
    if "views" in record:  # of an older version, whose records are not sealed
        return dict(record["views"]), int(record["bits"])
    from cryptography.exceptions import InvalidTag

    try:
        sealed = base64.b64decode(record["sealed"])
        content = json.loads(_sealing(key).decrypt(sealed, [_covered(record)]))
    except (InvalidTag, KeyError, TypeError, ValueError):
        raise InputError(
            f"the record {RECORD} of the model was changed: publish the model again."
        ) from None
    return content["views"], content["bits"]


def _sealing(key: bytes) -> AESSIV:
    """AES-SIV (RFC 5297) with a key of its own: it needs no random number."""
    # imported lazily: a cached run needs no cryptography
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(hashlib.blake2b(key, digest_size=64, person=b"seal of records").digest())


def _covered(head: Mapping[str, Any]) -> bytes:
    """The open parts of a record, which cannot be changed either."""
    return json.dumps([head["format"], head["key_name"], head["rows"]]).encode()


def keyed(digests: Digests, view: str, key: bytes, bits: int) -> Digests:
    """Keyed digests of so many bits, sorted: a pseudo-random function of the public ones."""
    hasher = hashlib.blake2b(digest_size=8, key=key, person=view.encode()[:16])
    outputs = []
    for digest in digests.tolist():
        keyed_digest = hasher.copy()
        keyed_digest.update(digest.to_bytes(8, "big"))
        outputs.append(keyed_digest.digest())
    numbers = np.frombuffer(b"".join(outputs), dtype=">u8").astype(np.uint64)
    return np.sort(numbers >> np.uint64(64 - bits))


def recorded_digests(packed: str) -> Digests:
    """The sorted keyed digests of a view, from its text in the record."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)
    steps = np.ascontiguousarray(planes.reshape(8, -1).T).view("<u8").ravel()
    return np.cumsum(steps, dtype=np.uint64)


def key_name(key: bytes) -> str:
    """A name of a key, by which a record says which one it needs; it discloses nothing of it."""
    return hashlib.blake2b(key, digest_size=8, person=b"name of a key").hexdigest()


def key_file(store: Store) -> Path:
    """The file of the key of this store, which is created if there is none.

    ``EVENHAND_OVERLAP_KEY`` names another file, for registries that several stores publish to.
    Raises `InputError` if that file holds no key.
    """
    place = os.environ.get(KEY_VARIABLE)
    if place:
        path = Path(place).expanduser()
        read_key(path)
        return path
    path = store.local / KEY_FILE
    if store.is_local:
        if not path.is_file():
            _create_key(path, secrets.token_hex(KEY_BYTES))
        return path
    with store.lock("overlap-key"):
        text = store.read_text(KEY_FILE)
        if text is None:
            text = secrets.token_hex(KEY_BYTES)
            store.write_text(text, KEY_FILE)
        path.unlink(missing_ok=True)
        _create_key(path, text)
    return path


def read_key(path: Path) -> bytes:
    """Read a key of 64 hexadecimal digits; `InputError` if the file holds none."""
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise InputError(
            f"{path} holds no key of {2 * KEY_BYTES} hexadecimal digits: copy {KEY_FILE} of the "
            f"store that publishes, or make one by `openssl rand -hex {KEY_BYTES}`, and name it in "
            f"{KEY_VARIABLE}."
        )
    return key


def _create_key(path: Path, text: str) -> None:
    """Write a key for its owner only; of two processes the first one's is kept."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{text.strip()}\n")
    with suppress(FileExistsError):
        os.link(part, path)
    part.unlink()


def _limit(rows: int) -> np.uint64:
    """The largest public digest that is recorded of a table of so many rows."""
    if rows <= RECORDED_ROWS:
        return np.uint64(EVERY_DIGEST - 1)
    return np.uint64(EVERY_DIGEST * RECORDED_ROWS // rows)


def _packed(digests: Digests) -> str:
    """Text of sorted digests: their differences, byte by byte, compressed."""
    steps = np.diff(digests, prepend=np.uint64(0)).astype("<u8")
    planes = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 8).T)
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _numbers(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Numbers, NaN where one is missing; a zero has no sign."""
    numbers = pc.fill_null(values.cast(pa.float64()), math.nan).combine_chunks()
    array = np.array(numbers.to_numpy(zero_copy_only=False), np.float64)
    array[np.isnan(array)] = np.nan
    return array + 0.0


def _rounded(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers to two significant digits."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        size = np.floor(np.log10(np.abs(numbers)))
        unit = np.power(10.0, size - (SIGNIFICANT_DIGITS - 1))
        rounded = np.where(np.isfinite(size), np.round(numbers / unit) * unit, numbers)
    return np.asarray(rounded + 0.0, np.float64)


def _column_digests(values: pa.ChunkedArray, name: str) -> Digests:
    """Digest of each value of a column."""
    if _is_number(values.type):
        return _mixed(_numbers(values).view(np.uint64) ^ _salt(name))
    encoded = values.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.cast(pa.string()).dictionary_encode()
    places = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    digests = [_text_digest(str(value), name) for value in encoded.dictionary.to_pylist()]
    digests.append(_text_digest("\0", name))
    return np.array(digests, np.uint64)[places]


def _text_digest(text: str, name: str) -> int:
    key = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=key).digest(), "big")


def _salt(name: str) -> np.uint64:
    return np.uint64(_text_digest("salt", name))


def _mixed(numbers: Digests) -> Digests:
    """Spread numbers evenly over 64 bits (the finaliser of SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
