"""Boosted trees that LightGBM or CatBoost trains, kept as trees of XGBoost: no file of their
libraries, and neither is needed to predict.
"""

# Annotations are evaluated here for the same reason as in `comparator_base`.

import json
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.mapped import row_blocks
from evenhand.fairlib.methods.comparators.comparator_base import (
    Arrays,
    Comparator,
    optional_import,
)
from evenhand.fairlib.methods.gbdt import BOOSTER_FILE, thread_count
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.row_groups import Groups
from evenhand.fairlib.methods.thresholds import between_values
from evenhand.fairlib.tuning.space import Real, Space, Whole

if TYPE_CHECKING:
    import xgboost as xgb

# CatBoost's trees have leaves without a training row. A contribution divides by the rows of a
# node, so such a leaf counts as this part of a row.
FEWEST_ROWS = 1e-6
NO_NODE = -1
# Depth beyond which CatBoost's trees, of as many levels everywhere, are too large.
MOST_LEVELS = 10
# XGBoost's number of a root's parent.
NO_PARENT = 2**31 - 1
EVERY_VALUE = (-np.inf, np.inf)


@dataclass
class TreeNodes:
    """A tree node by node, as XGBoost's JSON lists it; it begins with its root.

    A row goes left if its value is below the node's threshold. Of a leaf, the threshold is its
    value. The children of a node are neighbours, as XGBoost expects.
    """

    left: list[int] = field(default_factory=lambda: [NO_NODE])
    right: list[int] = field(default_factory=lambda: [NO_NODE])
    parent: list[int] = field(default_factory=lambda: [NO_PARENT])
    feature: list[int] = field(default_factory=lambda: [0])
    threshold: list[float] = field(default_factory=lambda: [0.0])
    rows: list[float] = field(default_factory=lambda: [FEWEST_ROWS])

    def set_leaf(self, node: int, value: float, rows: float) -> None:
        """Make a node a leaf.

        Parameters
        ----------
        node : int
            Its number.
        value : float
            What it adds to the log-odds.
        rows : float
            Training rows in it.
        """
        self.threshold[node] = float(value)
        self.rows[node] = max(float(rows), FEWEST_ROWS)

    def split(self, node: int, feature: int, threshold: float, rows: float) -> tuple[int, int]:
        """Make a node a split.

        Parameters
        ----------
        node : int
            Its number.
        feature : int
            Column that it compares.
        threshold : float
            Rows with a smaller value go left.
        rows : float
            Training rows in it.

        Returns
        -------
        tuple of int
            Numbers of its new children.
        """
        self.feature[node] = feature
        self.threshold[node] = float(threshold)
        self.rows[node] = max(float(rows), FEWEST_ROWS)
        self.left[node] = len(self.left)
        self.right[node] = len(self.left) + 1
        for _ in range(2):
            self.left.append(NO_NODE)
            self.right.append(NO_NODE)
            self.parent.append(node)
            self.feature.append(0)
            self.threshold.append(0.0)
            self.rows.append(FEWEST_ROWS)
        return self.left[node], self.right[node]

    def shift_leaves(self, by: float) -> None:
        """Add a number to the value of every leaf.

        Parameters
        ----------
        by : float
        """
        for node, child in enumerate(self.left):
            if child == NO_NODE:
                self.threshold[node] += by

    def content(self, number: int, width: int) -> dict[str, Any]:
        """Write the tree as XGBoost's JSON has it.

        Parameters
        ----------
        number : int
            Its place among the trees.
        width : int
            Number of columns.

        Returns
        -------
        dict
        """
        count = len(self.left)
        values = []
        for child, threshold in zip(self.left, self.threshold, strict=True):
            values.append(threshold if child == NO_NODE else 0.0)
        return {
            "base_weights": values,
            "categories": [],
            "categories_nodes": [],
            "categories_segments": [],
            "categories_sizes": [],
            "default_left": [0] * count,
            "id": number,
            "left_children": self.left,
            "loss_changes": [0.0] * count,
            "parents": self.parent,
            "right_children": self.right,
            "split_conditions": self.threshold,
            "split_indices": self.feature,
            "split_type": [0] * count,
            "sum_hessian": self.rows,
            "tree_param": {
                "num_deleted": "0",
                "num_feature": str(width),
                "num_nodes": str(count),
                "size_leaf_vector": "1",
            },
        }


