#!/usr/bin/env bash
# Redraws docs/pictures/credits-*.svg: reproduces experiments of PACE in their quick setting. Needs the built program
# (`make build`; WEIR=path names another one) and takes some seconds. The same program gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/pictures.sh"

# experiment NAME: runs the experiment pace-NAME. One with a value that differs from its expectation ends with 1, and
# writes its figures nevertheless.
experiment() {
    "$weir" reproduce "pace-$1" --report "$out/$1" > "$out/$1.log" 2>&1 || [ $? = 1 ] || {
        cat "$out/$1.log" >&2
        exit 1
    }
}

experiment fig6
keep "$out/fig6/pace-sim.svg" credits-fig6-pace
keep "$out/fig6/dctcp-sim.svg" credits-fig6-dctcp
experiment lossless
keep "$out/lossless/drops-sim.svg" credits-drops
