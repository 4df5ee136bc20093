#!/usr/bin/env bash
# Draws docs/pictures/sim-*.svg anew: runs scenarios and takes the charts out of their reports. Needs the built program
# (`make build`; another one may be given as WEIR=path) and takes about two minutes. The same program gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir -p docs/pictures

# run NAME ARGUMENT...: a scenario's report in $out/NAME.
run() { "$weir" sim "${@:2}" --report "$out/$1" > "$out/$1.log" 2>&1 || { cat "$out/$1.log" >&2; exit 1; }; }

# picture FILE NAME TITLE: the chart of that title in NAME's report.
picture() {
    local target=docs/pictures/sim-$1.svg
    awk -v label="aria-label=\"$3\"" '
        /<svg / { on = !done && index($0, label) }
        on      { print }
        /<\/svg>/ { if (on) done = 1; on = 0 }
    ' "$out/$2/report.html" > "$out/picture.svg"
    [ -s "$out/picture.svg" ] || { echo "error: the report of $2 has no chart \"$3\"" >&2; exit 1; }
    mv "$out/picture.svg" "$target"
    printf '%7d bytes  %s\n' "$(wc -c < "$target")" "$target"
}

run websearch scenarios/leafspine-websearch.scenario.yaml
picture slowdown-cdf     websearch 'Slowdown: cumulative distribution'
picture slowdown-by-size websearch 'Slowdown by flow size: median and 99th percentile'

run sawtooth scenarios/dumbbell-dctcp.scenario.yaml --set duration=20ms
picture dctcp-queue sawtooth 'left-&gt;right'

run incast scenarios/incast.scenario.yaml --set 'traffic[0].rounds=1' --set measure.every=10us
picture incast-queue incast 'switch-&gt;h0'

run failure scenarios/link-failure.scenario.yaml
picture link-failure-goodput failure Goodput

loads='traffic[0].load=20%,40%,60%,80%'
run load scenarios/leafspine-websearch.scenario.yaml --sweep seed=1..5 --sweep "$loads" --sweep transport.protocol=cubic,dctcp
picture load-dctcp load 'Slowdown, all sizes'
run pfabric scenarios/leafspine-pfabric.scenario.yaml --sweep seed=1..5 --sweep "$loads"
picture load-pfabric pfabric 'Slowdown, all sizes'
