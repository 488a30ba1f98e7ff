"""The comparison by which ``evenhand serve`` decides whether a due retraining needs a process."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.flows.engine import CacheMiss, read_verdict
from evenhand.flows.serving import end_unchanged
from evenhand.tasks.errors import InputError
from evenhand.tasks.store import Store


def test_an_unchanged_retraining_ends_without_a_process(champion: Any) -> None:
    store, parameters = Store(str(champion.store)), {"store": str(champion.store)}
    job, runs = str(champion.write()), store.runs()

    # what needs a process leaves nothing: the process writes the verdict
    assert end_unchanged(parameters | {"job": job, "overrides": ["seed=7"]}) is None
    with pytest.raises(InputError):
        end_unchanged(parameters | {"job": job, "overrides": ["table.path=absent.csv"]})
    with pytest.raises(CacheMiss):  # read over the network
        end_unchanged(parameters | {"job": job, "overrides": ["table.path=http://127.0.0.1:9/people.csv"]})
    assert store.runs() == runs

    found = end_unchanged(parameters | {"job": job, "overrides": (), "run_id": "given"})
    assert found is not None
    assert (found.status, found.model["version"]) == ("up_to_date", "1")
    assert read_verdict(store, "given") == found
    with (champion.folder / "people.csv").open("a") as table:
        table.write((champion.folder / "people.csv").read_text().splitlines()[-1] + "\n")
    assert end_unchanged(parameters | {"job": job}) is None
    assert sorted(store.runs()) == sorted([*runs, "given"])
