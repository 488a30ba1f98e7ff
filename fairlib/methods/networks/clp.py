"""CLP: counterfactual logit pairing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.preprocessing.counterfactuals import copies_of
from evenhand.fairlib.tuning.space import Real, Space

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.training import MeanLoss


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
    augmentation : float
        Weight in the loss of :math:`E[\ell(y, h_\theta(x^c))]`, the loss at the copy with the row's own
        label. With `rho` 0 that is data augmentation alone.
    output_distance : callable or None
        Your own :math:`d_Y`, as of :class:`evenhand.fairlib.methods.networks.sensei.SenSeIClassifier`.

    Attributes
    ----------
    history_ : dict of str to list of float
        Also ``classification_loss`` (nats) and ``output_distance``, which rho weighs in ``loss``.
    """

    space: ClassVar[Space] = {**NeuralNetworkClassifier.space, "rho": Real(0.1, 100.0, log=True)}

    rho: float = 5.0
    augmentation: float = 0.0
    output_distance: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, inf)", "rho", "augmentation")

    def _objective(self, data: Float32, sensitive_features: Any, counterfactuals: Any) -> MeanLoss:
        from evenhand.fairlib.methods.networks.objectives import LogitPairing

        if self.rho == 0 and self.augmentation == 0:
            return super()._objective(data, sensitive_features, counterfactuals)
        copies = copies_of(data, counterfactuals)
        given = self.rho, self.random_state, self.output_distance, self.augmentation
        return LogitPairing(data, copies, *given)
