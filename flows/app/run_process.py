"""The process of a run that the app starts: ``evenhand run`` with progress more often.

Started as ``python -m evenhand.flows.app.run_process run JOB --store STORE``.
"""

from __future__ import annotations

from evenhand.flows.commands import terminal

# Seconds between lines of progress, and before the line of a new step.
EVERY_S = 2.0
NEW_STEPS_S = 0.5


def main() -> None:
    """Run the command line with the arguments of this process."""
    from evenhand.flows.cli import main as command_line

    terminal.EVERY_S = EVERY_S
    terminal.NEW_STEPS_S = NEW_STEPS_S
    command_line()


if __name__ == "__main__":
    main()
