#!/bin/bash
# Runs install.sh in scratch homes: installs, checks the files, uninstalls.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Uses the toolchain of the caller.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
# A path with quotes, spaces and shell syntax.
export HOME="$scratch/it's \"my\" \$(home) [a*"
# What is tested is the installation: optimizing the program would take ten minutes more.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
# Where Rust is installed, the program of the other tests serves, which is built anyway.
if real_cargo=$(command -v cargo); then
    export real_cargo root
    mkdir "$scratch/bin"
    cat >"$scratch/bin/cargo" <<'END'
#!/bin/bash
set -euo pipefail
case "$*" in
--version) exec "$real_cargo" --version ;;
"build --release --locked --bin aish-helper --target-dir $root/target --quiet")
    cd "$root"
    "$real_cargo" test --quiet --locked --no-run --target-dir target
    mkdir -p target/release
    ln -f target/debug/aish-helper target/release/aish-helper
    ;;
*)
    echo "cargo of tests/install.sh: unexpected arguments: $*" >&2
    exit 1
    ;;
esac
END
    chmod +x "$scratch/bin/cargo"
    PATH=$scratch/bin:$PATH
fi
unset ZDOTDIR AISH_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
# Keeps a daemon of these tests in the scratch home.
export AISH_HOME="$scratch/aish"
rc=$HOME/.zshrc
count=0

check() {
    local what=$1
    shift
    if ! "$@"; then
        echo "install: FAILED: $what" >&2
        echo "--- output of the last run:" >&2
        cat "$scratch/said" >&2
        exit 1
    fi
    count=$((count + 1))
}
install() { "$root/install.sh" "$@" >"$scratch/said" 2>&1 </dev/null; }
fails_with() {
    local status=$1
    shift
    local got=0
    "$@" || got=$?
    [[ $got == "$status" ]]
}
# Prints every file with its mode, inode, time and content.
snapshot() {
    (cd "$HOME" && find . -exec ls -ldni {} + | sort && find . -type f -exec cksum {} + | sort)
}
same_as() { diff <(snapshot) "$scratch/before" >&2; }
said() { grep -qF -- "$1" "$scratch/said"; }
unbuilt() { ! said 'Building aish'; }
nothing() { [[ -z $(ls -A "$HOME") ]]; }
lines() { [[ $(grep -c "added by aish" "$rc") == "$1" ]]; }

mkdir "$HOME"

check 'an unknown option is a usage error' fails_with 2 install --frobnicate
check 'without a terminal it exits instead of asking' fails_with 4 install
check 'nothing was changed' nothing

: >"$HOME/file"
check 'a place that cannot be written fails before the build' fails_with 1 install --yes --prefix "$HOME/file/x"
check 'it says why' said 'is not a directory'
check 'nothing was built' unbuilt
rm "$HOME/file"
mkdir "$rc"
check 'a .zshrc that cannot be written fails before the build' fails_with 1 install --yes
check 'it names the line' said 'source ~/.local/share/aish/zsh/init.zsh'
check 'nothing was built' unbuilt
rmdir "$rc"
check 'nothing was changed' nothing

check 'it installs' install --yes
check 'the helper is installed' test -x "$HOME/.local/bin/aish-helper"
check 'the launcher is a link to the helper' test "$(readlink "$HOME/.local/bin/aish")" = aish-helper
# shellcheck disable=SC2016 # for sh to expand
check 'the launcher has its own help' sh -c '"$HOME/.local/bin/aish" --help | grep -q -e --no-tmux'
check 'its start-up file is installed' test -r "$HOME/.local/share/aish/zsh/launch/.zshenv"
check 'the plugin is installed' test -r "$HOME/.local/share/aish/zsh/aish.plugin.zsh"
check 'the completions are installed' test -r "$HOME/.local/share/zsh/site-functions/_llm"
check 'the man page of the launcher is installed' grep -q '^\.TH aish ' "$HOME/.local/share/man/man1/aish.1"
check 'the man page is installed' grep -q '^\.TH aish-helper' "$HOME/.local/share/man/man1/aish-helper.1"
if command -v man >/dev/null; then
    # shellcheck disable=SC2016 # for zsh to expand
    check 'man finds the page of llm' zsh -ic '[[ $(man -w llm) == $HOME/.local/share/man/man1/llm.1 ]]'
