"""A model as one archive: nothing but its regular files comes out of it, or nothing does."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.file_digests import BUNDLE, LIST, model_faults, sized_digests
from evenhand.tasks.errors import InputError
from evenhand.tasks.registry.model_archive import (
    MANIFEST,
    is_archive,
    unpack_archive,
    write_archive,
)

Members = dict[str, bytes]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small folder of the form of a model."""
    root = tmp_path / "model"
    texts = {
        f"{BUNDLE}/inputs.json": "{}",
        f"{BUNDLE}/model/trees.ubj": "x" * 100,
        "code/evenhand/a.py": "1",
        "model_code.py": "2",
    }
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / BUNDLE / LIST).write_text(json.dumps(sized_digests(root)))
    (root / "MLmodel").write_text("flavors: {}")
    return root


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Path:
    registered = sized_digests(model)
    listed = json.loads((model / BUNDLE / LIST).read_text())
    outer = {path: entry["sha256"] for path, entry in registered.items() if path not in listed}
    path = tmp_path / "model.zip"
    write_archive(model, path, "people", "3", json.dumps(outer))
    return path


def test_what_was_packed_is_unpacked(model: Path, archive: Path, tmp_path: Path) -> None:
    assert is_archive(archive)
    assert not is_archive(model)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    folder = unpack_archive(archive, tmp_path / "to", digest)
    assert sized_digests(folder) == sized_digests(model)
    assert model_faults(folder) == []
    manifest = json.loads(zipfile.ZipFile(archive).read(MANIFEST))
    assert (manifest["name"], manifest["version"]) == ("people", "3")
    assert manifest["files"] == sized_digests(model)


def test_the_same_model_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first = write_archive(model, tmp_path / "a" / "a.zip", "people", None, None)
    assert write_archive(model, tmp_path / "b" / "b.zip", "people", None, None) == first


def test_another_digest_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="SHA-256 of .* is not the one"):
        unpack_archive(archive, tmp_path / "to", "0" * 64)
    assert not (tmp_path / "to" / "unpacked").exists()


def test_a_folder_that_was_changed_is_not_packed(model: Path, tmp_path: Path) -> None:
    (model / "code" / "evenhand" / "a.py").write_text("3")
    with pytest.raises(InputError, match="a.py was changed"):
        write_archive(model, tmp_path / "x.zip", "people", None, None)
    with pytest.raises(InputError, match="no list of its files"):
        write_archive(model / "code", tmp_path / "y.zip", "people", None, None)


def rewritten(archive: Path, change: Callable[[Members], None], **entry: Any) -> Path:
    """The archive with other members, all of them with an entry's other attributes."""
    with zipfile.ZipFile(archive) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    change(members)
    target = archive.with_name("changed.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as output:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = entry.get(name, stat.S_IFREG | 0o644) << 16
            output.writestr(info, content)
    return target


def listing(members: Members, change: Callable[[Any], None]) -> None:
    manifest = json.loads(members[MANIFEST])
    change(manifest)
    members[MANIFEST] = json.dumps(manifest).encode()


def listed_file(members: Members, name: str, content: bytes) -> None:
    """A file that stands in the manifest."""
    members[name] = content
    entry = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    listing(members, lambda manifest: manifest["files"].update({name: entry}))


INPUTS = f"{BUNDLE}/inputs.json"
CHANGES: dict[str, tuple[Callable[[Members], Any], str]] = {
    "other bytes": (lambda m: m.update({INPUTS: b"[]"}), f"{INPUTS} was changed"),
    "longer": (lambda m: m.update({INPUTS: b"{}" + b" " * 9999}), f"{INPUTS} was changed"),
    "shorter": (lambda m: m.update({INPUTS: b""}), f"{INPUTS} was changed"),
    "missing": (lambda m: m.pop(INPUTS), f"{INPUTS} is missing"),
    "added": (lambda m: m.update({"code/evenhand/b.py": b""}), "b.py was added"),
    "listed anew": (lambda m: listed_file(m, INPUTS, b"[]"), f"{INPUTS} was changed"),
    "listed code": (lambda m: listed_file(m, "code/evenhand/b.py", b""), "b.py was added"),
    "other MLmodel": (lambda m: listed_file(m, "MLmodel", b"x"), "MLmodel was changed"),
    "outside": (lambda m: listed_file(m, "../evil.py", b""), "no kind of file"),
    "absolute": (lambda m: listed_file(m, "/tmp/evil.py", b""), "no kind of file"),
    "backslash": (lambda m: listed_file(m, "code\\evenhand\\a.py", b""), "no kind of file"),
    "path file": (lambda m: listed_file(m, "a.pth", b""), "no kind of file"),
    "bytecode": (
        lambda m: listed_file(m, "code/evenhand/__pycache__/a.cpython-311.pyc", b""),
        "no kind of file",
    ),
    "folder": (lambda m: m.update({"code/evenhand/empty/": b""}), "no kind of file"),
    "no manifest": (lambda m: m.pop(MANIFEST), f"{MANIFEST} is missing"),
    "no JSON": (lambda m: m.update({MANIFEST: b"{"}), f"{MANIFEST} was changed"),
    "no files": (lambda m: listing(m, lambda d: d.pop("files")), f"{MANIFEST} was changed"),
    "deep": (lambda m: m.update({MANIFEST: b"[" * 100_000}), f"{MANIFEST} was changed"),
    "a later form": (lambda m: listing(m, lambda d: d.update(format=9)), "another version"),
    "huge": (
        lambda m: listing(m, lambda d: d["files"][INPUTS].update(bytes=1 << 50)),
        "more than 16 GiB",
    ),
    "registered list": (
        lambda m: listing(m, lambda d: d.update(registered="{}")),
        f"{LIST} was changed",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_refused(name: str, archive: Path, tmp_path: Path) -> None:
    change, words = CHANGES[name]
    changed = rewritten(archive, change)
    with pytest.raises(InputError, match=words.replace("\\", ".")):
        unpack_archive(changed, tmp_path / "to")
    assert not (tmp_path / "evil.py").exists()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR])
def test_a_link_in_an_archive_is_refused(kind: int, archive: Path, tmp_path: Path) -> None:
    changed = rewritten(archive, lambda members: None, **{INPUTS: kind | 0o777})
    with pytest.raises(InputError, match="is no regular file"):
        unpack_archive(changed, tmp_path / "to")


def test_a_name_given_twice_is_refused(archive: Path, tmp_path: Path) -> None:
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(archive, "a") as opened,
    ):
        opened.writestr(INPUTS, "[]")
    with pytest.raises(InputError, match="is in it twice"):
        unpack_archive(archive, tmp_path / "to")


