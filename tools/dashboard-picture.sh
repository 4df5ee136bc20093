#!/usr/bin/env bash
# Draws the dashboard's picture in docs/pictures: made-up machines in a headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v chromium >/dev/null || {
    echo "error: the dashboard's picture needs chromium (sudo apt-get install chromium)" >&2
    exit 1
}
WEIR_PICTURE=$PWD/docs/pictures/dashboard.png \
    cargo test --locked -p weir-dashboard --test browser picture_of_the_documents_is_drawn
