"""Bounds on a boosted tree model's margin over all people at a fair distance, by branch and
bound.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Bool, Float, Float32, Index, Int
from evenhand.fairlib.certificates import _tree_kernels as kernels
from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.execution import available_cores

if TYPE_CHECKING:
    import xgboost as xgb

# States that the branch and bound looks at per person and side, round by round, while there is
# time.
ROUNDS = (1, 16, 128, 1024, 8192)
# States between two looks at the clock.
BATCH = 4096
# People whose regions are computed together.
CHUNK = 256
# Entries of G below this share of a direction's length are rounding.
NEGLIGIBLE = 1e-12
# Fields of the kernels' arrays that everybody shares.
SHARED = ("mixing", "spread", "sigma", "basis", "reads", "rest", "along")
# Steps between float32 numbers near 1.
STEP = 2.0**-23


def read_trees(booster: xgb.Booster) -> tuple[kernels.TreeArrays, kernels.TreeArrays, Int]:
    """The trees of a booster for two classes, the same with the sign of every margin changed, and
    features.

    The trees are of u, the values of the features that splits use; these features, shape (m,), are
    ascending positions in the rows. NotProvedError: another booster than ``gbtree``, another number
    of classes than two, splits by sets of categories.

    Parameters
    ----------
    booster : xgb.Booster
        A fitted booster.

    Returns
    -------
    tuple of two TreeArrays and ndarray of int64
        Trees, negated trees, and positions of the features, shape (m,).

    Raises
    ------
    NotProvedError
        For another booster than ``gbtree``, another number of classes than two, splits by sets of
        categories.
    """
    content = json.loads(booster.save_raw("json"))
    learner = content["learner"]
    parameters = content["learner"]["learner_model_param"]
    if learner["gradient_booster"]["name"] != "gbtree":
        raise NotProvedError(
            f"the booster is of the kind {learner['gradient_booster']['name']}, not gbtree."
        )
    if parameters["num_class"] not in ("0", "1") or parameters["num_target"] != "1":
        raise NotProvedError("the model has more than two classes.")
    model = learner["gradient_booster"]["model"]
    nodes: list[tuple[int, float, int, int, float]] = []
    roots = []
    depth = 0
    for tree in model["trees"]:
        if any(tree["split_type"]):
            raise NotProvedError("the trees split columns by sets of categories.")
        roots.append(len(nodes))
        depth = max(depth, _append(nodes, tree))
    # the margin of no tree is the base margin in XGBoost's own rounding
    empty = without_trees(booster)
    width = int(parameters["num_feature"])
    base = empty.inplace_predict(np.zeros((1, width), dtype=np.float32), predict_type="margin")

    columns = [np.array(column) for column in zip(*nodes, strict=True)]
    feature, above, left_child, right_child, value = columns
    split = feature >= 0
    features, feature[split] = np.unique(feature[split], return_inverse=True)
    cuts, rank = np.unique(np.stack([feature[split], above[split]]), axis=1, return_inverse=True)
    ranks = np.full(len(feature), -1)
    ranks[split] = rank.ravel()
    leaf = value.astype(np.float32)
    most = leaf.copy()
    least = leaf.copy()
    for node in np.flatnonzero(split)[::-1]:  # children follow their parents
        most[node] = max(most[left_child[node]], most[right_child[node]])
        least[node] = min(least[left_child[node]], least[right_child[node]])
    below = np.nextafter(above.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    start = np.float32(base.ravel()[0])
    trees = kernels.TreeArrays(
        roots=np.array(roots).astype(np.int64),
        feature=feature.astype(np.int64),
        left=left_child.astype(np.int64),
        right=right_child.astype(np.int64),
        rank=ranks.astype(np.int64),
        cut_features=cuts[0].astype(np.int64),
        below=below,
        above=above.astype(np.float64),
        cuts=np.ascontiguousarray(cuts[1]),
        value=leaf,
        most=most,
        base=start,
        depth=depth,
    )
    return trees, trees._replace(value=-leaf, most=-least, base=-start), features.astype(np.int64)


def without_trees(booster: xgb.Booster) -> xgb.Booster:
    """The same booster without a tree: it gives the base margin, or the probability of a given
    margin.

    Parameters
    ----------
    booster : xgb.Booster
        A fitted booster.

    Returns
    -------
    xgb.Booster
        A copy without a tree.
    """
    import xgboost as xgb

    content = json.loads(booster.save_raw("json"))
    model = content["learner"]["gradient_booster"]["model"]
    model["trees"] = []
    model["tree_info"] = []
    model["iteration_indptr"] = [0]
    model["gbtree_model_param"]["num_trees"] = "0"
    return xgb.Booster(model_file=bytearray(json.dumps(content).encode()))


def _append(nodes: list[tuple[int, float, int, int, float]], tree: dict[str, Any]) -> int:
    """Add a tree's nodes in the order of a depth-first walk, left first; its depth."""
    lefts = tree["left_children"]
    rights = tree["right_children"]
    depths = {}
    stack = [(0, 0)]
    while stack:
        node, depth = stack.pop()
        depths[node] = depth
        if lefts[node] >= 0:
            stack += [(rights[node], depth + 1), (lefts[node], depth + 1)]
    places = {node: place for place, node in enumerate(depths, len(nodes))}
    for node in depths:
        # a float32 in the file's decimal digits
        number = float(np.float32(tree["split_conditions"][node]))
        if lefts[node] < 0:
            nodes.append((-1, 0.0, -1, -1, number))
        else:
            children = places[lefts[node]], places[rights[node]]
            nodes.append((tree["split_indices"][node], number, *children, 0.0))
    return max(depths.values())


