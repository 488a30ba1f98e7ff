"""Worlds with known truth: structural models of people, in which the unfairness was planted.

A world draws people with a merit, group memberships and features. The true label follows from the
merit alone; the recorded label is biased against groups. Each person's noise is kept, so that the
features of the same person under another group can be computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Int

if TYPE_CHECKING:
    import pandas as pd

Shape = Literal["shift", "stretch", "bend", "bumps", "whole", "income"]
BiasKind = Literal["none", "flips", "thresholds", "selective"]
# Mean of exp(v / 2) for a standard normal v, so that a bent column keeps its mean.
MEAN_OF_BEND = math.exp(1 / 8)


def shift_of(strength: float) -> float:
    r"""Difference of two group means, in standard deviations within a group, for a correlation.

    .. math:: d = \frac{2 s}{\sqrt{1 - s^2}}

    Two groups of equal size whose means differ by `d` have the correlation `s` with the column.

    Parameters
    ----------
    strength : float
        Correlation, at least 0 and below 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(shift_of(0.6), 3)
    1.5
    """
    return 2 * strength / math.sqrt(1 - strength * strength)


@dataclass(frozen=True)
class Attribute:
    """A sensitive attribute.

    Parameters
    ----------
    name : str
    groups : tuple of str
        Names of its 2 or more groups.
    shares : tuple of float
        Share of people in each group; they sum to 1.
    """

    name: str
    groups: tuple[str, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class NumericFeature:
    r"""A number that may depend on merit and on groups.

    With :math:`v = w m + \sigma e`, the merit m, standard normal noise e, and the sum b of the
    person's group effects, the column is

    - ``shift``: :math:`v + b`
    - ``stretch``: :math:`v e^{b}`, an unequal spread
    - ``bend``: :math:`v + b (e^{v / 2} - e^{1 / 8})`, an unequal shape
    - ``bumps``: :math:`v + b` or :math:`v - b` by chance, half each, so that means are equal
    - ``whole``: :math:`2 (v + b)`, rounded to a whole number
    - ``income``: :math:`e^{v + b}`, all positive and skewed

    Parameters
    ----------
    name : str
    merit : float, default 0
        w.
    noise : float, default 1
        :math:`\sigma`.
    effects : mapping of str to tuple of float
        By attribute, the effect of each of its groups.
    shape : {"shift", "stretch", "bend", "bumps", "whole", "income"}, default "shift"
    legitimate : bool, default False
        Whether the column is a legitimate cause of merit: merit then depends on it, and it stays as
        it is when a person is regenerated.
    """

    name: str
    merit: float = 0.0
    noise: float = 1.0
    effects: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    shape: Shape = "shift"
    legitimate: bool = False


@dataclass(frozen=True)
class CategoricalFeature:
    r"""A category: the largest of the logits with standard Gumbel noise.

    The logit of level k is :math:`a_k + w_k m + b_k`, with the merit m and the sum of the person's
    group effects on this level.

    Parameters
    ----------
    name : str
    levels : tuple of str
    merit : tuple of float
        Slope of each level's logit in the merit; empty for none.
    base : tuple of float
        Logit of each level without effects; empty for equal ones.
    effects : mapping of str to tuple of tuple of float
        By attribute, for each of its groups the effect on every level.
    """

    name: str
    levels: tuple[str, ...]
    merit: tuple[float, ...] = ()
    base: tuple[float, ...] = ()
    effects: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PairedFeatures:
    r"""Two numbers that look harmless alone and reveal the groups together.

    ``difference``: :math:`x_1 = z` and :math:`x_2 = z + b + \sigma e`, with z of a wide spread.
    ``sign``: :math:`x_1 = s |e_1|` and :math:`x_2 = s\, |e_2|` with a random sign s, times the
    sign of b: each column has the same distribution in every group, their product has not.

    Parameters
    ----------
    names : tuple of two str
    kind : {"difference", "sign"}
    effects : mapping of str to tuple of float
        By attribute, the effect of each of its groups.
    noise : float, default 1
        :math:`\sigma`.
    spread : float, default 4
        Standard deviation of z.
    """

    names: tuple[str, str]
    kind: Literal["difference", "sign"]
    effects: Mapping[str, tuple[float, ...]]
    noise: float = 1.0
    spread: float = 4.0


Feature = NumericFeature | CategoricalFeature | PairedFeatures


@dataclass(frozen=True)
class LabelBias:
    """How the recorded label differs from the true one.

    Parameters
    ----------
    kind : {"none", "flips", "thresholds", "selective"}
        ``flips``: a positive of a group becomes negative with the group's probability;
        ``thresholds``: the score must exceed the group's amount; ``selective``: people of a group
        had a chance only with a probability that rises with their score, and without one are
        recorded as negative.
    effects : mapping of str to tuple of float
        By attribute, for each group the probability, the amount, or the severity (0: everybody had
        a chance).
    """

    kind: BiasKind = "none"
    effects: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PlantedWorld:
    r"""A structural model of people.

    The merit is :math:`m = \sqrt{1 - \sum w^2}\, e + \sum w L` with the legitimate columns L, the
    score :math:`m + \sigma e`, and the true label says whether the score is positive.

    Parameters
    ----------
    name : str
    summary : str
        What it has, in a line.
    attributes : tuple of Attribute
    features : tuple of feature
    bias : LabelBias
    legitimate_weight : float, default .6
        w of each legitimate column.
    label_noise : float, default .5
        :math:`\sigma` of the score.

    Examples
    --------
    >>> people = WORLDS["linear"].draw(5, np.random.default_rng(0))
    >>> same = people.regenerate(people.groups)
    >>> bool(same.equals(people.table))
    True
    """

    name: str
    summary: str
    attributes: tuple[Attribute, ...]
    features: tuple[Feature, ...]
    bias: LabelBias = LabelBias()
    legitimate_weight: float = 0.6
    label_noise: float = 0.5

    @property
    def legitimate(self) -> tuple[str, ...]:
        """Names of the columns that are legitimate causes of merit."""
        return tuple(feature.name for feature in self.causes)

    @property
    def causes(self) -> tuple[NumericFeature, ...]:
        """Features that are legitimate causes of merit."""
        causes = []
        for feature in self.features:
            if isinstance(feature, NumericFeature) and feature.legitimate:
                causes.append(feature)
        return tuple(causes)

    def draw(self, n: int, rng: np.random.Generator) -> PlantedPeople:
        """Draw people.

        Parameters
        ----------
        n : int
            Number of people, at least 1.
        rng : numpy.random.Generator

        Returns
        -------
        PlantedPeople

        Raises
        ------
        ValueError
            If n is below 1.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}.")
        groups = {}
        for attribute in self.attributes:
            groups[attribute.name] = rng.choice(
                len(attribute.groups), size=n, p=attribute.shares
            ).astype(np.int64)
        noise = {feature_key(feature): draw_noise(feature, n, rng) for feature in self.features}
        merit = rng.standard_normal(n)
        merit *= math.sqrt(1 - len(self.causes) * self.legitimate_weight**2)
        for feature in self.causes:
            column = numeric_column(feature, np.zeros(n), groups, noise[feature_key(feature)])
            merit += self.legitimate_weight * column
        score = merit + self.label_noise * rng.standard_normal(n)
        true_label = (score > 0).astype(np.int64)
        label = recorded_label(self.bias, score, groups, rng.random(n))
        table = feature_table(self, merit, groups, noise, None)
        return PlantedPeople(
            world=self,
            groups=groups,
            merit=merit,
            noise=noise,
            table=table,
            true_label=true_label,
            label=label,
        )


