"""MkDocs hook: the pages under reference/ that are made from the code, so that they cannot be stale."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from reference_pages import pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those of docs/."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files