@dataclass(frozen=True)
class MarginBounds:
    """What is known about the smallest and the largest margin in each person's region.

    ``low <= min <= found_low <= found_high <= max <= high``, where min and max are the true ones.
    """

    # shape (n,): proved bounds
    low: Float
    high: Float
    # shape (n,): margins of `lowest` and `highest`
    found_low: Float
    found_high: Float
    # shape (n, d): points of the regions
    lowest: Float32
    highest: Float32


class TreeProver:
    r"""Bounds on the margins of a boosted tree model for two classes over regions of comparable
    people.

    **The bound.** The region of a person is relaxed to a box of t, a box of :math:`e = P \delta`
    and :math:`\|e\|^2 \le r^2 \lambda_{max}(\Sigma^+)`, with :math:`x' = x + B t + e`. A walk down
    each tree keeps to the splits that a point of the region can take: each narrows the boxes of a
    feature and of t, and adds to the least :math:`\|e\|^2`. The sum over the trees of the largest
    reachable leaf is an upper bound of the margin. Best-first branch and bound cuts the region at
    the threshold on which these leaves disagree most, until the bound meets the largest margin
    found, or the limits are reached. A part is dropped where a vector g proves it empty:
    :math:`g^\top u` is larger in all of it than in the region.

    **Rounding.** XGBoost reads float32 rows, and adds a row's leaves to the base margin in float32
    in the order of the trees. Rounded addition never falls where a term rises, so the float32 sum
    of larger leaves in the same order is no smaller: the bounds hold for XGBoost's own sums, with
    no slack. Feature boxes end at neighbouring float32 numbers, and the region is widened by one
    float32 step of each feature, more than the rounding of x' and of a projection. ``margins``
    compares its own sums with XGBoost's on X.

    Parameters
    ----------
    model : object
        Fitted model with a ``booster_``, as ``GBDTClassifier``, whose margin is bounded. Around a
        calibration or a decision rule give the model inside: both are functions of the margin.
    metric : Metric
        Fitted fair metric.

    Raises
    ------
    NotProvedError
        If there is no booster, or one that :func:`read_trees` refuses.
    """

    def __init__(self, model: Any, metric: Metric) -> None:
        booster = getattr(model, "booster_", None)
        if booster is None:
            raise NotProvedError("the model is no XGBoost model.")
        if getattr(model, "adapts_inputs", False):
            raise NotProvedError("the model reads adapted columns, which are no linear map.")
        self.booster = booster
        self.metric = metric
        self.trees, self.negated, self.features = read_trees(booster)
        # a model may read projected rows: u = A x
        self.project = getattr(model, "_project", None)
        eye = np.eye(metric.n_features_in_)
        if self.project is not None:
            eye = model.metric_.project(eye)
        self.A = eye.T[self.features]

    def margins(
        self,
        X: ArrayLike,
        radius: float | Float,
        *,
        seconds: float = np.inf,
        rounds: Sequence[int] = ROUNDS,
        jobs: int | None = None,
    ) -> MarginBounds:
        """Bound the margins of rows X, shape (n, d), over their regions.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The people.
        radius : float or ndarray of float64
            Fair distance (not squared), or one per person, shape (n,).
        seconds : float, default np.inf
            After so many seconds the bounds reached so far are returned; the first round ignores
            that.
        rounds : sequence of int, default ROUNDS
            States that are looked at per person and side in each round; a round starts anew with
            the people whose bounds do not meet, the largest gap first.
        jobs : int, optional
            Threads; default: all cores.

        Returns
        -------
        MarginBounds
            Found and proved margins.

        Raises
        ------
        ValueError
            If X is not finite or of another width than the metric.
        NotProvedError
            If XGBoost gives another margin than our sum, and so adds in another order.
        """
        stop = time.monotonic() + seconds
        rows = np.asarray(X, dtype=np.float32)
        region = Region.of(self.metric, rows, radius)
        own_rows = self.read(rows)
        margin = self.sums(own_rows)
        if not np.array_equal(
            margin, self.booster.inplace_predict(own_rows, predict_type="margin")
        ):
            raise NotProvedError("XGBoost adds the trees in another order than is assumed here.")
        everybody = np.arange(len(rows))
        starts = range(0, max(len(rows), 1), CHUNK)
        chunks = [everybody[start : start + CHUNK] for start in starts]
        with ThreadPoolExecutor(jobs or available_cores()) as threads:
            parts = threads.map(
                lambda people: self.reach_of(region.rows(people), own_rows[people]), chunks
            )
            reach = _Reach.join(list(parts))
            sides = [_Side(self, reach, rows, margin, sign) for sign in (-1, 1)]
            for number, most in enumerate(rounds):
                limit = np.inf if number == 0 else stop
                for side in sides:
                    side.advance(most, limit, threads)
        low, high = sides
        return MarginBounds(
            low=-low.proved,
            high=high.proved,
            found_low=-low.found,
            found_high=high.found,
            lowest=low.points,
            highest=high.points,
        )

    def read(self, rows: Float32) -> Float32:
        """What the booster reads of rows.

        Parameters
        ----------
        rows : ndarray of float32, shape (n, d)
            Encoded rows.

        Returns
        -------
        ndarray of float32, shape (n, m)
            Rows, projected where the model projects.
        """
        if self.project is None:
            return rows
        return np.asarray(self.project(rows), dtype=np.float32)

    def sums(self, read: Float32) -> Float32:
        """Margins of what the booster reads, shape (n,).

        Parameters
        ----------
        read : ndarray of float32, shape (n, m)
            Rows of :meth:`read`.

        Returns
        -------
        ndarray of float32, shape (n,)
            Margins.
        """
        return np.asarray(
            kernels.tree_margins(self.trees, read[:, self.features].astype(np.float64, order="C"))
        )

    def search(
        self, trees: kernels.TreeArrays, reach: _Reach, index: Index, most: int
    ) -> tuple[Float32, Float32, Bool, Float32]:
        """Margins found and proved, whether more states change neither, and points, shape
        (n, d).

        Parameters
        ----------
        trees : kernels.TreeArrays
            The trees, or the negated ones.
        reach : _Reach
            What everybody's features can reach.
        index : ndarray of intp, shape (n,)
            Positions of the people.
        most : int
            Most states per person.

        Returns
        -------
        tuple of four ndarrays
            Found and proved margins, shape (n,), whether the search is complete, shape (n,), and
            points, shape (n, d).
        """
        found, proved, done, points = kernels.search_all(
            trees, *reach.of_people(index), reach.own[index], most
        )
        return found, proved, done, points.astype(np.float32)

    def reach_of(self, region: Region, read: Float32) -> _Reach:
        """What the features that the trees read can reach.

        Parameters
        ----------
        region : Region
            Regions of n people.
        read : ndarray of float32, shape (n, m)
            Rows of :meth:`read`.

        Returns
        -------
        _Reach
            Of n people.
        """
        own_features = read[:, self.features].astype(np.float64, order="C")
        basis = region.basis
        mixing = self.A @ basis
        unprojected = self.A - mixing @ basis.T
        spread = (unprojected @ region.factor) @ (unprojected @ region.factor).T
        reached = np.maximum(-region.free_low, region.free_high)
        small = np.abs(mixing) < NEGLIGIBLE
        pad = reached @ np.where(small, np.abs(mixing), 0.0).T
        mixing[small] = 0.0
        count = np.count_nonzero(mixing, axis=0)
        up = region.reach(unprojected)[0]
        down = -region.reach(-unprojected)[0]
        shift = reached @ np.abs(mixing).T
        moves = (up > down) | (shift > 0.0)
        slack = region.slack(self.A)
        sizes = np.abs(own_features) + np.maximum(up, -down) + shift + slack
        if self.project is not None:
            # the rounding of x' and of the sums of its projection
            moves |= ((region.radius > 0.0) | (reached.max(axis=1, initial=0.0) > 0.0))[:, None]
            lengths = np.linalg.norm(np.maximum(-region.low, region.high), axis=1)
            lengths += np.linalg.norm(region.x, axis=1) + np.linalg.norm(reached, axis=1)
            sizes += lengths[:, None] * np.abs(self.A).sum(axis=1)
        pad = np.where(moves, pad + slack + STEP * sizes, 0.0)
        # a direction that moves one feature of the trees alone makes its value an interval
        single = np.where(count == 1, mixing, 0.0)
        ends = (region.free_low[:, None] * single, region.free_high[:, None] * single)
        several = mixing[:, count > 1]
        widths = (region.free_high - region.free_low)[:, count > 1]
        longest_moves = np.abs(several) * widths[:, None]
        people = kernels.Person(
            near=own_features + np.minimum(*ends).sum(axis=-1) - pad,
            far=own_features + np.maximum(*ends).sum(axis=-1) + pad,
            down=down,
            up=up,
            inset=pad,
            mixing=several,
            t_low=region.free_low[:, count > 1],
            t_high=region.free_high[:, count > 1],
            widest=longest_moves.max(axis=-1, initial=0.0),
            spread=spread,
            radius=region.radius,
            limit=np.square(region.radius) * np.linalg.eigvalsh(spread)[-1] * (1.0 + STEP),
        )
        steps = kernels.Moves(
            x=region.x,
            low=region.low,
            high=region.high,
            free_low=region.free_low,
            free_high=region.free_high,
            sigma=np.linalg.pinv(region.factor @ region.factor.T, rcond=STEP, hermitian=True),
            basis=basis,
            reads=self.A,
            rest=unprojected,
            along=mixing,
        )
        return _Reach(people, steps, own_features)


