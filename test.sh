#!/bin/bash
# Installs what the tests need, then runs all checks and tests; the last line is the total time.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
finish() {
    local status=$?
    local result=passed
    ((status == 0)) || result='FAILED'
    printf '== %s in %d min %02d s\n' "$result" $((SECONDS / 60)) $((SECONDS % 60))
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- requirements beyond those of install.sh ------------------------------------

missing=()
need() { # need PACKAGE COMMAND…
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
# Homebrew and Debian keep the plugins in different places.
plugin() {
    [[ -e /usr/share/$1/$1.zsh || -e /usr/local/share/$1/$1.zsh || -e /opt/homebrew/share/$1/$1.zsh ]]
}
need zsh command -v zsh
need shellcheck command -v shellcheck
need zsh-autosuggestions plugin zsh-autosuggestions
need zsh-syntax-highlighting plugin zsh-syntax-highlighting
need git command -v git
need tmux command -v tmux
need screen command -v screen
need s3cmd command -v s3cmd
if [[ $(uname -s) == Darwin ]]; then
    need node command -v npm
    need python3 python3 -c 'import venv, ensurepip'
    need groff command -v groff
    install=(brew install)
else
    need python3-venv python3 -c 'import venv, ensurepip'
    need groff-base command -v groff
    need man-db command -v man
    need npm command -v npm
    need tzdata test -e /usr/share/zoneinfo/UTC
    need chromium command -v chromium
    install=(apt-get install -y -qq --no-install-recommends)
fi
if ((${#missing[@]})); then
    if [[ ${install[0]} == brew ]]; then
        step "installing ${missing[*]}"
        brew install --quiet "${missing[@]}"
    elif [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        step "installing ${missing[*]}"
        apt-get update -qq
        "${install[@]}" "${missing[@]}" >/dev/null
    else
        echo "test.sh: the tests need ${missing[*]}; install them: sudo ${install[*]} ${missing[*]}" >&2
        exit 1
    fi
fi

# First where it has to install a C compiler and Rust; else it installs the program of the tests, once that is built.
installed=''
if ! command -v cargo >/dev/null; then
    step 'install and uninstall'
    tests/install.sh
    installed=yes
    PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
fi

cargo fmt --version >/dev/null 2>&1 || rustup --quiet component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup --quiet component add clippy
if ! cargo deny --version >/dev/null 2>&1; then
    # Under target, not in the user's ~/.cargo/bin.
    PATH=$PWD/target/tools/bin:$PATH
    if ! cargo deny --version >/dev/null 2>&1; then
        step 'building cargo-deny, which takes about a minute'
        # Unoptimized, because it runs for two seconds only.
        CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --locked --debug --root target/tools --version 0.20.2 cargo-deny
    fi
fi

# --- real MCP servers, the conformance suite of the protocol, Schemathesis -------

# Kept between runs, and reinstalled when a pin changes.
export AISH_TEST_TOOLS=$PWD/target/test-tools
pins=$(cat tests/real/package-lock.json tests/real/requirements.txt tests/api/requirements.txt | cksum)
# Beside the checks, since most of it is waiting for the network.
install_tools() {
    if [[ $(cat "$AISH_TEST_TOOLS/pins" 2>/dev/null) != "$pins" ]]; then
        rm -rf "$AISH_TEST_TOOLS"
        mkdir -p "$AISH_TEST_TOOLS"
        cp tests/real/package.json tests/real/package-lock.json "$AISH_TEST_TOOLS"
        # An unresponsive registry must not block this script; macOS has no timeout(1).
        bounded() { perl -e 'alarm 600; exec @ARGV or die' "$@"; }
        (cd "$AISH_TEST_TOOLS" && bounded npm ci --no-audit --no-fund --loglevel=error >/dev/null)
        # The files name every package; resolving would take extras for new requirements.
        install_python() { # install_python DIR REQUIREMENTS
            python3 -m venv "$AISH_TEST_TOOLS/$1"
            bounded "$AISH_TEST_TOOLS/$1/bin/pip" install --quiet --disable-pip-version-check \
                --no-deps --require-hashes --requirement "$2"
        }
        install_python python tests/real/requirements.txt
        if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            install_python schemathesis tests/api/requirements.txt
        fi
        printf '%s\n' "$pins" >"$AISH_TEST_TOOLS/pins"
    fi
}
install_tools &
tools=$!

# --- static checks --------------------------------------------------------------

step 'scripts'
shellcheck install.sh test.sh .ci/run tests/install.sh tests/mutants.sh tests/tmux.sh
find zsh completions -type f | while IFS= read -r file; do
    zsh -fn "$file"
done

step 'format, lints, documentation'
cargo fmt --check
cargo clippy --quiet --locked --all-targets -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --no-deps --lib

step 'licenses and advisories of the dependencies'
cargo deny --log-level error --locked check --hide-inclusion-graph bans licenses sources
if cargo deny --log-level error fetch db 2>/dev/null; then
    cargo deny --log-level error --locked --offline check --hide-inclusion-graph advisories
else
    echo 'advisories not checked: the advisory database is unreachable'
fi

wait "$tools"

# Empty if there is none, which leaves its test out.
AISH_TEST_SCHEMATHESIS=$AISH_TEST_TOOLS/schemathesis/bin/st
if [[ ! -x $AISH_TEST_SCHEMATHESIS ]]; then
    AISH_TEST_SCHEMATHESIS=
    echo 'the HTTP API was not tested with Schemathesis: it needs Python 3.11'
fi
export AISH_TEST_SCHEMATHESIS

# Empty if there is none, which leaves its tests out; it says why.
AISH_TEST_TMUX35=$(tests/tmux.sh "$AISH_TEST_TOOLS")
export AISH_TEST_TMUX35

# --- the tests ------------------------------------------------------------------

step 'building the tests'
cargo test --quiet --locked --no-run
if [[ -z $installed ]]; then
    step 'install and uninstall'
    tests/install.sh
fi

step 'tests'
# Kept between runs; the tests install the tiny model there.
export AISH_TEST_MODELS=$PWD/target/test-models
mkdir -p "$AISH_TEST_MODELS"
cargo test --quiet --locked --doc
if cargo nextest --version >/dev/null 2>&1; then
    # Real terminals, daemons and clocks on a machine that does something else too: one failure may be chance. The summary lists
    # such a test as FLAKY; it still has to be fixed.
    # Most tests wait for a shell or a daemon for a part of their time, which one more at a time fills.
    cargo nextest run --locked --cargo-quiet --no-fail-fast --run-ignored all --retries 1 \
        --test-threads $(($(getconf _NPROCESSORS_ONLN) + 1)) \
        --status-level retry --final-status-level flaky
else
    cargo test --quiet --locked --no-fail-fast --lib --bins --examples --tests -- --include-ignored
fi

step 'the page, in a browser'
(
    cd web
    npm ci --no-audit --no-fund --loglevel=error >/dev/null
    npm run --silent check
    if command -v chromium >/dev/null; then
        export AISH_HELPER=$PWD/../target/debug/aish-helper
        page_tests="node --test --test-timeout=240000 --test-reporter=dot"
        # Two at once, since a page waits for its daemon for a part of the time. Prints what a file says only if it fails.
        # shellcheck disable=SC2016 # for sh to expand
        failed=$(
            printf '%s\0' tests/*.test.mjs | xargs -0 -n 1 -P 2 sh -c \
                'said=$('"$page_tests"' "$1" 2>&1) || { printf "%s\n" "$said" >&2; echo "$1"; }' sh
        )
        # As above: one failure may be chance.
        for file in $failed; do
            $page_tests "$file"
            echo "FLAKY web/$file: passed at the second try"
        done
    else
        echo 'the page was not tested: there is no chromium'
    fi
)
