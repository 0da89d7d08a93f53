#!/bin/bash
# Installs aish into scratch homes with install.sh, looks at what is there, and removes it again.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The homes are scratch, the toolchain is the caller's.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
# Quotes, spaces and all that a shell could take for something else.
export HOME="$scratch/it's \"my\" \$(home) [a*"
unset ZDOTDIR AISH_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
# A daemon of these tests stays in the scratch home.
export AISH_HOME="$scratch/aish"
rc=$HOME/.zshrc
count=0

check() {
    local what=$1
    shift
    if ! "$@"; then
        echo "install: FAILED: $what" >&2
        echo "--- the last run said:" >&2
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
# Every name with its mode, inode, time and content.
picture() {
    (cd "$HOME" && find . -exec ls -ldni {} + | sort && find . -type f -exec cksum {} + | sort)
}
same_as() { diff <(picture) "$scratch/before" >&2; }
said() { grep -qF -- "$1" "$scratch/said"; }
nothing() { [[ -z $(ls -A "$HOME") ]]; }
lines() { [[ $(grep -c "added by aish" "$rc") == "$1" ]]; }

mkdir "$HOME"

check 'an unknown option is a usage error' fails_with 2 install --frobnicate
check 'without a terminal nothing is done unasked' fails_with 4 install
check 'nothing was done' nothing

check 'it installs' install --yes
check 'the helper is there' test -x "$HOME/.local/bin/aish-helper"
check 'the plugin is there' test -r "$HOME/.local/share/aish/zsh/aish.plugin.zsh"
check 'the completions are there' test -r "$HOME/.local/share/zsh/site-functions/_llm"
check 'the man page is there' grep -q '^\.TH aish-helper' "$HOME/.local/share/man/man1/aish-helper.1"
check '.zshrc has one line' lines 1
# shellcheck disable=SC2016 # for zsh to expand
check 'a new zsh has the plugin' zsh -ic '(( $+functions[llm] ))'
check 'a new zsh finds the helper' zsh -ic 'aish-helper --version >/dev/null'
# shellcheck disable=SC2016 # for zsh to expand
check 'the line may be read twice' zsh -ic 'source ~/.zshrc; (( ${(M)#path:#*/.local/bin} == 1 ))'

picture >"$scratch/before"
check 'it installs again' install --yes
check 'a second run changes nothing' same_as

check 'it uninstalls' install --uninstall --yes
check 'nothing is left' nothing

# A .zshrc of the user's own: behind a link, private, and without a last newline.
mkdir "$HOME/dotfiles" "$HOME/.local"
printf 'alias l=ls\n# \351 in Latin-1\nfoo=bar' >"$HOME/dotfiles/zshrc"
chmod 600 "$HOME/dotfiles/zshrc"
ln -s dotfiles/zshrc "$rc"
check 'it installs' install --yes
check 'the link is still a link' test -L "$rc"
check 'the file is still private' test -n "$(find "$HOME/dotfiles/zshrc" -perm 600)"
check 'the line is one of its own' grep -qx 'foo=bar' "$rc"
check 'it installs under another prefix' install --yes --prefix "$HOME/opt/a b"
check 'the line is replaced' lines 1
check 'the line is of the new prefix' grep -qF 'opt/a b' "$rc"
check 'the first is uninstalled' install --uninstall --yes
check 'the line of the second stays' lines 1
check 'the directory that was there stays' test -d "$HOME/.local"
check 'the second is uninstalled' install --uninstall --yes --prefix "$HOME/opt/a b"
check 'no line is left' lines 0
printf 'alias l=ls\n# \351 in Latin-1\nfoo=bar\n' >"$scratch/wanted"
check 'the rest of .zshrc stays' cmp "$scratch/wanted" "$HOME/dotfiles/zshrc"
check 'no directory is left' test ! -e "$HOME/opt"
check 'nothing more to uninstall is an error' fails_with 1 install --uninstall --yes

check 'it leaves .zshrc alone if asked' install --yes --no-zshrc
check 'no line was added' lines 0
check 'it says how to use it' said 'To use it: source'
old=$HOME/.local/share/aish/zsh/functions/old
touch "$old"
echo "file $old" >>"$HOME/.local/share/aish/manifest"
check 'another version is installed over it' install --yes --no-zshrc
check 'what is no longer part of it is gone' test ! -e "$old"
check 'it uninstalls' install --uninstall --yes

echo "install: $count checks passed"
