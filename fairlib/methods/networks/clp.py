"""CLP: counterfactual logit pairing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.preprocessing.counterfactuals import copies_of
from evenhand.fairlib.tuning.space import Real, Space

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.training import CrossEntropy


@dataclass(kw_only=True, eq=False, repr=False)
class CLPClassifier(NeuralNetworkClassifier):
    r"""Counterfactual logit pairing (Garg et al. 2018), for any number of classes.

    .. math:: \min_\theta E[\ell(y, h_\theta(x))] + \rho E[d_Y(h_\theta(x), h_\theta(x^c))]

    with :math:`d_Y` the mean squared difference of logits and :math:`x^c` a counterfactual copy of the row,
    drawn at random among those given (Yurochkin and Sun 2021, section 4 and appendix B).

    Parameters
    ----------
    rho : float
        :math:`\rho`, weight of the pairing against accuracy. 0 is plain training, to the bit.

    Attributes
    ----------
    history_ : dict of str to list of float
        Also ``classification_loss`` (nats) and ``output_distance``, the two terms of ``loss``.
    """

    space: ClassVar[Space] = {**NeuralNetworkClassifier.space, "rho": Real(0.1, 100.0, log=True)}

    rho: float = 5.0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        counterfactuals: Sequence[ArrayLike] | None = None,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train as :meth:`NeuralNetworkClassifier.fit`, on the rows and their counterfactuals.

        These are copies of all rows, shape (n, d) each, in their order, with changes that should not matter.
        A row may equal its copy. ``sensitive_features`` are ignored. Also ValueError: no counterfactuals with
        a positive rho, one of another shape than X, one that is not finite, or all equal to X.
        """
        return self._fit(X, y, sample_weight, callback, checkpoint, counterfactuals=counterfactuals)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, inf)", "rho")

    def _objective(self, data: Float32, **given: Any) -> CrossEntropy:
        from evenhand.fairlib.methods.networks.objectives import LogitPairing

        if self.rho == 0:
            return super()._objective(data)
        return LogitPairing(data, copies_of(data, given["counterfactuals"]), self.rho, self.random_state)
