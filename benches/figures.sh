#!/bin/bash
# Runs benches and writes their tables into docs/figures.md, between the markers of each bench.
#
#     benches/figures.sh [BENCH…]     default: hot_path mcp activity shell terminal relay replay tools api page
#
# Exits with 1 if a figure exceeds its limit; the figures are written in any case.
# A bench without markers in docs/figures.md is run and checked, but its tables are not written.
set -euo pipefail
cd "$(dirname "$0")/.."

benches=("$@")
((${#benches[@]})) || benches=(hot_path mcp activity shell terminal relay replay tools api page)
missed=()
for bench in "${benches[@]}"; do
    pinned=()
    # On two cores the kernel may wake one of the compared servers on the other core, and not the other one.
    if [[ $bench == api ]] && command -v taskset >/dev/null; then
        pinned=(taskset -c 0)
    fi
    if [[ $bench == page ]]; then
        cargo build --quiet --release
        AISH_HELPER=$(realpath "${CARGO_TARGET_DIR:-target}/release/aish-helper") npm --prefix web run --silent bench || missed+=("$bench")
    else
        ${pinned[@]+"${pinned[@]}"} cargo bench --quiet --bench "$bench" || missed+=("$bench")
    fi
    tables=${CARGO_TARGET_DIR:-target}/figures/$bench.md
    awk -v tables="$tables" -v bench="$bench" '
        $0 == "<!-- end " bench " -->" { inside = 0 }
        !inside { print }
        $0 == "<!-- begin " bench " -->" {
            inside = 1
            print ""
            while ((getline line < tables) > 0) print line
        }
    ' docs/figures.md >docs/figures.md.new
    mv docs/figures.md.new docs/figures.md
done
if ((${#missed[@]})); then
    printf 'figures.sh: a bar is missed by: %s\n' "${missed[*]}" >&2
    exit 1
fi
