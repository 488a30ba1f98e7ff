"""
The synthetic example of appendix C.1 (Vargo et al. 2021): ``python -m benchmarks.two_clusters``.

Two clusters of people whose labels follow opposite diagonals. The horizontal feature is protected: people
are as comparable as they are equally high. Written to ``docs/two-clusters.svg``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.plots import DOCS, INK, PAPER, SOFT, Axis, mark, picture, rule, short, text
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.numerics import logistic_losses
from evenhand.fairlib.transport import TransportPlan, TransportProblem, make_solver

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SEED = 0
PEOPLE, MAJORITY, SHIFT = 150, 125, 2.0
BUDGET, STEPS, RATE = 0.005, 200, 0.02
COLUMNS, ROWS = 72, 46
WIDTH, HEIGHT, GAP, LEFT, TOP = 340.0, 300.0, 20.0, 34.0, 44.0
# upper ends of the shades, from surely below one half to surely above
SHADES = (
    (0.2, "#f0b48a"),
    (0.35, "#f6cdb0"),
    (0.5, "#fbe6d8"),
    (0.65, "#dcebf5"),
    (0.8, "#b9d6eb"),
    (1.0, "#93bfde"),
)
LOW, HIGH = "#b34700", "#00558c"


@dataclass(frozen=True)
class Example:
    """The people, and what was learned from them."""

    X: Float
    y: Int
    majority: NDArray[np.bool_]
    plain: GBDTClassifier
    fair: BudroClassifier
    plan: TransportPlan


def people(seed: int = SEED) -> tuple[Float, Int, NDArray[np.bool_]]:
    """
    Features, labels, and who belongs to the majority.

    Everybody comes from one normal distribution. The diagonal of the bounding rectangle that rises labels
    the majority, the one that falls labels the others; only then the two move apart.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(PEOPLE, 2))
    majority = np.zeros(PEOPLE, dtype=bool)
    majority[rng.choice(PEOPLE, MAJORITY, replace=False)] = True
    low, high = X.min(axis=0), X.max(axis=0)
    across, up = ((X - low) / (high - low)).T
    y = np.where(majority, up > across, up > 1.0 - across).astype(np.int64)
    X[:, 0] += np.where(majority, -SHIFT, SHIFT)
    return X, y, majority


def example() -> Example:
    """Both models, and the adversary that the last step of BuDRO answered."""
    X, y, majority = people()
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    fair = BudroClassifier(
        metric,
        perturbation_budget=BUDGET,
        n_steps=STEPS,
        max_depth=4,
        eta=RATE,
        reg_lambda=0.01,
        min_child_weight=1.25 / PEOPLE,
        balance_classes=False,
        random_state=SEED,
    ).fit(X, y)
    plain = fair.without_adversary(PEOPLE).fit(X, y)
    # trees are the plain one and one for each step: without the last, the model that the last step saw
    margin = fair.booster_[:STEPS].inplace_predict(X.astype(np.float32), predict_type="margin")
    solver = make_solver("dual", TransportProblem(metric.project(X), y, BUDGET), seed=SEED)
    return Example(X, y, majority, plain, fair, solver.solve(logistic_losses(margin)))


def main() -> None:
    """Write the picture."""
    (DOCS / "two-clusters.svg").write_text(draw(example()))


