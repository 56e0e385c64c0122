#!/usr/bin/env bash
# A small corpus, a small model, and what it has learned; see usage.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
known=("$here"/*.yaml)
known=("${known[@]##*/}")
printf -v models '%s, ' "${known[@]%.yaml}"
models=${models%, }

usage() {
  cat <<TEXT
Shows keyphrases of the model that comes with the package for five abstracts, in seconds. Then makes a corpus of invented
papers, prepares it, trains a model on it with OpenNMT-py's own commands, and shows its predictions beside the gold
keyphrases, and scores. Two to three minutes.

  $0 [MODEL] [OUTPUT]

  MODEL     $models; default: exhird
  OUTPUT    what is made goes here; default: run/demo in the project's folder

Exit code: 0 all done, 1 a command failed, 2 a mistake in the call.

  OUTPUT/raw/                      the corpus, as records
  OUTPUT/{train,valid,test}.{src,tgt}, vocab.txt
  OUTPUT/MODEL_step_N.pt, MODEL.log
  OUTPUT/MODEL.pred, MODEL.exclusive.pred    the keyphrases, without and with exclusive search
TEXT
}

die() {
  echo "$0: $*; see --help" >&2
  exit 2
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  usage
  exit 0
fi
(($# <= 2)) || die "MODEL and OUTPUT are all it takes, not '$3'"
model=${1:-exhird}
output=${2:-$root/run/demo}
[[ ${OMP_WAIT_POLICY:-} ]] || export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}" # docs/reliability.md, "On a busy machine"
config=$here/$model.yaml
[[ -f $config ]] || die "unknown model '$model': give one of $models"

say() { printf '\n== %s\n' "$*"; }

say "Keyphrases for five abstracts, by the model that comes with the package"
exhird generate "$here/abstracts.txt" --highlight
say "Now a model from the beginning, for which a corpus is needed"

mkdir -p "$output"
cd "$output"
say "1. A corpus of invented papers"
python "$root/tools/make_corpus.py" --output raw --train 4000 --valid 200 --test 300 --seed 1

say "2. exhird prepare: raw records to source and target lines"
for split in train valid test; do
  exhird prepare --input "raw/$split.jsonl" --output . --split "$split"
done

say "3. onmt_build_vocab"
onmt_build_vocab -config "$config" -n_sample -1 2>&1 | sed -n 's/.*INFO\] //p'

say "4. onmt_train: $model (a line every 100 steps)"
rm -f "$model"_step_*.pt # of another run
onmt_train -config "$config" -save_model "$model" -log_file "$model.log" 2>&1 |
  grep --line-buffered -E 'Step |perplexity|error' | sed -u 's/.*INFO\] //'

checkpoint=$(printf '%s\n' "$model"_step_*.pt | sort -V | tail -n 1)

say "5. onmt_translate, without and with exclusive search"
search() {
  onmt_translate -model "$checkpoint" -src test.src -output "$1" -beam_size 1 -batch_size 50 "${@:2}" 2>&1 |
    sed -n 's/.*INFO\] //p'
}
search "$model.pred"
search "$model.exclusive.pred" -exclusive_search -exclusive_window 1

say "6. A few documents"
python "$root/recipes/side_by_side.py" --src test.src --gold test.tgt --pred "$model.pred" --count 4

say "7. exhird evaluate: all 300 held-out documents"
exhird evaluate --src test.src --gold test.tgt --pred "$model.pred" --pred "$model.exclusive.pred"
