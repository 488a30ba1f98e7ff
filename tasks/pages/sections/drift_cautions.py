"""What a drift page does not say."""

from __future__ import annotations

from evenhand.tasks.pages.model import Documents, Section

PAGES = {"drift": 60}
NEEDS = ("drift",)

CAUTIONS = (
    "**Each column is compared alone.** Only counts of each column are kept of the training rows, so a "
    "change that shows only in several columns together is not seen.",
    "**Drift of the inputs is not an error of the model.** A change of the inputs does not say that the "
    "model is wrong about the new rows, and no change does not say that it is right: that takes new rows "
    "with labels, and `evenhand evaluate`.",
    "**Many rows make every difference significant.** The p-value is then small for differences that do not "
    "matter. The index measures how large a change is; the default gates judge the index.",
)


def build(documents: Documents) -> Section:
    """The cautions."""
    return Section("cautions", "What this does not say", CAUTIONS)
