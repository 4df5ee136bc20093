#!/usr/bin/env bash
# Builds the program without the commands that need Linux or the network (feature `host`), linked statically:
# target/static/weir-sim, one file that runs on any Linux of this architecture.
#
#   tools/static.sh          optimised
#   tools/static.sh dev      another profile, for tests
#
# The C library is this host's, GNU's; its parts that need shared libraries at run time (names of hosts and users,
# character sets) are not used by these commands. Random numbers come from the system call: by default its function is
# found at run time, which a static program cannot do, and then read from /dev/urandom, which may be absent. The target
# is named so that the flags do not apply to build scripts, which open libclang.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
architecture=$(rustc --version --verbose | sed -n 's/^host: //p')
RUSTFLAGS="-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"" \
    ${CARGO:-cargo} build --quiet --locked --profile "$profile" --package weir --no-default-features \
    --target "$architecture"
case $profile in dev) built=debug ;; *) built=$profile ;; esac
mkdir -p "$target/static"
strip --strip-debug -o "$target/static/weir-sim" "$target/$architecture/$built/weir"
echo "$target/static/weir-sim"
