"""The process of an audit that somebody uploaded: the command line within limits.

Started as ``python -m evenhand.flows.app.audit_process audit TABLE ...``. A small file may unfold
into a large table: the process then ends, and the server goes on.
"""

from __future__ import annotations

import contextlib

MOST_MEMORY = 4 * 1024**3
MOST_FILE = 1024**3
MOST_CPU_S = 240


def limit() -> None:
    """Limit memory, written files and time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limits = (
        (resource.RLIMIT_DATA, MOST_MEMORY),
        (resource.RLIMIT_FSIZE, MOST_FILE),
        (resource.RLIMIT_CPU, MOST_CPU_S),
    )
    for kind, most in limits:
        # a lower limit that is there already stays
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def main() -> None:
    """Run the command line with the arguments of this process, within the limits."""
    from evenhand.flows.cli import main as command_line

    limit()
    command_line()


if __name__ == "__main__":
    main()
