"""FAIAS: a network and a selector of features, trained against each other."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from evenhand.fairlib.cores import one_thread
from evenhand.fairlib.methods.base import Callback, Float32, Float64, Method, check_feature_groups
from evenhand.fairlib.methods.checkpoint import Checkpoint, fingerprint
from evenhand.fairlib.methods.faias.config import checked_plan
from evenhand.fairlib.methods.faias.features import Features
from evenhand.fairlib.methods.faias.masks import even_levels, mean_over_selections
from evenhand.fairlib.methods.faias.networks import selu_network
from evenhand.fairlib.methods.faias.selector import Estimator, Selector
from evenhand.fairlib.methods.faias.stopping import Best, judge
from evenhand.fairlib.methods.faias.trainer import Game, class_weights
from evenhand.fairlib.randomness import derive_seed, generator

__all__ = ["FAIASClassifier"]

WEIGHTS_FILE = "network.safetensors"


class FAIASClassifier(Method):
    r"""
    Fairness through an adversarial network over features (FAIAS, equations 6.5 to 6.12, algorithm 4).

    A selector draws which feature groups s the predictor f sees, the others being 0, and learns to draw those
    with which the sensitive feature k would change the prediction most: the features that already tell k are
    left out of it. The predictor learns to predict well and to be changed little,

    .. math:: \min_\phi \; E\left[-\log f_y(x, s) + \lambda \|f(x, s \cup \{k\}) - f(x, s)\|\right],
              \qquad \max_\theta \; E\left[\|f(x, s \cup \{k\}) - f(x, s)\|\right], \qquad s \sim \pi_\theta

    A prediction is the mean of :math:`f(x, s)` over ``n_masks`` selections, which are spread evenly over the
    selector's distribution and the same for everybody: it estimates what the training minimised, it is
    deterministic, and no sensitive feature is in any s, so that those columns have no influence at all.

    Parameters
    ----------
    sensitivity_weight : float
        :math:`\lambda`, not negative.
    attributes : sequence of str or None
        Which ``sensitive_features`` are the k; each must be a feature group of that name, and the losses of
        several are summed. None: all.
    data_dependent : bool
        Let a network :math:`g_\theta(x)` give each person's selection probabilities; else one vector
        :math:`\sigma(\theta)` holds for all, as in the paper's experiments.
    selector_hidden : sequence of int
        Hidden layers of that network.
    gradient_estimator : {"score_function", "one_flip", "straight_through"}
        Of the selector's gradient (:mod:`evenhand.fairlib.methods.faias.selector`).
    initial_probability : float
        In (0, 1], of every group at first. 1 selects all for ever.
    hidden : sequence of int
        SELU layers of the predictor before the softmax layer.
    n_epochs, batch_size : int
    learning_rate : float
        Of the predictor's Adam.
    selector_learning_rate : float or None
        Of the selector's. None: 0.01, and 0.001 for a network, which saturates at the former.
    weight_decay : float
        Of the predictor's Adam.
    class_balance : float
        In [0, 1]: 1 weighs all classes alike in the prediction loss, 0 every person, between as
        :math:`n_y^{-\beta}`.
    averaging : float
        In [0, 1): decay per mini-batch of the moving average of all parameters, which is judged and kept;
        0 for the last ones.
    n_masks : int
    validation_share : float
        In [0, 1): share of the rows, stratified by label, that tells the best epoch by balanced accuracy,
        so that a small class counts as much as a large one; among equals by log loss. 0: the last epoch.
    patience : int or None
        End after so many epochs without a better one. None: never.
    random_state : int or None

    Attributes
    ----------
    groups_ : dict of str to list of int
        Columns of every feature group.
    attributes_ : list of str
    predictor_ : torch.nn.Module
        (n, d) to (n, K) logits; nothing is left in it of what it learned of the sensitive columns.
    selector_ : Selector
    best_epoch_ : int
    history_ : dict of str to list of float
        Per ``epoch``: ``prediction_loss``, ``sensitivity_loss`` and ``validation_balanced_accuracy`` (with
        validation rows).
    """

    multiclass = True

    def __init__(
        self,
        *,
        sensitivity_weight: float = 1.0,
        attributes: Sequence[str] | None = None,
        data_dependent: bool = False,
        selector_hidden: Sequence[int] = (64,),
        gradient_estimator: Estimator = "score_function",
        initial_probability: float = 0.9,
        hidden: Sequence[int] = (200, 200, 200),
        n_epochs: int = 100,
        batch_size: int = 128,
        learning_rate: float = 1e-4,
        selector_learning_rate: float | None = None,
        weight_decay: float = 0.0,
        class_balance: float = 0.0,
        averaging: float = 0.999,
        n_masks: int = 32,
        validation_share: float = 0.25,
        patience: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.sensitivity_weight = sensitivity_weight
        self.attributes = attributes
        self.data_dependent = data_dependent
        self.selector_hidden = selector_hidden
        self.gradient_estimator = gradient_estimator
        self.initial_probability = initial_probability
        self.hidden = hidden
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.selector_learning_rate = selector_learning_rate
        self.weight_decay = weight_decay
        self.class_balance = class_balance
        self.averaging = averaging
        self.n_masks = n_masks
        self.validation_share = validation_share
        self.patience = patience
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
        sensitive_features : mapping of str to array-like, shape (n,), or sequence of str
            Names that say which feature groups are sensitive; their values are read from X.
        feature_groups : mapping of str to sequence of int, or None
            Columns that are selected together; None: each column on its own, named x0, x1, ...
        callback : callable or None
            Called every epoch with (epoch, epochs, last entries of ``history_``).
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters goes on, to the same
            model, bit for bit. It is removed at the end.

        Raises
        ------
        ValueError
            A parameter out of its range; a sensitive feature that is no feature group, or constant; no other
            feature that varies; groups that miss or repeat a column; too few rows.
        FloatingPointError
            The losses or weights became NaN or infinite; the message names the epoch.
        """
        # a training that breaks leaves no fitted model, not even an earlier one
        self.__dict__.pop("predictor_", None)
        data, codes = self._check_training(X, y)
        plan = checked_plan(self)
        self.groups_ = check_feature_groups(feature_groups, data.shape[1])
        self.attributes_ = self._sensitive(data, sensitive_features)
        train, held = self._split(codes)
        training = fingerprint(
            torch.__version__, type(self).__name__, sorted(self.get_params(deep=False).items()), data, codes,
            list(self.groups_.items()), self.attributes_,
        )  # fmt: skip
        with one_thread():
            predictor, selector = self._start()
            game = Game(
                predictor,
                selector,
                self._features,
                torch.from_numpy(data[train]),
                torch.from_numpy(codes[train]),
                class_weights(np.bincount(codes[train]).tolist(), self.class_balance),
                plan,
                torch.Generator().manual_seed(derive_seed(self._seed, "batches")),
            )
            self._play(game, data[held], codes[held], Checkpoint(checkpoint, training), callback)
        return self

    def _play(
        self, game: Game, X: Float32, codes: NDArray[np.int64], kept: Checkpoint, callback: Callback | None
    ) -> None:
        """All epochs, and the best one's averages in the end."""
        best, history = Best(), {}  # type: Best, dict[str, list[float]]
        found = kept.load()
        if found is not None:
            history = json.loads(found.pop("history").tobytes().decode())
            best = Best.restored(found)
            game.restore(found)
        epoch = len(history.get("epoch", []))
        while epoch < self.n_epochs and not best.is_stale(epoch, self.patience):
            told = game.epoch()
            epoch += 1
            if not (game.is_finite() and all(map(math.isfinite, told.values()))):
                raise FloatingPointError(
                    f"the losses or weights are no longer finite at epoch {epoch}: lower "
                    f"learning_rate (now {self.learning_rate}) or selector_learning_rate "
                    f"(now {game.plan.selector_learning_rate})."
                )
            game.exchange()
            if len(X):
                score = judge(self._mean(game.predictor, game.selector, X), codes)
                told["validation_balanced_accuracy"] = score[0]
            else:
                score = (float(epoch), 0.0)
            best.offer(epoch, score, game)
            game.exchange()
            for name, value in {"epoch": float(epoch), **told}.items():
                history.setdefault(name, []).append(value)
            if callback is not None:
                callback(epoch, self.n_epochs, told)
            if kept.due():
                text = np.frombuffer(json.dumps(history).encode(), np.uint8)
                kept.save(game.state() | best.state() | {"history": text})
        best.install(game)
        with torch.no_grad():
            # never shown, so what is left there is only a trace of the training
            first: nn.Linear = game.predictor[0]  # type: ignore[index]
            first.weight[:, self._features.hidden] = 0.0
        self.best_epoch_, self.history_ = best.epoch, history
        self.predictor_, self.selector_ = game.predictor.eval(), game.selector
        kept.remove()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def _start(self) -> tuple[nn.Sequential, Selector]:
        """Both players before the first mini-batch."""
        d, seeds = self.n_features_in_, torch.Generator().manual_seed(derive_seed(self._seed, "network"))
        self._features = Features.of(self.groups_, self.attributes_)
        self._levels = even_levels(self.n_masks, len(self.groups_), generator(self._seed, "masks"))
        return selu_network(d, self.hidden, len(self.classes_), seeds), self._build_selector(seeds)

    def _build_selector(self, seeds: torch.Generator | None) -> Selector:
        return Selector(
            self._features.free,
            self.initial_probability,
            n_inputs=self.n_features_in_,
            hidden=self.selector_hidden if self.data_dependent else None,
            readable=~self._features.hidden,
            generator=seeds,
        )

    @property
    def _seed(self) -> int:
        return 0 if self.random_state is None else int(self.random_state)

    def _sensitive(self, data: Float32, sensitive_features: Mapping[str, Any] | None) -> list[str]:
        """Names of the sensitive feature groups, each of which varies, beside another that does."""
        if not sensitive_features:
            raise ValueError("sensitive_features is missing: the selector needs to know what to hide.")
        names = list(dict.fromkeys(sensitive_features if self.attributes is None else self.attributes))
        if not names:
            raise ValueError("attributes is empty: name at least one sensitive feature.")
        varies = {name: bool(np.ptp(data[:, cols], axis=0).any()) for name, cols in self.groups_.items()}
        for name in names:
            if name not in sensitive_features:
                raise ValueError(
                    f"attributes names {name!r}, and sensitive_features has {', '.join(sensitive_features)}."
                )
            if name not in self.groups_:
                raise ValueError(
                    f"the sensitive feature {name!r} is no column of X: FAIAS compares predictions with and "
                    "without it, so it must be among the model inputs, or not among the attributes."
                )
            if not varies[name]:
                raise ValueError(f"the sensitive feature {name!r} is constant: adding it can change nothing.")
        if not any(varies[name] for name in self.groups_ if name not in names):
            raise ValueError(
                f"no features are left to select: X has {data.shape[1]} feature(s), and all that are not "
                "sensitive are constant."
            )
        return names

    def _split(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows to train on, and rows that judge the epochs."""
        rows = np.arange(len(codes))
        if self.validation_share == 0:
            return rows, rows[:0]
        try:
            train, held = train_test_split(
                rows,
                test_size=self.validation_share,
                stratify=codes,
                random_state=derive_seed(self._seed, "validation"),
            )
        except ValueError:
            train, held = rows, rows[:0]
        if not len(held) or min(np.unique(codes[part]).size for part in (train, held)) < len(self.classes_):
            raise ValueError(
                f"of {len(codes)} rows too few are of one label to train and to judge the epochs: give more "
                "rows, or validation_share 0 to keep the last epoch."
            )
        return np.sort(train), np.sort(held)

    def selection_probabilities(self, X: ArrayLike) -> Float64:
        """
        How likely the selector shows each feature group to the predictor.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float64, shape (n, G)
            In the order of ``groups_``; 0 for the sensitive ones. Rows are equal unless ``data_dependent``.
        """
        check_is_fitted(self)
        data = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        with torch.no_grad():
            found = self.selector_.probabilities(self.selector_.logits(torch.tensor(data)))
        shape = (len(data), len(self.groups_))
        return np.broadcast_to(found.numpy().astype(np.float64), shape).copy()

    def _probabilities(self, X: Float32) -> Float64:
        return self._mean(self.predictor_, self.selector_, X)

    def _mean(self, predictor: nn.Module, selector: Selector, X: Float32) -> Float64:
        return mean_over_selections(predictor, selector, self._features, self._levels, X)

    def _players(self) -> dict[str, nn.Module]:
        return {"predictor": self.predictor_, "selector": self.selector_}

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        kept = {"groups": list(self.groups_.items()), "attributes": self.attributes_}
        tensors = {
            f"{player}.{name}": value.detach().contiguous().clone()
            for player, module in self._players().items()
            for name, value in module.named_parameters()
        }
        tensors["levels"] = torch.from_numpy(self._levels)
        save_file(tensors, str(folder / WEIGHTS_FILE), metadata={"faias": json.dumps(kept, sort_keys=True)})

    def _read(self, folder: Path) -> None:
        from safetensors import safe_open

        with safe_open(str(folder / WEIGHTS_FILE), "pt") as stored:
            kept = json.loads(stored.metadata()["faias"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
        self.groups_, self.attributes_ = dict(kept["groups"]), kept["attributes"]
        self._features = Features.of(self.groups_, self.attributes_)
        self._levels = tensors.pop("levels").numpy()
        self.predictor_ = selu_network(self.n_features_in_, self.hidden, len(self.classes_), None)
        self.selector_ = self._build_selector(None)
        with torch.no_grad():
            for player, module in self._players().items():
                for name, value in module.named_parameters():
                    value.copy_(tensors[f"{player}.{name}"])
        self.predictor_.eval()
