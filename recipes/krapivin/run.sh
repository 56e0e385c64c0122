#!/usr/bin/env bash
# Test trained models on Krapivin: K = 1 was tuned on its validation data. See --help.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pipeline.sh"
benchmark "Krapivin (400 documents)" krapivin 1 -- "$@"
