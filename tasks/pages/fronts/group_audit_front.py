"""The front of an audit by group of classes, numbers, or rows with weights: its verdict first."""

from __future__ import annotations

from dataclasses import replace

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts import evaluation_front
from evenhand.tasks.pages.page_model import Documents, Front


def front(documents: Documents) -> Front:
    """Build the front; it is that of an evaluation, with the notes of the audit."""
    front_of_evaluation = evaluation_front.front(documents)
    notes = []
    for note in documents["run"]["notes"]:
        notes.append(formats.sentence(f"{note.removesuffix('.')}."))
    return replace(front_of_evaluation, headline=[*front_of_evaluation.headline, *notes])
