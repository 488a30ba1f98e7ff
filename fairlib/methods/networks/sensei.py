"""SenSeI and SenSR, trained against a search for the worst comparable treatment, and CLP, against
copies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.adapted_inputs import METRIC_FOLDER, adapts
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.preprocessing.counterfactuals import check_copies
from evenhand.fairlib.tuning.space import Real, Space

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.network_training import MeanLoss

MultiplierUpdate = Literal["relative", "absolute"]
BUDGET_FILE = "budget.json"


@dataclass(kw_only=True, eq=False, repr=False)
class AuditedNetwork(NeuralNetworkClassifier):
    r"""Base of the networks that train against an adversary.

    Parameters
    ----------
    metric : fair metric or None
        Fitted, or a template that is fitted on X and ``sensitive_features``. None: a
        :class:`evenhand.fairlib.distances.SensitiveSubspace` of ``sensitive_features``.
    perturbation_budget : float or None
        :math:`\epsilon`, mean squared fair distance that the auditor may move people. None:
        `budget_share` of the table's own.
    budget_share : float
        :math:`\epsilon` as a share of the mean squared fair distance between two random people,
        which depends neither on the number of columns nor on their scale.
    multiplier_start, multiplier_rate : float
        :math:`\lambda_0`, and :math:`\eta` of its update.
    multiplier_update : {"relative", "absolute"}
        Of :math:`\lambda`: by shares of itself
        (:func:`evenhand.fairlib.methods.networks.objectives.next_relative_multiplier`), or by
        differences, as in Algorithm 1.
    subspace_steps, full_steps : int
        Steps of the search for the worst case, along the metric's free directions and in full
        space.
    full_rate : float
        Share of the way that a step in full space goes, in (0, 1].
    tolerance : float
        Gain below which the steps in full space end early, as a share of the value found; negative:
        never.
    bound_weight : float
        Weight in the loss of a proved upper bound on the mean output distance within the fair
        distance :math:`\sqrt\epsilon`
        (:class:`evenhand.fairlib.methods.networks.objectives.IntervalBound`), so that certificates
        can be proved. Needs linear layers with ReLU.

    With a learned metric that can read all groups from X, the network reads adapted columns:
    everybody's counterpart in the largest group, without the columns that the metric removes. The
    auditor then moves people among these, where no direction is free.

    Attributes
    ----------
    metric_ : fair metric
    perturbation_budget_ : float
        :math:`\epsilon` of the training.
    history_ : dict of str to list of float
        Also ``spent``, the mean squared fair distance, ``multiplier``, :math:`\lambda`, and with
        `bound_weight` ``output_bound``.
    """

    space: ClassVar[Space] = {
        **NeuralNetworkClassifier.space,
        "budget_share": Real(1e-6, 0.1, log=True),
    }

    metric: Any = field(default=None, kw_only=False)
    perturbation_budget: float | None = None
    budget_share: float = 1e-4
    multiplier_start: float = 1.0
    multiplier_rate: float = 0.1
    multiplier_update: MultiplierUpdate = "relative"
    subspace_steps: int = 8
    full_steps: int = 2
    full_rate: float = 0.5
    tolerance: float = 1e-4
    bound_weight: float = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, inf)", "perturbation_budget", optional=True)
        self._check_interval(
            "[0, inf)", "budget_share", "multiplier_start", "multiplier_rate", "bound_weight"
        )
        self._check_has("metric", "project", "a fair metric")
        self._check_choice("multiplier_update", get_args(MultiplierUpdate))
        self._check_counts("subspace_steps", "full_steps", least=0)
        self._check_interval("(0, 1]", "full_rate")
        self._check_interval("(-inf, inf)", "tolerance")

    def _objective(self, data: Float32, sensitive_features: Any, counterfactuals: Any) -> MeanLoss:
        from evenhand.fairlib.distances.metric_base import mean_squared_distance
        from evenhand.fairlib.distances.metric_kinds import fitted_metric
        from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
        from evenhand.fairlib.methods.networks.objectives import Robustness

        self.metric_ = fitted_metric(self.metric, self._named(data), sensitive_features)
        inputs = self._training_inputs(data)
        # adapted columns are no longer proxy features: nothing is free among them
        self._search_metric = self.metric_
        if self.adapts_inputs:
            self._search_metric = SensitiveSubspace(indicators=[], learned=[]).fit(inputs)
        self.perturbation_budget_ = (
            self.budget_share * mean_squared_distance(self._search_metric, inputs)
            if self.perturbation_budget is None
            else float(self.perturbation_budget)
        )
        return Robustness(self, self._search_metric, self.perturbation_budget_)

    @property
    def adapts_inputs(self) -> bool:
        """Whether the network reads adapted columns instead of those of X."""
        return adapts(getattr(self, "metric_", None))

    def _training_inputs(self, data: Float32) -> Float32:
        if not self.adapts_inputs:
            return data
        inputs: Float32 = self.metric_.adapted(data)
        return inputs

    def network_inputs(self, X: ArrayLike) -> list[Float32]:
        """Rows as the network reads them, over whose outputs the model takes the mean.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        list of ndarray of float32, shape (n, d)
            X itself; with adapted columns one for each draw of the categories.
        """
        rows = np.asarray(X, dtype=np.float32)
        if not self.adapts_inputs:
            return [rows]
        return [self.metric_.adapted(rows, draw) for draw in range(self.metric_.n_draws)]

    def _outputs(self, data: Float32) -> Float32:
        parts = [super(AuditedNetwork, self)._outputs(rows) for rows in self.network_inputs(data)]
        if len(parts) == 1:
            return parts[0]
        return np.asarray(np.mean(parts, axis=0, dtype=np.float64), dtype=np.float32)

    def _write(self, folder: Path) -> None:
        super()._write(folder)
        if self.adapts_inputs:
            self.metric_.save(folder / METRIC_FOLDER)
        (folder / BUDGET_FILE).write_text(
            json.dumps({"perturbation_budget": self.perturbation_budget_})
        )

    def _read(self, folder: Path) -> None:
        super()._read(folder)
        if (folder / METRIC_FOLDER).is_dir():
            self.metric_ = load_metric(folder / METRIC_FOLDER)
        if (folder / BUDGET_FILE).exists():
            self.perturbation_budget_ = json.loads((folder / BUDGET_FILE).read_text())[
                "perturbation_budget"
            ]
        elif self.perturbation_budget is not None:  # a model of an earlier version
            self.perturbation_budget_ = self.perturbation_budget


@dataclass(kw_only=True, eq=False, repr=False)
class SenSeIClassifier(AuditedNetwork):
    r"""Sensitive set invariance (Yurochkin and Sun 2021, Algorithm 1), for any number of classes.

    .. math::
        \min_\theta \inf_{\lambda \ge 0} E[\ell(y, h_\theta(x))] + \rho \left( \lambda \epsilon
        + E[\sup_{x'} \; d_Y(h_\theta(x), h_\theta(x')) - \lambda d_X(x, x')] \right)

    with :math:`d_Y` the mean squared difference of logits and :math:`d_X` the squared fair
    distance. One mini-batch: the auditor finds the worst :math:`x'` of every row, the network
    descends on the loss plus
    :math:`\rho` times the distance of the outputs, and :math:`\lambda` moves towards the budget.

    Parameters
    ----------
    rho : float
        :math:`\rho`, weight of invariance against accuracy. 0 is plain training, to the bit.
    pair_weight : float
        :math:`\kappa` of a further term :math:`\kappa E[d_Y(h_\theta(x), h_\theta(x^c))]` with
        random counterfactual copies :math:`x^c`, as in :class:`CLPClassifier`. The paper has no
        such term. It serves where the metric's directions do not hold all of what a copy changes,
        as with sentences. 0 needs no copies.
    output_distance : callable or None
        Your own :math:`d_Y`: a differentiable function of two tensors of outputs, shape (b, K),
        that gives shape (b,). Certificates and `bound_weight` are about the mean squared
        difference. None: that.

    Attributes
    ----------
    history_ : dict of str to list of float
        Also ``classification_loss`` (nats) and ``output_distance``, the two terms of ``loss``; with
        a `pair_weight` also ``paired_distance``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> model = SenSeIClassifier(metric, hidden=(8,), rho=5.0, n_steps=50, random_state=0)
    >>> model.fit(X, y).predict_proba(X).shape
    (200, 2)
    >>> "output_distance" in model.history_
    True
    """

    space: ClassVar[Space] = {**AuditedNetwork.space, "rho": Real(0.1, 100.0, log=True)}

    rho: float = 5.0
    pair_weight: float = 0.0
    output_distance: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, inf)", "rho", "pair_weight")
        self._check_callable("output_distance")
        if self.bound_weight and self.output_distance is not None:
            raise ValueError(
                "bound_weight bounds the mean squared difference: leave output_distance None."
            )

    def _objective(self, data: Float32, sensitive_features: Any, counterfactuals: Any) -> MeanLoss:
        from evenhand.fairlib.methods.networks.network_training import MeanLoss
        from evenhand.fairlib.methods.networks.objectives import LogitPairing, SetInvariance

        # sets metric_, and checks the parameters of the search
        super()._objective(data, sensitive_features, counterfactuals)
        if self.rho == 0 and self.bound_weight == 0 and self.pair_weight == 0:
            return MeanLoss()
        objective = SetInvariance(self, self._search_metric, self.perturbation_budget_, self.rho)
        if self.pair_weight:
            copies = [self._training_inputs(copy) for copy in check_copies(data, counterfactuals)]
            pairing_arguments = self.pair_weight, self.random_state, self.output_distance
            inputs = self._training_inputs(data)
            objective.pairing = LogitPairing(inputs, copies, *pairing_arguments)
        return objective


@dataclass(kw_only=True, eq=False, repr=False)
class SenSRClassifier(AuditedNetwork):
    r"""Sensitive subspace robustness (Yurochkin et al. 2020), for any number of classes.

    .. math::
        \min_\theta \; \sup_{P: W_{d_X}(P, P_n) \le \epsilon} E_P[\ell(y, h_\theta(x))]
        = \min_\theta \inf_{\lambda \ge 0} \lambda \epsilon
        + E[\sup_{x'} \; \ell(y, h_\theta(x')) - \lambda d_X(x, x')]

    with :math:`d_X` the squared fair distance: equation 2.5 of Yurochkin and Sun 2021, who compare
    SenSeI with it. One mini-batch: the auditor finds the worst :math:`x'` of every row, the network
    descends on the loss there (nats), and :math:`\lambda` moves towards the budget.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> model = SenSRClassifier(metric, hidden=(8,), n_steps=50, random_state=0)
    >>> model.fit(X, y).predict_proba(X).shape
    (200, 2)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class CLPClassifier(NeuralNetworkClassifier):
    r"""Counterfactual logit pairing (Garg et al. 2019), for any number of classes.

    .. math:: \min_\theta E[\ell(y, h_\theta(x))] + \rho E[d_Y(h_\theta(x), h_\theta(x^c))]

    with :math:`d_Y` the mean squared difference of logits and :math:`x^c` a counterfactual copy of
    the row, drawn at random among those given (Yurochkin and Sun 2021, section 4 and appendix B).

    Parameters
    ----------
    rho : float
        :math:`\rho`, weight of the pairing against accuracy. 0 is plain training, to the bit.
    augmentation : float
        Weight in the loss of :math:`E[\ell(y, h_\theta(x^c))]`, the loss at the copy with the row's
        own label. With `rho` 0 that is data augmentation alone.
    output_distance : callable or None
        Your own :math:`d_Y`, as of :class:`SenSeIClassifier`.

    Attributes
    ----------
    history_ : dict of str to list of float
        Also ``classification_loss`` (nats) and ``output_distance``, which rho weighs in ``loss``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> copies = [np.column_stack([1 - sex, X[:, 1]])]
    >>> model = CLPClassifier(hidden=(8,), rho=5.0, n_steps=50, random_state=0)
    >>> model.fit(X, y, counterfactuals=copies).predict_proba(X).shape
    (200, 2)
    """

    space: ClassVar[Space] = {**NeuralNetworkClassifier.space, "rho": Real(0.1, 100.0, log=True)}

    rho: float = 5.0
    augmentation: float = 0.0
    output_distance: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, inf)", "rho", "augmentation")
        self._check_callable("output_distance")

    def _objective(self, data: Float32, sensitive_features: Any, counterfactuals: Any) -> MeanLoss:
        from evenhand.fairlib.methods.networks.objectives import LogitPairing

        if self.rho == 0 and self.augmentation == 0:
            return super()._objective(data, sensitive_features, counterfactuals)
        copies = check_copies(data, counterfactuals)
        pairing_arguments = self.rho, self.random_state, self.output_distance, self.augmentation
        return LogitPairing(data, copies, *pairing_arguments)
