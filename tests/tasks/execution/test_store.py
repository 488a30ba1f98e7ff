"""The store: what is put is found whole or not at all, whatever happens in between."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution import store as store_module
from evenhand.tasks.execution.step import Step, StepContext, StepResult, run_step
from evenhand.tasks.execution.store import Artifact, StepRecord, Store, sha256_of_path

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Store(
        str(tmp_path / "store")
        if request.param == "local"
        else f"memory://{uuid.uuid4().hex}/store"
    )


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def put_file(store: Store, text: str = "content", kind: str = "thing") -> Artifact:
    with store.workdir() as folder:
        (folder / "a.txt").write_text(text)
        return store.put(folder / "a.txt", kind)


def put_folder(store: Store) -> Artifact:
    with store.workdir() as folder:
        (folder / "model" / "deep").mkdir(parents=True)
        (folder / "model" / "a.json").write_text("{}")
        (folder / "model" / "deep" / "b.bin").write_bytes(b"\0\1")
        return store.put(folder / "model", "model")


def place(artifact: Artifact) -> Path:
    return Path(artifact.uri)


def writes(text: str, *, calls: list[int] | None = None) -> Step:
    def function(context: StepContext) -> StepResult:
        if calls is not None:
            calls.append(1)
        (context.workdir / "out.txt").write_text(text)
        return StepResult({"out": (context.workdir / "out.txt", "out")}, {"letters": len(text)})

    return Step("probe", function)


# artifacts


def test_a_file_comes_back_as_it_was(store: Store) -> None:
    artifact = put_file(store, "some words")
    assert store.fetch(artifact).read_text() == "some words"
    assert artifact.size == 10
    assert store.is_whole(artifact)
    assert put_file(store, "some words") == artifact
    assert artifact.sha256 == hashlib.sha256(b"some words").hexdigest()
    assert artifact.uri.endswith(f"/artifacts/thing/{artifact.sha256}.txt")
    assert (artifact.kind, artifact.files) == ("thing", {})


def test_a_folder_comes_back_as_it_was_however_often_it_is_put(store: Store) -> None:
    artifact = put_folder(store)
    assert put_folder(store) == artifact
    found = store.fetch(artifact)
    members = {path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file()}
    assert members == {"a.json", "deep/b.bin"} == set(artifact.files)
    assert artifact.size == 4
    assert artifact.uri.endswith(f"/artifacts/model/{artifact.sha256}")
    assert sha256_of_path(found)[0] == artifact.sha256


def test_the_digest_of_a_folder_sees_names_and_bytes(tmp_path: Path) -> None:
    for name, member, content in (
        ("a", "x", "1"),
        ("b", "y", "1"),
        ("c", "x", "2"),
        ("d", "x", "1"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / member).write_text(content)
    digests = [sha256_of_path(tmp_path / name)[0] for name in "abcd"]
    assert len(set(digests[:3])) == 3
    assert digests[3] == digests[0]


@pytest.mark.parametrize("put", [put_file, put_folder])
def test_a_changed_byte_is_noticed(local: Store, put: Callable[[Store], Artifact]) -> None:
    artifact = put(local)
    victim = next(path for path in [place(artifact), *place(artifact).rglob("*")] if path.is_file())
    content = bytearray(victim.read_bytes())
    content[0] ^= 1
    victim.write_bytes(bytes(content))
    assert not local.is_whole(artifact)
    with pytest.raises(NotCarriedOut, match="missing from the store or damaged: run again"):
        local.fetch(artifact)
    assert local.is_whole(put(local))  # putting it again mends it


def test_a_file_more_in_a_folder_is_noticed(local: Store) -> None:
    artifact = put_folder(local)
    (place(artifact) / "more").write_text("")
    assert not local.is_whole(artifact)


def test_a_missing_artifact_is_noticed(store: Store) -> None:
    artifact = put_folder(store)
    store.filesystem.rm(store.filesystem._strip_protocol(artifact.uri), recursive=True)
    assert not store.is_whole(artifact)
    with pytest.raises(NotCarriedOut, match="missing"):
        store.fetch(artifact)


def test_a_file_missing_in_a_folder_is_noticed(store: Store) -> None:
    artifact = put_folder(store)
    store.filesystem.rm(f"{store.filesystem._strip_protocol(artifact.uri)}/deep/b.bin")
    assert not store.is_whole(artifact)
    # nothing of the attempt to fetch it is left
    assert list(store.scratch().iterdir()) == []


def test_content_that_another_run_put_a_moment_ago_is_taken(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_run_was_first(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())
        raise FileExistsError(target)

    monkeypatch.setattr(Path, "rename", other_run_was_first)
    assert local.fetch(put_file(local)).read_text() == "content"


def test_a_damaged_copy_of_a_remote_artifact_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remote = Store(f"memory://{uuid.uuid4().hex}/store")
    artifact = put_file(remote)
    copy = remote.fetch(artifact)
    copy.write_text("changed")
    assert remote.fetch(artifact).read_text() == "content"


# records


def test_a_step_runs_once_per_key(store: Store) -> None:
    calls: list[int] = []
    step = writes("x", calls=calls)
    first, cached = run_step(store, step, "k1", {}, {})
    assert not cached
    again, cached = run_step(store, step, "k1", {}, {})
    assert cached
    assert again == first
    assert len(calls) == 1
    run_step(store, step, "k2", {}, {})
    assert len(calls) == 2


def test_a_missing_artifact_makes_its_step_run_again(store: Store) -> None:
    calls: list[int] = []
    step = writes("x", calls=calls)
    record, _ = run_step(store, step, "k", {}, {})
    store.filesystem.rm(store.filesystem._strip_protocol(record.outputs["out"].uri))
    again, cached = run_step(store, step, "k", {}, {})
    assert not cached
    assert again.outputs == record.outputs
    assert store.fetch(again.outputs["out"]).read_text() == "x"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "{}", '{"step": 1}', '{"outputs": 3}', "\x00"]
)
def test_a_damaged_record_is_a_miss_and_is_cleaned_away(store: Store, content: str) -> None:
    calls: list[int] = []
    step = writes("x", calls=calls)
    run_step(store, step, "k", {}, {})
    store.write_text(content, "steps", "probe", "k.json")
    assert store.find("probe", "k") is None
    assert store.usage() == []
    _, cached = run_step(store, step, "k", {}, {})
    assert not cached
    assert len(calls) == 2
    store.write_text(content, "steps", "probe", "k.json")
    assert store.prune(5)[0] == 1
    assert not store.exists("steps", "probe", "k.json")


def test_a_crash_in_a_step_leaves_nothing(store: Store) -> None:
    def function(context: StepContext) -> StepResult:
        (context.workdir / "half.txt").write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_step(store, Step("probe", function), "k", {}, {})
    assert store.find("probe", "k") is None
    assert store.filesystem.find(store.path("artifacts")) == []
    assert list(store.scratch().iterdir()) == []


def test_a_step_without_its_promised_file_leaves_no_record(local: Store) -> None:
    step = Step("probe", lambda context: StepResult({"out": (context.workdir / "none", "out")}))
    with pytest.raises(FileNotFoundError):
        run_step(local, step, "k", {}, {})
    assert local.find("probe", "k") is None


def test_a_put_that_cannot_be_finished_leaves_nothing(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    for put in (put_file, put_folder):
        with pytest.raises(OSError, match="No space left"):
            put(local)
    assert not [path for path in local.local.rglob("*") if path.is_file()]


def test_a_changed_input_stops_a_step_before_it_runs(local: Store) -> None:
    artifact = put_file(local)
    place(artifact).write_text("changed")
    calls: list[int] = []
    with pytest.raises(NotCarriedOut, match="damaged"):
        run_step(local, writes("x", calls=calls), "k", {}, {"given": artifact})
    assert calls == []


def test_a_record_written_while_this_run_waited_is_taken(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    record, _ = run_step(local, writes("x"), "k", {}, {})
    answers = iter([None, record])
    monkeypatch.setattr(local, "find", lambda step, key: next(answers))
    assert run_step(local, writes("x", calls=calls), "k", {}, {}) == (record, True)
    assert calls == []


def test_a_record_is_json_with_sorted_keys(store: Store) -> None:
    record, _ = run_step(store, writes("x"), "k", {}, {})
    written = store.read_text("steps", "probe", "k.json")
    assert written == json.dumps(asdict(record), sort_keys=True)


def test_a_folder_that_a_step_removed_itself_is_no_error(local: Store) -> None:
    with local.workdir() as folder:
        folder.rmdir()
    assert list(local.scratch().iterdir()) == []


PROCESS = """
import sys, time
from pathlib import Path
from evenhand.tasks.execution.step import Step, StepResult, run_step
from evenhand.tasks.execution.store import Store
store, log = Store(sys.argv[1]), Path(sys.argv[2])
(log.parent / f"ready-{sys.argv[3]}").touch()
while not (log.parent / "go").exists():
    time.sleep(0.01)
