#!/usr/bin/env bash
# Test trained models on Inspec: K = 4 was tuned on its validation data. See --help.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pipeline.sh"
benchmark "Inspec (500 documents)" inspec 4 -- "$@"
