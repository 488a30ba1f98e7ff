"""Open the place where a filter or a prediction writes: files, or a table of a database."""

from __future__ import annotations

from evenhand.tasks.filtering.output import OutputFolder
from evenhand.tasks.sources.databases import is_database


def open_output(address: str) -> OutputFolder:
    """Open a folder or URL of files, or the table of ``URL#TABLE``."""
    if is_database(address):
        # imported lazily: files need no SQLAlchemy
        from evenhand.tasks.filtering.output_table import OutputTable

        return OutputTable(address)
    return OutputFolder(address)
