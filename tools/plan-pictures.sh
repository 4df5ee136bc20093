#!/usr/bin/env bash
# Redraws docs/pictures/plan-*.svg: the curves of the example plan, with and without its trace. Needs the built program
# (`make build`; WEIR=path names another one). The same program gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/pictures.sh"

# A plan with a missed target ends with 1, and the example misses its target.
plan() {
    "$weir" plan scenarios/plan.policy.yaml --trace scenarios/plan.trace.csv --report "$out/plan" > "$out/log" 2>&1 ||
        [ $? = 1 ]
}
plan || { cat "$out/log" >&2; exit 1; }
for service in a b; do
    keep "$out/plan/$service.svg" "plan-$service"
done
