"""Who uses the app: passwords, roles, and files of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.flows.app.people import RIGHTS, Person, hashed, is_password, read_users
from evenhand.tasks.errors import InputError

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def stored() -> str:
    return hashed(PASSWORD)


def written(folder: Path, text: str) -> Path:
    path = folder / "users.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_hash_has_one_password_and_a_salt(stored: str) -> None:
    assert is_password(PASSWORD, stored)
    assert not is_password(f"{PASSWORD} ", stored)
    assert not is_password("", stored)
    assert hashed(PASSWORD) != stored
    assert PASSWORD not in stored


@pytest.mark.parametrize("text", ["", "scrypt$1", "scrypt$x$8$1$00$00", "a$b$c$d$e$f"])
def test_no_password_has_a_damaged_hash(text: str) -> None:
    assert not is_password(PASSWORD, text)


def test_short_passwords_are_refused() -> None:
    with pytest.raises(InputError, match="has 11 characters"):
        hashed("elevenchars")


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        ("viewer", {"read"}),
        ("case worker", {"read", "person", "cases"}),
        ("approver", {"read", "person", "decide", "run"}),
        ("owner", {"read", "person", "cases", "decide", "run"}),
    ],
)
def test_each_role_has_its_rights(role: str, rights: set[str]) -> None:
    person = Person("ana", role)
    assert {right for right in RIGHTS["owner"] if person.may(right)} == rights


def test_a_file_of_users_is_read(tmp_path: Path, stored: str) -> None:
    text = f"users:\n  - {{name: ana, role: approver, password: '{stored}'}}\n"
    people = read_users(written(tmp_path, text))
    assert people == {"ana": Person("ana", "approver", stored)}


ANA = "- {name: ana, role: viewer, password: 'a$b$c$d$e$f'}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("people: []", "expected a list under the key users"),
        ("users: []", "expected a list under the key users"),
        ("users:\n- ana", "user 1: expected name, role and password"),
        (f"users:\n{ANA}\n{ANA}", "user 2: 'ana' is there twice"),
        ("users:\n- {name: ana, role: root, password: x}", "the role must be one of viewer"),
        ("users:\n- {name: ana, role: viewer, password: secret}", "the password must be a hash"),
        ("users:\n- {name: '', role: viewer, password: 'a$b$c$d$e$f'}", "the name must be a text"),
        ("users:\n- {name: a, role: viewer, passwort: x}", "the key 'passwort' is unknown"),
    ],
)
def test_a_fault_of_a_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_users(written(tmp_path, text))


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, f"users:\n{ANA}")
    path.chmod(0o666)
    with pytest.raises(InputError, match="others may write it"):
        read_users(path)
    with pytest.raises(InputError, match="there is no such file"):
        read_users(tmp_path / "none.yaml")
