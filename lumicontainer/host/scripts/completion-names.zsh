_lumicontainer_list() {
  local -a names
  names=(${(f)"$(lumicontainer completion names $1 "${(@)words[1,CURRENT-1]}" "$PREFIX" 2>/dev/null)"})
  compadd "${@[2,-1]}" -- $names
}

_lumicontainer_platform() { _lumicontainer_list platform }
_lumicontainer_profile() { _lumicontainer_list profile }
_lumicontainer_parameter() { _lumicontainer_list parameter -S '' }
_lumicontainer_verb() { _lumicontainer_list verb }
_lumicontainer_any() { _lumicontainer_list any || _files -g '*.yaml' }
_lumicontainer_recipe() { _lumicontainer_list recipe || _files -g '*.yaml' }
