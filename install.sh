#!/bin/sh
# Builds aish and installs it for one user; `./install.sh --help` says how.
set -eu

usage() {
    cat <<'EOF'
usage: ./install.sh [--yes] [--prefix DIR] [--no-zshrc] [--try PROMPT]
       ./install.sh --uninstall [--yes] [--prefix DIR]

Builds aish and installs it under ~/.local. Programs that are missing (zsh, a
C compiler, Rust) are installed first. The script lists its steps and asks before
it starts.

  --try PROMPT   install a tiny offline model and ask it PROMPT
  --prefix DIR   install under DIR
  --no-zshrc     leave .zshrc alone
  --uninstall    remove the installed files; keep configuration and history
  -y, --yes      do not ask for confirmation
EOF
}

say() { printf '%s\n' "$*"; }
warn() { printf 'install.sh: %s\n' "$*" >&2; }
# fail MESSAGE [HINT [STATUS]]: prints what failed and what to do next.
fail() {
    printf 'install.sh: %s\n' "$1" >&2
    if [ $# -gt 1 ]; then printf '  %s\n' "$2" >&2; fi
    exit "${3-1}"
}
has() { command -v "$1" >/dev/null 2>&1; }

# quoted WORD: quotes a word for the shell.
quoted() {
    printf '%s' "$1" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"
}

# --- options ----------------------------------------------------------------

prefix=${HOME:+$HOME/.local} yes='' zshrc=yes uninstall='' try='' prompt=''
while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --try)
        [ $# -gt 1 ] || fail "$1 needs a value" 'see ./install.sh --help' 2
        if [ "$1" = --prefix ]; then prefix=$2; else try=yes prompt=$2; fi
        shift
        ;;
    --prefix=*) prefix=${1#*=} ;;
    --try=*) try=yes prompt=${1#*=} ;;
    --no-zshrc) zshrc='' ;;
    --uninstall) uninstall=yes ;;
    -y | --yes) yes=yes ;;
    -h | --help)
        usage
        exit
        ;;
    *) fail "unknown option: $1" 'see ./install.sh --help' 2 ;;
    esac
    shift
done
[ -n "${HOME-}" ] || fail 'HOME is not set' 'set it to your home directory'
[ -n "$prefix" ] || fail '--prefix needs a directory' 'see ./install.sh --help' 2
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
case $prefix in
*'
'*) fail 'the prefix contains a newline' 'choose another directory' 2 ;;
esac
if [ -n "$try" ] && [ -z "$prompt" ]; then
    fail '--try needs a prompt' 'for example: ./install.sh --try "What is the capital of France?"' 2
fi

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
bin=$prefix/bin/aish-helper
plugin=$prefix/share/aish/zsh/aish.plugin.zsh
init=$prefix/share/aish/zsh/init.zsh
manifest=$prefix/share/aish/manifest
tag="# added by aish's install.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

ask() {
    [ -z "$yes" ] || return 0
    [ -t 0 ] || fail 'there is no terminal to ask on' 'use --yes to continue without a question' 4
    printf 'Continue? [y/N] '
    read -r answer || answer=
    case $answer in
    y | Y | yes) ;;
    *) fail 'nothing was changed' ;;
    esac
}

# --- .zshrc -----------------------------------------------------------------

