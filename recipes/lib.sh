# Shared by the recipes: their options, the files they look for, stages that are done once. Sourced by pipeline.sh.
# shellcheck shell=bash disable=SC2034 # what is only assigned here is used by the recipes
#
# A stage is a command with its inputs and outputs. When it has ended well its command and its inputs' checksums are
# written to a file of .stages/; it is done again when these differ or an output is missing. Nothing else is a sign of
# success: what an interrupted command has left behind is written anew.

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
  echo "$0: this needs bash 4.4 or newer; here is $BASH_VERSION" >&2
  exit 2
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
models='exhird-h exhird-s catseq catseqd catseqcorr transformer'
all_stages='prepare vocab train translate evaluate'
vocab_words=50000
recipe='kp20k' # the folder of the models' configurations
[[ ${OMP_WAIT_POLICY:-} ]] || export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}" # docs/reliability.md, "On a busy machine"

# What the options set.
output='' model='exhird-h' seeds='3435' windows='' minutes=0 stages=$all_stages
subwords=0 text_options=() subword_options=()
dry_run=false gpu=false
train_files=() valid_files=() test_files=() exclude_files=() train_options=()

die() { # a user's mistake, before anything ran
  printf '%s: %s\n' "$0" "$*" >&2
  exit 2
}

say() { printf '== %s\n' "$*"; }

wants() { [[ " $stages " == *" $1 "* ]]; }

one_of() { # VALUE LIST NAME
  [[ " $2 " == *" $1 "* && $1 != *' '* ]] || die "$3 '$1' is none of: ${2// /, }"
}

need() { # OPTION COUNT-OF-ARGUMENTS-LEFT
  (($2 >= 2)) || die "$1 needs a value; see --help"
}

# --- options ---------------------------------------------------------------------------------------------------------

# Reads one of the options that all recipes have. Sets `taken` to the number of arguments used, 0 for an unknown one.
common_option() {
  local name
  taken=2
  case $1 in
  --model) need "$1" $# && model=$2 && one_of "$2" "$models" model ;;
  --seeds)
    need "$1" $#
    [[ $2 =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--seeds takes whole numbers with commas between them, not '$2'"
    seeds=${2//,/ }
    ;;
  --windows)
    need "$1" $#
    [[ $2 =~ ^([0-9]+|all)(,([0-9]+|all))*$ ]] ||
      die "--windows takes whole numbers and 'all' with commas between them, not '$2'"
    windows=${2//,/ }
    ;;
  --stage)
    need "$1" $#
    stages=${2//,/ }
    for name in $stages; do one_of "$name" "$all_stages" stage; done
    ;;
  --gpu) gpu=true taken=1 ;;
  --dry-run) dry_run=true taken=1 ;;
  --help | -h)
    usage
    exit 0
    ;;
  *) taken=0 ;;
  esac
}

# As common_option, for recipes that train.
training_option() {
  taken=2
  case $1 in
  --output) need "$1" $# && output=$2 ;;
  --minutes)
    need "$1" $#
    [[ $2 =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--minutes takes a number, not '$2'"
    minutes=$2
    ;;
  --vocab-size)
    need "$1" $#
    [[ $2 =~ ^[1-9][0-9]*$ ]] || die "--vocab-size takes a whole number from 1 on, not '$2'"
    vocab_words=$2
    ;;
  --subwords)
    need "$1" $#
    [[ $2 =~ ^[1-9][0-9]*$ ]] || die "--subwords takes a whole number from 1 on, not '$2'"
    subwords=$2
    ;;
  --tokenizer | --subword-type) need "$1" $# && subword_options+=("$1=$2") ;;
  --language | --case | --accents | --digits) need "$1" $# && text_options+=("$1=$2") ;;
  --train | --valid | --test | --exclude-titles) file_option "$@" ;;
  --)
    train_options=("${@:2}")
    taken=$#
    ;;
  *) common_option "$@" ;;
  esac
}