@dataclass(frozen=True, eq=False)
class PlantedPeople:
    """People of a planted world.

    Parameters
    ----------
    world : PlantedWorld
    groups : mapping of str to ndarray of int, shape (n,)
        By attribute, the position of each person's group.
    merit : ndarray of float, shape (n,)
    noise : mapping of str to ndarray
        Each feature's noise.
    table : DataFrame, n rows
        The attributes and the features, as a recruiter would see them.
    true_label, label : ndarray of int, shape (n,)
        0 or 1: what the person deserves, and what was recorded.
    """

    world: PlantedWorld
    groups: Mapping[str, Int]
    merit: Float
    noise: Mapping[str, Float]
    table: pd.DataFrame
    true_label: Int
    label: Int

    def regenerate(self, groups: Mapping[str, ArrayLike]) -> pd.DataFrame:
        """The table of the same people with the same noise and merit under other groups.

        Parameters
        ----------
        groups : mapping of str to int or array of int, shape (n,)
            By attribute, the position of each person's group; attributes left out stay as they are.

        Returns
        -------
        DataFrame, n rows
            Legitimate columns stay as they are.

        Raises
        ------
        ValueError
            If an attribute or a group is unknown.
        """
        changed = dict(self.groups)
        sizes = {attribute.name: len(attribute.groups) for attribute in self.world.attributes}
        for name, codes in groups.items():
            if name not in sizes:
                raise ValueError(f"groups names {name!r}; the world has {', '.join(sizes)}.")
            changed[name] = np.broadcast_to(np.asarray(codes, dtype=np.int64), self.merit.shape)
            if changed[name].min() < 0 or changed[name].max() >= sizes[name]:
                raise ValueError(
                    f"groups of {name!r} must be positions from 0 to {sizes[name] - 1}."
                )
        return feature_table(self.world, self.merit, changed, self.noise, self.table)

    def every_group(self) -> list[pd.DataFrame]:
        """The table of the same people under every combination of groups, in a fixed order.

        Returns
        -------
        list of DataFrame, n rows
        """
        combinations: list[dict[str, int]] = [{}]
        for attribute in self.world.attributes:
            extended = []
            for combination in combinations:
                for code in range(len(attribute.groups)):
                    extended.append(combination | {attribute.name: code})
            combinations = extended
        return [self.regenerate(combination) for combination in combinations]


