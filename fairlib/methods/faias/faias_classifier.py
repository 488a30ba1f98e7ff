"""FAIAS: a network and a selector of features, trained against each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.distances.metric_base import sensitive_columns
from evenhand.fairlib.execution import derive_seed, generator, one_thread
from evenhand.fairlib.methods.method_base import (
    Callback,
    Method,
    binary_shift,
    check_feature_groups,
    read_tensors,
)
from evenhand.fairlib.splits import hold_out
from evenhand.fairlib.tuning.space import Choice, Real, Space

if TYPE_CHECKING:
    import torch
    from torch import nn

    from evenhand.fairlib.methods.faias.players import Players

WEIGHTS_FILE = "network.safetensors"
ValidationCriterion = Literal["log_loss", "balanced_accuracy"]


@dataclass(kw_only=True, eq=False, repr=False)
class FAIASClassifier(Method):
    r"""Fairness through an adversarial network over features (FAIAS, equations 6.5 to 6.12,
    algorithm 4).

    A selector draws which feature groups s the predictor f sees, the others being 0. It learns to
    draw those with which the sensitive feature k would change the prediction most: features that
    already predict k are left out. The predictor learns to predict well and to be changed little,

    .. math:: \min_\phi \;
              E\left[-\log f_y(x, s) + \lambda \|f(x, s \cup \{k\}) - f(x, s)\|\right],
              \qquad \max_\theta \; E\left[\|f(x, s \cup \{k\}) - f(x, s)\|\right],
              \qquad s \sim \pi_\theta

    A prediction is the mean of :math:`f(x, s)` over ``n_masks`` selections, which are spread evenly
    over the selector's distribution and the same for all rows. So it estimates what the training
    minimised, it is deterministic, and the sensitive columns have no influence at all, because they
    are in no s.

    Parameters
    ----------
    sensitivity_weight : float
        :math:`\lambda`, not negative.
    attributes : sequence of str or None
        Which ``sensitive_features`` are the k; each must be a feature group of that name, and the
        losses of several are summed. None: all.
    data_dependent : bool
        Let a network :math:`g_\theta(x)` give each person's selection probabilities; else one
        vector
        :math:`\sigma(\theta)` holds for all, as in the paper's experiments.
    selector_hidden : sequence of int
        Hidden layers of that network.
    initial_probability : float
        In (0, 1], of every group at first. 1 selects all for ever.
    hidden : sequence of int
        SELU layers of the predictor before the softmax layer.
    n_epochs : int
        Passes over the training rows, at most.
    batch_size : int or None
        None: one in 64 of the training rows, within 32 and 256.
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
        In [0, 1): decay per mini-batch of the moving average of all parameters, which is evaluated
        and kept; 0 for the last ones.
    n_masks : int
    validation_share : float
        In [0, 1): share of the rows, stratified by label, that decides the best epoch. 0: the last
        epoch.
    validation_criterion : {"log_loss", "balanced_accuracy"}
        What decides: the log loss, with probabilities corrected for `class_balance`, from the step
        on at which a selection probability can have come from its start to one half, so that the
        selector has had an effect; or the balanced accuracy, among equals the mean over the classes
        of their log loss. Balanced accuracy stays at 1 / K for as long as a small class is never
        the most probable.
    patience : int or None
        End after so many epochs without a better one. None: never.
    random_state : int or None

    Attributes
    ----------
    groups_ : dict of str to list of int
        Columns of every feature group.
    attributes_ : list of str
    predictor_ : torch.nn.Module
        (n, d) to (n, K) logits; its weights of the sensitive columns are 0.
    selector_ : Selector
    best_epoch_ : int
    history_ : dict of str to list of float
        Per ``epoch``: ``prediction_loss``, ``sensitivity_loss`` and, with validation rows,
        ``validation_log_loss`` or ``validation_balanced_accuracy``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = FAIASClassifier(hidden=(8,), n_epochs=5, random_state=0)
    >>> columns = {"sex": [0], "test": [1]}
    >>> model = model.fit(X, y, sensitive_features={"sex": sex}, feature_groups=columns)
    >>> model.predict_proba(X).shape
    (200, 2)
    >>> flipped = np.column_stack([1 - sex, X[:, 1]])
    >>> bool(np.array_equal(model.predict(X), model.predict(flipped)))
    True
    """

    multiclass = True

    space: ClassVar[Space] = {
        "sensitivity_weight": Real(0.01, 100.0, log=True),
        "learning_rate": Real(1e-5, 1e-3, log=True),
        "class_balance": Real(0.0, 1.0),
        "initial_probability": Choice((0.5, 0.9)),
    }

    _fitted_part: ClassVar[str] = "predictor_"

    sensitivity_weight: float = 1.0
    attributes: Sequence[str] | None = None
    data_dependent: bool = False
    selector_hidden: Sequence[int] = (64,)
    initial_probability: float = 0.98
    hidden: Sequence[int] = (200, 200, 200)
    n_epochs: int = 200
    batch_size: int | None = None
    learning_rate: float = 5e-4
    selector_learning_rate: float | None = None
    weight_decay: float = 0.0
    class_balance: float = 0.0
    averaging: float = 0.999
    n_masks: int = 32
    validation_share: float = 0.25
    validation_criterion: ValidationCriterion = "log_loss"
    patience: int | None = 20
    random_state: int | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train; as in :class:`evenhand.fairlib.methods.method_base.Method`.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y : array-like, shape (n,)
            Labels.
        sensitive_features : mapping of str to array-like, DataFrame, Series or sequence of str
            Which feature groups are sensitive, by name; their values are read from X.
        sample_weight : array-like, shape (n,), or None
            Weight of every row, at least 0; None: all count the same.
        feature_groups : mapping of str to sequence of int, or None
            Columns of X by table column; None: each column on its own, named x0, x1, ...
        callback : callable or None
            Called every epoch with (epoch, epochs, last entries of ``history_``). True ends the
            training.
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters continues.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            For a sensitive feature that is no feature group, or constant; no other feature that
            varies; groups that miss or repeat a column; too few rows.
        FloatingPointError
            If a loss or a weight became NaN or infinite.
        """
        data, codes, weights = self._begin_fit(X, y, sample_weight)
        self.groups_ = check_feature_groups(feature_groups, data.shape[1], self._columns_by_name())
        self.attributes_ = self._sensitive(data, sensitive_features)
        train, held = self._split(codes)
        import torch

        from evenhand.fairlib.methods.faias.players import even_levels
        from evenhand.fairlib.methods.faias.trainer import Trainer, log_loss_of, score_of

        groups = list(self.groups_.items())
        stored = self._checkpoint(
            checkpoint, torch.__version__, data, codes, groups, self.attributes_, weights
        )
        self._levels = even_levels(
            self.n_masks, len(self.groups_), generator(self.random_state, "masks")
        )
        with one_thread():
            players = self._build(
                torch.Generator().manual_seed(derive_seed(self.random_state, "network"))
            )
            x = torch.from_numpy(data[train])
            labels = torch.from_numpy(codes[train])
            random = torch.Generator().manual_seed(derive_seed(self.random_state, "batches"))
            row_weights = None if weights is None else weights[train] / weights[train].mean()
            row_weights = (
                None if row_weights is None else torch.tensor(row_weights, dtype=torch.float32)
            )
            trainer = Trainer(self, players, x, labels, random, row_weights)

            def _score() -> tuple[float, float]:
                mean = players.mean_over_selections(self._levels, data[held])
                if self.validation_criterion == "balanced_accuracy":
                    return score_of(mean, codes[held])
                held_weights = None if weights is None else weights[held]
                return log_loss_of(mean, codes[held], trainer.class_weights, held_weights)

            self.history_ = trainer.run(_score if len(held) else None, callback, stored)
        with torch.no_grad():
            # the predictor never reads the sensitive columns: their weights would only
            # disclose training rows
            first: nn.Linear = players.predictor[0]  # type: ignore[assignment]
            first.weight[:, players.features.hidden] = 0.0
        self.best_epoch_ = trainer.best_epoch
        self._set_players(players)
        self.prior_shift_ = binary_shift(trainer.class_weights.double().log().tolist())
        self.validation_ = self._validation_of(data, held)
        stored.remove()
        return self

    def _check_parameters(self) -> None:
        self._check_names("attributes")
        self._check_flags("data_dependent")
        self._check_whole_numbers("random_state")
        self._check_counts("n_epochs", "n_masks")
        self._check_counts("patience", "batch_size", optional=True)
        self._check_widths("hidden", "selector_hidden")
        self._check_choice("validation_criterion", get_args(ValidationCriterion))
        self._check_interval("(0, inf)", "learning_rate")
        self._check_interval("(0, inf)", "selector_learning_rate", optional=True)
        self._check_interval("[0, inf)", "sensitivity_weight", "weight_decay")
        self._check_interval("(0, 1]", "initial_probability")
        self._check_interval("[0, 1]", "class_balance")
        self._check_interval("[0, 1)", "averaging", "validation_share")

    def _build(self, generator: torch.Generator | None) -> Players:
        """Both players, drawn from the generator; without one, to be loaded."""
        from evenhand.fairlib.methods.faias.players import Features, Players

        return Players(
            Features.of(self.groups_, self.attributes_), len(self.classes_), self, generator
        )

    def _set_players(self, players: Players) -> None:
        self._players = players.eval()
        self.predictor_ = players.predictor
        self.selector_ = players.selector

    def _sensitive(self, data: Float32, sensitive_features: Any) -> list[str]:
        """Names of the sensitive feature groups: each must vary, and so must another group."""
        if isinstance(sensitive_features, str):
            sensitive_names = [sensitive_features]
        elif isinstance(sensitive_features, list | tuple):
            sensitive_names = [str(name) for name in sensitive_features]
        else:
            sensitive_names = list(sensitive_columns(sensitive_features))
        if not sensitive_names:
            raise ValueError(
                "sensitive_features is missing: the selector needs to know what to hide. Name the "
                "columns, as in fit(X, y, sensitive_features=['sex'])."
            )
        names = list(dict.fromkeys(sensitive_names if self.attributes is None else self.attributes))
        if not names:
            raise ValueError("attributes is empty: name at least one sensitive feature.")
        varies = {
            name: bool(np.ptp(data[:, cols], axis=0).any()) for name, cols in self.groups_.items()
        }
        for name in names:
            if name not in sensitive_names:
                raise ValueError(
                    f"attributes names {name!r}, and sensitive_features has "
                    f"{', '.join(sensitive_names)}."
                )
            if name not in self.groups_:
                raise ValueError(
                    f"the sensitive feature {name!r} is no column of X: FAIAS compares predictions "
                    "with and without it, so it must be among the model inputs, or not among the "
                    "attributes."
                )
            if not varies[name]:
                raise ValueError(
                    f"the sensitive feature {name!r} is constant: adding it can change nothing."
                )
        if not any(varies[name] for name in self.groups_ if name not in names):
            raise ValueError(
                f"no features are left to select: X has {data.shape[1]} feature(s), and all that "
                "are not sensitive are constant."
            )
        return names

    def _split(self, codes: Int) -> tuple[Int, Int]:
        """Positions of the training rows and of the validation rows."""
        if self.validation_share == 0:
            return np.arange(len(codes)), np.arange(0)
        try:
            return hold_out(codes, self.validation_share, self.random_state, self.people)
        except ValueError:
            raise ValueError(
                f"of {len(codes)} rows too few are of one label to train and to validate: give "
                "more rows, or validation_share 0 to keep the last epoch."
            ) from None

    def selection_probabilities(self, X: ArrayLike) -> Float:
        """Probability that the selector shows each feature group to the predictor.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float, shape (n, G)
            Groups are in the order of ``groups_``; the sensitive ones have 0. Rows are equal unless
            ``data_dependent``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        import torch

        data = self._validated(X, reset=False)
        with torch.no_grad():
            probabilities = self.selector_.probabilities(self.selector_.logits(torch.tensor(data)))
        shape = (len(data), len(self.groups_))
        return np.broadcast_to(probabilities.numpy().astype(np.float64), shape).copy()

    def _probabilities(self, X: Float32) -> Float:
        return self._players.mean_over_selections(self._levels, X)

    def _write(self, folder: Path) -> None:
        import torch
        from safetensors.torch import save_file

        description = {"groups": list(self.groups_.items()), "attributes": self.attributes_}
        tensors = {
            key: item.detach().contiguous().clone()
            for key, item in self._players.named_parameters()
        }
        tensors["levels"] = torch.from_numpy(self._levels)
        metadata = {"faias": json.dumps(description, sort_keys=True)}
        save_file(tensors, str(folder / WEIGHTS_FILE), metadata=metadata)

    def _read(self, folder: Path) -> None:
        import torch

        metadata, tensors = read_tensors(folder / WEIGHTS_FILE, "pt")
        description = json.loads(metadata["faias"])
        self.groups_ = dict(description["groups"])
        self.attributes_ = description["attributes"]
        self._levels = tensors.pop("levels").numpy()
        players = self._build(None)
        with torch.no_grad():
            for name, value in players.named_parameters():
                value.copy_(tensors[name])
        self._set_players(players)
