#!/usr/bin/env bash
# Train a model for abstracts of every science and test it; see --help.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pipeline.sh"
models='exhird-h catseq' recipe=science vocab_words=30000

usage() {
  cat <<TEXT
A model for abstracts of every science, with a recipe for hundreds of thousands of documents and hours of one CPU core.

  $0 --train FILE... --valid FILE... --test FILE... [OPTION...] [-- OPTION-OF-ONMT_TRAIN...]

  --train, --valid, --test FILE...   records with title, abstract (or text) and keywords: .json, .jsonl, also .gz
  --exclude-titles FILE...  leave training documents out whose title is in these files (--valid and --test always count)
$(training_usage run/science 3435)

All else is as in recipes/custom/run.sh, which see. Then the phrases that many authors use, for a model folder:
  python tools/thesaurus.py --model CHECKPOINT.pt --data run/science/data/train --valid run/science/data/valid \\
    --output my-model
Benchmarks:
recipes/inspec/run.sh, recipes/krapivin/run.sh, recipes/semeval/run.sh with --run run/science.
Exit code: 0 all done, 1 a command failed, 2 a mistake in the call.
TEXT
}

output=run/science
while (($#)); do
  training_option "$@"
  ((taken)) || die "unknown option '$1'; see --help"
  shift "$taken"
done
((${#train_files[@]} && ${#valid_files[@]} && ${#test_files[@]})) ||
  die "--train, --valid and --test are needed: files of records with title, abstract (or text) and keywords; see --help"
exclude_files+=("${valid_files[@]}" "${test_files[@]}")
train_and_test test 1
