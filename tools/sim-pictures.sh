#!/usr/bin/env bash
# Redraws docs/pictures/sim-*.svg: runs scenarios and extracts the charts from their reports. Needs the built program
# (`make build`; WEIR=path names another one) and takes about two minutes. The same program gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/pictures.sh"

# picture FILE NAME TITLE: writes the chart with that title of NAME's report.
picture() {
    chart "$out/$2/report.html" "$3" > "$out/picture.svg"
    keep "$out/picture.svg" "sim-$1"
}

simulate websearch scenarios/leafspine-websearch.scenario.yaml
picture slowdown-cdf     websearch 'Slowdown: cumulative distribution'
picture slowdown-by-size websearch 'Slowdown by flow size: median and 99th percentile'

simulate sawtooth scenarios/dumbbell-dctcp.scenario.yaml --set duration=20ms
picture dctcp-queue sawtooth 'left-&gt;right'

simulate incast scenarios/incast.scenario.yaml --set 'traffic[0].rounds=1' --set measure.every=10us
picture incast-queue incast 'switch-&gt;h0'

simulate failure scenarios/link-failure.scenario.yaml
picture link-failure-goodput failure Goodput

loads='traffic[0].load=20%,40%,60%,80%'
simulate load scenarios/leafspine-websearch.scenario.yaml --sweep seed=1..5 --sweep "$loads" \
    --sweep transport.protocol=cubic,dctcp
picture load-dctcp load 'Slowdown, all sizes'
simulate pfabric scenarios/leafspine-pfabric.scenario.yaml --sweep seed=1..5 --sweep "$loads"
picture load-pfabric pfabric 'Slowdown, all sizes'
