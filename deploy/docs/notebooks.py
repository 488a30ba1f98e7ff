"""Hook of MkDocs: the notebooks of docs/ are pages, executed while the site is built.

They are stored without outputs. With EXECUTE_NOTEBOOKS=no, and in ``mkdocs serve``, pages have only
code.
"""

from __future__ import annotations

import base64
import html
import os
import re
from pathlib import Path
from typing import Any, Literal

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TIMEOUT_S = 300
_serving = False


class NotebookPage(File):
    """A notebook that MkDocs takes for a page of Markdown."""

    def is_documentation_page(self) -> bool:
        """Return true: links to the notebook become links to its page."""
        return True


def on_startup(command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
    """Execute nothing while pages are edited."""
    global _serving
    _serving = command == "serve"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace every notebook by its page."""
    run = not _serving and os.environ.get("EXECUTE_NOTEBOOKS") != "no"
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = read_notebook(Path(config.docs_dir) / file.src_uri)
        if run:
            execute(notebook, file.src_uri)
        page = NotebookPage.generated(config, file.src_uri, content=as_markdown(notebook))
        files.remove(file)
        files.append(page)
    return files


def read_notebook(path: Path) -> Any:
    """Read a notebook of format 4."""
    return nbformat.read(path, as_version=4)


def execute(notebook: Any, name: str) -> None:
    """Execute a notebook in a kernel of this environment; its outputs are added in place.

    Raises
    ------
    PluginError
        A cell fails: the build ends.
    """
    try:
        NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3").execute()
    except CellExecutionError as error:
        raise PluginError(f"{name} cannot be executed: {error}") from None


def as_markdown(notebook: Any) -> str:
    """Convert a notebook with its outputs to Markdown that needs no other file."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code":
            parts.append(f"```python\n{cell.source}\n```")
            # the first comment of a cell with a chart says what it shows
            comment = re.match(r"# (.+)", cell.source)
            parts += [
                _output(output, comment[1] if comment else "Chart") for output in cell.outputs
            ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: Any, description: str) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```" if output.name == "stdout" else ""
    found = output.data
    if "image/svg+xml" in found:
        # as a picture of its own: ids of several charts in one page would clash
        coded = base64.b64encode("".join(found["image/svg+xml"]).encode()).decode()
        return f'<img class="chart" alt="{html.escape(description)}" src="data:image/svg+xml;base64,{coded}">'
    if 'class="dataframe"' in found.get("text/html", ""):
        table = re.search(r"<table.*</table>", found["text/html"], re.DOTALL)
        return re.sub(r"<table[^>]*>", "<table>", table[0]) if table else ""
    return f"```text\n{found['text/plain']}\n```" if "text/plain" in found else ""
