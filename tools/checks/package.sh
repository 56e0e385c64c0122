#!/usr/bin/env bash
# Build a wheel and a source distribution, install each into an empty environment without OpenNMT-py, as the README
# says it for keyphrases only, and ask each for keyphrases from a folder that has nothing of the checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$python" -m venv build
build/bin/pip install --quiet --disable-pip-version-check build 'setuptools>=68' wheel
cp -r "$root" source
rm -rf source/.venv* source/build source/*.egg-info
build/bin/python -m build --no-isolation --outdir dist source >build.log || { cat build.log; exit 1; }
ls -l dist

expected=$(exhird generate "$root/recipes/demo/abstracts.txt")
for file in dist/*.whl dist/*.tar.gz; do
  rm -rf empty
  "$python" -m venv empty
  start=$SECONDS
  empty/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
  empty/bin/pip install --quiet --disable-pip-version-check numpy safetensors nltk tqdm flask waitress
  empty/bin/pip install --quiet --disable-pip-version-check --no-deps "$file"
  echo "$(basename "$file"): installed in $((SECONDS - start)) s, $(du -sm empty | cut -f1) MB"
  found=$(empty/bin/exhird generate "$root/recipes/demo/abstracts.txt")
  [[ $found == "$expected" ]] || { echo "keyphrases differ:"; diff <(echo "$expected") <(echo "$found"); exit 1; }
done
echo "$found"
