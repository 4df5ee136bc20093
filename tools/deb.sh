#!/usr/bin/env bash
# Makes the Debian package of the program that was built: target/debian/weir_VERSION_ARCHITECTURE.deb. The metadata and
# the list of files are in crates/front/cli/Cargo.toml, the maintainer scripts in packaging/deb.
#
#   tools/deb.sh                   of target/release/weir, with the version of tools/deb-version.sh
#   tools/deb.sh dev 0.1.0~test    of another profile, with another version, for tests
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'error: %s\n' "$1" >&2; shift; for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done; exit 1; }

profile=${1:-release} version=${2:-}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
case $profile in dev) built=$target/debug ;; *) built=$target/$profile ;; esac
program=$built/weir
for name in weir weir-cni; do [ -x "$built/$name" ] || fail "there is no program $built/$name" "make build"; done
[ -x "$target/tools/bin/cargo-deb" ] || fail "cargo-deb is not installed" "./tools/setup.sh deb"

# The files that are made from others. Pages and scripts come from the program, so they agree with its options.
files=$built/package
rm -rf "$files"
mkdir -p "$files/bin" "$files/units" "$files/completions" "$target/debian"
# Line tables are four fifths of the program. Backtraces have the names of functions without them.
for name in weir weir-cni; do strip --strip-debug -o "$files/bin/$name" "$built/$name"; done
for unit in weir-agent weir-fabric weir-forwarder weir-pods; do
    sed 's#/usr/local/bin/weir#/usr/bin/weir#' packaging/$unit.service > "$files/units/$unit.service"
done
"$program" manual "$files/man"
gzip -9n "$files"/man/*.1
"$program" completions bash > "$files/completions/weir"
"$program" completions zsh > "$files/completions/_weir"
"$program" completions fish > "$files/completions/weir.fish"
# A host without a checkout has the documents, and the policies and scenarios that they use.
${CARGO:-cargo} run --locked --package weir-book -- "$files/html" > /dev/null
gzip -9n < CHANGELOG.md > "$files/changelog.gz"
# The changelog of Debian's format names the version and the day of its release; the changes are in `changelog`.
read -r number day < <(sed -n 's/^## \[\([0-9.]*\)\] - \(.*\)/\1 \2/p' CHANGELOG.md)
found=$("$program" --version)
[ "$found" = "weir $number" ] ||
    fail "$program has version ${found#weir }, and the newest of CHANGELOG.md is $number" "make build"
if [ -z "$version" ]; then
    found=$(./tools/deb-version.sh)
    read -r version day <<< "$found"
fi
gzip -9n > "$files/changelog.Debian.gz" <<END
weir ($version) stable; urgency=medium

  * The changes are in /usr/share/doc/weir/changelog.gz.

 -- The developers of Weir <weir@localhost>  $(date --utc --date="$day" --rfc-email)
END

package=$target/debian/weir_${version}_$(dpkg --print-architecture).deb
options=(--package weir --no-build --locked --quiet --profile "$profile" --deb-version "$version")
# The debug program of the tests is large.
if [ "$profile" = dev ]; then options+=(--fast -Z gz --compress-system); fi
"$target/tools/bin/cargo-deb" "${options[@]}" --output "$package" >/dev/null
echo "$package"
