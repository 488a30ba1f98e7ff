"""Planted worlds that were written after the defaults of all methods were set.

Four came first; a rule of the learned metric changed after their first run. Two more were written
before a second change, and show what it does to worlds that nobody had in mind.
"""

from __future__ import annotations

from evenhand.fairlib.datasets.planted import (
    MINORITY,
    SEX,
    TESTS,
    THREE,
    Attribute,
    CategoricalFeature,
    LabelBias,
    NumericFeature,
    PairedFeatures,
    PlantedWorld,
    level_effects,
    names_of_levels,
    shifted,
)


def _worlds() -> tuple[PlantedWorld, ...]:
    """Worlds that were written after all defaults were set, and run once."""
    salaries = PlantedWorld(
        "salaries",
        "skewed incomes, whole numbers and a job of 8 levels; every column but one shows merit",
        (Attribute("sex", ("man", "woman"), (0.65, 0.35)),),
        (
            NumericFeature("test", merit=0.9, noise=0.9),
            NumericFeature("income", 0.5, 0.5, {"sex": (0.2, -0.2)}, shape="income"),
            NumericFeature("years", 0.4, 1.0, {"sex": (0.3, -0.5)}, shape="whole"),
            NumericFeature("children", 0.0, 0.8, {"sex": (-0.2, 0.6)}, shape="whole"),
            CategoricalFeature(
                "job",
                names_of_levels("job", 8),
                merit=(-0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7),
                effects={"sex": level_effects(8, 0.7, seed=11)},
            ),
        ),
        LabelBias("thresholds", {"sex": (-0.2, 0.5)}),
    )
    small = PlantedWorld(
        "small-groups",
        "four groups, the smallest of 8 %, unequal spreads, many levels, an earned difference",
        (Attribute("origin", ("one", "two", "three", "four"), (0.6, 0.2, 0.12, 0.08)),),
        (
            NumericFeature("training", effects={"origin": (0.2, 0.0, -0.2, -0.5)}, legitimate=True),
            *TESTS,
            NumericFeature("accent", effects={"origin": (-0.5, 0.2, 0.7, 1.0)}),
            NumericFeature("rating", 0.8, 0.7, {"origin": (0.2, -0.1, -0.4, -0.6)}),
            NumericFeature("swing", effects={"origin": (0.0, 0.4, 0.4, 0.8)}, shape="stretch"),
            CategoricalFeature(
                "town",
                names_of_levels("town", 15),
                effects={"origin": level_effects(15, 0.8, 4, seed=12)},
            ),
        ),
        LabelBias("flips", {"origin": (0.0, 0.15, 0.3, 0.45)}),
    )
    crossed = PlantedWorld(
        "crossed",
        "two attributes of two and three groups, a pair of columns, a bent merit column",
        (SEX, THREE),
        (
            NumericFeature("test", merit=1.0, noise=0.9),
            PairedFeatures(("rent", "size"), "difference", {"region": (0.8, 0.0, -0.8)}),
            NumericFeature("grade", 0.8, 0.7, {"sex": (0.0, 0.8)}, shape="bend"),
            NumericFeature("essay", 0.6, 0.8, {"sex": (-0.3, 0.3), "region": (0.3, 0.0, -0.3)}),
            shifted("height", 0.55),
        ),
        LabelBias("selective", {"sex": (0.0, 0.8), "region": (0.0, 0.4, 1.2)}),
    )
    traces = PlantedWorld(
        "traces",
        "nine columns that each show a little merit and a little of the group, and a hidden sign",
        (MINORITY,),
        (
            *(shifted(f"trace{j}", 0.12 + 0.02 * j, "origin", merit=0.35) for j in range(8)),
            NumericFeature("points", 0.6, 0.8, {"origin": (0.2, -0.4)}, shape="whole"),
            PairedFeatures(("left", "right"), "sign", {"origin": (1.0, -1.0)}),
        ),
        LabelBias("flips", {"origin": (0.0, 0.45)}),
    )
    return (salaries, small, crossed, traces)


def _second_worlds() -> tuple[PlantedWorld, ...]:
    """Worlds that were written before the second change of a rule."""
    clinic = PlantedWorld(
        "clinic",
        "laboratory values, counts and a coarse finding of patients under three insurances",
        (Attribute("insurance", ("public", "private", "none"), (0.55, 0.28, 0.17)),),
        (
            NumericFeature("pressure", merit=0.7, noise=0.7),
            NumericFeature("enzyme", 0.6, 0.6, {"insurance": (0.0, 0.15, -0.3)}, shape="income"),
            NumericFeature("visits", 0.5, 0.9, {"insurance": (0.0, 0.9, -0.7)}, shape="whole"),
            NumericFeature("wait", 0.0, 0.6, {"insurance": (0.0, -0.7, 0.5)}, shape="income"),
            NumericFeature("density", 0.6, 0.6, {"insurance": (0.0, -0.3, 0.4)}, shape="stretch"),
            CategoricalFeature(
                "finding",
                names_of_levels("f", 3),
                merit=(-1.0, 0.0, 1.2),
                effects={"insurance": ((0.0, 0.0, 0.0), (-0.3, 0.0, 0.6), (0.5, 0.0, -0.7))},
            ),
        ),
        LabelBias("selective", {"insurance": (0.0, 0.0, 1.6)}),
    )
    answers = []
    for number in range(6):
        effect = 0.25 + 0.15 * number
        answers.append(
            CategoricalFeature(
                f"answer{number}",
                ("yes", "no"),
                merit=(0.9, 0.0),
                effects={"origin": ((0.0, 0.0), (-effect, 0.0))},
            )
        )
    questionnaire = PlantedWorld(
        "questionnaire",
        "six yes-or-no answers that each show merit and group, a bent speed, two harmless columns",
        (Attribute("origin", ("most", "few"), (0.8, 0.2)),),
        (
            *answers,
            NumericFeature("speed", 0.7, 0.8, {"origin": (0.0, -0.6)}, shape="bend"),
            NumericFeature("colour"),
            PairedFeatures(("arrival", "departure"), "difference", {"origin": (0.5, -0.5)}),
        ),
        LabelBias("thresholds", {"origin": (0.0, 0.8)}),
    )
    return (clinic, questionnaire)


FIRST_UNSEEN: tuple[str, ...] = tuple(world.name for world in _worlds())
"""Names of the worlds after whose first run a rule changed."""

UNSEEN_WORLDS: dict[str, PlantedWorld] = {
    world.name: world for world in (*_worlds(), *_second_worlds())
}
"""Worlds on which nothing was tuned, by name."""