def feature_key(feature: Feature) -> str:
    """Name of a feature's noise.

    Parameters
    ----------
    feature : feature

    Returns
    -------
    str
    """
    if isinstance(feature, PairedFeatures):
        return "+".join(feature.names)
    return feature.name


def draw_noise(feature: Feature, n: int, rng: np.random.Generator) -> Float:
    """Noise of a feature that does not depend on groups.

    Parameters
    ----------
    feature : feature
    n : int
        Number of people.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float, shape (n, k)
        Two columns of a number, one for each level of a category, three of a pair.
    """
    if isinstance(feature, CategoricalFeature):
        return rng.gumbel(size=(n, len(feature.levels)))
    if isinstance(feature, PairedFeatures):
        return rng.standard_normal((n, 3))
    return rng.standard_normal((n, 2))


def effect_sum(effects: Mapping[str, Sequence[float]], groups: Mapping[str, Int]) -> Float:
    """Sum over attributes of the effect of each person's group.

    Parameters
    ----------
    effects : mapping of str to sequence of float
        By attribute, the effect of each of its groups.
    groups : mapping of str to ndarray of int, shape (n,)

    Returns
    -------
    ndarray of float, shape (n,)
    """
    n = len(next(iter(groups.values())))
    total = np.zeros(n)
    for attribute, amounts in effects.items():
        total += np.asarray(amounts, dtype=np.float64)[groups[attribute]]
    return total


def numeric_column(
    feature: NumericFeature, merit: Float, groups: Mapping[str, Int], noise: Float
) -> Float:
    """Values of a numeric feature; see :class:`NumericFeature`.

    Parameters
    ----------
    feature : NumericFeature
    merit : ndarray of float, shape (n,)
    groups : mapping of str to ndarray of int, shape (n,)
    noise : ndarray of float, shape (n, 2)

    Returns
    -------
    ndarray of float, shape (n,)
    """
    value = feature.merit * merit + feature.noise * noise[:, 0]
    effect = effect_sum(feature.effects, groups)
    if feature.shape == "stretch":
        return value * np.exp(effect)
    if feature.shape == "bend":
        return value + effect * (np.exp(value / 2) - MEAN_OF_BEND)
    if feature.shape == "bumps":
        return value + effect * np.where(noise[:, 1] > 0, 1.0, -1.0)
    if feature.shape == "whole":
        return np.round(2 * (value + effect))
    if feature.shape == "income":
        return np.exp(value + effect)
    return value + effect


def category_codes(
    feature: CategoricalFeature, merit: Float, groups: Mapping[str, Int], noise: Float
) -> Int:
    """Levels of a categorical feature; see :class:`CategoricalFeature`.

    Parameters
    ----------
    feature : CategoricalFeature
    merit : ndarray of float, shape (n,)
    groups : mapping of str to ndarray of int, shape (n,)
    noise : ndarray of float, shape (n, levels)

    Returns
    -------
    ndarray of int, shape (n,)
    """
    logits = noise.copy()
    if feature.base:
        logits += np.asarray(feature.base)
    if feature.merit:
        logits += merit[:, None] * np.asarray(feature.merit)
    for attribute, by_group in feature.effects.items():
        logits += np.asarray(by_group, dtype=np.float64)[groups[attribute]]
    return logits.argmax(axis=1).astype(np.int64)


