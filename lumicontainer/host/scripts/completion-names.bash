# $1=kind, $2=unfinished word
_lumicontainer_list() {
  local program=${COMP_WORDS[0]/#\~/$HOME}
  compgen -W "$("$program" completion names "$1" "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$2" 2>/dev/null)" -- "$2"
}

_lumicontainer_platform() { _lumicontainer_list platform "$1"; }
_lumicontainer_profile() { _lumicontainer_list profile "$1"; }
_lumicontainer_parameter() { _lumicontainer_list parameter "$1"; }
_lumicontainer_verb() { _lumicontainer_list verb "$1"; }
_lumicontainer_any() { _lumicontainer_list any "$1" || _lumicontainer_recipes_files "$1"; }
_lumicontainer_recipe() { _lumicontainer_list recipe "$1" || _lumicontainer_recipes_files "$1"; }

_lumicontainer_recipes_files() {
  compgen -f -X '!*.yaml' -- "$1"
  compgen -d -S / -- "$1"
}
