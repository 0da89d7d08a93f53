#!/bin/zsh -f
# Cost of the plugin at the prompt, measured in a real terminal: zsh -f benches/hooks.zsh [ROUNDS]
#
# Two interactive shells, one without and one with the plugin, run the same
# command in turn. The time from Return to the next prompt is measured by the
# shell itself, from the first preexec hook to the last precmd hook, with the
# plugin's hooks in between. Prints the medians of all rounds and their
# difference.
emulate -R zsh
setopt extended_glob
zmodload zsh/datetime zsh/system zsh/zpty || exit
typeset -i rounds=${1:-400}
typeset root=${0:A:h:h} home=$(mktemp -d) || exit
typeset -gx AISH_HOME=$home AISH_HELPER=/bin/true ZDOTDIR=$home TERM=dumb
mkdir $home/run && mkfifo $home/run/events || exit

# A reader of the FIFO in place of the daemon.
cat <>$home/run/events >/dev/null &
typeset reader=$!

# The order in the file matters: these hooks run before and after all others.
cat >$home/.zshrc <<'RC'
zmodload zsh/datetime
PS1= RPS1= PROMPT_EOL_MARK=
unsetopt zle prompt_cr prompt_sp
first_preexec() { t0=$EPOCHREALTIME }
last_preexec() { t1=$EPOCHREALTIME }
first_precmd() { t2=$EPOCHREALTIME }
last_precmd() { t3=$EPOCHREALTIME; (( ${+t0} )) && print -r -- "took $(( (t1 - t0 + t3 - t2) * 1e6 ))"; unset t0 }
preexec_functions=( first_preexec )
[[ -z $PLUGIN ]] || { s=$EPOCHREALTIME; source $PLUGIN; print -r -- "sourced $(( (EPOCHREALTIME - s) * 1e3 ))" }
preexec_functions+=( last_preexec )
precmd_functions=( first_precmd $precmd_functions last_precmd )
RC

median() {
  local -a sorted=( ${(n)@} )
  local -i middle=$(( $#sorted / 2 + 1 ))
  print -r -- $sorted[middle]
}

# take SHELL: types one command; sets REPLY to the time that the shell reports.
take() {
  local out
  zpty -w $1 true
  while zpty -r $1 out; do
    [[ $out == (#b)took\ ([0-9.]##)* ]] && { REPLY=$match[1]; return 0 }
  done
  return 1
}

{
  typeset -a bare ours sourced
  typeset out REPLY
  for round in {1..5}; do
    zpty plugin "PLUGIN=$root/zsh/aish.plugin.zsh exec zsh -d -i"
    while zpty -r plugin out; do
      [[ $out == (#b)*sourced\ ([0-9.]##)* ]] && { sourced+=( $match[1] ); break }
    done
    (( round == 5 )) || zpty -d plugin
  done
  zpty bare 'PLUGIN= exec zsh -d -i'
  take bare && take plugin && take plugin || exit
  repeat rounds; do
    take bare && bare+=( $REPLY )
    take plugin && ours+=( $REPLY )
  done
  printf 'both hooks, empty:   %6.1f us\n' $(median $bare)
  printf 'both hooks, aish:    %6.1f us   (+%.1f us; the bar is 200)\n' $(median $ours) $(( $(median $ours) - $(median $bare) ))
  printf 'sourcing the plugin: %6.2f ms   (the bar is 5)\n' $(median $sourced)
} always {
  zpty -d
  kill $reader
  rm -rf -- $home
}