# Prints the .zshrc that zsh reads for this user; .zshenv may set ZDOTDIR.
find_zshrc() {
    dir=$(zsh -c 'print -r -- "${ZDOTDIR:-$HOME}"' </dev/null 2>/dev/null | tail -n 1) || dir=
    case $dir in
    /*) ;;
    *) dir=${ZDOTDIR:-$HOME} ;;
    esac
    say "$dir/.zshrc"
}

# resolve PATH: follows symbolic links, so that the target is changed and the link stays.
resolve() {
    path=$1 links=0
    while [ -L "$path" ] && [ $links -lt 40 ]; do
        next=$(readlink -- "$path")
        case $next in
        /*) path=$next ;;
        *) path=$(dirname -- "$path")/$next ;;
        esac
        links=$((links + 1))
    done
    say "$path"
}

# short PATH: quotes a path for the shell, with ~ for the home directory.
short() {
    # shellcheck disable=SC2088 # for the user's zsh to expand
    case $1 in
    "$HOME"/*) rest=${1#"$HOME"/} home="~/" ;;
    *) rest=$1 home='' ;;
    esac
    case $rest in
    *[!A-Za-z0-9/._-]*) rest=$(quoted "$rest") ;;
    esac
    say "$home$rest"
}

the_line() {
    say "source $(short "$init") $tag"
}

# set_line FILE [LINE]: replaces the line of aish in FILE with LINE, or removes it; atomic.
set_line() {
    target=$(resolve "$1")
    copy=$target.aish-$$
    if [ -e "$target" ]; then
        # The copy keeps the mode of the file.
        cp -p -- "$target" "$copy" || return 1
        # The C locale accepts any bytes as text.
        LC_ALL=C LINE=${2-} TAG=$tag awk '
            BEGIN { line = ENVIRON["LINE"]; tag = ENVIRON["TAG"] }
            length($0) >= length(tag) && substr($0, length($0) - length(tag) + 1) == tag {
                if (line != "" && !done) { print line; done = 1 }
                next
            }
            { print }
            END { if (line != "" && !done) print line }
        ' <"$target" >"$copy" || {
            rm -f -- "$copy"
            return 1
        }
    else
        mkdir -p -- "$(dirname -- "$target")" || return 1
        say "$2" >"$copy" || {
            rm -f -- "$copy"
            return 1
        }
    fi
    mv -f -- "$copy" "$target"
}

# has_line FILE: whether FILE has the line of this prefix; other prefixes may be installed too.
# Earlier versions wrote the quoted path of the plugin.
has_line() { [ -r "$1" ] && grep -F -- "$tag" "$1" | grep -qF -e "source $(short "$init") " -e "$(quoted "$plugin")"; }

# --- uninstall --------------------------------------------------------------

# Prints the directories with user data, quoted for the shell.
places() {
    if [ -n "${AISH_HOME-}" ]; then
        printf ' %s' "$(quoted "$AISH_HOME")"
    elif [ "$(uname -s)" = Darwin ]; then
        printf ' %s' "$(quoted "$HOME/Library/Application Support/aish")"
    else
        for dir in "${XDG_CONFIG_HOME:-$HOME/.config}" "${XDG_DATA_HOME:-$HOME/.local/share}" "${XDG_STATE_HOME:-$HOME/.local/state}"; do
            if [ -e "$dir/aish" ]; then printf ' %s' "$(quoted "$dir/aish")"; fi
        done
    fi
}

if [ -n "$uninstall" ]; then
    [ -r "$manifest" ] || fail "aish is not installed under $prefix" 'give the --prefix that it was installed with'
    say "This removes the files of aish under $prefix and its line in .zshrc."
    ask
    if [ -x "$bin" ]; then "$bin" stop --now || warn 'the daemon may still be running'; fi
    while IFS= read -r entry; do
        path=${entry#* }
        case $entry in
        zshrc\ *)
            if has_line "$path"; then
                set_line "$path" || fail "cannot write $path" "remove the line that ends in \"$tag\" yourself, then try again"
                say "Removed the line from $path."
            fi
            ;;
        # aish created the file; lines that somebody else added keep it.
        new-zshrc\ *) if [ -f "$path" ] && [ ! -s "$path" ]; then rm -f -- "$path"; fi ;;
        file\ *) rm -f -- "$path" ;;
        esac
    done <"$manifest"
    sed -n 's/^dir //p' "$manifest" >"$work/dirs"
    rm -f -- "$manifest"
    # Created directories, deepest first, unless they contain other files.
    while IFS= read -r path; do
        rmdir -- "$path" 2>/dev/null || true
    done <"$work/dirs"
    say "Removed aish from $prefix."
    kept=$(places)
    if [ -n "$kept" ]; then say "Configuration, history and models are kept. To remove them too: rm -r$kept"; fi
    exit
fi

# --- missing programs -------------------------------------------------------

# at_least 1.88 1.95.0: whether the second version is not older than the first.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$1" ]
}

cd "$root"
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_bin=${CARGO_HOME:-$HOME/.cargo}/bin
cargo=''
# A shell that was opened before rustup ran lacks its directory on the PATH.
for path in "$PATH" "$rust_bin:$PATH"; do
    # Without a default toolchain, rustup fails here.
    version=$(PATH=$path cargo --version 2>/dev/null | cut -d' ' -f2) || version=
    if [ -n "$version" ] && at_least "$wanted" "$version"; then
        PATH=$path cargo=cargo
        break
    fi
done

packages='' brew='' get_rust=''
pack() {
    packages="$packages $1"
    brew="$brew ${2-}"
}
has zsh || pack zsh zsh
os=$(uname -s)
if [ "$os" = Darwin ]; then
    # Without the tools, cc exists but only offers to install them.
    xcode-select -p >/dev/null 2>&1 || fail 'there is no C compiler' 'install one with: xcode-select --install; then run this script again'
else
    has cc || pack 'gcc libc6-dev'
fi
if [ -n "$try" ]; then
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || pack python3-venv python3
fi
if [ -z "$cargo" ]; then
    get_rust=yes
    has rustup || has curl || pack curl curl
fi
# cargo and curl verify certificates against these.
if [ "$os" = Linux ] && has dpkg && [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then pack ca-certificates; fi

# Before anything is installed or built: checks for what would fail afterwards.
# check_place FILE: fails if FILE cannot be created or replaced.
check_place() {
    if [ -d "$1" ]; then fail "$1 is a directory" "remove it, or choose another place with --prefix"; fi
    place=$(dirname -- "$1")
    while [ ! -e "$place" ]; do place=$(dirname -- "$place"); done
    [ -d "$place" ] || fail "cannot install under $prefix: $place is not a directory" 'choose another place with --prefix'
    [ -w "$place" ] || fail "cannot install under $prefix: $place is not writable" 'choose another place with --prefix'
}
for place in "$bin" "$plugin" "$prefix/share/zsh/site-functions/_llm" "$prefix/share/man/man1/llm.1"; do check_place "$place"; done
if [ -n "$zshrc" ] && has zsh; then
    rc=$(resolve "$(find_zshrc)")
    if [ -d "$rc" ] || { [ -e "$rc" ] && [ ! -w "$rc" ]; }; then
        fail "cannot write $rc" "make it a writable file, or use --no-zshrc and add the line yourself: $(the_line)"
    fi
fi
free=$(df -Pk "$root" 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ "${free:-2000000}" -lt 1500000 ]; then
    fail "the build needs 1.5 GB in $root, where $((free / 1000)) MB are free" 'make room, then run this script again'
fi

say 'This will'
if [ -n "$packages" ]; then
    if [ "$os" = Darwin ]; then
        has brew || fail "missing programs:$brew" 'install them, or Homebrew (https://brew.sh), then run this script again'
        say "  - install with brew:$brew"
    elif has apt-get; then
        say "  - install with apt-get:$packages"
    else
        fail "missing programs:$packages" "install them with your system's package manager, then run this script again"
    fi
fi
if [ -n "$get_rust" ]; then
    say "  - install Rust $wanted or newer with rustup (https://rustup.rs) in ${rust_bin%/bin}"
fi
say "  - build aish and install it under $prefix"
if [ -n "$zshrc" ]; then say '  - add one line to your .zshrc'; fi
if [ -n "$try" ]; then say '  - download a tiny model (127 MB, 220 MB on disk) and ask it your prompt'; fi
ask

if [ -n "$packages" ]; then
    if [ "$os" = Darwin ]; then
        say "Installing$brew …"
        # shellcheck disable=SC2086 # a list of words
        brew install --quiet $brew
    else
        say "Installing$packages …"
        sudo=''
        if [ "$(id -u)" != 0 ]; then
            has sudo || fail "cannot install$packages: you are not root, and there is no sudo" "install them as root: apt-get install$packages"
            sudo=sudo
        fi
        # shellcheck disable=SC2086 # a list of words, and perhaps no sudo
        {
            $sudo apt-get update -qq >"$work/apt" 2>&1 &&
                $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >"$work/apt" 2>&1
        } || {
            tail -n 5 "$work/apt" >&2
            fail "apt-get could not install$packages" 'see the messages above, then run this script again'
        }
    fi
fi

if [ -n "$get_rust" ]; then
    say 'Installing Rust with rustup …'
    if has rustup; then
        rustup toolchain install stable --profile minimal --no-self-update
        cargo=rustup
    else
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o "$work/rustup.sh" ||
            fail 'cannot reach https://sh.rustup.rs to install Rust' "install Rust $wanted or newer another way, then run this script again"
        # An older system cargo may stay: from here on the new one is first on the PATH.
        RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$work/rustup.sh" -y -q --profile minimal --default-toolchain stable --no-modify-path ||
            fail 'rustup could not install Rust' 'see the messages above, then run this script again'
        PATH=$rust_bin:$PATH
        cargo=cargo
    fi
fi

# --- build ------------------------------------------------------------------

say 'Building aish; the first build takes a few minutes …'
set -- build --release --locked --bin aish-helper --target-dir "$root/target"
[ -t 2 ] || set -- "$@" --quiet
if [ "$cargo" = rustup ]; then set -- run stable cargo "$@"; fi
"$cargo" "$@" || fail 'the build failed' 'see the messages above, then run this script again'

# --- install ----------------------------------------------------------------

built=$root/target/release/aish-helper
new=$work/files.new
: >"$new"
: >"$work/made"
: >"$work/created"

# make_dir DIR: creates a directory and records it, so that --uninstall removes only created ones.
make_dir() {
    [ ! -d "$1" ] || return 0
    made=$1
    while [ ! -d "$made" ]; do
        say "dir $made" >>"$work/made"
        made=$(dirname -- "$made")
    done
    mkdir -p -- "$1"
}

# put FILE DEST MODE: installs a file atomically; does not write if nothing changed.
put() {
    printf 'file %s\n' "$2" >>"$new"
    if cmp -s -- "$1" "$2" && [ ! -L "$2" ]; then return; fi
    make_dir "$(dirname -- "$2")"
    cp -- "$1" "$2.new-$$"
    chmod "$3" "$2.new-$$"
    mv -f -- "$2.new-$$" "$2"
}

# link DEST: makes DEST a link to the helper; another program of that name stays.
link() {
    if [ -e "$1" ] && [ "$(readlink -- "$1" || true)" != aish-helper ]; then
        warn "$1 is another program and stays; the launcher is: aish-helper launch"
        return
    fi
    printf 'file %s\n' "$1" >>"$new"
    [ -L "$1" ] || ln -s aish-helper "$1"
}

running='' replaced=''
if [ -x "$bin" ] && ! cmp -s -- "$built" "$bin"; then
    replaced=yes
    "$bin" status --json >"$work/status" 2>/dev/null || : >"$work/status"
    if grep -Eq '"running": *true' "$work/status"; then running=yes; fi
    if grep -Eq '"turns": *[1-9]' "$work/status"; then running=busy; fi
fi
put "$built" "$bin" 755
link "$prefix/bin/aish"
(cd zsh && find . -type f) | LC_ALL=C sort >"$work/files"
while IFS= read -r file; do
    put "zsh/${file#./}" "$prefix/share/aish/zsh/${file#./}" 644
done <"$work/files"
# In the directory that zsh searches under a system prefix, and in the one that the plugin searches.
mkdir "$work/completions"
cp completions/_llm "$work/completions"
"$bin" completions >"$work/completions/_aish-helper"
"$bin" completions aish >"$work/completions/_aish"
for file in _llm _aish-helper _aish; do
    put "$work/completions/$file" "$prefix/share/zsh/site-functions/$file" 644
    put "$work/completions/$file" "$prefix/share/aish/completions/$file" 644
done
for page in aish-helper llm aish; do
    "$bin" man $page >"$work/$page.1"
    put "$work/$page.1" "$prefix/share/man/man1/$page.1" 644
done
say "Installed aish under $prefix."

rc=
if [ -n "$zshrc" ]; then
    rc=$(find_zshrc)
    line=$(the_line)
    if [ -r "$rc" ] && grep -qxF -- "$line" "$rc"; then
        say "$rc already has the line."
    else
        [ -e "$rc" ] || say "new-zshrc $(resolve "$rc")" >>"$work/created"
        if set_line "$rc" "$line"; then
            say "Added a line to $rc."
        else
            warn "cannot write $rc; add this line to it yourself:"
            printf '  %s\n' "$line" >&2
        fi
    fi
fi
# Entries of earlier runs stay valid.
: >"$work/earlier"
if [ -r "$manifest" ]; then
    grep -v '^file ' "$manifest" >"$work/earlier" || true
fi
{
    # Uninstall order: the line before the file created for it, a file before its directory.
    if [ -n "$rc" ]; then say "zshrc $rc"; fi
    grep '^zshrc ' "$work/earlier" | grep -vxF -- "zshrc $rc" || true
    sed -n '/^new-zshrc /p' "$work/earlier" "$work/created"
    cat "$new"
    sed -n '/^dir /p' "$work/earlier" "$work/made" | LC_ALL=C sort -ru
} >"$work/whole"
if ! cmp -s -- "$work/whole" "$manifest"; then
    # Files of an earlier version that are no longer part of aish.
    if [ -r "$manifest" ]; then
        sed -n 's/^file //p' "$manifest" | while IFS= read -r old; do
            grep -qxF -- "file $old" "$new" || rm -f -- "$old"
        done
    fi
    cp -- "$work/whole" "$manifest.new-$$"
    mv -f -- "$manifest.new-$$" "$manifest"
fi

if [ -n "$running" ] && [ -n "$replaced" ]; then
    # A restart would interrupt running turns.
    if [ "$running" = yes ] && "$bin" restart >/dev/null 2>&1; then
        say 'Restarted the daemon.'
    else
        warn 'the running daemon still has the old version; restart it with: aish-helper restart'
    fi
fi

# --- try --------------------------------------------------------------------

if [ -n "$try" ]; then
    say 'Setting up the tiny model …'
    "$bin" model install smollm2
    say "llm $(quoted "$prompt")"
    # The prompt is passed as an argument, so that zsh never parses it as code.
    if [ -n "$zshrc" ]; then
        zsh -i -c 'llm -m smollm2 -- "$1"' zsh "$prompt"
    else
        zsh -i -c 'source "$2"; llm -m smollm2 -- "$1"' zsh "$prompt" "$init"
    fi
    say ''
    say 'The tiny model answers short questions, often wrongly. It proposes no commands and'
    say 'calls no tools: for that, choose a real model (README.md, "Choosing a model").'
    say 'This is what a real model does. It is a RECORDING: nothing below runs now.'
    say ''
    while IFS= read -r line; do
        say "  $line"
        # A minute at reading speed; on a pipe immediately.
        if [ -t 1 ]; then sleep 2; fi
    done <docs/recording.txt
    say ''
    say 'End of the recording.'
fi
if [ -n "$zshrc" ]; then
    say 'Open a new zsh (or type: exec zsh), then: llm hello'
else
    say "To use it: source $(short "$init")"
fi