def paired_columns(
    feature: PairedFeatures, groups: Mapping[str, Int], noise: Float
) -> tuple[Float, Float]:
    """Values of two paired features; see :class:`PairedFeatures`.

    Parameters
    ----------
    feature : PairedFeatures
    groups : mapping of str to ndarray of int, shape (n,)
    noise : ndarray of float, shape (n, 3)

    Returns
    -------
    tuple of two ndarray of float, shape (n,)
    """
    effect = effect_sum(feature.effects, groups)
    if feature.kind == "difference":
        common = feature.spread * noise[:, 0]
        return common, common + effect + feature.noise * noise[:, 1]
    sign = np.where(noise[:, 0] > 0, 1.0, -1.0)
    first = sign * np.abs(noise[:, 1])
    second = sign * np.where(effect < 0, -1.0, 1.0) * np.abs(noise[:, 2])
    return first, second


def recorded_label(bias: LabelBias, score: Float, groups: Mapping[str, Int], uniform: Float) -> Int:
    """Recorded labels; see :class:`LabelBias`.

    Parameters
    ----------
    bias : LabelBias
    score : ndarray of float, shape (n,)
    groups : mapping of str to ndarray of int, shape (n,)
    uniform : ndarray of float in [0, 1), shape (n,)

    Returns
    -------
    ndarray of int, shape (n,)
        0 or 1.
    """
    amount = effect_sum(bias.effects, groups)
    if bias.kind == "thresholds":
        return (score > amount).astype(np.int64)
    positive = score > 0
    if bias.kind == "flips":
        positive &= uniform >= amount
    if bias.kind == "selective":
        chance = 1 / (1 + np.exp(amount - np.abs(score)))
        positive &= (amount == 0) | (uniform < chance)
    return positive.astype(np.int64)


def feature_table(
    world: PlantedWorld,
    merit: Float,
    groups: Mapping[str, Int],
    noise: Mapping[str, Float],
    drawn: pd.DataFrame | None,
) -> pd.DataFrame:
    """Attributes and features of people.

    Parameters
    ----------
    world : PlantedWorld
    merit : ndarray of float, shape (n,)
    groups : mapping of str to ndarray of int, shape (n,)
    noise : mapping of str to ndarray
        By :func:`feature_key`.
    drawn : DataFrame or None
        Table from which the legitimate columns are taken; None computes them.

    Returns
    -------
    DataFrame, n rows
    """
    import pandas as pd

    columns: dict[str, object] = {}
    for attribute in world.attributes:
        columns[attribute.name] = np.array(attribute.groups)[groups[attribute.name]]
    for feature in world.features:
        feature_noise = noise[feature_key(feature)]
        if isinstance(feature, PairedFeatures):
            first, second = paired_columns(feature, groups, feature_noise)
            columns[feature.names[0]] = first
            columns[feature.names[1]] = second
        elif isinstance(feature, CategoricalFeature):
            codes = category_codes(feature, merit, groups, feature_noise)
            columns[feature.name] = np.array(feature.levels)[codes]
        elif feature.legitimate and drawn is not None:
            columns[feature.name] = drawn[feature.name].to_numpy()
        else:
            # a legitimate column is a cause of merit, not its effect
            source = np.zeros_like(merit) if feature.legitimate else merit
            columns[feature.name] = numeric_column(feature, source, groups, feature_noise)
    return pd.DataFrame(columns)


def centred(strength: float, groups: int = 2) -> tuple[float, ...]:
    """Equally spaced effects with mean 0; two neighbours differ by :func:`shift_of`.

    Parameters
    ----------
    strength : float
        Correlation of the column with two equal groups.
    groups : int, default 2

    Returns
    -------
    tuple of float
        The last group's effect is the lowest.
    """
    distance = shift_of(strength)
    effects = []
    for code in range(groups):
        effects.append(distance * ((groups - 1) / 2 - code))
    return tuple(effects)


def level_effects(
    levels: int, size: float, groups: int = 2, seed: int = 0
) -> tuple[tuple[float, ...], ...]:
    """Effects on the logits of a category's levels, standard normal times `size`.

    Parameters
    ----------
    levels : int
    size : float
    groups : int, default 2
    seed : int, default 0
        Of the world, not of its people.

    Returns
    -------
    tuple of tuple of float
        For each group, the effects on all levels.
    """
    effects = size * np.random.default_rng(seed).standard_normal((groups, levels))
    return tuple(tuple(row) for row in effects.round(3).tolist())