@pytest.mark.parametrize("place", ["before", "behind", "comment", "between", "large comment"])
def test_bytes_of_no_member_are_refused(place: str, archive: Path, tmp_path: Path) -> None:
    """They would be in no list, and a digest of the members would not see them."""
    content = archive.read_bytes()
    if place == "before":
        archive.write_bytes(b"#!/bin/sh\n" + content)
    elif place == "behind":
        archive.write_bytes(content + b"more")
    elif place == "between":
        with zipfile.ZipFile(archive) as opened:
            directory = opened.start_dir
        end = bytearray(content[-22:])
        end[16:20] = (directory + 4).to_bytes(4, "little")
        archive.write_bytes(content[:directory] + b"more" + content[directory:-22] + end)
    else:
        with zipfile.ZipFile(archive, "a") as opened:
            opened.comment = b"x" * (76 if place == "large comment" else 4)
    with pytest.raises(InputError, match=r"it has bytes .* of no member|is no kind of file"):
        unpack_archive(archive, tmp_path / "to")


def test_a_damaged_archive_is_one_line(archive: Path, tmp_path: Path) -> None:
    content = bytearray(archive.read_bytes())
    content[60:90] = b"\0" * 30
    archive.write_bytes(content)
    with pytest.raises(InputError, match="is not what was published"):
        unpack_archive(archive, tmp_path / "to")


@pytest.mark.parametrize(
    "size", ["-1", "true", "1e400", "NaN", "1.0", "[]", '"1"', "1" + "0" * 400]
)
def test_a_size_that_is_no_count_is_refused(size: str, archive: Path, tmp_path: Path) -> None:
    """Of -1 bytes all were read, whatever a file unpacks to."""
    with zipfile.ZipFile(archive) as opened:
        parts = {member: opened.read(member) for member in opened.infolist()}
    odd = tmp_path / "odd.zip"
    with zipfile.ZipFile(odd, "w") as changed:
        for member, content in parts.items():
            if member.filename == MANIFEST:
                text = content.decode().replace('"bytes": 100', f'"bytes": {size}')
                assert text.encode() != content
                content = text.encode()
            changed.writestr(member, content)
    with pytest.raises(InputError, match=f"{MANIFEST} (was changed|lists more)"):
        unpack_archive(odd, tmp_path / "to")


def test_an_archive_that_names_impossible_places_is_one_line(archive: Path, tmp_path: Path) -> None:
    """The places of members lie before the beginning of the file."""
    content = bytearray(archive.read_bytes())
    end = content.rindex(b"PK\5\6")
    content[end + 16 : end + 20] = (2**32 - 2).to_bytes(4, "little")
    odd = tmp_path / "odd.zip"
    odd.write_bytes(bytes(content))
    with pytest.raises(InputError, match="is not what was published"):
        unpack_archive(odd, tmp_path / "to")
