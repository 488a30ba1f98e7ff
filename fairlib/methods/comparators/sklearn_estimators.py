"""Estimators of scikit-learn from an allow-list, saved by skops: no pickle, and a closed set of
parts.
"""

# Annotations are evaluated here for the same reason as in `comparators.base`.

import io
import json
import zipfile
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.file_digests import ESTIMATOR_FILE
from evenhand.fairlib.methods.comparators.comparator_base import (
    Arrays,
    Comparator,
    optional_import,
)
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.row_groups import Groups
from evenhand.fairlib.tuning.space import Real, Space, Whole

# Everything that a saved estimator may consist of. skops builds objects of other classes too, so a
# file that names any is refused before it is loaded.
PLAIN_PARTS = (
    "builtins.dict",
    "builtins.list",
    "builtins.str",
    "builtins.tuple",
    "numpy.float32",
    "numpy.float64",
    "numpy.int64",
    "numpy.ndarray",
    "numpy.random._generator.Generator",
    "numpy.uint64",
)
BOOSTING_PARTS = (
    "sklearn._loss._loss.CyHalfBinomialLoss",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.preprocessing._label.LabelEncoder",
)
FOREST_PARTS = (
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "sklearn.tree._tree.Tree",
)
SCHEMA = "schema.json"
# of all members of the file, so that the same estimator has the same bytes
MADE = (1980, 1, 1, 0, 0, 0)


def write_estimator(estimator: Any, path: Path) -> None:
    """Write a fitted estimator by skops; the same one always as the same bytes.

    skops names the parts of an estimator by their addresses in memory, and notes the time. Here
    they have consecutive numbers, and a fixed time.

    Parameters
    ----------
    estimator : object
        A fitted estimator of scikit-learn.
    path : Path
        File.
    """
    import skops.io

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator))) as dumped:
        members = {name: dumped.read(name) for name in dumped.namelist()}
    schema = json.loads(members.pop(SCHEMA))
    names = _renumber(schema)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for old_name, new_name in names.items():
            _add(target, new_name, _without_padding(members[old_name]))
        _add(target, SCHEMA, json.dumps(schema).encode())


