#!/bin/bash
# Mutation tests of pure modules, in a crate of their own that builds in seconds. Needs cargo-mutants.
# Usage: tests/mutants.sh policy|intent|text [OPTION OF CARGO MUTANTS...]
set -euo pipefail
cd "$(dirname "$0")/.."
module=${1:?policy, intent or text}
shift

crate=target/mutants
mkdir -p "$crate"
rm -rf "$crate/src"
mkdir -p "$crate/src/safety"
cp Cargo.lock "$crate/"
cp src/chat.rs "$crate/src/"
for name in char_class confusables intent json_text policy text utf8; do
    cp -R src/safety/$name* "$crate/src/safety/"
    echo "pub mod $name;" >>"$crate/src/safety/mod.rs"
done
printf 'pub mod chat;\npub mod safety;\n' >"$crate/src/lib.rs"
{
    printf '[package]\nname = "mutants"\nedition = "2024"\n[workspace]\n'
    # Optimized, the tests take half a second.
    printf '[profile.dev]\ndebug = 0\nopt-level = 1\n[dependencies]\n'
    awk '/^\[/ { wanted = /^\[(dev-)?dependencies\]/ } wanted' Cargo.toml |
        grep -E '^(proptest|serde|serde_json|sha2|unicode-[a-z]+|uuid) ='
} >"$crate/Cargo.toml"

files=(-f "src/safety/$module.rs" -f "src/safety/$module/*.rs")
tests=("safety::$module")
if [[ $module == text ]]; then
    files+=(-f src/safety/char_class.rs)
    tests+=(safety::char_class)
fi
cd "$crate"
exec cargo mutants --in-place --timeout 25 "$@" "${files[@]}" -- --lib -- "${tests[@]}"
