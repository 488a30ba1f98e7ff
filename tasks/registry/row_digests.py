"""Salted digests of rows: whether two tables hold the same rows, and how many of one are in
another.

The rows that a model was trained on are published as a table of bits, of which each row sets one,
and about half are set. A training row is always found in it, any other row with probability one
half: the share of a table's rows that were trained on can be estimated, and a person's membership
can be denied.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.model import Contract


def row_digests(table: pa.Table, salt: str, columns: Sequence[str] | None = None) -> list[bytes]:
    """A digest of 16 bytes of each row; the order of the columns does not count."""
    names = sorted(table.column_names if columns is None else columns)
    texts = []
    for name in names:
        values = table[name].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        texts.append(pc.fill_null(values.cast(pa.string()), "\x00"))
    joined = pc.binary_join_element_wise(*texts, "\x1f").cast(pa.binary())
    key = hashlib.sha256("\x1f".join([salt, *names]).encode()).digest()
    return [hashlib.blake2b(text, digest_size=16, key=key).digest() for text in joined.to_pylist()]


def digest_of_rows(table: pa.Table, salt: str) -> str:
    """sha256 of a table's rows in any order."""
    return hashlib.sha256(b"".join(sorted(row_digests(table, salt)))).hexdigest()


def described_columns(contract: Contract) -> list[str]:
    """Columns by which two rows count as the same: inputs, sensitive columns and the label,
    no ids.
    """
    described = (*contract.features, *contract.sensitive, contract.label)
    return list(dict.fromkeys(column.name for column in described))


def membership(parts: Iterable[NDArray[np.uint8]], rows: int, contract: Contract) -> dict[str, Any]:
    """The bits of a table's rows, from the :func:`bits_of` its parts, for a model that is trained
    on them.
    """
    salt, size = _salt_and_size(rows, contract)
    bits = functools.reduce(np.bitwise_or, parts)
    return {"salt": salt, "size": size, "bits": base64.b64encode(bits.tobytes()).decode()}


def bits_of(table: pa.Table, rows: int, contract: Contract) -> NDArray[np.uint8]:
    """Packed bits of one part of a table of so many rows."""
    salt, size = _salt_and_size(rows, contract)
    bits = np.zeros(size, dtype=bool)
    bits[_places(table, contract, salt, size)] = True
    return np.packbits(bits)


def _salt_and_size(rows: int, contract: Contract) -> tuple[str, int]:
    salt = hashlib.sha256("".join(sorted(described_columns(contract))).encode()).hexdigest()[:16]
    return salt, max(8, math.ceil(rows / math.log(2)))


def overlap(table: pa.Table, contract: Contract, known: Mapping[str, Any]) -> float | None:
    """Estimate the share of a table's rows that a model was trained on; None without rows.

    A row that occurs several times counts each time: repeating training rows does not make them
    new.
    """
    places = _places(table, contract, known["salt"], known["size"])
    if not len(places):
        return None
    bits = np.unpackbits(np.frombuffer(base64.b64decode(known["bits"]), np.uint8))[: known["size"]]
    by_chance = bits.mean()
    return (
        float(max(0.0, (bits[places].mean() - by_chance) / (1 - by_chance)))
        if by_chance < 1
        else 1.0
    )


def _places(table: pa.Table, contract: Contract, salt: str, size: int) -> NDArray[np.int64]:
    """Bit of each row."""
    digests = row_digests(table, salt, described_columns(contract))
    numbers = np.frombuffer(b"".join(digests), dtype=">u8")[::2]
    return (numbers % np.uint64(size)).astype(np.int64)