def names_of_levels(prefix: str, levels: int) -> tuple[str, ...]:
    """Names of a category's levels.

    Parameters
    ----------
    prefix : str
    levels : int

    Returns
    -------
    tuple of str
    """
    return tuple(f"{prefix}{number:02d}" for number in range(levels))


SEX = Attribute("sex", ("man", "woman"), (0.5, 0.5))
MINORITY = Attribute("origin", ("most", "few"), (0.75, 0.25))
THREE = Attribute("region", ("north", "middle", "south"), (0.4, 0.35, 0.25))
FOUR = Attribute("region", ("north", "east", "west", "south"), (0.3, 0.3, 0.2, 0.2))
FLIPS = LabelBias("flips", {"sex": (0.0, 0.4)})
TESTS = (
    NumericFeature("test", merit=1.0, noise=0.8),
    NumericFeature("interview", merit=0.8, noise=1.0),
)


def shifted(
    name: str,
    strength: float,
    attribute: str = "sex",
    groups: int = 2,
    *,
    merit: float = 0.0,
    noise: float = 1.0,
) -> NumericFeature:
    """A numeric feature whose means differ by group.

    Parameters
    ----------
    name : str
    strength : float
        As of :func:`centred`.
    attribute : str, default "sex"
    groups : int, default 2
    merit, noise : float
        As of :class:`NumericFeature`.

    Returns
    -------
    NumericFeature
    """
    effects = {attribute: centred(strength, groups)}
    return NumericFeature(name, merit=merit, noise=noise, effects=effects)


