"""Run a command, and write its CPU seconds and those of its children into a folder.

``python child_cpu.py FOLDER COMMAND...``; the file is named by the flow run, whose id a worker
puts into the environment. This file imports nothing else, because a worker's runs start it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run the command, write the seconds, and end as the command did."""
    folder = Path(sys.argv[1])
    done = subprocess.run(sys.argv[2:])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = round(used.ru_utime + used.ru_stime, 3)
    run = os.environ["PREFECT__FLOW_RUN_ID"]
    (folder / f"{run}.json").write_text(json.dumps({"cpu_s": seconds}))
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