# What a run needs to know of its text if that is not English words, for onmt_build_vocab and onmt_train.
uses_text() { ((subwords || ${#text_options[@]})); }
text_of_data=(-transforms keyphrase -keyphrase_text text.json)

file_option() { # an option with one or more files, up to the next option
  local option=$1 files=()
  shift
  while (($#)) && [[ $1 != --* ]]; do
    files+=("$1")
    shift
  done
  ((${#files[@]})) || die "$option needs a file; see --help"
  taken=$((${#files[@]} + 1))
  case $option in
  --train) train_files+=("${files[@]}") ;;
  --valid) valid_files+=("${files[@]}") ;;
  --test) test_files+=("${files[@]}") ;;
  --exclude-titles) exclude_files+=("${files[@]}") ;;
  esac
}

# --- files -----------------------------------------------------------------------------------------------------------

# The first file that exists among some names, each with any of the endings that exhird prepare reads.
find_records() {
  local name ending
  for name in "$@"; do
    for ending in .json .jsonl .json.gz .jsonl.gz; do
      if [[ -f $name$ending ]]; then
        printf '%s' "$name$ending"
        return
      fi
    done
  done
}

# The test set of a benchmark; the tokenised one that the papers use before raw ones.
find_benchmark() { # FOLDER NAME
  find_records "$1/$2_word/test" "$1/$2_testing" "$1/$2_test" "$1/$2/$2_testing" "$1/$2/test"
}

absolute() { # so that a command may run in another folder
  if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s/%s' "$PWD" "$1"; fi
}

check_files() {
  local file
  for file in "$@"; do
    [[ -f $file ]] || die "there is no file $file"
  done
}

check_commands() {
  local command
  ! $dry_run || return 0
  for command in exhird onmt_build_vocab onmt_train onmt_translate python; do
    command -v "$command" >/dev/null ||
      die "the command $command is not on PATH; run 'make setup', then PATH=\"$root/.venv/bin:\$PATH\" $0 ..."
  done
}

# --- stages ----------------------------------------------------------------------------------------------------------

# How a command is shown: one that a shell could run.
shown() {
  case $1 in
  in_folder) printf '(cd %q && %s)' "$2" "$(shown "${@:3}")" ;;
  into) printf '%s > %q' "$(shown "${@:3}")" "$2" ;;
  *)
    local words
    printf -v words '%q ' "$@"
    printf '%s' "${words% }"
    ;;
  esac
}

in_folder() { # FOLDER COMMAND...
  cd "$1" || exit
  exec "${@:2}"
}

into() { # FILE COMMAND...: its standard output as a file that is there when it is whole
  "${@:2}" >"$1.part"
  mv "$1.part" "$1"
}

# What must not change for a stage to count as done: its command and what it reads. A run's folder may be moved.
fingerprint() { # COMMAND-LINE INPUT...
  local input sum size text="command: $1"
  for input in "${@:2}"; do
    read -r sum size _ < <(cksum <"$input")
    text+=$'\n'"$sum $size $input"
  done
  text=${text//"$output/"/}
  printf '%s\n' "${text//"$root/"/}"
}

child='' viewer=''

# On a signal, end what was started: politely, since exhird prepare then cleans up and onmt_train saves, and after a
# while for certain. What was started in the background of a shell may not hear an INT; onmt_train takes a TERM as one.
stop() { # STATUS
  trap '' INT TERM HUP
  [[ -z $viewer ]] || kill "$viewer" 2>/dev/null || true
  if [[ -n $child ]]; then
    kill -INT -- "-$child" 2>/dev/null || true
    for ((tries = 0; tries < 600; tries++)); do
      kill -0 "$child" 2>/dev/null || break
      ((tries != 30)) || kill -TERM -- "-$child" 2>/dev/null || true
      sleep 0.1
    done
    kill -KILL -- "-$child" 2>/dev/null || true
  fi
  printf '%s: interrupted; the same command goes on from here\n' "$0" >&2
  exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

show_progress() { # LOG: the lines of training worth seeing, as they come
  local line
  tail -n 0 -f "$1" > >(
    while IFS= read -r line; do
      case $line in
      *'] Step '* | *'Validation at step'* | *'learning rate'* | *'Saving checkpoint'* | *'are over'* | *[Ee]'arly '[Ss]top*)
        printf '   %s\n' "${line#*INFO] }"
        ;;
      esac
    done
  ) 2>/dev/null &
  viewer=$!
}

# Run a command with its output in a log; if it fails, show the log's end and give up.
logged() { # LOG COMMAND...
  local log=$1 status=0
  printf '+ %s\n' "$(shown "${@:2}")" >>"$log"
  [[ ${2} != in_folder || ${4} != onmt_train ]] || show_progress "$log"
  set -m # a group of its own, so that its workers can be ended with it
  "${@:2}" >>"$log" 2>&1 &
  child=$!
  set +m
  wait "$child" || status=$?
  child=''
  if [[ -n $viewer ]]; then
    sleep 0.2 # the last lines
    kill "$viewer" 2>/dev/null || true
    wait "$viewer" 2>/dev/null || true
    viewer=''
  fi
  ((status == 0)) && return
  {
    tail -n 15 "$log" | sed 's/^/   | /'
    printf '%s: this failed with exit code %s:\n   %s\nThe whole log: %s\n' "$0" "$status" "$(shown "${@:2}")" "$log"
  } >&2
  exit 1
}

# Run a stage unless it is done.
stage() { # LABEL STAMP LOG INPUT... -- OUTPUT... -- COMMAND...
  local label=$1 stamp=$2 log=$3 inputs=() outputs=() mark whole=true path
  shift 3
  while [[ $1 != -- ]]; do inputs+=("$1") && shift; done
  shift
  while [[ $1 != -- ]]; do outputs+=("$1") && shift; done
  shift
  if $dry_run; then
    printf '%s\n' "$(shown "$@")"
    return
  fi
  for path in "${inputs[@]}"; do
    [[ -e $path ]] || die "$label needs $path, which an earlier stage makes: run that one first"
  done
  mark=$(fingerprint "$(shown "$@")" "${inputs[@]}")
  for path in "${outputs[@]}"; do [[ -e $path ]] || whole=false; done
  if $whole && [[ -f $stamp && $(<"$stamp") == "$mark" ]]; then
    say "$label: done before"
    return
  fi
  say "$label"
  rm -f "$stamp"
  mkdir -p "$(dirname "$log")"
  : >"$log"
  logged "$log" "$@"
  mkdir -p "$(dirname "$stamp")"
  printf '%s\n' "$mark" >"$stamp.part"
  mv "$stamp.part" "$stamp"
}
