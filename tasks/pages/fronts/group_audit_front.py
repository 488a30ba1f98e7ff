"""The front of an audit by group of classes, numbers, or rows with weights: its verdict first."""

from __future__ import annotations

from evenhand.tasks.pages.fronts import evaluation_front
from evenhand.tasks.pages.page_model import Documents, Front


def front(documents: Documents) -> Front:
    """Build the front; it is that of an evaluation."""
    return evaluation_front.front(documents)
