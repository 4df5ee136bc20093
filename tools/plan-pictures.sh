#!/usr/bin/env bash
# Draws docs/pictures/plan-*.svg anew: the curves of the example plan, with and without its trace. Needs the built
# program (`make build`; another one may be given as WEIR=path). The same program gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir -p docs/pictures

# A plan that is not kept ends with 1, and the example's is not.
plan() { "$weir" plan scenarios/plan.policy.yaml --trace scenarios/plan.trace.csv --report "$out/plan" > "$out/log" 2>&1 || [ $? = 1 ]; }
plan || { cat "$out/log" >&2; exit 1; }
for service in a b; do
    cp "$out/plan/$service.svg" "docs/pictures/plan-$service.svg"
    printf '%7d bytes  %s\n' "$(wc -c < "docs/pictures/plan-$service.svg")" "docs/pictures/plan-$service.svg"
done
