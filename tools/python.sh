#!/usr/bin/env bash
# Builds the wheel of the Python package and tests it, installed in a virtual environment below the target directory.
# The environment has the versions of crates/front/python/requirements.txt, and is made again when these change.
# Arguments are those of pytest. With --build the tests are not run. WEIR_PROFILE is the profile of the build: dev or
# release.
set -euo pipefail
cd "$(dirname "$0")/.."

package=crates/front/python
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/python
venv=$out/venv
python=${PYTHON:-python3}
profile=${WEIR_PROFILE:-dev}

wanted=$({ "$python" -c 'import sys; print(sys.executable, sys.version)'; cat $package/requirements.txt; } | sha256sum)
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    "$python" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement $package/requirements.txt
    echo "$wanted" > "$venv/wanted"
fi

# The command line, with whose output the tests compare results. make test has built it with the features of the whole
# workspace; another build would take minutes.
if [ -z "${WEIR_CLI:-}" ]; then
    ${CARGO:-cargo} build --quiet --locked --profile "$profile" -p weir
    WEIR_CLI=$target/${profile/dev/debug}/weir
fi
[ -x "$WEIR_CLI" ] || { echo "error: there is no program $WEIR_CLI" >&2; exit 1; }
rm -rf "$out/wheels"
"$venv/bin/maturin" build --quiet --locked --profile "$profile" --manifest-path $package/Cargo.toml \
    --out "$out/wheels" --interpreter "$venv/bin/python"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
    "$out"/wheels/weir-*.whl
[ "${1:-}" != --build ] || exit 0
WEIR_CLI=$(realpath "$WEIR_CLI") PATH=$venv/bin:$PATH "$venv/bin/pytest" --quiet -p no:cacheprovider $package/tests "$@"
