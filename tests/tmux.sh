#!/bin/bash
# tests/tmux.sh DIR: prints the path of a tmux of version 3.5 or newer for tests/terminal. If the system's own is older, tmux
# 3.5a is taken from the backports of the Debian release and unpacked below DIR; neither the system nor its apt is changed.
# Without one, prints nothing but a reason on stderr.
set -euo pipefail

pin=3.5a
is_new() { [[ $("$1" -V 2>/dev/null) =~ ^tmux\ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] >= 305)); }

own=$(command -v tmux || true)
if [[ -n $own ]] && is_new "$own"; then
    printf '%s\n' "$own"
    exit
fi
skip() {
    printf 'tmux %s is not tested: %s\n' "$pin" "$*" >&2
    exit 0
}
mkdir -p "$1"
dir=$(cd "$1" && pwd)/tmux-$pin
if is_new "$dir/tmux"; then
    printf '%s\n' "$dir/tmux"
    exit
fi
os_release() { sed -n "s/^$1=\"\{0,1\}\([^\"]*\).*/\1/p" /etc/os-release 2>/dev/null || true; }
[[ $(os_release ID) == debian ]] || skip 'only Debian has it in its backports'
for program in apt-get dpkg; do
    command -v "$program" >/dev/null || skip "$program is not installed"
done
release=$(os_release VERSION_CODENAME)

# The archive of this release and the file with its keys: from a stanza of a .sources file, or from a line of a .list file.
archive=$(
    shopt -s nullglob
    awk -v release="$release" '
        function finish() { if (uri != "" && suites ~ " " release " ") { print uri, key; found = 1; exit } uri = suites = key = "" }
        FNR == 1 { finish() }
        FILENAME ~ /\.sources$/ && /^[ \t]*$/ { finish() }
        FILENAME ~ /\.sources$/ && $1 == "URIs:" { uri = $2 }
        FILENAME ~ /\.sources$/ && $1 == "Suites:" { $1 = ""; suites = $0 " " }
        FILENAME ~ /\.sources$/ && $1 == "Signed-By:" && $2 ~ /^\// { key = $2 }
        FILENAME !~ /\.sources$/ && $1 == "deb" {
            if (match($0, /signed-by=\/[^] ]*/)) key = substr($0, RSTART + 10, RLENGTH - 10)
            sub(/\[[^]]*\]/, "")
            uri = $2; suites = " " $3 " "
            finish()
        }
        END { if (!found) finish() }
    ' /dev/null /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.lis[t]
)
read -r uri key <<<"$archive" || true
[[ -n $uri ]] || skip 'the sources of apt do not name the archive of this release'

work=$dir.new
rm -rf "$work" "$dir"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
trap 'rm -rf "$work"' EXIT
for suite in "$release" "$release-backports"; do
    printf 'deb %s%s %s main\n' "${key:+[signed-by=$key] }" "$uri" "$suite"
done >"$work/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::http::Timeout=30 -o Acquire::Languages=none "$@" >&2
}
apt update || skip 'the list of the backports could not be fetched'
(cd "$work" && apt download "tmux=$pin*" libjemalloc2) || skip 'the package could not be fetched'
for package in "$work"/*.deb; do
    dpkg -x "$package" "$work"
done
rm -rf "$work"/*.deb "$work/lists" "$work/cache"
# Its allocator; the programs in its panes inherit the variable, and use nothing in that directory.
libraries=$(dirname "$(find "$work/usr/lib" -name libjemalloc.so.2 -print -quit)")
printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "${libraries/#"$work"/"$dir"}" "$dir/usr/bin/tmux" >"$work/tmux"
chmod +x "$work/tmux"
trap - EXIT
mv "$work" "$dir"
is_new "$dir/tmux" || skip 'the package does not run here'
printf '%s\n' "$dir/tmux"
