#!/usr/bin/env bash
# Redraws docs/pictures/parley-*.svg, except the mechanism, which is drawn by hand, and the two of `make demo`:
# reproduces experiments in their quick setting, runs two scenarios, and extracts the charts. Needs the built program
# (`make build`; WEIR=path names another one) and takes some minutes, most of them for table 3. Arguments select
# pictures: tools/parley-pictures.sh fig13 table3. The same program gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/pictures.sh"

wanted=" $* "
pictures=" fig4 fig12 fig13 fig14 fig15 table3 failure "
for name in "$@"; do
    [[ $pictures == *" $name "* ]] || { echo "error: no picture is called $name; there are:$pictures" >&2; exit 2; }
done

# is_wanted NAME: whether this picture is selected.
is_wanted() { [ "$wanted" = "  " ] || [[ $wanted == *" $1 "* ]]; }

# figure NAME FIGURE: a figure of the experiment parley-NAME. An experiment with a value that differs from its
# expectation ends with 1, and writes its figures nevertheless.
figure() {
    is_wanted "$1" || return 0
    "$weir" reproduce "parley-$1" --report "$out/$1" > "$out/$1.log" 2>&1 || [ $? = 1 ] || {
        cat "$out/$1.log" >&2
        exit 1
    }
    keep "$out/$1/$2-sim.svg" "parley-$1"
}

# scenario NAME ARGUMENT...: the chart of a scenario's report.
scenario() {
    is_wanted "$1" || return 0
    simulate "$@"
    chart "$out/$1/report.html" > "$out/$1.svg"
    keep "$out/$1.svg" "parley-$1"
}

figure fig4   usage
figure fig13  steady
figure fig14  utilisation
figure fig15  completion
figure table3 table

scenario fig12 scenarios/parley-fig12.scenario.yaml --set measure.every=1s
scenario failure scenarios/parley-fig14.scenario.yaml \
    --set 'events=[{ at: 26s, do: crash, broker: senders }, { at: 34s, do: restart, broker: senders }]'
