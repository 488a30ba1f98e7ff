"""Who uses the app: one person of this machine, or the people of a file, each with a role."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.tasks.errors import InputError

# What each role may do: read about models and runs, decide about versions, run jobs, enter a
# person, and read and review the case files of people.
RIGHTS = {
    "viewer": ("read",),
    "case worker": ("read", "person", "cases"),
    "approver": ("read", "person", "decide", "run"),
    "owner": ("read", "person", "cases", "decide", "run"),
}
# Parameters of scrypt: 16 MiB and about a twentieth of a second for each attempt.
SCRYPT_N = 2**14
SCRYPT_R = 8
SCRYPT_P = 1
SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1024


@dataclass(frozen=True)
class Person:
    """Somebody who may sign in.

    `key` is the file of the private key that signs the person's records; None for the process's.
    """

    name: str
    role: str
    password: str = ""  # its hash; empty for who signs in by a token
    key: Path | None = None

    def may(self, right: str) -> bool:
        """Whether the person's role has one of the rights in `RIGHTS`."""
        return right in RIGHTS[self.role]


def hashed(password: str) -> str:
    """Return a password's salted hash, as a file of users has it.

    Raises `InputError` for a password that is too short or too long.
    """
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InputError(
            f"the password has {len(password)} characters: take one of {SHORTEST_PASSWORD} to "
            f"{LONGEST_PASSWORD:,}."
        )
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, SCRYPT_N, SCRYPT_R, SCRYPT_P)
    return f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${salt.hex()}${digest.hex()}"


def is_password(password: str, stored: str) -> bool:
    """Whether a password has a stored hash."""
    try:
        _, n, r, p, salt, expected = stored.split("$")
        digest = _scrypt(password[:LONGEST_PASSWORD], bytes.fromhex(salt), int(n), int(r), int(p))
    except ValueError:
        return False
    return hmac.compare_digest(digest.hex(), expected)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=2**26)


# The hash of no password: an unknown name takes as long as a known one.
NOBODY = f"scrypt${SCRYPT_N}${SCRYPT_R}${SCRYPT_P}${'00' * 16}${'00' * 64}"


def read_users(path: Path) -> dict[str, Person]:
    """Read a file of users: a YAML list under `users`, each with name, role, password and
    perhaps key.

    Raises `InputError`, which names the place, for a file that is none, that others may write, or
    that has an unknown role or key, a name twice, or a text that is no hash.
    """
    from evenhand.data_contracts.yaml_loader import load_strictly

    if not path.is_file():
        raise InputError(f"--users {path}: there is no such file.")
    if path.stat().st_mode & 0o022:
        raise InputError(f"--users {path}: others may write it: `chmod go-w {path}`.")
    content = load_strictly(path.read_text(encoding="utf-8"))
    entries = content.get("users") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InputError(f"--users {path}: expected a list under the key users.")
    people: dict[str, Person] = {}
    for number, entry in enumerate(entries, 1):
        person = _person(entry, path, f"--users {path}: user {number}")
        if person.name in people:
            raise InputError(f"--users {path}: user {number}: {person.name!r} is there twice.")
        people[person.name] = person
    return people


def _person(entry: Any, path: Path, place: str) -> Person:
    if not isinstance(entry, dict) or not all(isinstance(text, str) for text in entry.values()):
        raise InputError(f"{place}: expected name, role and password, each a text.")
    unknown = sorted(set(entry) - {"name", "role", "password", "key"})
    if unknown:
        raise InputError(f"{place}: the key {unknown[0]!r} is unknown.")
    if entry.get("role") not in RIGHTS:
        raise InputError(f"{place}: the role must be one of {', '.join(RIGHTS)}.")
    name = entry.get("name", "")
    if not name.strip() or not name.isprintable():
        raise InputError(f"{place}: the name must be a text without control characters.")
    if entry.get("password", "").count("$") != 5:
        raise InputError(
            f"{place}: the password must be a hash: `evenhand app --hash-password` prints one."
        )
    key = None
    if "key" in entry:
        from evenhand.tasks.registry.signatures import read_private_key

        key = path.parent / entry["key"]
        read_private_key(key)
    return Person(name, entry["role"], entry["password"], key)