def draw(found: Example) -> str:
    """Three panels: plain boosting, BuDRO, and BuDRO with the arrows of its last adversary."""
    low, high = found.X.min(axis=0) - 0.3, found.X.max(axis=0) + 0.3
    body = []
    shares = []
    for index, (title, model) in enumerate(
        (
            ("Plain boosting", found.plain),
            ("BuDRO", found.fair),
            ("BuDRO: who is treated as whom", found.fair),
        )
    ):
        left = LEFT + index * (WIDTH + GAP)
        x = Axis(low[0], high[0], left, left + WIDTH)
        y = Axis(low[1], high[1], TOP + HEIGHT, TOP)
        grid = surface(model, x, y)
        shares.append(changing(model.predict, found.X, low[0], high[0]))
        body += [text((left, TOP - 14), title, size=17, weight=600), *shading(grid, x, y)]
        arrows = index == 2
        if arrows:
            # pale, so that the arrows read
            body.append(
                f'<rect x="{short(left)}" y="{short(TOP)}" width="{short(WIDTH)}" height="{short(HEIGHT)}" '
                f'fill="{PAPER}" opacity="0.6"/>'
            )
            body += moves(found, x, y)
        else:
            body.append(boundary(grid, x, y))
        body += [
            dot(int(label), (x.at(a), y.at(b)), small=arrows)
            for (a, b), label in zip(found.X, found.y, strict=True)
        ]
        below = TOP + HEIGHT
        middle = (left + WIDTH / 2, below + 20)
        body.append(text(middle, "x₁ (protected)", size=14, anchor="middle", fill=SOFT))
        if arrows:
            moved = int((found.plan.target != np.arange(PEOPLE)).sum())
            notes = (
                f"{moved} of {PEOPLE} are treated as somebody else.",
                f"Mean squared difference in x₂: {found.plan.spent:.3g}.",
            )
        else:
            right = float((model.predict(found.X) == found.y).mean())
            notes = (
                f"Right for {right:.0%} of the people.",
                f"Moving x₁ can change {shares[-1]:.0%} of the answers.",
            )
        body += [text((left, below + 46 + 20 * line), note, size=14.5) for line, note in enumerate(notes)]
    body.append(
        f'<text transform="translate({short(LEFT - 10)} {short(TOP + HEIGHT / 2)}) rotate(-90)" '
        f'font-size="14" text-anchor="middle" fill="{SOFT}">x₂</text>'
    )
    body += key(TOP + HEIGHT + 100)
    return picture(
        int(LEFT + 3 * WIDTH + 2 * GAP + 14),
        int(TOP + HEIGHT + 118),
        "Plain boosting and BuDRO on two clusters",
        f"{MAJORITY} people on the left and {PEOPLE - MAJORITY} on the right, over the protected feature x1 "
        "and the feature x2. Plain boosting asks for more of x2 where x1 is high. The threshold of BuDRO is "
        "nearly level. Arrows in the third panel go from people to the comparable others that they are "
        "treated as; they are nearly level too. Moving x1 alone can change the answer for "
        f"{shares[0]:.0%} of the people "
        f"with plain boosting and for {shares[1]:.0%} with BuDRO.",
        body,
    )


def changing(predict: Callable[[Float], Any], X: Float, low: float, high: float) -> float:
    """Share of the people whose answer is not the same for all values of the protected feature."""
    values = np.linspace(low, high, 10 * COLUMNS)
    copies = np.stack([np.repeat(values, len(X)), np.tile(X[:, 1], len(values))], axis=1)
    answers = np.asarray(predict(copies)).reshape(len(values), len(X))
    return float((answers != answers[0]).any(axis=0).mean())


def surface(model: GBDTClassifier | BudroClassifier, x: Axis, y: Axis) -> Float:
    """Probability of label 1 at the middle of every cell, from the bottom row up."""
    across = x.low + (np.arange(COLUMNS) + 0.5) / COLUMNS * (x.high - x.low)
    up = y.low + (np.arange(ROWS) + 0.5) / ROWS * (y.high - y.low)
    points = np.stack([np.tile(across, ROWS), np.repeat(up, COLUMNS)], axis=1)
    grid: Float = model.predict_proba(points)[:, 1].reshape(ROWS, COLUMNS)
    return grid


def shading(grid: Float, x: Axis, y: Axis) -> list[str]:
    """One path for each shade: runs of equal cells, merged along rows and then over rows."""
    shade = np.searchsorted([upper for upper, _ in SHADES[:-1]], grid, side="right")
    paths = []
    for level, (_, colour) in enumerate(SHADES):
        pieces = []
        for first, last, bottom, top in rectangles(shade == level):
            a, b = cell_x(first, x), cell_x(last, x)
            c, d = cell_y(top, y), cell_y(bottom, y)
            pieces.append(f"M{short(a)} {short(c)}H{short(b)}V{short(d)}H{short(a)}z")
        if pieces:
            paths.append(f'<path d="{"".join(pieces)}" fill="{colour}" shape-rendering="crispEdges"/>')
    return paths


