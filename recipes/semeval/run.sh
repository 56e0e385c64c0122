#!/usr/bin/env bash
# Test trained models on SemEval 2010: its gold is stemmed already. See --help.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pipeline.sh"
benchmark "SemEval 2010 (100 documents)" semeval 1 --gold-stemmed -- "$@"
