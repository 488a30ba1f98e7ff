"""Signatures of versions: what they hold for, and one line for every key that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from evenhand.tasks.errors import InputError
from evenhand.tasks.registry.ledger import Chain, Record
from evenhand.tasks.registry.policy import holds_back
from evenhand.tasks.registry.signatures import (
    false_signatures,
    read_private_key,
    read_public_keys,
    signature,
    unsigned,
)

FILES = '{"MLmodel": "00", "artifacts/bundle/digests.json": "11"}'
# RFC 8032, section 7.1, test 1: a private key and its public one
PRIVATE = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def record(number: int, kind: str, **content: Any) -> Record:
    return Record(number, "2026-11-23T00:00:00+00:00", "ada", kind, content, "", str(number))


def chain(*signed: dict[str, str], name: str = "people", files: str = FILES) -> Chain:
    """A chain with version 1, a later record of other files of version 1, and signatures."""
    records = [
        record(1, "version", version="1", files=files),
        record(2, "version", version="1", files="{}"),
    ]
    return Chain(
        name, records + [record(3 + k, "signature", version="1", **s) for k, s in enumerate(signed)]
    )


def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(PRIVATE))


def test_a_signature_is_of_name_and_digests() -> None:
    """The signed bytes are written out here: changing them makes all signatures of users
    invalid.
    """
    made = signature(key(), "people", FILES)
    assert made["key"] == PUBLIC
    message = b"evenhand version\npeople\n" + FILES.encode()
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC))
    public.verify(bytes.fromhex(made["signature"]), message)
    assert unsigned(chain(made), "1", [PUBLIC]) is None
    assert false_signatures(chain(made)) == []
    assert unsigned(chain(made), "2", [PUBLIC]) == f"the key {PUBLIC[:12]} has signed nothing of it"


def test_no_changed_byte_is_a_signature() -> None:
    made = signature(key(), "people", FILES)
    for number in range(64):
        changed = bytearray.fromhex(made["signature"])
        changed[number] ^= 1
        found = chain(made | {"signature": changed.hex()})
        assert unsigned(found, "1", [PUBLIC]) is not None
        assert false_signatures(found) == ["record 3 is no signature of version 1's files"]


def test_a_signature_of_other_bytes_or_another_model_is_none() -> None:
    made = signature(key(), "people", FILES)
    for found in (chain(made, name="loans"), chain(made, files=FILES.replace("11", "12"))):
        assert (
            unsigned(found, "1", [PUBLIC])
            == f"the key {PUBLIC[:12]} has signed other files than its"
        )
    assert unsigned(chain(), "1", [PUBLIC]) == f"the key {PUBLIC[:12]} has signed nothing of it"


def test_every_key_must_have_signed() -> None:
    other = Ed25519PrivateKey.generate()
    found = chain(signature(key(), "people", FILES))
    keys = [PUBLIC, other.public_key().public_bytes_raw().hex()]
    assert unsigned(found, "1", keys) == f"the key {keys[1][:12]} has signed nothing of it"
    both = chain(signature(key(), "people", FILES), signature(other, "people", FILES))
    assert unsigned(both, "1", keys) is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"key": "zz", "signature": "00"},
        {"key": PUBLIC, "signature": None},
        {"key": "00", "signature": ""},
    ],
)
def test_a_record_that_is_no_signature_is_one_fault(content: dict[str, Any]) -> None:
    found = chain(content)
    assert unsigned(found, "1", [PUBLIC]) is not None
    assert len(false_signatures(found)) == 1


def test_what_is_no_key_gets_one_line(tmp_path: Path) -> None:
    pem, path = serialization.Encoding.PEM, tmp_path / "key"
    private, public = (
        serialization.PrivateFormat.PKCS8,
        serialization.PublicFormat.SubjectPublicKeyInfo,
    )
    locked = key().private_bytes(pem, private, serialization.BestAvailableEncryption(b"x"))
    curve = ec.generate_private_key(ec.SECP256R1())
    other = curve.private_bytes(pem, private, serialization.NoEncryption())
    ours = key().private_bytes(pem, private, serialization.NoEncryption())
    theirs = key().public_key().public_bytes(pem, public)
    for text in (b"", b"\xff\x00", locked, other, theirs):
        path.write_bytes(text)
        with pytest.raises(InputError, match="--key .*key holds no private key of Ed25519"):
            read_private_key(path)
    for text in (b"", b"\xff\x00", ours, curve.public_key().public_bytes(pem, public)):
        path.write_bytes(text)
        with pytest.raises(InputError, match="--signed-by .*key holds no public key of Ed25519"):
            read_public_keys([path])
    with pytest.raises(InputError, match="--key .* cannot be read .No such file"):
        read_private_key(tmp_path / "absent")
    with pytest.raises(InputError, match="--signed-by .* cannot be read .No such file"):
        read_public_keys([tmp_path / "absent"])


def test_a_run_under_a_policy_with_keys_waits() -> None:
    rules = {"gates": {}, "required": [], "holdout": None, "min_age": 0, "approvals": 0}
    settings = {"level": 0.95, "draws": 1000, "min_cell": 5, "intersections": False, "seed": 0}
    kept = {"rows": 1.0, "least": 1.0, "group": None}
    evaluation = {
        "verdict": "passed",
        "gates": {},
        "settings": settings,
        "kept": kept,
        "evenhand": "0.2.0",
        "judged": {"label": {"name": "paid", "missing": []}, "sensitive": {}},
    }
    assert (
        holds_back(rules | {"signed_by": [PUBLIC]}, evaluation) == "the policy asks for signatures"
    )
    assert holds_back(rules | {"signed_by": []}, evaluation) is None
    assert holds_back(rules, evaluation) is None, "a policy of an older version names no keys"
