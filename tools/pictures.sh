# Common part of the scripts that draw docs/pictures, which source it. Changes to the root of the tree and sets $weir,
# the program, and $out, a directory that is deleted when the script ends.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

weir=${WEIR:-target/release/weir}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir -p docs/pictures

# keep FILE NAME: copies a drawing to docs/pictures/NAME.svg.
keep() {
    local target=docs/pictures/$2.svg
    [ -s "$1" ] || { echo "error: $2 was not drawn" >&2; exit 1; }
    cp "$1" "$target"
    printf '%7d bytes  %s\n' "$(wc -c < "$target")" "$target"
}

# simulate NAME ARGUMENT...: writes the report of `weir sim` to $out/NAME.
simulate() { "$weir" sim "${@:2}" --report "$out/$1" > "$out/$1.log" 2>&1 || { cat "$out/$1.log" >&2; exit 1; }; }

# chart FILE [TITLE]: prints the first chart of a page, or the first with that title.
chart() {
    local label=${2:+aria-label=\"$2\"}
    awk -v label="$label" '
        /<svg / { on = !done && (label == "" || index($0, label)) }
        on      { print }
        /<\/svg>/ { if (on) done = 1; on = 0 }
    ' "$1"
}
