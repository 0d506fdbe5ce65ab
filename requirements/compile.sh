#!/usr/bin/env bash
# Renews the locks. Requirements with hashes record no download address, unlike every other lock format.
# Needs uv (any way of installing it will do); run from the top folder.
set -euo pipefail
cd "$(dirname "$0")/.."
common=(--quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url "$@")
uv pip compile "${common[@]}" --group build -o requirements/build.txt
uv pip compile "${common[@]}" pyproject.toml --all-extras --group build --group dev -o requirements/development.txt
uv pip compile "${common[@]}" pyproject.toml --extra spark -c requirements/development.txt -o requirements/spark.txt
# What any extra brings: the image has it, the SBOM lists it, the audit looks at it.
uv pip compile "${common[@]}" pyproject.toml --all-extras -c requirements/development.txt -o requirements/extras.txt
uv pip compile "${common[@]}" --group release -c requirements/development.txt -o requirements/release.txt
uv pip compile "${common[@]}" --group mutants -c requirements/development.txt -o requirements/mutants.txt
uv pip compile "${common[@]}" --group docs -c requirements/development.txt -o requirements/docs.txt
