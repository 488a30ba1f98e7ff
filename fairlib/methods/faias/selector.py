r"""The selector: the probability that each feature group is shown, and gradients of the sensitivity loss.

A selection :math:`s \in \{0, 1\}^G` has the probability
:math:`\pi(s) = \prod_j p_j^{s_j} (1 - p_j)^{1 - s_j}` with :math:`p = \sigma(\theta)` (FAIAS, equation 6.5).
Every estimator below gives for each row an estimate of :math:`\partial E_s[L] / \partial \theta_j`, where
:math:`\theta` is a vector or the output of a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from evenhand.fairlib.methods.networks.training import build_network


class Selector(nn.Module):
    r"""Selection probabilities of G groups: :math:`\sigma(\theta)`, the same for all, or :math:`g_\theta(x)`.

    Groups that are `free`, bool of shape (G,), may be selected; the others have probability 0. Free groups
    start at `initial_probability` in (0, 1]; 1 stays 1. With `hidden` layers a network :math:`g_\theta` reads
    the `readable` ones of the `n_inputs` columns of x, and its first weights are drawn from `generator`;
    without, there is one probability per group for all rows.
    """

    free: Tensor
    readable: Tensor

    def __init__(
        self,
        free: Tensor,
        initial_probability: float,
        *,
        n_inputs: int = 0,
        hidden: Sequence[int] | None = None,
        readable: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        groups = len(free)
        # the sigmoid of 30 is 1 in float32, and unlike infinity it can be averaged
        start = torch.full((groups,), float(initial_probability)).logit().clamp(max=30.0)
        self.register_buffer("free", free)
        self.theta: nn.Parameter | None = None
        self.network: nn.Sequential | None = None
        if hidden is None:
            self.theta = nn.Parameter(start)
        else:
            self.network = build_network(n_inputs, hidden, groups, generator, nn.SELU)
            with torch.no_grad():
                last: nn.Linear = self.network[-1]  # type: ignore[assignment]
                last.bias.copy_(start)
            assert readable is not None
            self.register_buffer("readable", readable)

    def logits(self, x: Tensor) -> Tensor:
        """Log-odds, shape (n, G), or (1, G) where they are the same for all rows."""
        if self.theta is not None:
            return self.theta[None]
        assert self.network is not None
        return self.network(x * self.readable)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities of log-odds; 0 for groups that are never selected."""
        return torch.sigmoid(logits) * self.free


def score_function_gradient(losses: Tensor, selection: Tensor, probabilities: Tensor) -> Tensor:
    r"""Score-function estimate (FAIAS, equation 6.10), shape (n, G).

    .. math:: (L_i - b_i) \, \nabla_\theta \log \pi(s_i) = (L_i - b_i)(s_i - p_i)

    The baseline :math:`b_i` is the mean loss of the other rows. It does not depend on :math:`s_i`, so the
    estimate stays unbiased, with a far smaller variance.
    """
    n = len(losses)
    baseline = (losses.sum() - losses) / (n - 1) if n > 1 else torch.zeros_like(losses)
    return (losses - baseline)[:, None] * (selection - probabilities)


def one_flip_gradient(
    losses: Tensor,
    selection: Tensor,
    probabilities: Tensor,
    free: Tensor,
    loss_of: Callable[[Tensor], Tensor],
    generator: torch.Generator,
) -> Tensor:
    r"""Leave-one-out estimate: one free group of every row, drawn uniformly, is switched; shape (n, G).

    .. math:: \frac{\partial E[L]}{\partial \theta_j} = p_j (1 - p_j) \, E[L(s_j{=}1) - L(s_j{=}0)]

    The switched group gets this difference times the number of free groups, the others zero: unbiased. The
    cost is another pass of the predictor, without a gradient.
    """
    choices = torch.nonzero(free)[:, 0]
    rows = torch.arange(len(losses))
    switched = choices[torch.randint(len(choices), (len(losses),), generator=generator)]
    other = selection.clone()
    other[rows, switched] = 1 - other[rows, switched]
    with torch.no_grad():
        rise = (losses - loss_of(other)) * (2 * selection[rows, switched] - 1)
    gradient = torch.zeros_like(selection)
    gradient[rows, switched] = len(choices) * rise
    return gradient * probabilities * (1 - probabilities)


def straight_through_gradient(mask_gradient: Tensor, probabilities: Tensor) -> Tensor:
    r"""Straight-through estimate, shape (n, G): as if the selection were its probability.

    .. math:: p_j (1 - p_j) \, \partial L / \partial s_j

    (Bengio et al. 2013.) Biased, because it takes the loss as linear between 0 and 1.

    `mask_gradient`, shape (n, G), is the derivative of every row's loss by its selection.
    """
    return mask_gradient * probabilities * (1 - probabilities)
