"""The case store: what its chain holds, what it finds, and what a deletion leaves."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from evenhand.tasks.cases.case_store import CASE, LOG, CaseStore, new_case
from evenhand.tasks.errors import InputError, NotCarriedOut

SECRET = "zzyzx-value"


def content(**more: Any) -> dict[str, Any]:
    model = {"uri": "models:/people/1"}
    return {"case": new_case(), "keep_until": "2029-01-01", "model": model, "v": SECRET, **more}


@pytest.fixture
def store(tmp_path: Path) -> CaseStore:
    """A store with three cases."""
    store = CaseStore(tmp_path / "cases")
    with store.writing():
        for _ in range(3):
            store.add(content(), {"case.html": "<p>page</p>"})
    return store


def first(store: CaseStore) -> str:
    return str(store.log().records[0].content["case"])


def test_files_are_for_their_owner_only(store: CaseStore) -> None:
    for path in [store.folder, *store.folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_log_holds_no_value_and_equal_cases_differ(store: CaseStore) -> None:
    text = (store.folder / LOG).read_text()
    assert SECRET not in text
    same = content(case="0" * 16)
    with store.writing():
        store.add(same, {})
        store.add({**same, "case": "1" * 16}, {})
    digests = {record.content["digest"] for record in store.log().records}
    assert len(digests) == 5


def test_a_whole_store_has_no_fault(store: CaseStore) -> None:
    assert store.faults() == []
    assert store.read(first(store))["v"] == SECRET


def test_a_deleted_case_leaves_the_chain_verifiable(store: CaseStore) -> None:
    case = first(store)
    anchor = store.anchor()
    with store.writing():
        store.delete(case, "on request")
    assert store.faults(anchor=anchor) == []
    assert not store.place(case).exists()
    assert [record.kind for record in store.log().records] == ["case"] * 3 + ["deletion"]
    with pytest.raises(InputError, match="there is no case"):
        store.find(case)


def test_each_change_is_found(store: CaseStore) -> None:
    """A changed file, a missing one, a changed record, and one that was taken out."""
    case = first(store)
    file = store.place(case) / CASE
    text = file.read_text()
    file.write_text(text.replace(SECRET, "other"))
    assert "was changed after record 1" in store.faults()[0]
    with pytest.raises(InputError, match="not what was recorded"):
        store.read(case)
    file.unlink()
    assert "no record deletes it" in store.faults()[0]
    file.write_text(text)
    log = store.folder / LOG
    lines = log.read_text().splitlines(keepends=True)
    for changed in (
        [lines[0].replace("2029", "2039"), *lines[1:]],
        [lines[0], lines[2]],
        [lines[1], lines[0], lines[2]],
        [lines[0], "no record\n", *lines[1:]],
    ):
        log.write_text("".join(changed))
        assert store.faults()
        with pytest.raises(NotCarriedOut, match="nothing was recorded"), store.writing():
            pass
    log.write_text("".join(lines))
    assert store.faults() == []


def test_an_anchor_finds_a_shortened_log(store: CaseStore) -> None:
    anchor = store.anchor()
    log = store.folder / LOG
    lines = log.read_text().splitlines(keepends=True)
    last = json.loads(lines[-1])["content"]["case"]
    log.write_text("".join(lines[:-1]))
    for path in store.place(last).iterdir():
        path.unlink()
    store.place(last).rmdir()
    assert store.faults() == []  # nothing else can know
    assert "which the anchor names" in store.faults(anchor=anchor)[0]


def test_a_write_that_was_cut_off_is_no_record(store: CaseStore) -> None:
    log = store.folder / LOG
    with log.open("a") as file:
        file.write('{"number": 4, "wh')
    assert store.faults() == []
    with store.writing():
        store.add(content(), {})
    assert store.faults() == []
    assert len(store.log().records) == 4


def test_records_are_signed_and_false_signatures_are_found(
    store: CaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    place = tmp_path / "key.pem"
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    place.write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    monkeypatch.setenv("EVENHAND_KEY", str(place))
    with store.writing():
        store.add(content(), {})
    assert store.faults() == []
    assert [fault[:8] for fault in store.faults([public])] == ["record 1", "record 2", "record 3"]
    log = store.folder / LOG
    lines = log.read_text().splitlines()
    fields = json.loads(lines[-1])
    fields["who"] = "somebody else"
    log.write_text("\n".join([*lines[:-1], json.dumps(fields, sort_keys=True)]) + "\n")
    assert "the signature of record 4 is false" in store.faults()


def test_a_text_that_names_no_case_is_refused(store: CaseStore) -> None:
    for text in ("../../etc", "ffff", "0" * 16):
        with pytest.raises(InputError, match="case"):
            store.find(text)
    case = first(store)
    assert store.find(str(store.place(case))) == case
    assert store.find(str(store.place(case) / "case.html")) == case


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("case.html", "case.html of the case {case} was changed after record 1"),
        ("other.html", "other.html of the case {case} is in no record"),
    ],
)
def test_pages_are_compared_too(store: CaseStore, name: str, words: str) -> None:
    """A page is what people read and print: one that says something else, or another one."""
    case = first(store)
    (store.place(case) / name).write_text("<p>accepted</p>")
    assert store.faults() == [words.format(case=case)]
    if name == "case.html":
        with pytest.raises(InputError, match=r"case\.html of the case .* is not what was recorded"):
            store.page(case, name)


def test_a_page_that_no_record_has_is_not_compared(store: CaseStore) -> None:
    """Of a case by an older version, whose records have the digest of `case.json` alone."""
    case = first(store)
    lines = (store.folder / LOG).read_text().splitlines()
    record = json.loads(lines[0])
    del record["content"]["pages"]
    (store.folder / LOG).write_text(json.dumps(record, sort_keys=True) + "\n")
    assert store.page(case, "case.html") is None
    assert not [fault for fault in store.faults() if case in fault]


def test_a_killed_writer_leaves_a_case_as_it_was_or_is_recorded(
    store: CaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = first(store)
    text = content(case=case, v="reviewed")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    for method, value in (("_append", SECRET), ("_move", "reviewed")):
        with monkeypatch.context() as patch:
            patch.setattr(CaseStore, method, killed)
            with pytest.raises(KeyboardInterrupt), store.writing():
                store.update("review", text, {"case.html": "<p>reviewed</p>"})
        assert store.read(case)["v"] == value
        assert store.faults() == []
        with store.writing():  # the next writer clears up
            pass
        assert store.read(case)["v"] == value
        assert not list((store.folder / "files").glob(".*"))
    assert store.page(case, "case.html") == "<p>reviewed</p>"


def test_a_killed_deletion_is_finished_by_the_next_writer(
    store: CaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = first(store)
    with monkeypatch.context() as patch, store.writing():
        patch.setattr(CaseStore, "_remove", lambda *_: None)
        store.delete(case, "on request")
    assert "its folder is still there" in store.faults()[0]
    with store.writing():
        pass
    assert store.faults() == []
    assert not store.place(case).exists()


def test_a_link_in_place_of_a_case_is_a_fault_and_no_deletion(
    store: CaseStore, tmp_path: Path
) -> None:
    """The values of a person would stay where the link leads to."""
    case = first(store)
    store.place(case).rename(tmp_path / "elsewhere")
    store.place(case).symlink_to(tmp_path / "elsewhere")
    assert f"the files of the case {case} are missing" in store.faults()[0]
    with pytest.raises(NotCarriedOut, match="was a link"), store.writing():
        store.delete(case, "on request")


def test_a_deletion_that_leaves_files_says_so(
    store: CaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(NotCarriedOut, match="could not be deleted"), store.writing():
        store.delete(first(store), "on request")


def test_a_link_of_the_working_folder_leads_to_no_other_case(
    store: CaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, _ = [str(record.content["case"]) for record in store.log().records]
    (tmp_path / one).symlink_to(store.place(other))
    monkeypatch.chdir(tmp_path)
    assert store.find(one) == one
    assert store.find(str(store.place(other))) == other


@pytest.mark.parametrize(
    "changes", [{"case": ["a"]}, {"case": "../../etc"}, {"keep_until": "never"}]
)
def test_a_record_of_other_values_is_a_fault(store: CaseStore, changes: dict[str, Any]) -> None:
    log = store.folder / LOG
    record = json.loads(log.read_text().splitlines()[0])
    record["content"] |= changes
    log.write_text(json.dumps(record) + "\n")
    assert "line 1 of the log is no record: it was changed" in store.faults()[0]


def test_a_list_of_cases_reads_the_log_once(
    store: CaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = store.log().last_of()
    with store.writing():
        store.update("review", content(case=first(store), v="newer"), {})
    reads = []
    lines = CaseStore._lines

    def counted(self: CaseStore) -> list[str]:
        reads.append(self)
        return lines(self)

    monkeypatch.setattr(CaseStore, "_lines", counted)
    contents = [store.read(case, record) for case, record in last.items()]
    # only the one that was changed since needs its new record
    assert len(reads) == 1
    assert [each["v"] for each in contents] == ["newer", SECRET, SECRET]
