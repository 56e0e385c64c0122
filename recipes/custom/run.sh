#!/usr/bin/env bash
# Train and test on a corpus of one's own; see usage.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pipeline.sh"

usage() {
  cat <<TEXT
From raw records to keyphrases and scores, for any corpus.

  $0 --train FILE... --valid FILE... --test FILE... [OPTION...] [-- OPTION-OF-ONMT_TRAIN...]

  --train, --valid, --test FILE...   records with title, abstract (or text) and keywords: .json, .jsonl, also .gz
  --exclude-titles FILE...  leave training documents out whose title is in these files (--valid and --test always count)
  --name NAME        of the test set; default: test
$(training_usage run/custom 3435)

With few documents, read several times, '-- -dropout 0.3' gives better phrases (RESULTS.md, "Dropout").
What was done before is not done again; training goes on from its last checkpoint. The checkpoint with the least
validation perplexity is tested. Exit code: 0 all done, 1 a command failed, 2 a mistake in the call.

  DIR/data/            train, valid and test: .src and .tgt, a document a line
  DIR/vocab.txt        DIR/logs/
  DIR/MODEL-SEED/      model_step_N.pt, train.log, run.json, and for each window K:
                       NAME.KK.pred, the keyphrases, and NAME.KK.json, their scores
  DIR/MODEL.NAME.txt   the table
TEXT
}

output=run/custom
name='test'
while (($#)); do
  case $1 in
  --name) need "$1" $# && name=$2 && taken=2 ;;
  *) training_option "$@" ;;
  esac
  ((taken)) || die "unknown option '$1'; see --help"
  shift "$taken"
done
[[ $name =~ ^[A-Za-z0-9_]+$ ]] || die "--name takes letters, digits and '_', not '$name'"
((${#train_files[@]} && ${#valid_files[@]} && ${#test_files[@]})) ||
  die "--train, --valid and --test are needed: files of records with title, abstract (or text) and keywords, as
  {\"title\": \"...\", \"abstract\": \"...\", \"keywords\": [\"...\"]}
one a line in .jsonl, in a list in .json, each also compressed (.gz); see --help"
exclude_files+=("${valid_files[@]}" "${test_files[@]}")
train_and_test "$name" 1