fi
check '.zshrc has one line' lines 1
check 'the line is short' test -z "$(grep -E '.{100}' "$rc")"
# shellcheck disable=SC2016 # for zsh to expand
check 'a new zsh loads the plugin' zsh -ic '(( $+functions[llm] ))'
check 'a new zsh finds the helper' zsh -ic 'aish-helper --version >/dev/null'
# shellcheck disable=SC2016 # for zsh to expand
check 'the line can be sourced twice' zsh -ic 'source ~/.zshrc; (( ${(M)#path:#*/.local/bin} == 1 ))'

snapshot >"$scratch/before"
check 'it installs again' install --yes
check 'a second run changes nothing' same_as

check 'it uninstalls' install --uninstall --yes
check 'nothing is left' nothing

# An existing .zshrc: a symbolic link to a private file without a final newline.
mkdir "$HOME/dotfiles" "$HOME/.local"
printf 'alias l=ls\n# \351 in Latin-1\nfoo=bar' >"$HOME/dotfiles/zshrc"
chmod 600 "$HOME/dotfiles/zshrc"
ln -s dotfiles/zshrc "$rc"
check 'it installs' install --yes
check 'the link is still a link' test -L "$rc"
check 'the file is still private' test -n "$(find "$HOME/dotfiles/zshrc" -perm 600)"
check 'the line of aish is added on a line of its own' grep -qx 'foo=bar' "$rc"
check 'it installs under another prefix' install --yes --prefix "$HOME/opt/a b"
check 'the line is replaced' lines 1
check 'the line has the new prefix' grep -qF 'opt/a b' "$rc"
check 'the first is uninstalled' install --uninstall --yes
check 'the line of the second stays' lines 1
check 'the existing directory stays' test -d "$HOME/.local"
check 'the second is uninstalled' install --uninstall --yes --prefix "$HOME/opt/a b"
check 'no line is left' lines 0
printf 'alias l=ls\n# \351 in Latin-1\nfoo=bar\n' >"$scratch/wanted"
check 'the rest of .zshrc stays' cmp "$scratch/wanted" "$HOME/dotfiles/zshrc"
check 'no directory is left' test ! -e "$HOME/opt"
check 'uninstalling twice is an error' fails_with 1 install --uninstall --yes

check '--no-zshrc leaves .zshrc alone' install --yes --no-zshrc
check 'no line was added' lines 0
check 'it explains how to load the plugin' said 'To use it: source'
# shellcheck disable=SC2016 # for zsh to expand
launched='zmodload zsh/zpty; zpty -b t "${(q)HOME}/.local/bin/aish --no-tmux"
zpty -w t "print -r -- plugin:\${(t)_aish}:\$(command -v aish-helper >/dev/null && print found)."
zpty -w t exit
zpty -r -m t text "*plugin:association:found.*"'
check 'the launcher loads the plugin without a line in .zshrc' zsh -fc "$launched"
old=$HOME/.local/share/aish/zsh/functions/old
touch "$old"
echo "file $old" >>"$HOME/.local/share/aish/manifest"
check 'another version can be installed over it' install --yes --no-zshrc
check 'obsolete files are removed' test ! -e "$old"
check 'it uninstalls' install --uninstall --yes

mkdir -p "$HOME/.local/bin"
echo 'another program' >"$HOME/.local/bin/aish"
check 'it installs beside another aish' install --yes --no-zshrc
check 'it says so' said 'is another program and stays'
check 'it uninstalls' install --uninstall --yes
check 'the other program stays' grep -qx 'another program' "$HOME/.local/bin/aish"

echo "install: $count checks passed"