def above(limit: float) -> float:
    """Return the threshold below which are exactly the float32 numbers up to a limit.

    Parameters
    ----------
    limit : float
        The largest number that goes left.

    Returns
    -------
    float
        The smallest float32 above it.

    Examples
    --------
    >>> above(1.0) > 1.0
    True
    >>> float(np.float32(0.1)) < above(0.1)
    False
    """
    nearest = np.float32(limit)
    if float(nearest) > limit:
        return float(nearest)
    return float(np.nextafter(nearest, np.float32(np.inf)))


def booster_of(trees: Sequence[TreeNodes], width: int) -> "xgb.Booster":
    """Make a booster whose log-odds are the sum of some trees.

    Parameters
    ----------
    trees : sequence of TreeNodes
        At least one.
    width : int
        Number of columns.

    Returns
    -------
    xgboost.Booster
    """
    import xgboost as xgb

    # an empty booster has everything but the trees, in the format of the installed version
    labels = np.array([0.0, 1.0])
    matrix = xgb.DMatrix(np.zeros((2, width), dtype=np.float32), labels)
    options = {"objective": "binary:logistic", "base_score": 0.5, "nthread": 1, "max_depth": 1}
    empty = xgb.train(options, matrix, num_boost_round=1)
    content = json.loads(empty.save_raw("json"))
    model = content["learner"]["gradient_booster"]["model"]
    model["trees"] = [tree.content(number, width) for number, tree in enumerate(trees)]
    model["tree_info"] = [0] * len(trees)
    model["iteration_indptr"] = list(range(len(trees) + 1))
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    return xgb.Booster(model_file=bytearray(json.dumps(content).encode()))


def lightgbm_tree(structure: dict[str, Any]) -> TreeNodes:
    """Read a tree as ``lightgbm.Booster.dump_model`` gives it.

    Parameters
    ----------
    structure : dict
        Its ``tree_structure``: rows go left whose value is at most the threshold.

    Returns
    -------
    TreeNodes
    """
    nodes = TreeNodes()
    waiting = [(0, structure)]
    while waiting:
        node, content = waiting.pop()
        if "leaf_value" in content:
            # a tree of a single leaf does not say how many rows it has
            nodes.set_leaf(node, content["leaf_value"], content.get("leaf_count", 0.0))
            continue
        threshold = above(content["threshold"])
        left, right = nodes.split(
            node, content["split_feature"], threshold, content["internal_count"]
        )
        waiting.append((left, content["left_child"]))
        waiting.append((right, content["right_child"]))
    return nodes


@dataclass(frozen=True)
class _ObliviousTree:
    """A tree of CatBoost: all nodes of a level compare the same column with the same border.

    The leaf's number has a bit for each level, which is 1 where the value is above the border.
    """

    features: list[int]
    borders: list[float]
    values: list[float]
    rows: list[float]

    def nodes(self) -> TreeNodes:
        """The tree node by node, without the leaves that no value reaches."""
        nodes = TreeNodes()
        # a node, its level, the bits of its leaves so far, and by column the values that come here
        everything: dict[int, tuple[float, float]] = {}
        waiting = [(0, 0, 0, everything)]
        while waiting:
            node, level, leaf, ranges = waiting.pop()
            level, leaf = self._undecided(level, leaf, ranges)
            if level == len(self.borders):
                nodes.set_leaf(node, self.values[leaf], self.rows[leaf])
                continue
            feature = self.features[level]
            border = self.borders[level]
            low, high = ranges.get(feature, EVERY_VALUE)
            left, right = nodes.split(node, feature, above(border), self._rows_below(level, leaf))
            waiting.append((left, level + 1, leaf, {**ranges, feature: (low, border)}))
            larger = {**ranges, feature: (border, high)}
            waiting.append((right, level + 1, leaf + (1 << level), larger))
        return nodes

    def _undecided(
        self, level: int, leaf: int, ranges: dict[int, tuple[float, float]]
    ) -> tuple[int, int]:
        """The next level whose comparison is not decided by those before, and the leaf's bits."""
        while level < len(self.borders):
            low, high = ranges.get(self.features[level], EVERY_VALUE)
            if low < self.borders[level] < high:
                break
            if self.borders[level] <= low:
                leaf += 1 << level
            level += 1
        return level, leaf

    def _rows_below(self, level: int, leaf: int) -> float:
        """Training rows of all leaves whose lower bits are those of a leaf."""
        return sum(self.rows[leaf :: 1 << level])


