"""The HTML report of a run: one page that a person who decides can read, print and keep.

``tasks.reporting.page.render_report`` turns plain JSON into it; every plotted number also stands in a table.
"""

__all__ = ["context", "page", "words"]