@dataclass(frozen=True)
class _Reach:
    """What the trees' features can reach, for all people of some regions: it is the same for both
    sides and all rounds.
    """

    people: kernels.Person
    moves: kernels.Moves
    own: Float  # shape (n, m): the features themselves

    def of_people(self, index: Index) -> tuple[kernels.Person, kernels.Moves]:
        """The arrays of some people."""
        return _chosen(self.people, index), _chosen(self.moves, index)

    @classmethod
    def join(cls, parts: Sequence[_Reach]) -> _Reach:
        """That of all people of several parts."""
        return cls(
            _joined([part.people for part in parts]),
            _joined([part.moves for part in parts]),
            np.concatenate([part.own for part in parts]),
        )


def _chosen(arrays: Any, index: Index) -> Any:
    """A kernel's arrays of some people."""
    fields = {}
    for name, values in arrays._asdict().items():
        of_people = values if name in SHARED else values[index]
        # one layout of all arrays: the kernels are compiled once
        fields[name] = np.ascontiguousarray(of_people)
    return type(arrays)(**fields)


def _joined(parts: Sequence[Any]) -> Any:
    """A kernel's arrays of all people of several parts."""
    fields = parts[0]._asdict()
    for name in fields:
        if name not in SHARED:
            fields[name] = np.concatenate([getattr(part, name) for part in parts])
    return type(parts[0])(**fields)


