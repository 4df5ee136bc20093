#!/usr/bin/env bash
# Redraws docs/pictures/levels-*.svg, except the bound, which is drawn by hand: reproduces experiments of QJump in
# their quick setting. Needs the built program (`make build`; WEIR=path names another one) and takes some minutes, most
# of them for figure 9. The same program gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/pictures.sh"

# figure NAME FIGURE PICTURE: a figure of the experiment qjump-NAME. An experiment with a value that differs from its
# expectation ends with 1, and writes its figures nevertheless.
figure() {
    "$weir" reproduce "qjump-$1" --report "$out/$1" > "$out/$1.log" 2>&1 || [ $? = 1 ] || {
        cat "$out/$1.log" >&2
        exit 1
    }
    keep "$out/$1/$2-sim.svg" "levels-$3"
}

figure parts     parts parts
figure star      bound star
figure fig9-search short-mean fig9-search