def function(context):
    with log.open("a") as stream:
        stream.write("ran\\n")
    time.sleep(0.5)
    (context.workdir / "out.txt").write_text("out")
    return StepResult({"out": (context.workdir / "out.txt", "out")})
record, cached = run_step(store, Step("probe", function), "one-key", {}, {})
print(int(cached), record.outputs["out"].sha256)
"""


def test_processes_with_one_key_compute_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path / "store"), str(log), str(index)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(4)
    ]
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("ready-*"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    (tmp_path / "go").touch()
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(cached for cached, _ in said) == ["0", "1", "1", "1"]
    assert len({digest for _, digest in said}) == 1
    assert log.read_text() == "ran\n"


def test_a_killed_process_does_not_keep_its_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from evenhand.tasks.execution.store import Store\n"
        "with Store(sys.argv[1]).lock('probe-k'):\n"
        "    print('locked', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    process.kill()
    process.wait()
    process.stdout.close()
    _, cached = run_step(Store(str(tmp_path / "store")), writes("x"), "k", {}, {})
    assert not cached


# housekeeping


def test_cleaning_keeps_the_newest_of_each_step(store: Store) -> None:
    """What they point at is kept, too."""
    records = {}
    for index in range(3):
        records[index], _ = run_step(store, writes(f"text {index}"), f"k{index}", {}, {})
        time.sleep(0.02)  # records are told apart by their age
    assert [row["key"] for row in store.usage()] == ["k2", "k1", "k0"]
    assert store.usage()[0]["bytes"] == 6
    removed, freed = store.prune(2)
    assert (removed, freed) == (1, 6)
    assert store.find("probe", "k0") is None
    assert not store.is_whole(records[0].outputs["out"])
    for index in (1, 2):
        assert store.find("probe", f"k{index}") == records[index]
    assert store.prune(0)[0] == 2
    assert store.filesystem.find(store.path("artifacts")) == []
    assert store.prune(0) == (0, 0)


def test_cleaning_keeps_what_two_records_share(store: Store) -> None:
    """It goes when both records are gone."""
    run_step(store, writes("same"), "k0", {}, {})
    time.sleep(0.02)
    record, _ = run_step(store, writes("same"), "k1", {}, {})
    assert store.prune(1) == (1, 0)
    assert store.is_whole(record.outputs["out"])


def test_cleaning_removes_leftovers_of_killed_runs(local: Store) -> None:
    """It removes nothing that is in use."""
    # of three days and a minute, and of a minute less than three days
    for name, seconds in (("old", 72 * 3600 + 60), ("young", 72 * 3600 - 60)):
        (local.scratch() / name).mkdir()
        then = time.time() - seconds
        os.utime(local.scratch() / name, (then, then))
    local.prune(5)
    assert [path.name for path in local.scratch().iterdir()] == ["young"]


def test_cleaning_counts_every_step_by_itself(store: Store) -> None:
    for name in ("one", "two"):
        step = Step(name, writes(name).function)
        run_step(store, step, "k", {}, {})
    assert store.prune(1) == (0, 0)
    assert {row["step"] for row in store.usage()} == {"one", "two"}


def test_cleaning_leaves_runs_alone(store: Store) -> None:
    store.write_text("{}", "runs", "r1", "verdict.json")
    store.prune(0)
    assert store.runs() == ["r1"]


@pytest.mark.parametrize("zone", [datetime.UTC, None])
def test_the_age_of_a_record_is_since_its_last_change(
    store: Store, zone: datetime.timezone | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_step(store, writes("x"), "k", {}, {})
    now = datetime.datetime.now(datetime.UTC)
    for age, seconds in (
        (7200.0, 7200.0),
        (-3600.0, 0.0),
    ):  # the clock of another machine may be ahead
        changed = (now - datetime.timedelta(seconds=age)).replace(tzinfo=zone)
        # file systems give times with a zone, or without one in UTC
        monkeypatch.setattr(store.filesystem, "modified", lambda path, changed=changed: changed)
        assert store.usage()[0]["age_s"] == pytest.approx(seconds, rel=0.01)


def test_runs_are_folders_in_order_of_their_ids(store: Store) -> None:
    for run in ("r2", "r10", "r1"):
        store.write_text("{}", "runs", run, "verdict.json")
    store.write_text("{}", "runs", "r10", "card.json")
    store.write_text("<p>", "runs", "index.html")
    assert store.runs() == ["r1", "r10", "r2"]
    found = store.runs_with("card.json")
    assert list(found) == ["r10"]
    assert found["r10"].endswith("/runs/r10/card.json")
    assert store.filesystem.cat_file(found["r10"]) == b"{}"


def test_a_forgotten_record_makes_its_step_run_again(store: Store) -> None:
    run_step(store, writes("x"), "k", {}, {})
    store.forget("probe", "k")
    store.forget("probe", "no such key")
    assert store.find("probe", "k") is None


# text, places, rights


def test_text_is_replaced_in_one_step_and_missing_text_is_none(store: Store) -> None:
    assert store.read_text("runs", "r", "a.txt") is None
    store.write_text("ä\n", "runs", "r", "a.txt")
    store.write_text("b\r\n", "runs", "r", "a.txt")
    assert store.read_text("runs", "r", "a.txt") == "b\r\n"
    assert store.filesystem.find(store.path("runs")) == [store.path("runs", "r", "a.txt")]


def test_a_local_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    Store(str(tmp_path / "deep" / "store"))
    assert stat.S_IMODE((tmp_path / "deep" / "store").stat().st_mode) == 0o700


def test_a_store_may_be_named_by_a_file_url(tmp_path: Path) -> None:
    artifact = put_file(Store(f"file://{tmp_path}/store"))
    assert Store(str(tmp_path / "store")).is_whole(artifact)


@pytest.mark.parametrize("name", ["with space", "a#b", "100%", "ünï", "a=b", "it's"])
def test_any_name_of_a_folder_will_do(tmp_path: Path, name: str) -> None:
    store = Store(str(tmp_path / name))
    record, _ = run_step(store, writes("x"), "k", {}, {})
    assert store.find("probe", "k") == record
    assert store.fetch(put_folder(store)).is_dir()
    assert store.prune(0)[0] == 1


@pytest.mark.parametrize("name", ["q?x", "a%20b"])
def test_a_name_that_no_registry_address_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="choose another folder"):
        Store(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_a_relative_store_holds_absolute_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    artifact = put_file(Store("store"))
    monkeypatch.chdir("/")
    assert Store(str(tmp_path / "store")).is_whole(artifact)


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url in (str(tmp_path / "file"), str(tmp_path / "file" / "store")):
        with pytest.raises(InputError, match="cannot be written .*: set EVENHAND_STORE"):
            Store(url)


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), RuntimeError("secret")]
)
def test_a_remote_store_that_cannot_be_written_says_so(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(*_: Any, **__: Any) -> None:
        raise error

    url = f"memory://{uuid.uuid4().hex}/store"
    filesystem = Store(url).filesystem
    assert filesystem.find(f"/{url.removeprefix('memory://')}") == []
    monkeypatch.setattr(filesystem, "pipe_file", fail)
    reason = "Permission denied" if isinstance(error, PermissionError) else "RuntimeError"
    with pytest.raises(InputError, match=rf"cannot be written \({reason}\): set EVENHAND_STORE"):
        Store(url)


def test_trying_a_store_out_leaves_no_file(local: Store) -> None:
    assert [path for path in local.local.rglob("*") if path.is_file()] == []


def test_a_store_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"the store 'nosuch://x' cannot be opened: .*nosuch"):
        Store("nosuch://x")


def test_the_store_is_by_default_the_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "mine"))
    assert Store().local == tmp_path / "mine"
    assert Store(str(tmp_path / "other")).local == tmp_path / "other"
    monkeypatch.setenv("EVENHAND_STORE", "")
    assert Store().local.resolve() == tmp_path / "evenhand-store"
    monkeypatch.delenv("EVENHAND_STORE")
    assert Store().url == "evenhand-store"


def test_a_lock_is_waited_for_as_long_as_a_step_may_take(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, float]] = []
    original = store_module.FileLock

    def lock(path: Path, timeout: float) -> Any:
        asked.append((path, timeout))
        return original(path, timeout=timeout)

    monkeypatch.setattr(store_module, "FileLock", lock)
    with local.lock("train-k"):
        pass
    assert asked == [(local.local / "locks" / "train-k.lock", 6 * 3600)]


def test_the_local_folder_of_a_store(
    local: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Store.local_folder("some/store") == Path("some/store")
    assert Store.local_folder("file:///some/store") == Path("/some/store")
    url = "s3://bucket/" + "deep/" * 20
    digest = hashlib.sha256(url.encode()).hexdigest()
    readable = ("s3---bucket-" + "deep-" * 20)[:60]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Store.local_folder(url) == tmp_path / "evenhand" / "stores" / f"{readable}-{digest[:12]}"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert Store.local_folder(url).parent == Path.home() / ".cache" / "evenhand" / "stores"
    # a local store's name is of its whole path
    monkeypatch.chdir(tmp_path)
    assert local.name_of("store") == local.name_of(str(tmp_path / "store"))
    assert (
        local.name_of("store") == hashlib.sha256(str(tmp_path / "store").encode()).hexdigest()[:12]
    )


def test_two_remote_stores_do_not_share_a_local_folder() -> None:
    assert Store.local_folder("s3://a/b") != Store.local_folder("s3://a-b")
    assert "pw" not in str(Store.local_folder("sftp://me:pw@host/x"))


def test_a_record_survives_its_json() -> None:
    artifact = Artifact("/x", "ab", "k", 3, {"f": "cd"})
    record = StepRecord("s", "k", {"o": artifact}, {"rows": 3, "label_values": [False, True]}, 0.5)
    assert StepRecord.from_dict(json.loads(json.dumps(asdict(record)))) == record


def test_a_lock_makes_its_folder_again(local: Store) -> None:
    shutil.rmtree(local.local)
    with local.lock("train-k"):
        assert (local.local / "locks" / "train-k.lock").exists()
    shutil.rmtree(local.local)
    assert local.scratch().is_dir()
