#!/bin/sh
# Resolve all dependencies in a fresh environment and write every pin to constraints.txt.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev,s3,dask,tune,bench]'
{
    echo "# Every transitive pin. Made by: make constraints"
    # a local build label such as +cpu names no release
    "$folder/venv/bin/python" -m pip freeze --exclude-editable | sed 's/+[a-z0-9.]*$//'
} > constraints.txt