def catboost_trees(content: dict[str, Any]) -> list[TreeNodes]:
    """Read the trees of a model that CatBoost saved as JSON.

    Parameters
    ----------
    content : dict
        Its content. All columns are numbers.

    Returns
    -------
    list of TreeNodes
    """
    columns = {}
    for item in content["features_info"]["float_features"]:
        columns[item["feature_index"]] = item["flat_feature_index"]
    scale, (bias,) = content["scale_and_bias"]
    trees = []
    for tree in content["oblivious_trees"]:
        splits = tree["splits"] or []
        oblivious = _ObliviousTree(
            [columns[split["float_feature_index"]] for split in splits],
            [float(split["border"]) for split in splits],
            [scale * value for value in tree["leaf_values"]],
            [float(count) for count in tree["leaf_weights"]],
        )
        trees.append(oblivious.nodes())
    trees[0].shift_leaves(bias)
    return trees


@dataclass(kw_only=True, eq=False, repr=False)
class LibraryBoostingClassifier(Comparator):
    """Base of the classifiers whose trees another library trains.

    The trees become one XGBoost booster with the same splits and leaves, whose thresholds are moved
    off the values of the training rows. So reasons, certificates and exports are those of
    :class:`evenhand.fairlib.methods.gbdt.GBDTClassifier`.

    Parameters
    ----------
    random_state : int or None
    n_jobs : int or None
        Threads; None for all, or one on a small table. Negative counts from all.

    Attributes
    ----------
    booster_ : xgboost.Booster
    best_step_ : int
        Number of trees.
    """

    n_jobs: int | None = None

    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        with optional_import(type(self)):
            trees = self._trees(data, codes, weights, thread_count(self.n_jobs, len(codes)))
        self.best_step_ = len(trees)
        self.booster_ = between_values(booster_of(trees, data.shape[1]), data)
        callback(1, 1, {})

    @abstractmethod
    def _trees(
        self, data: Float32, codes: Int, weights: Float | None, threads: int
    ) -> list[TreeNodes]:
        """Train, and return the trees, which have the intercept too."""

    def _positive_probability(self, X: Float32) -> Float:
        parts = [self.booster_.inplace_predict(X[block]) for block in row_blocks(X)]
        return np.concatenate(parts).astype(np.float64)

    def log_odds_by_column(self, X: Float32) -> Float32:
        """Contributions of matrix columns to the log-odds (TreeSHAP).

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)

        Returns
        -------
        ndarray of float32, shape (n, d + 1)
            Of each column, and at last their mean.
        """
        import xgboost as xgb

        contributions = self.booster_.predict(xgb.DMatrix(X), pred_contribs=True)
        return np.asarray(contributions, dtype=np.float32)

    def _write(self, folder: Path) -> None:
        self.booster_.save_model(folder / BOOSTER_FILE)

    def _read(self, folder: Path) -> None:
        import xgboost as xgb

        self.booster_ = xgb.Booster(model_file=folder / BOOSTER_FILE)

    def _arrays(self) -> Arrays:
        """None: the booster is a file of its own."""
        return {}

    def _restore(self, arrays: Arrays) -> None:
        """Nothing, for the same reason."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole_numbers("n_jobs")
        self._check_seed("random_state")


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMTreesClassifier(LibraryBoostingClassifier):
    """Boosted trees of LightGBM, which grows the leaf that lowers the loss most.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    learning_rate : float
        Factor of every tree.
    num_leaves : int
        Most leaves of a tree.
    min_child_samples : int
        Fewest rows of a leaf.
    reg_lambda : float
        Penalty of large leaves.
    colsample_bytree : float
        Share of the columns that a tree may split, in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.fairlib.methods.registry import METHODS, installed
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = (X[:, 0] + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = LightGBMTreesClassifier(n_estimators=20, random_state=0)
    >>> bool(not installed(METHODS["lightgbm"]) or model.fit(X, y).score(X, y) > 0.8)
    True
    """

    space: ClassVar[Space] = {
        "learning_rate": Real(0.01, 0.3, log=True),
        "n_estimators": Whole(30, 300, log=True),
        "num_leaves": Whole(4, 63, log=True),
        "min_child_samples": Whole(5, 100, log=True),
        "reg_lambda": Real(0.01, 100.0, log=True),
        "colsample_bytree": Real(0.3, 1.0),
    }

    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    min_child_samples: int = 20
    reg_lambda: float = 1.0
    colsample_bytree: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("(0, inf)", "learning_rate")
        self._check_interval("[0, inf)", "reg_lambda")
        self._check_interval("(0, 1]", "colsample_bytree")
        self._check_counts("n_estimators", "min_child_samples")
        self._check_counts("num_leaves", least=2)

    def _trees(
        self, data: Float32, codes: Int, weights: Float | None, threads: int
    ) -> list[TreeNodes]:
        import lightgbm

        options = {
            "objective": "binary",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_child_samples,
            "lambda_l2": self.reg_lambda,
            "feature_fraction": self.colsample_bytree,
            "seed": self._seed_number(),
            # the same trees on every run and with any number of threads
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": threads,
            "verbosity": -1,
        }
        rows = lightgbm.Dataset(data, codes, weight=weights, params={"verbosity": -1})
        trained = lightgbm.train(options, rows, num_boost_round=self.n_estimators)
        trees = []
        for tree in trained.dump_model()["tree_info"]:
            trees.append(lightgbm_tree(tree["tree_structure"]))
        return trees


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostTreesClassifier(LibraryBoostingClassifier):
    """Boosted trees of CatBoost, which compare the same column in all nodes of a level.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    learning_rate : float
        Factor of every tree.
    depth : int
        Depth of a tree, from 1 to 10.
    l2_leaf_reg : float
        Penalty of large leaves.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.fairlib.methods.registry import METHODS, installed
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = (X[:, 0] + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = CatBoostTreesClassifier(n_estimators=20, random_state=0)
    >>> bool(not installed(METHODS["catboost"]) or model.fit(X, y).score(X, y) > 0.8)
    True
    """

    space: ClassVar[Space] = {
        "learning_rate": Real(0.01, 0.3, log=True),
        "n_estimators": Whole(30, 300, log=True),
        "depth": Whole(2, 8),
        "l2_leaf_reg": Real(0.1, 100.0, log=True),
    }

    n_estimators: int = 100
    learning_rate: float = 0.1
    depth: int = 6
    l2_leaf_reg: float = 3.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("(0, inf)", "learning_rate")
        self._check_interval("[0, inf)", "l2_leaf_reg")
        self._check_counts("n_estimators", "depth")
        if self.depth > MOST_LEVELS:
            self._refuse("depth", f"at most {MOST_LEVELS}")

    def _trees(
        self, data: Float32, codes: Int, weights: Float | None, threads: int
    ) -> list[TreeNodes]:
        import catboost

        trained = catboost.CatBoost(
            {
                "loss_function": "Logloss",
                "iterations": self.n_estimators,
                "learning_rate": self.learning_rate,
                "depth": self.depth,
                "l2_leaf_reg": self.l2_leaf_reg,
                "random_seed": self._seed_number(),
                "thread_count": threads,
                "logging_level": "Silent",
                # else it writes a folder with its progress
                "allow_writing_files": False,
            }
        )
        # its own reading of rows that cannot be written to fails
        trained.fit(catboost.Pool(np.array(data), codes, weight=weights))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            trained.save_model(str(path), format="json")
            content = json.loads(path.read_text())
        return catboost_trees(content)