def rectangles(chosen: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """Rectangles (first column, end column, first row, end row) that cover the chosen cells once each."""
    done: list[tuple[int, int, int, int]] = []
    open_runs: dict[tuple[int, int], int] = {}
    for row in range(len(chosen) + 1):
        runs = set()
        if row < len(chosen):
            edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen[row], [False]]).astype(np.int8)))
            runs = {(int(a), int(b)) for a, b in edges.reshape(-1, 2)}
        for run in [run for run in open_runs if run not in runs]:
            done.append((*run, open_runs.pop(run), row))
        for run in runs:
            open_runs.setdefault(run, row)
    return done


def boundary(grid: Float, x: Axis, y: Axis) -> str:
    """The line along which the answer changes."""
    above = grid > 0.5
    pieces = []
    for row, column, length in edge_runs(above[1:] != above[:-1]):
        pieces.append(
            f"M{short(cell_x(column, x))} {short(cell_y(row + 1, y))}H{short(cell_x(column + length, x))}"
        )
    for column, row, length in edge_runs((above[:, 1:] != above[:, :-1]).T):
        pieces.append(
            f"M{short(cell_x(column + 1, x))} {short(cell_y(row, y))}V{short(cell_y(row + length, y))}"
        )
    return (
        f'<path d="{"".join(pieces)}" fill="none" stroke="{INK}" stroke-width="1.8" stroke-linecap="square"/>'
    )


def edge_runs(chosen: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Runs of chosen cells along rows: (row, first column, length)."""
    found = []
    for row, cells in enumerate(chosen):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8)))
        found += [(row, int(a), int(b - a)) for a, b in edges.reshape(-1, 2)]
    return found


def cell_x(column: int, x: Axis) -> float:
    """Pixel of the left edge of a column of cells."""
    return x.start + column / COLUMNS * (x.end - x.start)


def cell_y(row: int, y: Axis) -> float:
    """Pixel of the lower edge of a row of cells."""
    return y.start + row / ROWS * (y.end - y.start)


def moves(found: Example, x: Axis, y: Axis) -> list[str]:
    """An arrow from everybody who is moved to the person that they are treated as."""
    body = []
    for label, colour in ((0, LOW), (1, HIGH)):
        body.append(
            f'<defs><marker id="head{label}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 .8 8 4 0 7.2z" fill="{colour}"/></marker></defs>'
            f'<g stroke="{colour}" stroke-width="1" stroke-opacity="0.75" marker-end="url(#head{label})">'
        )
        for person in np.flatnonzero(found.y == label):
            (a, b), (c, d) = found.X[person], found.X[found.plan.target[person]]
            start, end = (x.at(a), y.at(b)), (x.at(c), y.at(d))
            length = math.dist(start, end)
            if length <= 8:
                continue  # there is no room between the two marks, or nobody moved
            share = 1.0 - 4.0 / length  # the tip touches the mark
            tip = (start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))
            body.append(f'<path d="M{short(start[0])} {short(start[1])}L{short(tip[0])} {short(tip[1])}"/>')
        body.append("</g>")
    return body


def dot(label: int, place: tuple[float, float], *, small: bool) -> str:
    """A person: a blue disc with label 1, an orange square with label 0."""
    shape, colour = ("circle", HIGH) if label else ("square", LOW)
    plain = mark(shape, place, colour, size=3 if small else 3.8)
    return plain.replace("/>", f' stroke="{PAPER}" stroke-width="0.8"/>')


def key(top: float) -> list[str]:
    """What the marks, the line and the shades mean."""
    body = [
        dot(0, (LEFT + 6, top - 5), small=False),
        text((LEFT + 18, top), "label 0", size=14.5),
        dot(1, (LEFT + 96, top - 5), small=False),
        text((LEFT + 108, top), "label 1", size=14.5),
        rule((LEFT + 186, top - 5), (LEFT + 214, top - 5), INK),
        text((LEFT + 222, top), "where the answer changes", size=14.5),
        text((LEFT + 692, top), "probability of label 1: from 0", size=14.5, anchor="end"),
    ]
    left = LEFT + 700.0
    start = 0.0
    for upper, colour in SHADES:
        wide = 180 * (upper - start)
        body.append(
            f'<rect x="{short(left)}" y="{short(top - 13)}" width="{short(wide)}" height="16" '
            f'fill="{colour}"/>'
        )
        left, start = left + wide, upper
    return [*body, text((left + 8, top), "to 1", size=14.5)]


if __name__ == "__main__":
    main()