class _Side:
    """The largest margins of all people, or with the sign -1 the largest negative ones."""

    def __init__(
        self,
        prover: TreeProver,
        reach: _Reach,
        rows: Float32,
        margin: Float32,
        sign: int,
    ) -> None:
        self.prover = prover
        self.reach = reach
        self.sign = sign
        self.trees = prover.trees if sign > 0 else prover.negated
        self.found = sign * margin.astype(np.float64)
        self.proved = np.full(len(rows), np.inf)
        self.done = np.zeros(len(rows), dtype=bool)
        self.points = rows.copy()

    def advance(self, most: int, stop: float, threads: ThreadPoolExecutor) -> None:
        """One round for the people whose bounds do not meet, those of the widest gaps first.

        Parameters
        ----------
        most : int
            States that are looked at by person, at most.
        stop : float
            Time of the monotonic clock (s) after which no search begins.
        threads : ThreadPoolExecutor
        """
        gaps = np.where(self.done, 0.0, self.proved - self.found)
        people = np.argsort(-gaps, kind="stable")[: np.count_nonzero(gaps > 0)]
        size = int(np.clip(BATCH // most, 1, CHUNK))
        parts = [people[start : start + size] for start in range(0, len(people), size)]
        for _ in threads.map(lambda part: self._search(part, most, stop), parts):
            pass

    def _search(self, people: Index, most: int, stop: float) -> None:
        if time.monotonic() > stop:
            return
        prover = self.prover
        new_found, proved, self.done[people], points = prover.search(
            self.trees, self.reach, people, most
        )
        self.proved[people] = np.minimum(self.proved[people], proved)
        # the margin that the model itself gives to the point
        better = new_found > self.found[people]
        if not better.any():
            return
        people = people[better]
        points = points[better]
        values = self.sign * prover.sums(prover.read(points)).astype(np.float64)
        better = values > self.found[people]
        self.found[people[better]] = values[better]
        self.points[people[better]] = points[better]
