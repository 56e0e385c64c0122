#!/usr/bin/env bash
# Train on KP20k as in the paper and test on its test set; see --help.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pipeline.sh"

usage() {
  cat <<TEXT
From KP20k's raw files to the paper's table: prepare, vocabulary, train, search, evaluate.

  $0 --data DIR [OPTION...] [-- OPTION-OF-ONMT_TRAIN...]

  --data DIR         has kp20k_training.json, kp20k_validation.json and kp20k_testing.json, or
                     kp20k/train.json, kp20k/valid.json and kp20k/test.json; .jsonl and .gz too
  --train, --valid, --test FILE...   instead
  --exclude-titles FILE...  leave training documents out whose title is in these files; those of KP20k's validation and
                     test data and of Inspec, Krapivin and SemEval, if they are in DIR, are left out always
$(training_usage run/kp20k "the paper's 34,343,3435")

What was done before is not done again; training goes on from its last checkpoint. The checkpoint with the least
validation perplexity is tested. The files are those of recipes/custom/run.sh, which see. The other benchmarks:
recipes/inspec/run.sh, recipes/krapivin/run.sh, recipes/semeval/run.sh with --run run/kp20k.
Exit code: 0 all done, 1 a command failed, 2 a mistake in the call.
TEXT
}

output=run/kp20k
seeds='34 343 3435'
data=''
while (($#)); do
  case $1 in
  --data) need "$1" $# && data=$2 && taken=2 ;;
  *) training_option "$@" ;;
  esac
  ((taken)) || die "unknown option '$1'; see --help"
  shift "$taken"
done

missing=()
find_split() { # FILES-VARIABLE NAME-IN-KP20K SHORT-NAME
  local -n chosen=$1
  ((${#chosen[@]} == 0)) || return 0
  local found=''
  [[ -z $data ]] || found=$(find_records "$data/kp20k_$2" "$data/kp20k/kp20k_$2" "$data/kp20k/$3")
  if [[ -n $found ]]; then chosen=("$found"); else missing+=("  ${data:-DIR}/kp20k_$2.json   or  ${data:-DIR}/kp20k/$3.json"); fi
}
find_split train_files training train
find_split valid_files validation valid
find_split test_files testing test
if ((${#missing[@]})); then
  printf -v list '%s\n' "${missing[@]}"
  die "KP20k is not complete${data:+ in $data}; give its folder with --data. Missing:
$list(or .jsonl, or either with .gz): records with title, abstract and keyword, keywords or keyphrases, a list or one string with ';',
one record a line or in a list.$where_data_is"
fi
exclude_files+=("${valid_files[@]}" "${test_files[@]}")
if [[ -n $data ]]; then
  for set in inspec krapivin semeval; do
    found=$(find_benchmark "$data" "$set")
    [[ -z $found ]] || exclude_files+=("$found")
  done
fi
train_and_test kp20k 1 --paper kp20k
