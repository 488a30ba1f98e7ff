"""Count the files and functions of Evenhand that one run enters.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.speed.entered_files [--list] [--at-most N]
[COMMAND...]``.
The default command is ``run hiring-gbdt --direct``, on an empty store. A file counts if one of its
functions is called in this process, also where that happens while modules are imported. Bodies of
modules and classes do not count, nor do worker processes. With ``--at-most`` the exit code is 1
where more files are entered.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import evenhand.flows.cli

ROOT = Path(evenhand.flows.cli.__file__).resolve().parents[1]
FOLDERS = ("flows", "tasks", "fairlib", "data_contracts")
RUN = ("run", "hiring-gbdt", "--direct")
IS_FUNCTION = 1  # CO_OPTIMIZED, the flag of a code object that is the body of a function


def main() -> int:
    """Print the counts of one command; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print each file, and its functions")
    parser.add_argument("--at-most", type=int, help="most files that may be entered")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="arguments of evenhand")
    options = parser.parse_args()
    functions = entered_functions(options.command or list(RUN))
    files = Counter(path for path, _ in functions)
    if options.list:
        for path in sorted(files):
            names = sorted(name for place, name in functions if place == path)
            print(f"{path}: {', '.join(names)}")
    folders = Counter(path.split("/")[0] for path in files)
    by_folder = ", ".join(f"{count} in {folder}" for folder, count in folders.items())
    print(f"{len(files)} files ({by_folder}), {len(functions)} functions")
    return int(options.at_most is not None and len(files) > options.at_most)


def entered_functions(command: list[str]) -> set[tuple[str, str]]:
    """Run a command of evenhand on an empty store; return file and name of each function that it
    calls.
    """
    codes: set[CodeType] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        # returns no local trace function, so it is called once a call, not once a line
        codes.add(frame.f_code)

    os.environ.pop("PREFECT_API_URL", None)
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as store:
        os.environ["EVENHAND_STORE"] = store
        sys.argv = ["evenhand", *command]
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            with contextlib.redirect_stdout(printed):
                evenhand.flows.cli.main()
        except SystemExit as ended:
            if ended.code not in (None, 0, 1, 3):
                raise
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
    functions = set()
    # a copy: threads that still run go on adding
    for code in list(codes):
        # comprehensions and lambdas of a module's body are no functions that a reader enters
        is_nested = "<locals>" in code.co_qualname
        if code.co_flags & IS_FUNCTION and (is_nested or not code.co_name.startswith("<")):
            path = Path(code.co_filename).resolve()
            if path.is_relative_to(ROOT):
                relative = path.relative_to(ROOT).as_posix()
                if relative.startswith(FOLDERS):
                    functions.add((relative, code.co_qualname))
    return functions


if __name__ == "__main__":
    sys.exit(main())
