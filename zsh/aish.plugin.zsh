# aish: an AI companion for the ordinary zsh.
#
# Source this file from .zshrc, or let a plugin manager do it. It defines the
# function `llm`, hooks that report commands to the daemon, and a key that
# turns words into a command. `aish_plugin_unload` removes all of it.
#
# Settings, read when this file is sourced:
#   AISH_HELPER           path of aish-helper (default: beside the plugin, else in PATH)
#   AISH_HOME             directory for config, data, state and socket
#   AISH_KEY              key that turns words into a command (default ^[a, Alt-a; empty: none)
#   AISH_ENV              names of the variables recorded with each command
#   AISH_NO_ACCEPT_LINE   1: do not quote the words after `llm `

[[ -o interactive ]] || return 0
(( ! ${+_aish} )) || return 0

# An anonymous function, so that its options and names do not stay. The argument
# is this file's path as defined by the Zsh Plugin Standard.
() {
  emulate -L zsh -o no_aliases -o no_err_return -o no_err_exit -o no_xtrace
  # :A follows symbolic links: some plugin managers link only this file.
  local dir=${1:A:h}
  # +X loads the functions now, with these options: later zsh would parse them with the user's.
  autoload -Uz +X -- $dir/functions/*(N:A) || return
  _aish_load $dir
} "${ZERO:-${${0:#${ZSH_ARGZERO-}}:-${(%):-%N}}}"
