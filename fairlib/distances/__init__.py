"""Fair metrics: distances between people that ignore what should not count.

Each metric has ``fit``, ``distance``, ``pairwise``, ``project``, ``save`` and ``load``.
"""

from fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace

__all__ = ["LearnedDirection", "SensitiveSubspace"]
