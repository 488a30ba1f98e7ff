"""Killed at any point and run again: the same artifacts, one version, and nothing that `cache gc`
leaves.
"""

from __future__ import annotations

import datetime
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from evenhand.tasks.registry import ledger
from evenhand.tasks.registry.client import registry_client
from evenhand.tasks.registry.ledger import history, move_alias, record_evaluation
from tests.chaos.kill_points import (
    MODEL,
    PUBLISHED,
    Ended,
    artifacts,
    attempt,
    collect_garbage,
    empty_registry,
    make_bench,
    put_back,
    temporaries,
)
from tests.chaos.random_kills import COMMANDS, killed_again_and_again, make_snapshot
from tests.chaos.random_kills import KILLS as KILLS_EACH

STORES, KILLS = 10, 5
CHALLENGER = (
    "run",
    "job.yaml",
    "--direct",
    "--set",
    "method.n_steps=5",
    "--set",
    "publish.alias=challenger",
)


@dataclass
class Whole:
    """A folder, copies of it before any run, before the publication and after it, and the unbroken
    run.
    """

    folder: Path
    empty: Path
    unpublished: Path
    published: Path
    ended: Ended
    digests: dict[str, dict[str, str]]

    def points(self, step: str) -> range:
        """Points from a step's beginning to its record, counted from the beginning."""
        begun = self.ended.points.index(f"before step {step}")
        rest = self.ended.points[begun:]
        return range(
            next(n for n, name in enumerate(rest) if name.startswith("after write steps/")) + 1
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    made = tmp_path_factory.mktemp("kills")
    folder = make_bench(made / "w", empty_registry(made / "empty.db"))
    shutil.copytree(folder, made / "empty")
    ended = attempt(folder)
    assert (ended.code, ended.err, ended.registry) == (0, "", PUBLISHED)
    shutil.copytree(folder, made / "published")
    shutil.copytree(folder, made / "unpublished")
    for name in (
        "steps/publish",
        "artifacts/card",
        "mlflow-artifacts",
        "runs",
        "mlflow.db.answers.json",
    ):
        remove(made / "unpublished" / "store" / name)
    shutil.copyfile(made / "empty.db", made / "unpublished" / "store" / "mlflow.db")
    copies = (made / name for name in ("empty", "unpublished", "published"))
    return Whole(folder, *copies, ended, artifacts(folder / "store"))


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_resumed(whole: Whole) -> None:
    """Run again: the outcome is that of the unbroken run."""
    done = attempt(whole.folder)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["status"] == "published"
    assert artifacts(whole.folder / "store") == whole.digests
    assert done.registry == PUBLISHED
    collect_garbage(whole.folder)
    assert temporaries(whole.folder) == []


@pytest.mark.parametrize(
    "moments",
    [
        ("after registry create_model_version",),
        pytest.param(
            (
                "after registry create_run",
                "after registry create_model_version",
                "after step publish",
            ),
            marks=pytest.mark.long,
        ),
    ],
    ids=["one kill", "three kills"],
)
def test_a_sample_of_kills(whole: Whole, moments: tuple[str, ...]) -> None:
    """Each kill meets what the one before has left."""
    put_back(whole.unpublished, whole.folder)
    for name in moments:
        assert attempt(whole.folder, kill_at=name).killed
    check_resumed(whole)


@pytest.mark.long
def test_killed_at_every_boundary_of_the_steps_before(whole: Whole) -> None:
    steps = [
        name.removeprefix("before step ") for name in whole.ended.points if "before step" in name
    ]
    for step in steps[:-1]:
        for number in whole.points(step)[::2]:  # after one point is before the next
            put_back(whole.published, whole.folder)
            (record,) = (whole.folder / "store" / "steps" / step).glob("*.json")
            for item in json.loads(record.read_text())["outputs"].values():
                remove(Path(item["uri"]))
            record.unlink()
            assert attempt(whole.folder, kill_at=number).killed
            check_resumed(whole)


MADE = ["mlflow.db", "mlflow.db.lock"]


def make_first_bench(made: Path) -> tuple[Path, dict[str, str]]:
    """A folder whose store has no registry, and an environment without the user's cache of an empty
    one.
    """
    folder = made / "first"
    make_bench(folder, empty_registry(made / "empty.db"))
    (folder / "store" / "mlflow.db").unlink()
    return folder, {"XDG_CACHE_HOME": str(folder / "cache"), "EVENHAND_WAIT": "0"}


POLICY = ("policy", "set", MODEL, "--gates", "policy.yaml")


def write_policy(folder: Path) -> None:
    (folder / "policy.yaml").write_text("auc: {min: 0.1}\n")


# three seconds: a process is killed while it makes the registry, and is followed by another
@pytest.mark.parametrize(
    "moment",
    [
        "sql CREATE TABLE _alembic_tmp",
        pytest.param("sql INSERT INTO experiments", marks=pytest.mark.long),
        pytest.param("replace", marks=pytest.mark.long),
    ],
)
def test_killed_while_the_registry_is_made(moment: str, tmp_path: Path) -> None:
    folder, variables = make_first_bench(tmp_path)
    write_policy(folder)
    shutil.rmtree(folder / "store")
    assert attempt(folder, *POLICY, kill_at=moment, variables=variables).killed
    done = attempt(folder, *POLICY, variables=variables)
    assert (done.code, done.err) == (0, "")
    assert sorted(path.name for path in (folder / "store").glob("*mlflow*")) == MADE


@pytest.mark.long
def test_sixty_kills_of_a_first_run_and_of_a_first_policy(tmp_path: Path) -> None:
    """Killed at sixty moments in stores without a registry: the next command never finds one
    broken.
    """
    folder, variables = make_first_bench(tmp_path)
    write_policy(folder)
    put_aside = tmp_path / "begun"
    shutil.copytree(folder, put_aside)
    killed, broken = 0, []
    for command in (("run", "job.yaml", "--direct", "--json"), POLICY):
        seconds = attempt(folder, *command, variables=variables).seconds
        for share in np.linspace(0.02, 0.98, 30):
            put_back(put_aside, folder)
            ended = attempt(folder, *command, kill_after=share * seconds, variables=variables)
            killed += ended.killed
            done = attempt(folder, *POLICY, variables=variables)
            if done.code != 0:
                broken.append((command[0], share, done.err))
    assert broken == [], f"{len(broken)} of {killed}"
    assert killed > 40


@pytest.mark.long
def test_killed_at_every_part_of_a_publication(whole: Whole) -> None:
    put_back(whole.unpublished, whole.folder)
    points = attempt(whole.folder).points
    for number, name in enumerate(points):
        if "charts" in name or (name.startswith("after") and number + 1 < len(points)):
            continue  # after one point is before the next
        put_back(whole.unpublished, whole.folder)
        assert attempt(whole.folder, kill_at=number).killed
        check_resumed(whole)


@pytest.mark.long
def test_killed_at_fifty_random_moments(whole: Whole) -> None:
    """Five kills a store; each run goes on from what the last one left."""
    rng, killed = np.random.default_rng(0), 0
    for _ in range(STORES):
        put_back(whole.empty, whole.folder)
        for share in rng.uniform(0, 0.7, KILLS):
            killed += attempt(whole.folder, kill_after=share * whole.ended.seconds).killed
        check_resumed(whole)
    assert killed > STORES * KILLS / 2, "most runs had ended before"


@pytest.mark.long
def test_killed_at_every_part_of_a_promotion(whole: Whole, tmp_path: Path) -> None:
    put_back(whole.published, whole.folder)
    assert attempt(whole.folder, *CHALLENGER).code == 0
    shutil.copytree(whole.folder, tmp_path / "two")
    promote = ("promote", f"models:/{MODEL}/2")
    points = attempt(whole.folder, *promote).points
    assert "after registry set_registered_model_alias" in points
    for number in range(len(points)):
        put_back(tmp_path / "two", whole.folder)
        assert attempt(whole.folder, *promote, kill_at=number).killed
        done = attempt(whole.folder, *promote)
        assert (done.code, done.err) == (0, "")
        assert done.registry["aliases"] == {"champion": "2", "challenger": "2"}
        assert done.registry["faults"] == []
        # versions and evaluations, three aliases that runs and the promotion gave, and no second
        # promotion
        assert (
            sorted(done.registry["records"]) == ["evaluation"] * 2 + ["move"] * 3 + ["version"] * 2
        )


@pytest.mark.long
def test_a_publication_that_was_killed_long_ago_is_closed(whole: Whole) -> None:
    """Also if what is published now is another model; one that may be under way is left alone."""
    put_back(whole.unpublished, whole.folder)
    uri = f"sqlite:///{whole.folder}/store/mlflow.db"
    with registry_client(uri) as client:
        place = str(whole.folder / "store" / "mlflow-artifacts")
        experiment = client.create_experiment("evenhand", artifact_location=place)
        client.create_run(experiment, run_name=MODEL, start_time=1_000_000_000_000)
        client.create_run(experiment, run_name=MODEL)
    done = attempt(whole.folder)
    assert (done.code, done.err) == (0, "")
    assert done.registry == PUBLISHED | {"under_way": 1}


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_moments_and_done_again(name: str, tmp_path: Path) -> None:
    """Two hundred kills in all: the same files, the same chain, nothing that is left."""
    make_snapshot(tmp_path)
    ended = killed_again_and_again(tmp_path, name, KILLS_EACH)
    assert ended["wrong"] == []
    assert ended["killed"] > KILLS_EACH / 3, "most had ended before"


@pytest.mark.long
@pytest.mark.parametrize(
    "pair",
    [("run", "run"), ("promote", "promote"), ("run", "verify"), ("evaluate", "promote")],
    ids="-".join,
)
def test_two_commands_at_once(pair: tuple[str, str], tmp_path: Path) -> None:
    """Both end with 0 or with one line, and the chain stays whole."""
    folder = make_snapshot(tmp_path)
    commands = [COMMANDS.get(name, (name, MODEL)) for name in pair]
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(attempt, folder, *command) for command in commands]
        ended = [item.result() for item in running]
    for item in ended:
        lines = [line for line in item.err.splitlines() if line.startswith("evenhand: ")]
        assert (item.code == 0) == (lines == []), (item.code, item.err)
        assert item.code in (0, 1, 4)
    assert 0 in {item.code for item in ended}
    checked = attempt(folder, "verify", MODEL)
    assert (checked.code, checked.registry["faults"]) == (0, []), checked.out


# a second: what a registry keeps of a clock that goes back is its chain, in the order of its records
def test_a_clock_that_jumps_breaks_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    now = time.time()
    with registry_client(uri) as client:
        client.create_registered_model(MODEL)
        for number, moment in enumerate((now, now - 3e8, now + 3e8, 1.0), start=1):
            when = datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat()
            monkeypatch.setattr(ledger, "now", lambda when=when: when)
            monkeypatch.setattr(time, "time", lambda moment=moment: moment)
            client.create_model_version(MODEL, f"nowhere:{number}")
            record_evaluation(client, MODEL, str(number), {"verdict": "passed"})
            move_alias(client, MODEL, "champion", str(number), reason="promote", evaluation={})
    chain = history(uri, MODEL)
    assert chain.faults == []
    assert chain.aliases["champion"] == "4"
    assert len({record.when for record in chain.records}) == 4
    assert [record.content["to_version"] for record in chain.moves("champion")] == list("1234")
