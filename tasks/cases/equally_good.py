"""Models that are as good as a published one: their folder in the store, and what they decide about
single people.

A search for alternatives finds settings that are as good as the model. Of some of them it keeps a
model, drawn at random. So a case can say how many of these decide otherwise about its person.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.fairlib.evaluation.closed_intervals import drawn_interval, rate_interval
from evenhand.tasks.cases.explained_model import ExplainedModel, Person
from evenhand.tasks.errors import EvenhandError, InputError, input_errors
from evenhand.tasks.execution.store import Store, sha256_of_path
from evenhand.tasks.registry.bundle import read_bundle

# Folder of a store; within it a folder for each search, by the digest of its models.
FOLDER = "equally-good"
LEVEL = 0.95
# Ends of intervals are given to four decimals.
SCALE = 10_000
# People whose decisions are computed together.
BLOCK = 4096
NOT_KEPT = "its search kept no such model"
NOT_IN_STORE = "the models that its search kept are not in this store, or were changed"
NOT_ASKED = "the models that its search kept cannot decide about this row"


@dataclass(frozen=True)
class ModelFiles:
    """What the folder of a model is made of."""

    name: str  # of the folder, such as the number of the trial
    model: Path
    encoder: Path
    evaluation: Mapping[str, Any]  # as of a published model
    inputs: Mapping[str, Any]

    def write(self, place: Path) -> None:
        """Write the folder below `place`."""
        folder = place / self.name
        folder.mkdir(parents=True)
        shutil.copytree(self.model, folder / "model")
        shutil.copyfile(self.encoder, folder / "encoder.json")
        (folder / "evaluation.json").write_text(json.dumps(self.evaluation, sort_keys=True))
        (folder / "inputs.json").write_text(json.dumps(self.inputs, sort_keys=True))


def keep(store: Store, models: Iterable[ModelFiles]) -> str | None:
    """Keep models in the store, each as it comes; return the digest by which their folder is found,
    or None without any.

    The store is on this machine. The folder appears with all of its files, or not at all.
    """
    with store.workdir() as scratch:
        made = scratch / FOLDER
        for model in models:
            model.write(made)
        if not made.is_dir():
            return None
        digest, _, _ = sha256_of_path(made)
        if kept_folder(store, digest) is None:
            # one that was changed would be in the way
            shutil.rmtree(store.path(FOLDER, digest), ignore_errors=True)
            try:
                store.move_in(made, FOLDER, digest)
            except OSError:
                # another command may have kept the same models meanwhile
                if kept_folder(store, digest) is None:
                    raise
    return digest


def kept_folder(store: Store, digest: str) -> Path | None:
    """Return the folder with these models; None if this store lacks it, or it was changed."""
    is_digest = len(digest) == 64 and digest.isalnum()
    if not store.is_local or not is_digest:
        return None
    folder = Path(store.path(FOLDER, digest))
    if not folder.is_dir() or sha256_of_path(folder)[0] != digest:
        return None
    return folder


@dataclass(frozen=True)
class OtherDecisions:
    """What the models decide about people: by the row, how many of them were asked and how many of
    these decide otherwise; or the reason why none was asked.

    `drawn` settings were drawn at random of `population` different ones, or of many more where that
    is None. Those without a model, or whose model cannot decide about a person, may decide either
    way.
    """

    by_row: Mapping[int, tuple[int, int]]
    drawn: int = 0
    population: int | None = None
    reason: str = ""

    def about(self, person: Person) -> dict[str, Any]:
        """Return what a case says about its person, as plain JSON."""
        asked, otherwise = self.by_row.get(person.row, (0, 0))
        if not asked:
            return {"models": 0, "reason": self.reason or NOT_ASKED}
        unknown = self.drawn - asked
        low, _ = self._interval(otherwise)
        _, high = self._interval(otherwise + unknown)
        return {
            "models": asked,
            "otherwise": otherwise,
            "drawn": self.drawn,
            "of": self.population,
            # outward, so that the stated interval has the level
            "low": math.floor(low * SCALE) / SCALE,
            "high": math.ceil(high * SCALE) / SCALE,
            "level": LEVEL,
        }

    def _interval(self, otherwise: int) -> tuple[float, float]:
        """Return the exact interval of the share of all settings that decide otherwise."""
        if self.population is None:
            return rate_interval(otherwise, self.drawn, LEVEL)
        return drawn_interval(otherwise, self.drawn, self.population, LEVEL)


def other_decisions(
    search: Mapping[str, Any],
    store: Store,
    location: str,
    decided: Mapping[int, tuple[Person, bool]],
) -> OtherDecisions:
    """Ask the models that a recorded search kept about people of a table.

    `decided` has by the number of a row the person, and whether the decision is positive. A model
    that needs a column which the table lacks is not asked.
    """
    kept = search.get("kept")
    if not isinstance(kept, Mapping) or not isinstance(kept.get("sha256"), str):
        return OtherDecisions({}, reason=NOT_KEPT)
    folder = kept_folder(store, kept["sha256"])
    if folder is None:
        return OtherDecisions({}, reason=NOT_IN_STORE)
    asked = dict.fromkeys(decided, 0)
    otherwise = dict.fromkeys(decided, 0)
    places = sorted(folder.iterdir())
    for place in places:
        for row, is_positive in _decisions_of(place, location, decided):
            asked[row] += 1
            otherwise[row] += is_positive != decided[row][1]
    by_row = {row: (asked[row], otherwise[row]) for row in decided}
    drawn = kept.get("drawn")
    if not isinstance(drawn, int) or drawn < len(places):
        drawn = len(places)
    population = kept.get("of")
    if not isinstance(population, int) or population < drawn:
        population = None
    return OtherDecisions(by_row, drawn, population)


def _decisions_of(
    place: Path, location: str, decided: Mapping[int, tuple[Person, bool]]
) -> list[tuple[int, bool]]:
    """Return a model's decisions about rows of a table; none if it cannot read the table."""
    decisions: list[tuple[int, bool]] = []
    # a model that cannot be used here, as one whose extra is not installed, is not asked
    with suppress(EvenhandError, ValueError, ImportError):
        model = ExplainedModel(read_bundle(place, None, None, str(place)), {})
        people = []
        for person in model.read(location).people:
            # the table may have changed since it was read first
            if person.row in decided and _is_same(person, decided[person.row][0]):
                people.append(person)
        for start in range(0, len(people), BLOCK):
            decisions += _decided(model, people[start : start + BLOCK])
    return decisions


def _is_same(person: Person, other: Person) -> bool:
    """Whether two readings of a row have the same values in the columns that both have."""
    common = person.values.keys() & other.values.keys()
    return all(repr(person.values[name]) == repr(other.values[name]) for name in common)


def _decided(model: ExplainedModel, people: Sequence[Person]) -> list[tuple[int, bool]]:
    """Return the decisions about people, without those that the model cannot decide about, such as
    a person of a group for which it has no threshold.
    """
    try:
        with input_errors():
            _, positive, _ = model.decide(people)
    except InputError:
        if len(people) == 1:
            return []
        decisions = []
        for person in people:
            decisions += _decided(model, [person])
        return decisions
    numbers = [person.row for person in people]
    return list(zip(numbers, positive.tolist(), strict=True))
