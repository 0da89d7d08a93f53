# aish: an AI companion for the ordinary zsh.
#
# Source this file from .zshrc, or let a plugin manager do it. It defines the
# function `llm`, hooks that report commands to the daemon, and a key that
# turns words into a command. `aish_plugin_unload` removes all of it.
#
# Settings, read when this file is sourced:
#   AISH_NAME             names of the function, separated by blanks (default: llm)
#   AISH_HELPER           path of aish-helper (default: beside the plugin, else in PATH)
#   AISH_HOME             directory for config, data, state and socket
#   AISH_KEY              key that turns words into a command (default ^[a, Alt-a, none in vi mode; empty: none)
#   AISH_FIX_KEY          key that corrects the last command (default ^[f, Alt-f, none in vi mode; empty: none)
#   AISH_ENV              names of the variables recorded with each command
#   AISH_NO_ACCEPT_LINE   1: leave the words after `llm` to zsh

[[ -o interactive ]] || \builtin return 0
(( ! ${+_aish} )) || \builtin return 0

# An anonymous function, so that its options and names do not stay; quoted words,
# because the user may have aliases for them. The argument is this file's path as
# defined by the Zsh Plugin Standard.
() {
  \builtin emulate -L zsh -o no_aliases -o no_err_return -o no_err_exit -o no_xtrace
  # :A follows symbolic links: some plugin managers link only this file.
  \builtin local dir=${1:A:h}
  # +X loads the functions now, with these options: later zsh would parse them with the user's.
  \builtin autoload -Uz +X -- $dir/functions/* || \builtin return
  _aish_load $dir
} "${ZERO:-${${0:#${ZSH_ARGZERO-}}:-${(%):-%N}}}"
