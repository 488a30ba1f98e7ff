"""Balanced training rows: which of them a published proxy kept."""

from __future__ import annotations

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Documents, Section

PAGES = {"run": 70}
NEEDS = ("kept_rows",)


def build(documents: Documents) -> Section:
    """One paragraph."""
    kept = documents["kept_rows"]
    text = (
        f"The model was trained on **{formats.count(kept['rows_after'])}** of "
        f"{formats.count(kept['rows_before'])} training rows: those that the published proxy "
        f"{kept['proxy']}, version {kept['version']}, kept. A row’s features determine the probability "
        "that it is kept, and a hash of them decides; "
        f"{formats.count(round(kept['rows_expected']))} rows were expected. None of the test rows was "
        "left out."
    )
    return Section("kept-rows", "Balanced training rows", [text])