def _add(target: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, MADE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    target.writestr(entry, content)


def _without_padding(content: bytes) -> bytes:
    """Return a saved array whose bytes between the fields of its records are 0; they are what
    happened to be in memory.
    """
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean = np.zeros(array.shape, array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    target = io.BytesIO()
    np.save(target, clean, allow_pickle=False)
    return target.getvalue()


def _renumber(schema: Any) -> dict[str, str]:
    """Number the parts of a schema in their order; return the new name of each file."""
    numbers: dict[int, int] = {}
    names: dict[str, str] = {}
    for count, node in enumerate(_nodes(schema)):
        if "__id__" in node:
            # equal constants may or may not share their memory
            key = count if node.get("is_json") else -node["__id__"]
            node["__id__"] = numbers.setdefault(key, len(numbers))
        if "file" in node:
            new_name = f"{len(names)}.npy"
            node["file"] = names.setdefault(node["file"], new_name)
    return names


def _nodes(content: Any) -> Iterator[dict[str, Any]]:
    """All mappings within a schema, from the top."""
    if isinstance(content, dict):
        yield content
        for value in content.values():
            yield from _nodes(value)
    elif isinstance(content, list):
        for value in content:
            yield from _nodes(value)


def read_estimator(path: Path, parts: tuple[str, ...]) -> Any:
    """Read what :func:`write_estimator` wrote.

    Parameters
    ----------
    path : Path
        File.
    parts : tuple of str
        Full names of the classes that it may consist of, next to ``PLAIN_PARTS``.

    Returns
    -------
    object
        The fitted estimator.

    Raises
    ------
    ValueError
        If the file has a part of another class.
    """
    import skops.io

    allowed = {*PLAIN_PARTS, *parts}
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        schema = json.loads(archive.read(SCHEMA))
    for node in _nodes(schema):
        if "__class__" not in node:
            continue
        name = f"{node.get('__module__')}.{node['__class__']}"
        if name not in allowed:
            raise ValueError(f"{path} has a part of the class {name}, which no model may have.")
    return skops.io.loads(content, trusted=sorted(allowed))


@dataclass(kw_only=True, eq=False, repr=False)
class SklearnClassifier(Comparator):
    """Base of the classifiers that scikit-learn trains and predicts with.

    Parameters
    ----------
    random_state : int or None

    Attributes
    ----------
    estimator_ : object
        The fitted estimator of scikit-learn.
    """

    parts: ClassVar[tuple[str, ...]] = ()

    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        with optional_import(type(self)):
            # it saves the model: found missing now, not after a long training
            import skops.io  # noqa: F401
        estimator = self._estimator()
        estimator.fit(data, codes, sample_weight=weights)
        self.estimator_ = self._reduced(estimator)
        callback(1, 1, {})

    @abstractmethod
    def _estimator(self) -> Any:
        """The estimator of scikit-learn, not fitted."""

    def _reduced(self, estimator: Any) -> Any:
        """The fitted estimator without what it does not need to predict."""
        return estimator

    def _positive_probability(self, X: Float32) -> Float:
        return self._probabilities(X)[:, 1]

    def _probabilities(self, X: Float32) -> Float:
        return np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)

    def _write(self, folder: Path) -> None:
        write_estimator(self.estimator_, folder / ESTIMATOR_FILE)

    def _read(self, folder: Path) -> None:
        with optional_import(type(self)):
            self.estimator_ = read_estimator(folder / ESTIMATOR_FILE, self.parts)

    def _arrays(self) -> Arrays:
        """None: the estimator is a file of its own."""
        return {}

    def _restore(self, arrays: Arrays) -> None:
        """Nothing, for the same reason."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_seed("random_state")


@dataclass(kw_only=True, eq=False, repr=False)
class SklearnBoostingClassifier(SklearnClassifier):
    """``sklearn.ensemble.HistGradientBoostingClassifier`` on all features, without early stopping.

    Parameters
    ----------
    learning_rate : float
        Factor of every tree.
    max_iter : int
        Number of trees.
    max_leaf_nodes : int
        Most leaves of a tree.
    min_samples_leaf : int
        Fewest rows of a leaf.
    l2_regularization : float
        Penalty of large leaves.

    Attributes
    ----------
    n_iter_ : int
        Number of trees.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = (X[:, 0] + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = SklearnBoostingClassifier(max_iter=20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    parts: ClassVar[tuple[str, ...]] = BOOSTING_PARTS
    space: ClassVar[Space] = {
        "learning_rate": Real(0.01, 0.3, log=True),
        "max_iter": Whole(30, 300, log=True),
        "max_leaf_nodes": Whole(4, 63, log=True),
        "min_samples_leaf": Whole(5, 100, log=True),
        "l2_regularization": Real(0.0, 10.0),
    }

    learning_rate: float = 0.1
    max_iter: int = 100
    max_leaf_nodes: int = 31
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0

    @property
    def n_iter_(self) -> int:
        """Number of trees."""
        return int(self.estimator_.n_iter_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("(0, inf)", "learning_rate")
        self._check_interval("[0, inf)", "l2_regularization")
        self._check_counts("max_iter", "min_samples_leaf")
        self._check_counts("max_leaf_nodes", least=2)

    def _estimator(self) -> Any:
        # imported lazily: most jobs do not use it
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            early_stopping=False,
            random_state=self.random_state,
        )

    def _reduced(self, estimator: Any) -> Any:
        # up to 255 values of each feature, near to those of training rows
        mapper = estimator._bin_mapper
        mapper.bin_thresholds_ = [np.empty(0) for _ in mapper.bin_thresholds_]
        return estimator


@dataclass(kw_only=True, eq=False, repr=False)
class SklearnForestClassifier(SklearnClassifier):
    """``sklearn.ensemble.RandomForestClassifier`` on all features.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    max_features : float
        Share of the features that a split is chosen among, in (0, 1].
    min_samples_leaf : int
        Fewest rows of a leaf. Smaller leaves memorise people.
    max_leaf_nodes : int or None
        Most leaves of a tree; None: any number.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = (X[:, 0] + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = SklearnForestClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    parts: ClassVar[tuple[str, ...]] = FOREST_PARTS
    space: ClassVar[Space] = {
        "n_estimators": Whole(30, 200, log=True),
        "max_features": Real(0.1, 1.0),
        "min_samples_leaf": Whole(5, 100, log=True),
    }

    n_estimators: int = 100
    max_features: float = 0.3
    min_samples_leaf: int = 10
    max_leaf_nodes: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_counts("n_estimators", "min_samples_leaf")
        self._check_interval("(0, 1]", "max_features")
        self._check_counts("max_leaf_nodes", least=2, optional=True)

    def _estimator(self) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            max_leaf_nodes=self.max_leaf_nodes,
            random_state=self.random_state,
        )
