#!/usr/bin/env bash
# Prints the version of the Debian package of this tree, and the day of its changes. Without unreleased changes in
# CHANGELOG.md that is the newest release: 0.2.0-1. With some it also names the commit, and with changes that are not
# committed the time of the build: 0.2.0+git20261129095720.c6c8a03a.dirty1796040000-1. Two builds of different contents
# then have different versions, of which apt installs the later one, and all are older than the next release.
set -euo pipefail
cd "$(dirname "$0")/.."
read -r number day < <(sed -n 's/^## \[\([0-9.]*\)\] - \(.*\)/\1 \2/p' CHANGELOG.md)
unreleased='/^## /{on = /Unreleased/; next} on && /^- /{found = 1} END{exit !found}'
if awk "$unreleased" CHANGELOG.md; then
    if ! commit=$(TZ=UTC git log -1 --format=%cd.%h --date=format-local:%Y%m%d%H%M%S); then
        echo "error: CHANGELOG.md has unreleased changes, and this is no checkout of Git that names their commit" >&2
        echo "hint: name the version: tools/deb.sh PROFILE VERSION" >&2
        exit 1
    fi
    changed=$(git status --porcelain)
    if [ -n "$changed" ]; then commit+=.dirty$(date +%s); fi
    number+=+git$commit
    day=$(git log -1 --format=%cI)
fi
echo "$number-1 $day"
