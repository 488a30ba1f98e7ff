"""Two promotions at once: one wins, the other is told who did; over SQLite and over PostgreSQL."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.registry.client import registry_client
from evenhand.tasks.registry.ledger import history, move_alias, record_evaluation
from evenhand.tasks.registry.policy import promote

MODEL = "people"


def racer(connection: Connection, uri: str) -> None:
    """Promote the versions that are asked for, each as someone of its own."""
    while (order := connection.recv()) is not None:
        version, os.environ["EVENHAND_ACTOR"] = order
        try:
            change = promote(uri, MODEL, version, "champion")
            connection.send(("won", change and change.content["from_version"]))
        except NotCarriedOut as error:
            connection.send(("lost", str(error)))
        except Exception as error:  # noqa: BLE001 - the test names it
            connection.send((type(error).__name__, str(error)))


def race(uri: str, rounds: int) -> Counter[str]:
    """Count the outcomes of races between versions 2 and 3, each begun with version 1 as
    champion.
    """
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(2)]
    processes = [context.Process(target=racer, args=(theirs, uri)) for _, theirs in pairs]
    for process in processes:
        process.start()
    found: Counter[str] = Counter()
    with registry_client(uri) as client:
        client.create_registered_model(MODEL)
        for version in ("1", "2", "3"):
            client.create_model_version(MODEL, f"nowhere:{version}")
            record_evaluation(client, MODEL, version, {"verdict": "passed"})
        for _ in range(rounds):
            move_alias(client, MODEL, "champion", "1", reason="promote", evaluation={})
            for (ours, _), order in zip(pairs, (("2", "ada"), ("3", "grace")), strict=True):
                ours.send(order)
            answers = [ours.recv() for ours, _ in pairs]
            kinds = sorted(kind for kind, _ in answers)
            champion = history(uri, MODEL).aliases["champion"]
            if kinds == ["lost", "won"]:
                winner = "2" if answers[0][0] == "won" else "3"
                told = next(text for kind, text in answers if kind == "lost")
                who = "ada" if winner == "2" else "grace"
                assert f"version {winner} became champion at the same moment, by {who}" in told
                assert champion == winner
            else:
                # one had ended before the other began, and the second knew of the first
                assert kinds == ["won", "won"], answers
                assert {before for _, before in answers} in ({"1", "2"}, {"1", "3"}), answers
            found["-".join(kinds)] += 1
    for (ours, _), process in zip(pairs, processes, strict=True):
        ours.send(None)
        process.join(30)
    chain = history(uri, MODEL)
    assert chain.faults == []
    moves = [record.content for record in chain.moves("champion")]
    assert all(a["to_version"] == b["from_version"] for a, b in zip(moves, moves[1:], strict=False))
    return found


@pytest.mark.long
def test_two_promotions_at_once_over_sqlite(tmp_path: Path) -> None:
    found = race(f"sqlite:///{tmp_path}/mlflow.db", 5)
    assert found.total() == 5


@pytest.mark.long
def test_two_hundred_races_over_sqlite(tmp_path: Path) -> None:
    found = race(f"sqlite:///{tmp_path}/mlflow.db", 200)
    assert found["lost-won"] > 100


@pytest.mark.long
def test_two_hundred_races_over_postgresql(postgres: str) -> None:
    found = race(postgres, 200)
    assert found["lost-won"] > 100


@pytest.mark.long
def test_a_query_cannot_write_to_postgresql(postgres: str, tmp_path: Path) -> None:
    """A function that writes is stopped by the transaction, which the check of the text cannot
    know.
    """
    import sqlalchemy

    from evenhand.tasks.errors import InputError
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.sources.fetching import fetch_source

    engine = sqlalchemy.create_engine(postgres)
    with engine.begin() as opened:
        opened.exec_driver_sql("create table people (a int)")
        opened.exec_driver_sql("insert into people values (1)")
        opened.exec_driver_sql(
            "create function drain() returns int language plpgsql stable "
            "as 'begin delete from people; return 1; end'"
        )
    source = {"name": "people", "connection": postgres, "path": None}
    store = Store(str(tmp_path / "store"))
    with pytest.raises(InputError, match="non-volatile function|read-only transaction"):
        fetch_source(store, {**source, "sql": "select drain()"})
    assert fetch_source(store, {**source, "sql": "select * from people"})["query.parquet"].size
    engine.dispose()
