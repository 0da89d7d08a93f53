# aish: an AI companion for the ordinary zsh.
#
# Source this file from .zshrc, or let a plugin manager do it. It gives the
# function `llm`, two hooks that tell the helper what was run, and a key that
# turns words into a command. `aish_plugin_unload` takes all of it out again.
#
# Settings, honoured when set before this file is sourced:
#   AISH_HELPER           path of aish-helper (else: beside the plugin, else PATH)
#   AISH_HOME             directory for config, data, state and socket
#   AISH_KEY              key that turns words into a command (default ^[a, Alt-a; empty: none)
#   AISH_ENV              names of the variables recorded with each command
#   AISH_NO_ACCEPT_LINE   1: leave the words behind `llm ` to zsh, apostrophes and all

[[ -o interactive ]] || return 0
(( ! ${+_aish} )) || return 0

# An anonymous function, so that neither its options nor its names stay. The
# argument is this file's path as the Zsh Plugin Standard finds it.
() {
  emulate -L zsh -o no_aliases -o no_err_return -o no_err_exit -o no_xtrace
  # :A follows symbolic links: plugin managers link the file alone.
  local dir=${1:A:h}
  # +X reads them now, under these options: zsh would parse each at its first call, under the user's.
  autoload -Uz +X -- $dir/functions/*(N:A) || return
  _aish_load $dir
} "${ZERO:-${${0:#${ZSH_ARGZERO-}}:-${(%):-%N}}}"
