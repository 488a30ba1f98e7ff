"""Which samples of the loans the benchmark measures, and how it chooses a margin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.page_generators import paper_figures
from benchmarks.reproductions import dadi_agents, dadi_paper
from evenhand.fairlib.datasets.generated import make_loans
from evenhand.fairlib.methods.dadi.agent_training import weighted_losses


class StandIn:
    """An agent that is not trained."""

    def __init__(self, **settings: Any) -> None:
        pass

    def fit_and_keep(self, *_: Any) -> None:
        """Do nothing."""

    def gains(self, margin: float) -> Any:
        """Earn nothing."""
        return np.zeros(2)


OLD = {"chosen": "before"}


@pytest.mark.parametrize(
    ("kept", "measured"),
    [([], [0, 1, 2]), ([OLD], [1, 2]), ([OLD] * 3, [0, 1, 2]), ([OLD, {}, OLD], [1])],
)
def test_interrupted_parts_continue_and_complete_ones_restart(
    kept: list[Any], measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    replaced: dict[str, Any] = {
        "SEEDS": 3,
        "loans": lambda seed: seen.append(seed),
        "split": lambda *_: [([], [])],
        "AgentWithAdversary": StandIn,
        "asked": lambda *_: {"selected": {}, "x10_by_x9": []},
        "save": lambda *_: None,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(dadi_paper, name, value)
    content = {"seeds": [dict(sample) for sample in kept]}
    dadi_paper.loans_part(content)
    assert seen == measured
    before = [sample["chosen"] == "before" for sample in content["seeds"]]
    assert before == [seed not in measured for seed in range(3)]


def test_the_margin_of_the_largest_gain_is_chosen_by_hand() -> None:
    gains = {0.0: np.array([1.0, 2.0]), -0.1: np.array([2.0, 3.5]), -0.2: np.array([0.0, 9.0])}
    best, rows = dadi_paper.chosen_margin(gains)
    assert best == -0.2
    assert [row["gain"] for row in rows] == pytest.approx([0.0, 1.25, 3.0])
    # of two people the standard error is half of their difference
    assert [row["error"] for row in rows] == pytest.approx([0.0, 0.25, 4.0])
    equal = {0.0: np.zeros(2), -0.2: np.ones(2), -0.1: np.ones(2)}
    assert dadi_paper.chosen_margin(equal)[0] == -0.1


def test_an_agent_keeps_its_adversary_and_ends_its_margin() -> None:
    table = dadi_paper.Table(
        make_loans(300, seed=0).drop(columns=["group", "repaid"]),
        make_loans(300, seed=0)["repaid"].to_numpy(),
        (make_loans(300, seed=0)["group"] == "b").to_numpy().astype(np.int64),
    )
    settings = {**dadi_paper.LOANS, "n_iterations": 5, "pretrain_iterations": 5}
    model = dadi_paper.AgentWithAdversary(**settings, random_state=0)
    model.fit_and_keep(table, np.arange(300))
    before = model.acquire(table.X)
    # nobody is asked for anything, so both networks know nothing
    none = np.zeros((len(model.learned), len(model.groups_)), bool)
    people = np.arange(len(none))
    label = model._network.outputs("classify", model.learned, none)
    group = model.adversary.outputs("classify", model.learned, none)
    expected = 0.5 * weighted_losses(group, model.problem.attribute, people)[0]
    expected -= 0.5 * weighted_losses(label, model.problem.label, people)[0]
    np.testing.assert_allclose(model.gains(1e6), expected)
    np.testing.assert_array_equal(model.acquire(table.X).known, before.known)


def asked_row(margin: float, share: float) -> dict[str, Any]:
    """What a sample has of a margin."""
    return {"margin": margin, "selected": {"X1": share}, "x10_by_x9": [share, 0.0, 1.0]}


@pytest.mark.parametrize(("chosen", "note"), [(2, ""), (1, " (sample 0)")])
def test_chosen_margins_are_a_row_of_the_page(
    chosen: int, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples: list[dict[str, Any]] = [
        {"margins": [asked_row(0.0, share), asked_row(-0.005, 1.0)]} for share in (0.2, 0.4)
    ]
    for sample in samples[:chosen]:
        sample["margins"].append(asked_row(0.0, 0.9))
        sample["chosen"] = 0.0
    content = {"loans": {"result": {"seeds": samples}}}
    monkeypatch.setattr(paper_figures, "read_result", lambda name: content)
    lines = list(paper_figures.loans_table())
    assert "| 0 | 0.30 | 0.30 / 0.00 / 1.00 |" in lines
    margins = ", ".join(["0"] * chosen)
    row = f"| chosen on the training people: {margins}{note} | 0.90 | 0.90 / 0.00 / 1.00 |"
    assert row in lines


@pytest.fixture
def two_folds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agents at the printed settings: three of the first fold, two of the second, one of the
    last, each with so much more AUC and so many more questions than the shortened one.
    """
    short = dadi_agents.shortened_agents()
    changes = {0: {0.1: 0.01, 0.5: 0.03, 0.9: -0.05}, 1: {0.1: 0.02, 0.5: 0.04}, 5: {0.1: 9.0}}
    folds: dict[str, Any] = {}
    for fold, by_gamma in changes.items():
        for gamma, change in by_gamma.items():
            agent = {"gamma": gamma, "disparity": 0.0, "adversary_auc": 0.6}
            earlier = short[gamma][min(fold, 2)]
            agent |= {name: earlier[name] + change for name in ("auc", "asked")}
            agent["selected"] = {}
            folds.setdefault(str(fold), {})[str(gamma)] = agent
    read = dadi_agents.read_result

    def patched(name: str) -> dict[str, Any]:
        return {"folds": folds} if name == "papers_dadi_printed" else read(name)

    monkeypatch.setattr(dadi_agents, "read_result", patched)
    dadi_agents.printed_agents.cache_clear()
    yield
    dadi_agents.printed_agents.cache_clear()


@pytest.mark.usefixtures("two_folds")
def test_iterations_are_compared_in_pairs_of_fold_and_gamma() -> None:
    change = dadi_agents.difference("auc")
    # the last fold has no shortened agents
    values = [0.01, 0.03, -0.05, 0.02, 0.04]
    assert change is not None
    assert change.value.mean == pytest.approx(np.mean(values))
    assert change.value.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(5))
    assert (change.folds, change.largest_gamma) == (2, 0.9)
    assert change.largest == pytest.approx(-0.05)
    low = dadi_agents.difference("asked", dadi_agents.EVEN_GAMMAS)
    assert low is not None
    assert low.value.mean == pytest.approx(0.015)
    assert dadi_agents.difference("auc", (0.7,)) is None


@pytest.mark.usefixtures("two_folds")
def test_the_page_states_folds_settings_and_differences() -> None:
    text = "\n".join(paper_figures.dadi_points())
    assert "6 of 108 agents at the printed settings" in text
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    by_gamma = {row[0]: row for row in rows}
    assert by_gamma["0.1"][-2:] == ["3 of 6", "printed"]
    assert by_gamma["0.15"][-2:] == ["3 of 6", "shortened"]
    assert by_gamma["pairs"][1:4] == ["5 of 2 folds", "2 of 2 folds", "3 of 2 folds"]
    assert by_gamma["AUC"][1] == "+0.010 ± 0.016"
    assert by_gamma["AUC"][4] == "-0.050 at γ 0.9"
    assert by_gamma["disparity"][3].startswith("-0.")
    # of the disparity alone, which is 0 after more iterations
    assert "beyond two standard errors: disparity." in text
