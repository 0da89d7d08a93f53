# Read in place of ~/.zshenv by a zsh that `aish` starts, which sets ZDOTDIR to this directory. Gives ZDOTDIR its own value
# back before anything else is read, so that zsh reads the other start-up files itself and `$ZDOTDIR`, HISTFILE and the dump
# file of compinit are as without aish. _aish_launch loads the plugin when all of them have been read.
#
#   AISH_ZDOTDIR   the value of ZDOTDIR, if it had one
if [[ -n "${AISH_ZDOTDIR+set}" ]]; then
  \builtin export ZDOTDIR="$AISH_ZDOTDIR"
else
  \builtin unset ZDOTDIR
fi
\builtin unset AISH_ZDOTDIR
{
  [[ ! -r "${ZDOTDIR-$HOME}/.zshenv" ]] || \builtin source "${ZDOTDIR-$HOME}/.zshenv"
} always {
  # After an error in that file too: zsh continues with the next file.
  [[ ! -o interactive ]] || { \builtin autoload -Uz +X -- "${${(%):-%x}:a:h}/_aish_launch" && _aish_launch start }
}
