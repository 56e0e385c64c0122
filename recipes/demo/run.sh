#!/usr/bin/env bash
# Makes a corpus, prepares it, trains a model with OpenNMT-py's own commands, and shows what it has learned.
# usage: recipes/demo/run.sh [MODEL] [OUTPUT]     (default: exhird, run/demo; a model for each YAML file here)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
model=${1:-exhird}
output=${2:-$root/run/demo}
export PYTHONWARNINGS=ignore # OpenNMT-py uses names that newer torch calls old
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} # on a busy machine threads would spin for each other

config=$here/$model.yaml
if [[ ! -f $config ]]; then
  known=("$here"/*.yaml)
  known=("${known[@]##*/}")
  echo "$0: unknown model '$model': give one of ${known[*]%.yaml}" >&2
  exit 2
fi

say() { printf '\n== %s\n' "$*"; }

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
python "$root/tools/side_by_side.py" --src test.src --gold test.tgt --pred "$model.pred" --count 4

say "7. exhird evaluate: all 300 held-out documents"
exhird evaluate --src test.src --gold test.tgt --pred "$model.pred" --pred "$model.exclusive.pred"
