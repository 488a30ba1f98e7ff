"""Ed25519 signatures of versions: keys in PEM files, and what a signature holds for.

A signature is of a model's name and of the digests of a version's files, as its record has them. So it holds
for these bytes, and for no other model. Nobody without the private key can make one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.tasks.audit import Chain, Record
from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SHOWN = 12  # characters of a key in messages


def write_new_key(path: Path) -> str:
    """Write a new private key, readable by its owner only, and return the public one; both are PEM.

    Raises `InputError` if the file exists or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    text = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"--new-key {path} cannot be written ({error.strerror}).") from None
    return key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key; an `InputError` if the file is missing or holds none without a password."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = _read("--key", path)
    with contextlib.suppress(ValueError, TypeError):  # no PEM, a password
        found = load_pem_private_key(text, password=None)
        if isinstance(found, Ed25519PrivateKey):
            return found
    raise InputError(
        f"--key {path} holds no private key of Ed25519 without a password: `evenhand sign --new-key FILE` "
        "makes one."
    )


def read_public_keys(paths: Sequence[Path]) -> list[str]:
    """Read public keys, as hexadecimal digits; an `InputError` for a file that is missing or holds none."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found = []
    for path in paths:
        text, key = _read("--signed-by", path), None
        with contextlib.suppress(ValueError):
            key = load_pem_public_key(text)
        if not isinstance(key, Ed25519PublicKey):
            raise InputError(
                f"--signed-by {path} holds no public key of Ed25519: give what `evenhand sign --new-key` "
                "printed."
            )
        found.append(_hex(key))
    return found


def signature(key: Ed25519PrivateKey, name: str, files: str) -> dict[str, str]:
    """Sign the digests of a version's files; the public key and the signature as hexadecimal digits."""
    return {"key": _hex(key.public_key()), "signature": key.sign(_message(name, files)).hex()}


def signers(chain: Chain, version: str) -> set[str]:
    """Public keys whose signatures of a version hold."""
    return {record.content["key"] for record in chain.of("signature", version) if _holds(chain, record)}


def unsigned(chain: Chain, version: str, keys: Sequence[str]) -> str | None:
    """Describe the first key that has not signed a version's files; None if all have."""
    signed = signers(chain, version)
    key = next((key for key in keys if key not in signed), None)
    if key is None:
        return None
    other = any(record.content.get("key") == key for record in chain.of("signature", version))
    return f"the key {key[:SHOWN]} has signed {'other files than its' if other else 'nothing of it'}"


def false_signatures(chain: Chain) -> list[str]:
    """Describe each recorded signature that does not hold."""
    false = [record for record in chain.of("signature") if not _holds(chain, record)]
    versions = [(record.number, record.content.get("version")) for record in false]
    return [f"record {number} is no signature of version {version}'s files" for number, version in versions]


def _holds(chain: Chain, record: Record) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content: Mapping[str, Any] = record.content
    try:
        files = chain.of("version", content["version"])[0].content["files"]
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(content["key"]))
        key.verify(bytes.fromhex(content["signature"]), _message(chain.name, files))
    except (InvalidSignature, LookupError, TypeError, ValueError):
        return False
    return True


def _message(name: str, files: str) -> bytes:
    return f"evenhand version\n{name}\n{files}".encode()


def _hex(key: Ed25519PublicKey) -> str:
    return key.public_bytes_raw().hex()


def _read(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{option} {path} cannot be read ({error.strerror}).") from None
