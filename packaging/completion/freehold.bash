# bash completion for freehold: commands, flags, words of options, processes, programs
_freehold() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
  local flags="@FLAGS@" words="@WORDS@" entry i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "run options top stats why map profile set trim inspect trace version help" -- "$current"))
    return
  fi
  case $verb in
    run)
      for entry in $words; do
        [ "$previous" != "${entry%%:*}" ] || { COMPREPLY=($(compgen -W "$(tr '|' ' ' <<<"${entry#*:}")" -- "$current")); return; }
      done
      for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
          --secure | --bounds | --debug) ;;
          --) i=$((i + 1)); break ;;
          --*) i=$((i + 1)) ;;
          *) break ;;
        esac
      done
      if [ "$i" -lt "$COMP_CWORD" ]; then COMPREPLY=($(compgen -f -- "$current")) # an argument of the program
      elif [ "$i" -gt "$COMP_CWORD" ]; then COMPREPLY=() # the value of an option
      elif [[ $current == -* ]]; then COMPREPLY=($(compgen -W "--secure --bounds --debug --help -- $flags" -- "$current"))
      else COMPREPLY=($(compgen -c -- "$current"))
      fi
      return ;;
    options) COMPREPLY=($(compgen -W "--json" -- "$current")); return ;;
    top) flags="--interval --frames --batch --help" ;;
    stats) flags="--json --prometheus --help" ;;
    why) flags="--rows --help" ;;
    map) flags="--page --help" ;;
    profile) flags="--kind --out --start --stop --interval --wait --help" ;;
    set | trim) flags="--wait --help" ;;
    inspect) flags="--rows --help" ;;
    trace) flags="--start --stop --sum --json --thread --address --size --from --to --help" ;;
    *) return ;;
  esac
  case $previous in
    --kind) COMPREPLY=($(compgen -W "heap blocks lifetimes" -- "$current")) ;;
    --page | --out) COMPREPLY=($(compgen -f -- "$current")) ;;
    --interval | --wait | --frames | --rows | --thread | --address | --size | --from | --to) ;;
    *)
      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))
      elif [ "$verb" = trace ] || [ "$verb" = inspect ]; then COMPREPLY=($(compgen -f -- "$current"))
      else COMPREPLY=($(compgen -f -W "$(_freehold_processes)" -- "$current"))
      fi ;;
  esac
}

# Numbers and names of the processes that have the library mapped, as far as this user may see.
_freehold_processes() {
  local maps
  for maps in $(grep -ls libfreehold /proc/[0-9]*/maps); do
    echo "${maps//[!0-9]/} $(cat "${maps%maps}comm" 2>/dev/null)"
  done
}
complete -F _freehold freehold
