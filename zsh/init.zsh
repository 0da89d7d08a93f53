# Sourced by the line that install.sh adds to .zshrc: puts aish-helper on the PATH and loads the plugin.
() {
  [[ :$PATH: == *:$1/bin:* ]] || path+=( $1/bin )
  source $1/share/aish/zsh/aish.plugin.zsh
} ${${(%):-%x}:a:h:h:h:h}
