#compdef qq
# zsh completion for qq: source <(qq completion zsh), or as _qq in a folder of fpath
_qq() {
  local -a lines described servers
  local line kind
  lines=("${(@f)$(command qq __complete -- "${(@)words[2,CURRENT]}" </dev/null 2>/dev/null)}")
  kind=$lines[1]
  for line in "${(@)lines[2,-1]}"; do
    if [[ ${line%%$'\t'*} == *: ]]; then # after the name of a server, that of a model follows
      servers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
      continue
    fi
    described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  (( $#servers )) && _describe -V -t servers 'qq' servers -S ''
  (( $#described )) && _describe -V -t values 'qq' described # in this order
  case $kind in
    files) [[ $PREFIX == --*=* ]] && compset -P '*='; _files ;;
    folders) [[ $PREFIX == --*=* ]] && compset -P '*='; _files -/ ;;
  esac
}
if [[ $funcstack[1] == _qq ]]; then
  _qq "$@"
else
  compdef _qq qq
fi
