"""Charts of results as :class:`altair.Chart` objects, for pages, docs and notebooks alike."""
