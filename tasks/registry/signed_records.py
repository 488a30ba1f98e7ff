"""Signatures of the records of a chain: whose key wrote a record.

A process signs the records that it writes with the private key that `EVENHAND_KEY` names. The
signature covers the record with the digest of the one before, and the model's name: it holds at one
place of one chain. A name such as `EVENHAND_ACTOR` proves nothing, a signature does.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    from evenhand.tasks.registry.ledger import Record

KEY_VARIABLE = "EVENHAND_KEY"
# The fields of a record that its signature covers.
COVERED = ("number", "when", "who", "kind", "content", "previous")


@contextlib.contextmanager
def signing_with(path: Path | None) -> Iterator[None]:
    """Sign the records written in this block with the private key of a file; None changes nothing.

    Raises `InputError` if the file holds no such key.
    """
    from evenhand.tasks.registry.signatures import read_private_key

    if path is None:
        check_key()
        yield
        return
    read_private_key(path)
    before = os.environ.get(KEY_VARIABLE)
    os.environ[KEY_VARIABLE] = str(path.resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ[KEY_VARIABLE]
        else:
            os.environ[KEY_VARIABLE] = before


def check_key() -> None:
    """Raise `InputError` if `EVENHAND_KEY` names a file without a usable key."""
    own_key()


def own_key() -> str:
    """Return this process's public key as hexadecimal digits; empty without one."""
    key = _private_key()
    if key is None:
        return ""
    return str(key.public_key().public_bytes_raw().hex())


def _private_key() -> Any:
    place = os.environ.get(KEY_VARIABLE)
    if not place:
        return None
    from evenhand.tasks.registry.signatures import read_key_file

    return read_key_file(Path(place), KEY_VARIABLE)


def with_signature(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Add the public key and the signature of this process to a record's fields."""
    key = _private_key()
    if key is None:
        raise InputError(f"{KEY_VARIABLE} names no private key.")
    return {
        **record,
        "record_key": key.public_key().public_bytes_raw().hex(),
        "record_signature": key.sign(_message(name, record)).hex(),
    }


def signer(name: str, record: Record) -> str:
    """Return the key that signed a record of a model's chain; empty if none did, or falsely.

    It is written as policies write it, however the record does: one key is never two people.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not record.record_key or not record.record_signature:
        return ""
    fields = {field: getattr(record, field) for field in COVERED}
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(record.record_key))
        key.verify(bytes.fromhex(record.record_signature), _message(name, fields))
    except (InvalidSignature, TypeError, ValueError):
        return ""
    return str(key.public_bytes_raw().hex())


def _message(name: str, record: Mapping[str, Any]) -> bytes:
    covered = {field: record[field] for field in COVERED}
    return f"evenhand record\n{name}\n{json.dumps(covered, sort_keys=True)}".encode()
