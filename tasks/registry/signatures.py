"""Ed25519 signatures of versions: keys in PEM files, and what a signature holds for.

A signature is of a model's name and of the digests of a version's files, as its record has them. So
it holds for these bytes, and for no other model. Nobody without the private key can make one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    from evenhand.tasks.registry.ledger import Chain, Record

SHOWN = 12  # characters of a key in messages


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key; an `InputError` if the file is missing or holds none without a
    password.
    """
    return read_key_file(path, "--key")


def read_key_file(path: Path, option: str) -> Ed25519PrivateKey:
    """Read a private key that `option` names in errors, as `read_private_key` does."""
    load = functools.partial(serialization.load_pem_private_key, password=None)
    return cast(
        Ed25519PrivateKey, _read(f"{option} {path}", path, load, Ed25519PrivateKey, "private key")
    )


def read_public_keys(paths: Sequence[Path], option: str = "--signed-by") -> list[str]:
    """Read public keys, as hexadecimal digits, each once; an `InputError` for a file that is
    missing or holds none.
    """
    load = serialization.load_pem_public_key
    key_type = Ed25519PublicKey
    public_keys = [_read(f"{option} {path}", path, load, key_type, "public key") for path in paths]
    return list(dict.fromkeys(key.public_bytes_raw().hex() for key in public_keys))


def _read(option: str, path: Path, load: Callable[[bytes], Any], wanted: type, what: str) -> Any:
    loaded = None
    try:
        loaded = load(path.read_bytes())
    except OSError as error:
        raise InputError(f"{option} cannot be read ({error.strerror}).") from None
    except (ValueError, TypeError):  # no PEM, a password
        pass
    if not isinstance(loaded, wanted):
        raise InputError(f"{option} holds no {what} of Ed25519 without a password.")
    return loaded


def signature(key: Ed25519PrivateKey, name: str, files: str) -> dict[str, str]:
    """Sign the digests of a version's files; the public key and the signature as hexadecimal
    digits.
    """
    public = key.public_key().public_bytes_raw().hex()
    return {"key": public, "signature": key.sign(_message(name, files)).hex()}


def unsigned(chain: Chain, version: str, keys: Sequence[str]) -> str | None:
    """Describe the first key that has not signed a version's files; None if all have."""
    made = chain.of("signature", version)
    signed = {record.content["key"] for record in made if _holds(chain, record)}
    missing_key = next((key for key in keys if key not in signed), None)
    signed_other_files = any(record.content.get("key") == missing_key for record in made)
    what = "other files than its" if signed_other_files else "nothing of it"
    return missing_key and f"the key {missing_key[:SHOWN]} has signed {what}"


def false_signatures(chain: Chain) -> list[str]:
    """Describe each recorded signature that does not hold."""
    false = [record for record in chain.of("signature") if not _holds(chain, record)]
    versions = [(record.number, record.content["version"]) for record in false]
    return [
        f"record {number} is no signature of version {version}'s files"
        for number, version in versions
    ]


def _holds(chain: Chain, record: Record) -> bool:
    try:
        files = chain.of("version", record.content["version"])[0].content["files"]
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(record.content["key"]))
        key.verify(bytes.fromhex(record.content["signature"]), _message(chain.name, files))
    except (InvalidSignature, LookupError, TypeError, ValueError):
        return False
    return True


def _message(name: str, files: str) -> bytes:
    return f"evenhand version\n{name}\n{files}".encode()
