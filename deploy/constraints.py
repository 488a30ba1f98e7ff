"""Resolve all dependencies: their pins to constraints.txt, and the SHA-256 of their files to two
lists.

    python deploy/constraints.py [--keep]

`deploy/hashes.txt` is what the image installs, `deploy/hashes-dev.txt` adds what tests,
documentation and benchmarks need. They hold for the Python and the platform that this runs on.
`--keep` takes the pins as they are. The CPU build of torch needs its index, as in
deploy/Dockerfile:

    PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu python deploy/constraints.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
IMAGE = "s3,server,comparators,dask,otel"
ALL = f"{IMAGE},dev,docs,bench,audit"


def resolve(python: Path, extras: str, *options: str | Path) -> dict[str, tuple[str, str]]:
    """Version and SHA-256 of every distribution that the project with these extras needs,
    by name.
    """
    report = python.parent / "report.json"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    # setuptools builds the distributions that have no wheel, and this project
    what = [
        "--ignore-installed",
        "--report",
        report,
        *options,
        f"{ROOT}[{extras}]",
        "setuptools>=77",
    ]
    subprocess.run([*pip, *what], check=True)
    found = {}
    for item in json.loads(report.read_text())["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if "archive_info" in item["download_info"]:
            # a local build label such as +cpu names no release
            digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
            found[name] = (version.partition("+")[0], digest)
    return dict(sorted(found.items(), key=lambda entry: f"{entry[0]}==".lower()))


def main(keep: bool) -> None:
    """Write the three files."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder, "bin", "python")
        pip = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "pip>=25.1",
        ]
        subprocess.run(pip, check=True)
        everything = resolve(python, ALL, *(("-c", CONSTRAINTS) if keep else ()))
        pins = "".join(f"{name}=={version}\n" for name, (version, _) in everything.items())
        CONSTRAINTS.write_text(f"# Every transitive pin. Made by: make constraints\n{pins}")
        image = resolve(python, IMAGE, "-c", CONSTRAINTS)
    head = f"# CPython {sys.version_info[0]}.{sys.version_info[1]}, {sysconfig.get_platform()}. "
    head += "Made by: make constraints\n"
    lines = {
        name: f"{name}=={version} --hash=sha256:{digest}\n"
        for name, (version, digest) in everything.items()
    }
    more = "".join(line for name, line in lines.items() if name not in image)
    (ROOT / "deploy/hashes.txt").write_text(head + "".join(lines[name] for name in image))
    (ROOT / "deploy/hashes-dev.txt").write_text(f"{head}-r hashes.txt\n{more}")


if __name__ == "__main__":
    main(keep="--keep" in sys.argv[1:])
