"""Words for what people write wrongly: values that a key does not take, and names of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from evenhand.tasks.written_input import (
    explained,
    listed_metrics,
    nearest_file,
    required_by,
)


class Section(BaseModel):
    """Keys of every kind that jobs have."""

    minutes: float = Field(1.0, ge=0.5, lt=100)
    seed: int = Field(0, gt=-1, le=9)
    refit: bool = True
    names: list[str] = Field(default_factory=list, min_length=0)
    kind: Literal["auto", "none"] = "auto"
    title: str = Field("a", min_length=1)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("minutes", -1, "must be at least 0.5, got -1"),
        ("minutes", 100, "must be below 100.0, got 100"),
        ("minutes", "soon", "must be a number, got 'soon'"),
        ("minutes", [1], "must be a number, got [1]"),
        ("minutes", float("nan"), "must be "),
        ("seed", -1, "must be above -1, got -1"),
        ("seed", 10, "must be at most 9, got 10"),
        ("seed", 1.5, "must be a whole number, got 1.5"),
        ("seed", "abc", "must be a whole number, got 'abc'"),
        ("refit", "perhaps", "must be true or false, got 'perhaps'"),
        ("names", "a", "must be a list, got 'a'"),
        ("names", [3], "must be text, got 3"),
        ("kind", "autoo", "must be one of 'auto' or 'none', got 'autoo' (did you mean 'auto'?)"),
        ("title", "", "must be text of 1 letters or more, got ''"),
    ],
)
def test_a_problem_names_what_is_asked_for_and_the_value(key: str, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Section(**{key: value})
    assert required_by(caught.value.errors()[0]).startswith(words)


def test_a_long_value_is_cut_and_a_secret_one_left_out() -> None:
    with pytest.raises(ValidationError) as caught:
        Section(seed="x" * 500)
    problem = caught.value.errors()[0]
    assert len(required_by(problem)) < 120
    assert str(explained(caught.value, "file: ")) == "file: seed: must be a whole number."


def test_the_nearest_file_is_one_of_the_folder(tmp_path: Path) -> None:
    for name in ("people.yaml", "people.csv", "other.csv"):
        (tmp_path / name).touch()
    assert nearest_file(tmp_path / "peple.csv") == " (did you mean 'people.csv'?)"
    # a link that leads to itself is there, and no help
    assert nearest_file(tmp_path / "other.csv") == ""
    assert nearest_file(tmp_path / "gehalt.csv") == ""
    assert nearest_file(tmp_path / "gone" / "people.csv") == ""


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("", "auc, gap_max.sex"),
        ("abcde", "auc, recall.a, recall.b, recall.c, recall.d, recall.e, gap_max.sex"),
        ("abcdef", "auc, recall.a, recall.b, recall of 4 more labels, gap_max.sex"),
    ],
)
def test_two_recalls_stand_for_those_of_many_labels(labels: str, words: str) -> None:
    assert listed_metrics(["auc", *(f"recall.{label}" for label in labels), "gap_max.sex"]) == words
