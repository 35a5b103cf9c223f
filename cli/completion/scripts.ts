/**
 * The scripts of `cni completion`. The build packs them.
 *
 * @module
 */

/** Scripts for the shells. Each shell selects the words that match. */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# Completion of cni in bash: source <(cni completion bash)

_cni() {
    local cur=\${COMP_WORDS[COMP_CWORD]} line
    [[ $cur == [=:] ]] && cur=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :file) ;;
            :directory)
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                ;;
            :command) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
            "$cur"*) COMPREPLY+=("\${line%%$'\\t'*}") ;;
        esac
    done < <("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -o default -F _cni cni
`,
  zsh: `#compdef cni
# Completion of cni in zsh: put it into a file _cni in a directory of fpath

_cni() {
    local line
    local -a entries
    for line in "\${(@f)$("$words[1]" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            '') ;;
            :file) compset -P '--*='; _files ;;
            :directory) compset -P '--*='; _files -/ ;;
            :command) _command_names -e ;;
            *)
                line=\${line//:/\\\\:}
                entries+=("\${line/$'\\t'/:}")
                ;;
        esac
    done
    (( $#entries )) || return
    compset -P '--*='
    _describe value entries
}

if [[ $funcstack[1] == _cni ]]; then
    _cni "$@"
else
    compdef _cni cni
fi
`,
  fish:
    `# Completion of cni in fish: put it into ~/.config/fish/completions/cni.fish

function __cni_complete
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l flag (string match -r -- '^--[^=]+=' "$token"; or echo)
    set -l value (string replace -- "$flag" '' "$token")
    for line in ($words[1] __complete -- $words[2..] "$token" 2>/dev/null)
        switch $line
            case :file
                printf '%s\n' $flag(__fish_complete_path "$value")
            case :directory
                printf '%s\n' $flag(__fish_complete_directories "$value")
            case :command
                complete -C "$value"
            case '*'
                echo "$flag$line"
        end
    end
end

complete -c cni -f -a '(__cni_complete)'
`,
};

/** Loads the scripts by shell. The build packs what this returns. */
export function loadScripts(): Promise<Readonly<Record<string, string>>> {
  return Promise.resolve(SCRIPTS);
}
