# To readline '=' ends a word; to this program it does not.
_lumicontainer() {
  local -a typed=("${COMP_WORDS[@]}") words=()
  local -i index current=0
  for ((index = 0; index < ${#typed[@]}; index++)); do
    if ((index > 1)) && [[ ${typed[index]} == = || ${typed[index - 1]} == = ]]; then
      words[-1]+=${typed[index]}
    else
      words+=("${typed[index]}")
    fi
    ((index == COMP_CWORD)) && current=$((${#words[@]} - 1))
  done
  local -a COMP_WORDS=("${words[@]}")
  local -i COMP_CWORD=current
  _shtab_lumicontainer "$@"
  [[ ${COMPREPLY[0]-} == *[=/] ]] && compopt -o nospace 2>/dev/null
  if [[ ${words[current]} == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#*=}")
  fi
  return 0
}

complete -o bashdefault -F _lumicontainer lumicontainer
