# bash completion for qq: source <(qq completion bash)
_qq() {
  local cur=${COMP_WORDS[COMP_CWORD]} words=() word meaning kind= joined= whole strip i
  # bash splits words at = and :, qq does not.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ ${#words[@]} -gt 0 && ( $joined || $word == [=:]* ) ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    joined=
    [[ $word == [=:] ]] && joined=1
  done
  whole=${words[${#words[@]}-1]}
  [[ $cur == [=:] ]] && cur=
  strip=${whole%"$cur"}
  COMPREPLY=()
  compopt -o nosort 2>/dev/null # the newest first
  while IFS=$'\t' read -r word meaning; do
    if [[ -z $kind ]]; then
      kind=$word
    elif [[ $word == "$whole"* ]]; then
      COMPREPLY+=("${word#"$strip"}")
    fi
  done < <(command qq __complete -- "${words[@]}" </dev/null 2>/dev/null)
  # After the name of a server, that of a model follows.
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
  case $kind in
    files) i=-f ;;
    folders) i=-d ;;
    *) return ;;
  esac
  compopt -o filenames 2>/dev/null
  while IFS= read -r word; do
    COMPREPLY+=("$word")
  done < <(compgen "$i" -- "$cur")
}
complete -F _qq qq
