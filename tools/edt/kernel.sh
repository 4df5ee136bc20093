#!/usr/bin/env bash
# kernel.sh DIRECTORY PACKAGE: fetches Debian's kernel without installing it: DIRECTORY/vmlinuz, DIRECTORY/version and
# DIRECTORY/modules/NN-name.ko, numbered in the order in which they load. PACKAGE may be a name that depends on the
# kernel proper, such as linux-image-amd64. Existing files stay, unless the list of modules has changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 package=$2
fail() { printf 'error: %s\n' "$1" >&2; shift; for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done; exit 1; }

mkdir -p "$out"
if ! compgen -G "$out/*.deb" >/dev/null; then
    command -v apt-get >/dev/null ||
        fail "the guest's kernel is Debian's package $package, and this host has no apt-get" \
             "put the .deb of a kernel (linux-image-VERSION-amd64) into $out"
    # Package lists may be missing (a fresh container) or outdated: then root updates them.
    get() {
        real=$(apt-cache depends "$package" 2>/dev/null |
            sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
        (cd "$out" && apt-get download -qq "${real:-$package}")
    }
    get 2>/dev/null || { { [ "$(id -u)" != 0 ] || apt-get update -qq; } && get; } ||
        fail "Debian's package $package cannot be downloaded" "sudo apt-get update" \
             "or put the .deb of a kernel (linux-image-VERSION-amd64) into $out"
fi
debs=("$out"/*.deb)
[ ${#debs[@]} = 1 ] || fail "$out holds more than one kernel: ${debs[*]##*/}" "leave one"

stamp=$(basename "${debs[0]}")
stamp+=" $(sha256sum <"$here/modules" | cut -d ' ' -f 1) $(sha256sum <"$0" | cut -d ' ' -f 1)"
if [ -e "$out/stamp" ] && [ "$(cat "$out/stamp")" = "$stamp" ]; then exit 0; fi

tree=$(mktemp -d "$out/unpacked.XXXXXX")
trap 'rm -rf "$tree"' EXIT
# Debian 12 keeps modules in /lib, later releases in /usr/lib.
dpkg --fsys-tarfile "${debs[0]}" | tar -x -C "$tree" --wildcards './boot/vmlinuz-*' './*lib/modules/*'
[ -d "$tree/lib/modules" ] || { mkdir -p "$tree/lib"; mv "$tree/usr/lib/modules" "$tree/lib/modules"; }
version=$(basename "$tree"/lib/modules/*)
busybox depmod -b "$tree" "$version"
modules=$tree/lib/modules/$version

# Prints a module's file after the files of its dependencies.
with_dependencies() {
    local file needed
    # shellcheck disable=SC2013  # file names of modules have no spaces
    for needed in $(sed -n "s|^$1: *||p" "$modules/modules.dep"); do with_dependencies "$needed"; done
    echo "$1"
}
wanted=()
while read -r name; do
    file=$(sed -n "s|^\([^:]*/$name\.ko[^:]*\):.*|\1|p" "$modules/modules.dep")
    if [ -n "$file" ]; then
        wanted+=("$file")
    elif ! grep -q "/$name\.ko" "$modules/modules.builtin"; then
        fail "the kernel $version has no module $name (tools/edt/modules)"
    fi
done < <(grep -v '^#' "$here/modules")
rm -rf "$out/modules" && mkdir "$out/modules"
number=100
while read -r file; do
    number=$((number + 1)) name=$(basename "$file")
    case $name in
        *.ko) cp "$modules/$file" "$out/modules/$number-$name" ;;
        *.xz) xz -dc "$modules/$file" >"$out/modules/$number-${name%.xz}" ;;
        *.zst) zstd -qdc "$modules/$file" >"$out/modules/$number-${name%.zst}" ;;
    esac
done < <(for file in "${wanted[@]}"; do with_dependencies "$file"; done | awk '!seen[$0]++')
cp "$tree"/boot/vmlinuz-* "$out/vmlinuz"
echo "$version" >"$out/version"
echo "$stamp" >"$out/stamp"