def _worlds() -> tuple[PlantedWorld, ...]:
    """The worlds of the benchmark."""
    club = CategoricalFeature(
        "club",
        names_of_levels("club", 5),
        effects={"sex": ((1.0, 0.5, 0.0, -0.5, 0.0), (-1.0, -0.5, 0.0, 0.5, 1.0))},
    )
    linear = PlantedWorld(
        "linear",
        "linear numeric proxies, a category, and a merit column that depends on the group",
        (SEX,),
        (
            *TESTS,
            shifted("rating", 0.5, merit=0.8, noise=0.6),
            shifted("height", 0.6),
            shifted("hobby", 0.4),
            shifted("style", 0.3),
            club,
        ),
        FLIPS,
    )
    clear = PlantedWorld(
        "one-clear-proxy",
        "a single proxy of strength .95",
        (SEX,),
        (*TESTS, shifted("hormone", 0.95), NumericFeature("other")),
        LabelBias("thresholds", {"sex": (-0.3, 0.7)}),
    )
    weak = PlantedWorld(
        "many-weak-proxies",
        "eight proxies of strength .2 to .3",
        (SEX,),
        (*TESTS, *(shifted(f"trait{j}", 0.2 if j < 4 else 0.3) for j in range(8))),
        FLIPS,
    )
    curved = PlantedWorld(
        "curved-proxies",
        "proxies whose group means are alike: two bumps, and a bent merit column",
        (SEX,),
        (
            *TESTS,
            NumericFeature("bumps", effects={"sex": (0.2, 2.5)}, noise=0.7, shape="bumps"),
            NumericFeature("lumps", effects={"sex": (1.8, 0.0)}, noise=0.7, shape="bumps"),
            NumericFeature("curve", 0.8, 0.6, {"sex": (0.0, 1.5)}, shape="bend"),
        ),
        FLIPS,
    )
    spread = PlantedWorld(
        "unequal-spread",
        "proxies and a merit column whose spread depends on the group",
        (SEX,),
        (
            *TESTS,
            NumericFeature("swing", effects={"sex": (0.0, 1.2)}, shape="stretch"),
            NumericFeature("mood", effects={"sex": (0.8, 0.0)}, shape="stretch"),
            NumericFeature("score", 0.8, 0.6, {"sex": (0.0, -0.7)}, shape="stretch"),
            shifted("height", 0.5),
        ),
        LabelBias("thresholds", {"sex": (-0.2, 0.6)}),
    )
    districts = PlantedWorld(
        "districts",
        "categories as proxies: a district of 40 levels, and a school that also shows merit",
        (MINORITY,),
        (
            *TESTS,
            CategoricalFeature(
                "district",
                names_of_levels("d", 40),
                effects={"origin": level_effects(40, 1.2, seed=1)},
            ),
            CategoricalFeature(
                "school",
                names_of_levels("s", 6),
                merit=(-0.8, -0.5, -0.2, 0.2, 0.5, 0.8),
                effects={"origin": ((0.0,) * 6, (1.5, 1.0, 0.5, -0.5, -1.0, -1.5))},
            ),
        ),
        LabelBias("flips", {"origin": (0.0, 0.5)}),
    )
    pairs = PlantedWorld(
        "harmless-pairs",
        "columns that reveal the group only together",
        (SEX,),
        (
            *TESTS,
            PairedFeatures(("income", "spending"), "difference", {"sex": (1.2, -1.2)}),
            PairedFeatures(("left", "right"), "sign", {"sex": (1.0, -1.0)}),
        ),
        FLIPS,
    )
    merit = PlantedWorld(
        "merit-in-all",
        "every column shows merit and the group",
        (SEX,),
        (
            shifted("test", 0.4, merit=1.0, noise=0.8),
            shifted("interview", 0.6, merit=0.8, noise=1.0),
            shifted("rating", 0.7, merit=0.6, noise=1.0),
            shifted("sample", 0.3, merit=0.6, noise=0.8),
        ),
        FLIPS,
    )
    three = PlantedWorld(
        "three-groups",
        "three groups with numeric and categorical proxies",
        (THREE,),
        (
            *TESTS,
            shifted("accent", 0.5, "region", 3),
            shifted("rating", 0.4, "region", 3, merit=0.8, noise=0.6),
            CategoricalFeature(
                "dish",
                names_of_levels("dish", 6),
                effects={"region": level_effects(6, 1.0, 3, seed=2)},
            ),
        ),
        LabelBias("flips", {"region": (0.0, 0.2, 0.5)}),
    )
    four = PlantedWorld(
        "four-groups",
        "four groups whose order differs from proxy to proxy",
        (FOUR,),
        (
            *TESTS,
            NumericFeature("accent", effects={"region": (1.0, -1.0, 0.5, -0.5)}),
            NumericFeature("rating", 0.8, 0.6, {"region": (0.8, 0.2, -0.8, -0.2)}),
            NumericFeature("style", effects={"region": (0.0, 0.9, -0.9, 0.0)}),
        ),
        LabelBias("thresholds", {"region": (-0.3, 0.0, 0.4, 0.7)}),
    )
    two = PlantedWorld(
        "two-attributes",
        "two sensitive attributes, each with proxies of its own",
        (SEX, MINORITY),
        (
            *TESTS,
            shifted("height", 0.6),
            shifted("accent", 0.6, "origin"),
            NumericFeature("rating", 0.8, 0.6, {"sex": (0.5, -0.5), "origin": (0.4, -0.4)}),
            club,
        ),
        LabelBias("flips", {"sex": (0.0, 0.3), "origin": (0.0, 0.3)}),
    )
    earned = PlantedWorld(
        "earned-difference",
        "a legitimate column differs by group and causes merit",
        (SEX,),
        (
            NumericFeature("training", effects={"sex": (0.4, -0.4)}, legitimate=True),
            *TESTS,
            shifted("rating", 0.4, merit=0.8, noise=0.6),
            shifted("height", 0.6),
            club,
        ),
        FLIPS,
    )
    none = PlantedWorld(
        "no-proxy",
        "no feature depends on the group",
        (SEX,),
        (*TESTS, NumericFeature("other"), NumericFeature("noise")),
        FLIPS,
    )
    mixed = PlantedWorld(
        "mixed",
        "all kinds of proxies at once, and a minority that had fewer chances",
        (MINORITY,),
        (
            *TESTS,
            shifted("rating", 0.5, "origin", merit=0.8, noise=0.6),
            NumericFeature("swing", effects={"origin": (0.0, 0.9)}, shape="stretch"),
            NumericFeature("bumps", effects={"origin": (0.2, 2.0)}, noise=0.7, shape="bumps"),
            PairedFeatures(("income", "spending"), "difference", {"origin": (0.8, -0.8)}),
            CategoricalFeature(
                "district",
                names_of_levels("d", 12),
                effects={"origin": level_effects(12, 0.9, seed=3)},
            ),
        ),
        LabelBias("selective", {"origin": (0.0, 1.5)}),
    )
    return (
        linear,
        clear,
        weak,
        curved,
        spread,
        districts,
        pairs,
        merit,
        three,
        four,
        two,
        earned,
        none,
        mixed,
    )


WORLDS: dict[str, PlantedWorld] = {world.name: world for world in _worlds()}
"""The worlds of the benchmark, by name."""
