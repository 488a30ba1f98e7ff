"""Pictures of decision surfaces: what they are for can be measured, and they show what was
trained.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.reproductions import decision_surfaces
from benchmarks.reproductions.decision_surfaces import Panel
from evenhand.fairlib.plots.palette import LIGHT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def sensei() -> list[Panel]:
    return decision_surfaces.sensei(*decision_surfaces.people())


@pytest.fixture(scope="module")
def sensr() -> list[Panel]:
    return decision_surfaces.sensr(*decision_surfaces.people())


class _Formula:
    """A model whose logit is a formula."""

    def __init__(self, formula: Any) -> None:
        self.formula = formula

    def predict(self, X: Any) -> Any:
        return (self.formula(X[:, 0], X[:, 1]) > 0).astype(np.int64)

    def predict_proba(self, X: Any) -> Any:
        positive = 1 / (1 + np.exp(-self.formula(X[:, 0], X[:, 1])))
        return np.stack([1 - positive, positive], axis=1)


@pytest.mark.parametrize(
    ("formula", "share"),
    [
        (lambda a, b: b, 0.0),
        (lambda a, b: a, 1.0),
        (lambda a, b: a + b, 0.5),
        # variances add in squares of the slopes, whatever the scale
        (lambda a, b: 0.2 * a - 0.1 * b, 0.8),
        # an interaction alone has the same mean on every line
        (lambda a, b: a * b, 1.0),
    ],
)
def test_the_share_of_variation_sideways_of_known_surfaces(formula: Any, share: float) -> None:
    model: Any = _Formula(formula)
    assert decision_surfaces.sideways(model) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_depend_on_both_features_alike(seed: int) -> None:
    X, y = decision_surfaces.people(seed)
    assert np.abs(X).max() <= decision_surfaces.EDGE
    gaps = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    assert (gaps > 0.3).all()
    # noise moves some labels across the diagonal, not many
    assert 0.8 < (y == (X.sum(axis=1) > 0)).mean() < 1.0


@pytest.mark.long
def test_sensei_levels_a_tilted_surface_as_its_weight_grows(
    sensei: list[Panel],
) -> None:
    assert [panel.title for panel in sensei] == ["ρ = 0", "ρ = 0.3", "ρ = 1", "ρ = 30"]
    shares = [decision_surfaces.sideways(panel.model) for panel in sensei]
    assert all(after < 2 / 3 * before for before, after in zip(shares, shares[1:], strict=False))
    assert shares[0] > 0.4
    assert shares[-1] < 0.005


@pytest.mark.long
def test_sensr_is_nearly_level_at_every_budget_even_at_none(sensr: list[Panel]) -> None:
    assert sensr[0].title == "ε = 0"
    assert max(decision_surfaces.sideways(panel.model) for panel in sensr) < 0.05


@pytest.mark.long
def test_what_is_level_still_tells_people_apart(sensei: list[Panel], sensr: list[Panel]) -> None:
    X, _ = decision_surfaces.people()
    for panel in (sensei[-1], *sensr):
        assert 0.25 < panel.model.predict(X).mean() < 0.75, panel.title


@pytest.mark.long
def test_accuracy_pays_for_invariance(sensei: list[Panel]) -> None:
    X, y = decision_surfaces.people()
    right = [(panel.model.predict(X) == y).mean() for panel in sensei]
    assert right == sorted(right, reverse=True)
    assert right[0] > right[-1] + 0.1


def test_the_picture_shows_every_person_in_every_panel() -> None:
    """The picture is small and well formed."""
    X, y = decision_surfaces.people()
    formulas: dict[str, Any] = {"ρ = 0": lambda a, b: 4 * (a + b), "ρ = 1": lambda a, b: 4 * b}
    panels = [Panel(title, _Formula(formula)) for title, formula in formulas.items()]
    svg = decision_surfaces.draw("SenSeI", panels, X, y)
    root = ElementTree.fromstring(svg)
    assert root.findtext(f"{SVG}title") == "Decision surfaces of SenSeI"
    described = root.findtext(f"{SVG}desc")
    assert described
    assert all(panel.title in described for panel in panels)
    assert len(svg.encode()) < 150_000
    people = [
        item for item in root.iter(f"{SVG}path") if item.get("fill") in (LIGHT["c0"], LIGHT["c1"])
    ]
    # two more are in the legend
    assert len(people) == len(panels) * len(y) + 2
    titles = [item.text for item in root.iter(f"{SVG}text")]
    assert [panel.title for panel in panels] == [
        text for text in titles if text and text[1:4] == " = "
    ]


@pytest.mark.long
def test_training_again_draws_the_same_picture(sensei: list[Panel]) -> None:
    X, y = decision_surfaces.people()
    first = decision_surfaces.draw("SenSeI", sensei[1:2], X, y)
    again = decision_surfaces.draw(
        "SenSeI", decision_surfaces.sensei(X, y, decision_surfaces.WEIGHTS[1:2]), X, y
    )
    assert first == again
