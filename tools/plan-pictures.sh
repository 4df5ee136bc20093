#!/usr/bin/env bash
# Draws docs/pictures/plan-*.svg anew: the curves of the example plan, with and without its trace. Needs the built
# program (`make build`; another one may be given as WEIR=path). The same program gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/pictures.sh"

# A plan that is not kept ends with 1, and the example's is not.
plan() { "$weir" plan scenarios/plan.policy.yaml --trace scenarios/plan.trace.csv --report "$out/plan" > "$out/log" 2>&1 || [ $? = 1 ]; }
plan || { cat "$out/log" >&2; exit 1; }
for service in a b; do
    keep "$out/plan/$service.svg" "plan-$service"
done
