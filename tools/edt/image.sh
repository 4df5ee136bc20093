#!/usr/bin/env bash
# image.sh IMAGE MODULES LIST [WEIR]: writes the guest's whole file system, an initramfs: busybox, the tools that the
# tests call, the modules, the program WEIR at its own path (tests use that path) and the tests of LIST, whose lines
# are: file of the program, time limit, arguments. An image of the same input is not rebuilt.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
image=$1 modules=$2 list=$3 weir=${4:-}
PATH=$PATH:/usr/sbin:/sbin
fail() { printf 'error: %s\n' "$1" >&2; exit 1; }

tools=()
for tool in ip tc ss bridge nft iperf3; do tools+=("$(command -v "$tool")") || fail "$tool is not on the PATH"; done
mapfile -t programs < <(cut -d ' ' -f 1 "$list")
busybox=$(command -v busybox)
stamp=$(stat -L -c '%n %s %Y' "$here"/* "$modules"/* "${tools[@]}" "${programs[@]}" ${weir:+"$weir"} "$busybox"
    cat "$list")
if [ -e "$image" ] && [ -e "$image.stamp" ] && [ "$(cat "$image.stamp")" = "$stamp" ]; then exit 0; fi

root=$(mktemp -d "$image.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,etc,modules,proc,root,run,sys,tests,tmp,usr/sbin,var/lib}
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"; done

# The libraries of a program, at the paths where its loader looks.
libraries() {
    local library
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        [ -e "$root$library" ] || install -D "$library" "$root$library"
    done
}
for tool in "${tools[@]}"; do
    install -D "$tool" "$root/usr/sbin/$(basename "$tool")"
    libraries "$tool"
done
# Programs are stripped: debugging information is nine tenths of their size.
if [ -n "$weir" ]; then
    mkdir -p "$root$(dirname "$weir")"
    strip -o "$root$weir" "$weir"
    libraries "$weir"
fi
number=100
while read -r program rest; do
    number=$((number + 1)) name=$number-$(basename "$program" | sed 's/-[0-9a-f]\{16\}$//')
    strip -o "$root/tests/$name" "$program"
    libraries "$program"
    echo "/tests/$name $rest" >>"$root/tests/list"
done <"$list"
cp "$modules"/*.ko "$root/modules/"
install "$here/init" "$root/init"

(cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$image.new"
mv "$image.new" "$image"
echo "$stamp" >"$image.stamp"
