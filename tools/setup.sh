#!/usr/bin/env bash
# Installs the missing packages for building, testing and the demo if it may; otherwise names the missing packages and
# the command to install them. A second run installs nothing. With `edt`, `crosscheck` or `deb`, also the packages of
# that make target; with `deb` also cargo-deb, and with `test` cnitool, both below the target directory.
set -euo pipefail
cd "$(dirname "$0")/.."

need_rust=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
fail() { printf 'error: %s\n' "$1" >&2; shift; for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done; exit 1; }

# A plain user's PATH lacks the directories where Debian keeps ip and tc.
PATH=$PATH:/usr/sbin:/sbin

# Requirements: a check of each, and its Debian package. clang depends on libclang, with which bindgen reads the C
# headers.
build=() lab=() edt=() ns3=() deb=()
command -v cc    >/dev/null || build+=(gcc)
command -v clang >/dev/null || build+=(clang)
[ -e /usr/include/bpf/bpf_helpers.h ] || build+=(libbpf-dev)
[ -e /usr/include/linux/bpf.h ]       || build+=(linux-libc-dev)
[ -e /usr/include/stdlib.h ]          || build+=(libc6-dev)
# The crate of the Python package needs an interpreter; its tests install packages in a virtual environment.
command -v python3 >/dev/null || build+=(python3)
python3 -c 'import ensurepip, venv' 2>/dev/null || build+=(python3-venv)
command -v ip     >/dev/null || lab+=(iproute2)
command -v tc     >/dev/null || lab+=(iproute2)
command -v iperf3 >/dev/null || lab+=(iperf3)
command -v redis-server >/dev/null || lab+=(redis-server)
command -v memcached >/dev/null || lab+=(memcached)
command -v ptpd   >/dev/null || lab+=(ptpd)
command -v etcd   >/dev/null || lab+=(etcd-server)
command -v nft    >/dev/null || lab+=(nftables)
# Tests run the units by a real systemd, which need not have booted this machine.
[ -x /lib/systemd/systemd ]   || lab+=(systemd)
# Tests check rows of SONiC switches under their YANG models.
command -v yanglint >/dev/null || lab+=(libyang-tools)
# Tests render the manual pages.
command -v groff  >/dev/null || lab+=(groff-base)
# Tests execute chains of these container plugins, by cnitool, which is installed below.
[ -x /usr/lib/cni/bridge ] || lab+=(containernetworking-plugins)
# Tests run the dashboard in a real browser.
command -v chromium >/dev/null || lab+=(chromium)
if [ "${1:-}" = edt ]; then
    command -v qemu-system-x86_64 >/dev/null || edt+=(qemu-system-x86)
    busybox --list 2>/dev/null | grep -qx cpio || edt+=(busybox-static)
    command -v nft >/dev/null || edt+=(nftables)
fi
if [ "${1:-}" = crosscheck ]; then
    command -v c++ >/dev/null || ns3+=(g++)
    command -v pkg-config >/dev/null || ns3+=(pkg-config)
    pkg-config --exists ns3-core 2>/dev/null || ns3+=(libns3-dev)
fi
if [ "${1:-}" = deb ]; then
    # dpkg-shlibdeps finds the package's dependencies.
    command -v dpkg-shlibdeps >/dev/null || deb+=(dpkg-dev)
fi

if [ $((${#build[@]} + ${#lab[@]} + ${#edt[@]} + ${#ns3[@]} + ${#deb[@]})) -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${build[@]}" "${lab[@]}" "${edt[@]}" "${ns3[@]}" "${deb[@]}" |
        grep . | sort -u)
    installer=none sudo=()
    if command -v apt-get >/dev/null; then
        if [ "$(id -u)" = 0 ]; then installer=apt; elif sudo -n true 2>/dev/null; then installer=apt sudo=(sudo); fi
    fi
    if [ $installer = apt ]; then
        echo "installing ${missing[*]}"
        "${sudo[@]}" apt-get update -qq
        DEBIAN_FRONTEND=noninteractive "${sudo[@]}" \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    elif [ $((${#build[@]} + ${#edt[@]} + ${#ns3[@]} + ${#deb[@]})) -gt 0 ]; then
        fail "missing: ${missing[*]} (names of Debian packages)" "sudo apt-get install ${missing[*]}"
    else
        # Building works without these; the tests that need them report that and are skipped.
        echo "missing for the lab: ${lab[*]} (sudo apt-get install ${lab[*]}); the simulator works without"
    fi
fi

command -v cargo >/dev/null ||
    fail "no Rust found; Weir is built with Rust $need_rust" \
         "install rustup (a package of newer distributions, else from its own site), then run this again" \
         "rustup reads rust-toolchain.toml and gets $need_rust by itself"
found=$(rustc --version 2>/dev/null | awk '{print $2}') || true
if [ "$found" != "$need_rust" ]; then
    fail "Rust $need_rust is needed, this is ${found:-none that works}" \
         "with rustup: rustup toolchain install $need_rust --profile minimal --component rustfmt --component clippy" \
         "without rustup: install rustup and put its cargo first in PATH"
fi
for component in rustfmt clippy-driver; do
    command -v "$component" >/dev/null && "$component" --version >/dev/null 2>&1 ||
        fail "this Rust has no ${component%-driver}" "rustup component add --toolchain $need_rust rustfmt clippy"
done

# The version is fixed: the package's maintainer scripts contain parts that cargo-deb writes.
cargo_deb=3.8.0
root=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools
if [ "${1:-}" = deb ] && [ "$("$root/bin/cargo-deb" --version 2>/dev/null)" != "cargo-deb $cargo_deb" ]; then
    echo "installing cargo-deb $cargo_deb below $root (once, some minutes)"
    cargo install --quiet --locked --force --root "$root" --target-dir "$root/build" --version "=$cargo_deb" cargo-deb
    rm -rf "$root/build"
fi

# cnitool is no Debian package, and Debian's Go is too old for it. Other tests do not need it.
if [ "${1:-}" = test ] && [ ! -x "$root/cnitool" ]; then
    cnitool=github.com/containernetworking/cni/cnitool@v1.3.1
    PATH=$PATH:/usr/local/go/bin
    if ! command -v go >/dev/null; then
        echo "missing for tests of chains of CNI plugins: cnitool, which needs Go 1.21 or later"
    elif [ -n "$(find "$root/cnitool.failed" -mtime -1 2>/dev/null)" ]; then
        # Hosts without a network would wait at each run.
        echo "missing for tests of chains of CNI plugins: cnitool; its installation failed within the last day, and" \
            "is tried again without $root/cnitool.failed"
    elif ! GOBIN=$root go install $cnitool; then
        echo "missing for tests of chains of CNI plugins: cnitool (GOBIN=$root go install $cnitool)"
        mkdir -p "$root" && touch "$root/cnitool.failed"
    fi
fi
