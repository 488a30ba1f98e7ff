r"""
The auditor: for each person, the comparable treatment that is worst.

:mod:`fairlib.auditor.search` maximises :math:`g(h(x')) - \lambda d_x^2(x, x')` over :math:`x'`, first along
the directions that the fair metric ignores, then in full space. What :math:`g` is, a goal says
(:mod:`fairlib.auditor.goals`); how :math:`h` is differentiated with respect to its input, a view of the
network (:mod:`fairlib.auditor.views`).
"""

from fairlib.auditor.goals import Goal, LogitDistance, LogLoss
from fairlib.auditor.search import Auditor, WorstCase
from fairlib.auditor.views import NetworkView, view_of

__all__ = ["Auditor", "Goal", "LogLoss", "LogitDistance", "NetworkView", "WorstCase", "view_of"]
