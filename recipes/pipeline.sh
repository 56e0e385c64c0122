# Shared by the recipes: from raw records to prepared files, trained models, predictions and scores. Sourced, not run.
# shellcheck shell=bash disable=SC2154 # the options' variables are those of lib.sh
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The options of training_option but for the files, for the recipes' own usage.
training_usage() { # DEFAULT-OF-OUTPUT DEFAULT-OF-SEEDS
  local sequential=''
  [[ " $models " != *' exhird-s '* ]] || sequential=', and for exhird-s 0'
  cat <<TEXT
  --output DIR       what is made goes here; default: $1
  --model MODEL      ${models// /, }; default: exhird-h
  --seeds N,N        one model for each; default: $2
  --minutes N        train each at most so long, then validate, save and go on; default 0: to the end
  --vocab-size N     so many of the most frequent words; default: $vocab_words
  --subwords N       instead of words, about N pieces of them (docs/languages.md); with --tokenizer pyonmttok, or
                     --subword-type bpe, other ones than sentencepiece's unigram
  --language CODE    such as de or zh, and --case, --accents, --digits, as exhird prepare has them; default: en
  --windows K,K      of exclusive search, also 'all'; 0 is without; default: 0,1$sequential
  --stage NAME,NAME  only these: ${all_stages// /, }
  --gpu              use the first GPU
  --dry-run          only show the commands
  --                 what follows is for onmt_train, over the settings of recipes/$recipe/MODEL.yaml
TEXT
}

# --- preparing -------------------------------------------------------------------------------------------------------

# The prepared files of a split. Files among the options are inputs too.
prepare() { # LABEL SPLIT FOLDER OPTION... -- FILE...
  local label=$1 split=$2 folder=$3 options=() log inputs option
  shift 3
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  inputs=("$@")
  for option in "${options[@]}"; do
    [[ $option == --* ]] || inputs+=("$option")
  done
  log=$output/logs/${label// /-}.log
  stage "$label" "$output/.stages/${label// /-}" "$log" "${inputs[@]}" -- "$folder/$split.src" "$folder/$split.tgt" -- \
    exhird prepare --input "$@" --output "$folder" --split "$split" "${options[@]}"
  $dry_run || sed -n -E '/^kept|title excluded/ s/^ */   /p' "$log"
}

# The most frequent words, and what the grammar needs even if the corpus lacks it: absent keyphrases, say.
# shellcheck disable=SC2016 # the dollar is awk's
cut_vocabulary='NR <= size {print; seen[$1]}
  END {n = split("<p_start> <a_start> ;", need, " "); for (i = 1; i <= n; i++) if (!(need[i] in seen)) print need[i] "\t1"}'

# Subwords are trained on the training data, and counted there; no keyphrase is unknown to a model that has them.
prepare_pieces() { # OPTION-OF-PREPARE...
  local data=$output/data
  if wants prepare; then
    prepare "prepare valid" valid "$data" "${text_options[@]}" -- "${valid_files[@]}"
    prepare "prepare train" train "$data" "--subwords=$subwords" "${subword_options[@]}" "${text_options[@]}" "$@" -- \
      "${train_files[@]}"
  fi
  if wants vocab; then
    stage "count pieces" "$output/.stages/count-pieces" "$output/logs/count-pieces.log" "$data/train.src" \
      "$data/train.tgt" "$data/text.json" -- "$data/vocab.txt" -- \
      in_folder "$data" onmt_build_vocab -config "$root/recipes/words.yaml" -n_sample -1 "${text_of_data[@]}"
    cut_to_size "$data/vocab.txt"
  fi
}

cut_to_size() { # VOCABULARY
  stage "vocab" "$output/.stages/vocab" "$output/logs/vocab.log" "$1" -- "$output/vocab.txt" -- \
    into "$output/vocab.txt" awk -v size="$vocab_words" "$cut_vocabulary" "$1"
}

# Words are counted in the training data as it is. What is trained on lacks the absent keyphrases that no model of this
# vocabulary can write, as in the paper.
prepare_for_training() {
  local exclude=()
  ((${#exclude_files[@]} == 0)) || exclude=(--exclude-titles "${exclude_files[@]}")
  if ((subwords)); then
    prepare_pieces "${exclude[@]}"
    return
  fi
  if wants prepare; then
    prepare "prepare valid" valid "$output/data" "${text_options[@]}" -- "${valid_files[@]}"
    prepare "prepare words" train "$output/words" "${text_options[@]}" "${exclude[@]}" -- "${train_files[@]}"
  fi
  if wants vocab; then
    stage "count words" "$output/.stages/count-words" "$output/logs/count-words.log" "$output/words/train.src" \
      "$output/words/train.tgt" -- "$output/words/vocab.txt" -- \
      in_folder "$output/words" onmt_build_vocab -config "$root/recipes/words.yaml" -n_sample -1
    cut_to_size "$output/words/vocab.txt"
  fi
  if wants prepare && { $dry_run || wants vocab || [[ -f $output/vocab.txt ]]; }; then
    prepare "prepare train" train "$output/data" "${text_options[@]}" --vocab "$output/vocab.txt" "${exclude[@]}" -- \
      "${train_files[@]}"
  fi
}

# --- training --------------------------------------------------------------------------------------------------------

configuration() { # the YAML file of the model
  printf '%s/recipes/%s/%s.yaml' "$root" "$recipe" "${model/#exhird-h/exhird}"
}

ask() { python "$root/recipes/run_folder.py" "$@"; }

# Train one seed, or go on with it. A folder that was trained otherwise is left alone.
train_seed() { # SEED
  local name=$model-$1 folder=$output/$model-$1 label="train $model, seed $1" command mark left last
  local size=$((vocab_words + 7)) # four special tokens, and the three that may be added; the file has no more
  local begun=$folder/.stages/train.begun data=$output/data text=()
  command=(onmt_train -config "$(configuration)" -src_vocab ../vocab.txt -src_vocab_size "$size"
    -tgt_vocab_size "$size" -save_model "../$name/model" -keep_checkpoint 5 -seed "$1")
  ! $gpu || command+=(-world_size 1 -gpu_ranks 0)
  ! uses_text || command+=("${text_of_data[@]}") text=("$data/text.json")
  command+=("${train_options[@]}")
  if $dry_run; then
    printf '%s\n' "$(shown in_folder "$data" "${command[@]}" -train_minutes "$minutes")"
    return
  fi
  for last in "$data"/{train,valid}.{src,tgt} "$output/vocab.txt" "${text[@]}"; do
    [[ -e $last ]] || die "$label needs $last, which an earlier stage makes: run that one first"
  done
  mark=$(fingerprint "$(shown in_folder "$data" "${command[@]}")" "$data"/{train,valid}.{src,tgt} "$output/vocab.txt" \
    "${text[@]}" "$root/recipes/kp20k/exhird.yaml" "$(configuration)")
  if [[ -f $begun && $(<"$begun") != "$mark" ]]; then
    diff "$begun" <(printf '%s\n' "$mark") | sed -n 's/^[<>]/   &/p' >&2 || true
    die "$folder was trained with other options or data (<) than those of now (>): remove it, or choose another --output"
  fi
  left=$(ask left "$folder" --minutes "$minutes")
  if [[ $left == nothing ]]; then
    say "$label: done before"
  else
    last=$(ask last "$folder")
    say "$label${last:+: going on from ${last##*/}}"
    mkdir -p "$folder/.stages"
    rm -f "$folder/.stages/train"
    printf '%s\n' "$mark" >"$begun"
    logged "$folder/train.log" in_folder "$data" "${command[@]}" -train_minutes "$left" ${last:+-train_from "../$name/${last##*/}"}
    last=$(ask stopped "$folder")
    if [[ -n $last ]]; then
      printf '%s: training was stopped by %s; the same command goes on from there\n' "$0" "$last" >&2
      exit 1
    fi
  fi
  cp "$begun" "$folder/.stages/train"
}

# --- search and scores -----------------------------------------------------------------------------------------------

# Without exclusive search first, then with the window of the paper, which ExHiRD-s does without.
default_windows() { # MODEL WINDOW
  if [[ $1 == exhird-s ]]; then printf 0; else printf '0 %s' "$2"; fi
}

translate() { # FOLDER DATASET SPLIT WINDOW
  local folder=$1 dataset=$2 src=$output/data/$3.src window=$4 checkpoint command
  if $dry_run; then
    checkpoint=$(ask best "$folder" 2>/dev/null) || checkpoint=$folder/model_step_BEST.pt
  else
    [[ -f $folder/.stages/train ]] || die "$folder has not been trained to its end: run the stage train first"
    checkpoint=$(ask best "$folder")
  fi
  command=(onmt_translate -model "$checkpoint" -src "$src" -output "$folder/$dataset.K$window.pred" -beam_size 1 -batch_size 512)
  [[ $window == 0 ]] || command+=(-exclusive_search -exclusive_window "$window")
  ! $gpu || command+=(-gpu 0)
  stage "translate $dataset, ${folder##*/}, window $window" "$folder/.stages/translate-$dataset.K$window" \
    "$folder/$dataset.K$window.log" "$src" "$folder/.stages/train" -- "$folder/$dataset.K$window.pred" -- "${command[@]}"
}

evaluate() { # FOLDER DATASET SPLIT WINDOW OPTION...
  local file=$1/$2.K$4 data=$output/data/$3
  stage "evaluate $2, ${1##*/}, window $4" "$1/.stages/evaluate-$2.K$4" "$1/$2.K$4.scores.log" \
    "$data.src" "$data.tgt" "$file.pred" -- "$file.json" -- \
    into "$file.json" exhird evaluate --src "$data.src" --gold "$data.tgt" --pred "$file.pred" --format json "${@:5}"
}

# Test the model of some folders, each a seed, and show the scores of all windows: means, if there are several seeds.
test_folders() { # MODEL DATASET SPLIT PAPER-WINDOW FOLDER... -- OPTION-OF-EVALUATE... [-- OPTION-OF-THE-TABLE...]
  local model=$1 dataset=$2 split=$3 used window folder folders=() options=() systems=() table
  used=${windows:-$(default_windows "$1" "$4")}
  shift 4
  while [[ $1 != -- ]]; do folders+=("$1") && shift; done
  shift
  while (($#)) && [[ $1 != -- ]]; do options+=("$1") && shift; done
  (($# == 0)) || shift
  for folder in "${folders[@]}"; do
    for window in $used; do
      ! wants translate || translate "$folder" "$dataset" "$split" "$window"
      ! wants evaluate || evaluate "$folder" "$dataset" "$split" "$window" "${options[@]}"
    done
    ! wants evaluate || $dry_run || ask describe "$folder" --model "$model" --seed "${folder##*-}" --data "$output/data"
  done
  wants evaluate || return 0
  for window in $used; do
    if ((${#folders[@]} > 1)); then systems+=(--seeds); else systems+=(--pred); fi
    for folder in "${folders[@]}"; do systems+=("$folder/$dataset.K$window.pred"); done
  done
  table=(exhird evaluate --src "$output/data/$split.src" --gold "$output/data/$split.tgt" "${systems[@]}" "${options[@]}" "$@")
  if $dry_run; then
    printf '%s\n' "$(shown "${table[@]}")"
    return
  fi
  say "$model on $dataset"
  logged "$output/logs/table.log" into "$output/$model.$dataset.txt" "${table[@]}"
  sed -E '/^(Present|Absent) phrases|^Present and absent/,/^$/d' "$output/$model.$dataset.txt"
  printf '(with details: %s)\n' "$output/$model.$dataset.txt"
}

# Test models that a training recipe has made on another test set.
test_only() { # DATASET PAPER-WINDOW GOLD-OPTION...
  local dataset=$1 window=$2 names=() folder one folders
  output=$(absolute "$output")
  check_commands
  check_files "${test_files[@]}"
  for folder in "$output"/*-*/.stages/train; do
    folder=${folder%/.stages/train}
    one=${folder##*/}
    [[ -n $model && ${one%-*} != "$model" ]] || [[ -n $seeds && " $seeds " != *" ${one##*-} "* ]] ||
      [[ ! -e $folder/.stages/train ]] || names+=("$one")
  done
  ((${#names[@]})) || die "there is no trained model${model:+ $model}${seeds:+ with seed ${seeds// / or }} in $output: train one
with recipes/kp20k/run.sh or recipes/custom/run.sh; it is in a folder MODEL-SEED of the run's folder"
  ! wants prepare || prepare "prepare $dataset" "${dataset}_test" "$output/data" -- "${test_files[@]}"
  for one in $models; do
    folders=()
    for folder in "${names[@]}"; do
      [[ ${folder%-*} != "$one" ]] || folders+=("$output/$folder")
    done
    ((${#folders[@]} == 0)) ||
      test_folders "$one" "$dataset" "${dataset}_test" "$window" "${folders[@]}" -- "${@:3}" -- --paper "$dataset"
  done
}

# The recipe of a benchmark that is only tested on.
benchmark() { # TITLE DATASET PAPER-WINDOW GOLD-OPTION... -- ARGUMENT-OF-THE-RECIPE...
  local title=$1 dataset=$2 window=$3 data='' gold=()
  shift 3
  while [[ $1 != -- ]]; do gold+=("$1") && shift; done
  shift
  model='' seeds='' stages='prepare translate evaluate'
  usage() {
    cat <<TEXT
Test models that were trained before on $title, with the paper's window K = $window and without exclusive search.

  $0 --run DIR --data DIR [OPTION...]

  --run DIR          of recipes/kp20k/run.sh or recipes/custom/run.sh; all its models are tested
  --data DIR         has ${dataset}_testing.json, or $dataset/test.json, or ${dataset}_word/test.json; .jsonl and .gz too
  --test FILE        instead of --data: records with title, abstract and keywords${gold[0]:+ (already stemmed)}
  --model MODEL      only this one: ${models// /, }
  --seeds N,N        only these
  --windows K,K      of exclusive search, also 'all'; 0 is without; default: 0,$window, and for exhird-s 0
  --stage NAME,NAME  only these: ${stages// /, }
  --gpu              use the first GPU
  --dry-run          only show the commands

Predictions and scores go beside the model: MODEL-SEED/$dataset.KK.pred and .json; the table is DIR/MODEL.$dataset.txt.
Exit code: 0 all done, 1 a command failed, 2 a mistake in the call.
TEXT
  }
  while (($#)); do
    case $1 in
    --run) need "$1" $# && output=$2 && taken=2 ;;
    --data) need "$1" $# && data=$2 && taken=2 ;;
    --test) file_option "$@" ;;
    *) common_option "$@" ;;
    esac
    ((taken)) || die "unknown option '$1'; see --help"
    shift "$taken"
  done
  [[ -n $output ]] || die "--run is needed: the folder of recipes/kp20k/run.sh or recipes/custom/run.sh; see --help"
  if ((${#test_files[@]} == 0)); then
    [[ -n $data ]] || die "--data or --test is needed; see --help"
    test_files=("$(find_benchmark "$data" "$dataset")")
    [[ -n ${test_files[0]} ]] || die "$title is not in $data. Expected is one of
  $data/${dataset}_testing.json   $data/$dataset/test.json   $data/${dataset}_word/test.json
(or .jsonl, or either with .gz): records with title, abstract and keywords, one a line or in a list.$where_data_is"
  fi
  test_only "$dataset" "$window" "${gold[@]}"
}

where_data_is='
KP20k and the usual test sets are distributed by Meng et al.: https://github.com/memray/seq2seq-keyphrase (raw JSON)
and https://github.com/memray/OpenNMT-kpg-release; KP20k also as https://huggingface.co/datasets/taln-ls2n/kp20k.'

# From raw records to scores. The recipe has set the files.
train_and_test() { # DATASET PAPER-WINDOW [OPTION-OF-THE-TABLE...]
  local dataset=$1 window=$2 split=$1 folders=() seed
  [[ $dataset == test ]] || split=${dataset}_test
  output=$(absolute "$output")
  check_commands
  check_files "${train_files[@]}" "${valid_files[@]}" "${test_files[@]}" "${exclude_files[@]}"
  ((subwords || ${#subword_options[@]} == 0)) || die "${subword_options[0]%%=*} says how to train subwords: add --subwords N"
  ((subwords == 0)) || vocab_words=$((2 * subwords)) # there are some more pieces, since one may begin a word or go on
  ! wants prepare || prepare "prepare $dataset" "$split" "$output/data" "${text_options[@]}" -- "${test_files[@]}"
  prepare_for_training
  for seed in $seeds; do
    folders+=("$output/$model-$seed")
    ! wants train || train_seed "$seed"
  done
  test_folders "$model" "$dataset" "$split" "$window" "${folders[@]}" -- -- "${@:3}"
}
