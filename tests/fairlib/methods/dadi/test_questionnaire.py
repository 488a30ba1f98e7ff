"""One person at a time: answers in the table's words, what is unknown has no influence, clear
refusals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.questionnaire import Question, Questionnaire
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

COLUMNS = [
    ColumnSpec("income", "standard"),
    ColumnSpec("height", "unit", None, 100, 250),
    ColumnSpec("since", "date"),
    ColumnSpec("owner", "binary", "true"),
    ColumnSpec("job", "onehot"),
    ColumnSpec("level", "onehot"),
    ColumnSpec("origin", "onehot"),
    ColumnSpec("sex", "onehot"),
]
QUESTIONS = {
    "sex": Question("Sex.", "string", ["F", "M"]),
    "level": Question("Level.", "integer", [1, 2, 3]),
    "job": Question("Line of work.", "string", ["clerk", "smith", "cook", "monk"]),
    "owner": Question("Whether a house is owned.", "boolean"),
    "origin": Question("Place of birth.", "string"),
    "since": Question("First day.", "date", None, "2020-01-01", "2023-12-31"),
    "income": Question("Monthly income.", "number", None, 0, 9000),
    "height": Question("Height in cm.", "integer", None, 100),
}
# one answer to each question, and its value in the matrix
ANSWERS: dict[str, Any] = {
    "income": 3100.5,
    "height": 180,
    "since": "2021-05-06",
    "owner": "yes",
    "job": "cook",
    "level": 2,
    "origin": "north",
}


def people(rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.normal(3000, 500, rows),
            "height": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(150, 200, rows)),
            "since": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 1000, rows), unit="D"),
            "owner": rng.random(rows) < 0.5,
            "job": rng.choice(["clerk", "smith", "cook"], rows),
            "level": rng.integers(1, 4, rows),
            "origin": [
                None if value == "gone" else value
                for value in rng.choice(["north", "south", "gone"], rows)
            ],
            "sex": rng.choice(["F", "M"], rows),
        }
    )
    label = (frame["income"] + 600 * frame["owner"] + rng.normal(0, 300, rows) > 3300).astype(int)
    return frame, label.to_numpy()


@pytest.fixture(scope="module")
def made() -> tuple[TableEncoder, DADIClassifier]:
    frame, label = people()
    encoder = TableEncoder(COLUMNS).fit(frame)
    # gamma 1: whatever helps is asked
    model = DADIClassifier(
        gamma=1.0,
        hidden=(8, 8),
        memory_size=4,
        pretrain_iterations=60,
        n_iterations=60,
        agents=16,
        random_state=0,
    )
    X = encoder.transform(frame)
    model.fit(X, label, sensitive_features={"sex": frame["sex"]}, feature_groups=encoder.groups_)
    return encoder, model


@pytest.fixture(scope="module")
def asking(made: tuple[TableEncoder, DADIClassifier]) -> Questionnaire:
    return Questionnaire(*made, QUESTIONS, ("no", "yes"))


def row_of(encoder: TableEncoder, known: Mapping[str, Any]) -> np.ndarray:
    """A person as the whole table would have them, all that is unknown from somebody else."""
    frame, _ = people()
    row = frame.iloc[[7]].astype({"owner": object, "level": object, "height": object})
    for name, value in known.items():
        row[name] = [value]
    row["owner"] = [str(value).lower() in ("yes", "true") for value in row["owner"]]
    return encoder.transform(row)


def test_it_asks_and_predicts_as_the_model_does_on_the_whole_row(asking: Questionnaire) -> None:
    names = list(asking.model.groups_)
    for size in range(len(ANSWERS) + 1):
        known = dict(list(ANSWERS.items())[:size])
        X = row_of(asking.encoder, known)
        mask = np.array([[name in known for name in names]])
        *values, stop = asking.model.action_values(X, mask)[0]
        best = names[int(np.argmax(values))]
        assert asking.next_feature(known) == (best if max(values) > stop else None)
        said = asking.predict(known)
        probability = asking.model.predict_proba_known(X, mask)[0, 1]
        assert said["probability"] == pytest.approx(probability, abs=1e-6)
        assert said["prediction"] == ("yes" if probability > 0.5 else "no")


def test_the_order_of_answers_does_not_count(asking: Questionnaire) -> None:
    backwards = dict(reversed(ANSWERS.items()))
    assert asking.predict(backwards) == asking.predict(ANSWERS)
    assert asking.next_feature(backwards) == asking.next_feature(ANSWERS)


def test_what_is_unknown_has_no_influence(
    asking: Questionnaire, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenhand.fairlib.methods.dadi import questionnaire

    known = {"income": 2500, "job": "smith"}
    before = asking.predict(known), asking.next_feature(known)
    others = {"date": pd.Timestamp("2023-03-03"), "standard": 1e6, "unit": 1e6}
    monkeypatch.setattr(
        questionnaire,
        "_placeholder",
        lambda item: others[item.kind] if item.kind in others else item.categories[-1],
    )
    assert (asking.predict(known), asking.next_feature(known)) == before
    # the check can fail: what is known does count
    assert asking.predict({"income": 4000, "job": "smith"}) != before[0]


def test_an_agent_that_never_stops_asks_everything_it_may(
    asking: Questionnaire, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.array([[3.0, 1.0, 2.0, 7.0, 5.0, 6.0, 4.0, -np.inf, 0.0]])

    def fixed(X: np.ndarray, known: np.ndarray) -> np.ndarray:
        return np.where(np.append(known[0], False), -np.inf, values)

    monkeypatch.setattr(asking.model, "action_values", fixed)
    known: dict[str, Any] = {}
    order = []
    while (name := asking.next_feature(known)) is not None:
        order.append(name)
        known[name] = ANSWERS[name]
    assert order == ["owner", "level", "job", "origin", "income", "since", "height"]
    assert list(asking.worth({})) == order
    assert asking.worth({"level": 1}, excluded=["owner", "since"]) == {
        "job": 5.0,
        "origin": 4.0,
        "income": 3.0,
        "height": 1.0,
    }
    # whoever would not tell is asked the next best, and nothing twice
    assert asking.next_feature({}, excluded=["owner"]) == "level"
    assert asking.next_feature({"level": 1}, excluded=["owner", "job"]) == "origin"
    assert asking.next_feature({}, excluded=list(asking.questions)) is None
    values[0, :] = [0.0, -1, -1, 0.5, -1, -1, -1, -np.inf, 0.5]
    assert asking.next_feature({}) is None, "to stop comes first among equals"
    assert max(asking.worth({}).values()) == 0.0


def test_what_is_never_asked_is_no_question(asking: Questionnaire) -> None:
    assert set(asking.questions) == set(QUESTIONS) - {"sex"}
    for call in (asking.next_feature, asking.predict):
        with pytest.raises(ValueError, match="'sex' is never asked for; there are income, height"):
            call({"sex": "F"})
        with pytest.raises(
            ValueError, match="'wage' is no feature of this model; there are income"
        ):
            call({"wage": 3})
    with pytest.raises(ValueError, match="'wage' is no feature"):
        asking.next_feature({}, excluded=["wage"])


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("income", "zzyzx", "a number from 0 to 9000"),
        ("income", 9000.5, "a number from 0 to 9000"),
        ("income", -1, "a number from 0 to 9000"),
        ("income", float("inf"), "a number from 0 to 9000"),
        ("income", True, "a number from 0 to 9000"),
        ("income", [3], "a number from 0 to 9000"),
        ("income", None, "needs a value"),
        ("income", float("nan"), "needs a value"),
        ("height", 170.5, "a whole number, at least 100"),
        ("height", 99, "a whole number, at least 100"),
        ("since", "06.05.2021", "a date such as 2024-01-31 from 2020-01-01 to 2023-12-31"),
        ("since", "2024-01-01", "a date such as"),
        ("job", "zzyzx", "one of clerk, smith, cook"),
        # in the contract, and in no training row
        ("job", "monk", "one of clerk, smith, cook"),
        ("job", None, "needs a value"),
        ("level", 4, "one of 1, 2, 3"),
        ("level", "2.5", "one of 1, 2, 3"),
        ("owner", "perhaps", "one of false, true"),
    ],
)
def test_what_is_no_answer_is_refused_in_one_line(
    asking: Questionnaire, name: str, value: Any, wanted: str
) -> None:
    with pytest.raises(ValueError, match=wanted) as caught:
        asking.predict({name: value})
    message = str(caught.value)
    assert message.startswith(name)
    assert "\n" not in message
    assert "zzyzx" not in message
    with pytest.raises(ValueError, match=wanted):
        asking.check(name, value)


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("income", [3000, 3000.0, "3000", "3e3"]),
        ("level", [2, 2.0, "2", np.int64(2)]),
        ("owner", [True, "yes", "TRUE", np.bool_(True)]),
        ("since", ["2021-05-06", pd.Timestamp("2021-05-06"), pd.Timestamp("2021-05-06").date()]),
    ],
)
def test_a_value_may_be_written_in_several_ways(
    asking: Questionnaire, name: str, ways: list[Any]
) -> None:
    said = [asking.predict({name: way}) for way in ways]
    assert all(one == said[0] for one in said)


def test_a_value_that_rows_may_lack_may_be_lacking(asking: Questionnaire) -> None:
    """That is an answer: the matrix has columns for it."""
    names = list(asking.model.groups_)
    for name in ("height", "origin"):
        X = row_of(asking.encoder, {name: None})
        mask = np.array([[other == name for other in names]])
        expected = asking.model.predict_proba_known(X, mask)[0, 1]
        assert asking.predict({name: None})["probability"] == pytest.approx(expected, abs=1e-6)
    assert asking.choices("origin") == ["(missing)", "north", "south"]


def test_choices_are_those_that_the_encoder_takes(asking: Questionnaire) -> None:
    assert asking.choices("job") == ["clerk", "smith", "cook"]
    assert asking.choices("level") == ["1", "2", "3"]
    assert asking.choices("owner") == ["false", "true"]
    assert asking.choices("income") is None
    assert asking.questions["income"].expected == "a number from 0 to 9000"
    assert asking.questions["height"].expected == "a whole number, at least 100"
    for name, choices in ((name, asking.choices(name)) for name in asking.questions):
        for choice in choices or []:
            asking.check(name, None if choice == "(missing)" else choice)


def test_categories_ignored_where_unseen_are_choices_too(
    made: tuple[TableEncoder, DADIClassifier],
) -> None:
    encoder, model = made
    frame, _ = people()
    lenient = TableEncoder(COLUMNS, "ignore").fit(frame)
    asking = Questionnaire(lenient, model, QUESTIONS, ("no", "yes"))
    assert asking.choices("job") == ["clerk", "smith", "cook", "monk"]
    assert 0 < asking.predict({"job": "monk"})["probability"] < 1


def test_a_bundle_gives_the_same_answers(asking: Questionnaire, tmp_path: Path) -> None:
    asking.encoder.save(tmp_path / "encoder.json")
    asking.model.save(tmp_path / "model")
    inputs = {"questions": {name: vars(question) for name, question in QUESTIONS.items()}}
    (tmp_path / "inputs.json").write_text(
        json.dumps(inputs | {"label_values": ["no", "yes"]}, sort_keys=True)
    )
    loaded = Questionnaire.load(tmp_path)
    assert list(loaded.questions) == list(asking.questions)
    for size in range(len(ANSWERS) + 1):
        known = dict(list(ANSWERS.items())[:size])
        assert loaded.predict(known) == asking.predict(known)
        assert loaded.next_feature(known) == asking.next_feature(known)


def test_what_is_no_bundle_of_an_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"has no inputs.json: give the folder of a published model"
    ):
        Questionnaire.load(tmp_path)
    (tmp_path / "inputs.json").write_text("{}")
    with pytest.raises(ValueError, match="asks no questions"):
        Questionnaire.load(tmp_path)
