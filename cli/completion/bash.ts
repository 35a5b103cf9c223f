/**
 * Completion in bash.
 *
 * @module
 */

import type { Completes, Program } from "../../tool/command.ts";
import {
  type CommandWords,
  listCommandWords,
  listFirstWords,
  listSecondWords,
} from "./words.ts";

/**
 * Formats the script for bash 4 and later.
 *
 * The shell function reads names line by line, because `compgen -W` would
 * execute code in them.
 */
export function formatBash(program: Program): string {
  const { name } = program;
  const commands = listCommandWords(program);
  const groups = [...new Set(listGroups(commands))];
  return `# Completion of ${name} in bash: source <(${name} completion bash)

_${name}_names() {
    local word
    while IFS= read -r word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done < <("\${COMP_WORDS[0]}" __complete "$1" 2>/dev/null)
}

_${name}() {
    local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
    local -a words=()
    local word command flags='--help --json --version' kind='' skip=0 i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=\${COMP_WORDS[i]}
        if ((skip)); then
            [[ $word == '=' ]] || skip=0
            continue
        fi
        case $word in
            ${listValueFlags(commands).join(" | ")}) skip=1 ;;
            -*) ;;
            *) words+=("$word") ;;
        esac
    done
    [[ $prev == '=' ]] && prev=\${COMP_WORDS[COMP_CWORD - 2]}
    case $prev in
        ${listValueFlags(commands, "directory").join(" | ")})
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -d -- "$cur")
            return
            ;;
${formatWordFlags(commands)}
        ${listValueFlags(commands, undefined, "file").join(" | ")}) return ;;
    esac
    command=\${words[0]-}
    words=("\${words[@]:1}")
    case $command in
        ${groups.join(" | ")})
            if ((\${#words[@]})); then
                command+=" \${words[0]}"
                words=("\${words[@]:1}")
            fi
            ;;
    esac
    case $command in
${formatCommands(commands, groups)}
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
        return
    fi
    case $kind in
        network | netns) _${name}_names "$kind" ;;
        file) ;;
        command) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$cur") ;;
    esac
}

complete -o default -F _${name} ${name}
`;
}

function listGroups(commands: readonly CommandWords[]): string[] {
  return commands.flatMap(({ name }) => {
    const [word = "", second] = name.split(" ");
    return second === undefined ? [] : [word];
  });
}

/**
 * Lists the flags that take a value.
 *
 * @param only Only flags with these kinds of values
 */
function listValueFlags(
  commands: readonly CommandWords[],
  ...only: readonly (Completes | undefined)[]
): string[] {
  const words = commands.flatMap(({ flags }) =>
    flags
      .filter(({ hasValue }) => hasValue)
      .filter(({ completes }) => only.length === 0 || only.includes(completes))
      .flatMap(({ long, short }) => short === "" ? [long] : [long, short])
  );
  return [...new Set(words)];
}

/** Formats the completion of flags with fixed values. */
function formatWordFlags(commands: readonly CommandWords[]): string {
  const flags = commands.flatMap(({ flags }) => flags);
  const cases = flags.flatMap(({ long, completes }) =>
    Array.isArray(completes)
      ? [`        ${long})
            mapfile -t COMPREPLY < <(compgen -W '${
        completes.join(" ")
      }' -- "$cur")
            return
            ;;`]
      : []
  );
  return [...new Set(cases)].join("\n");
}

function formatCommands(
  commands: readonly CommandWords[],
  groups: readonly string[],
): string {
  const first = listFirstWords(commands).map(({ word }) => word);
  const cases = [
    `'') kind='${first.join(" ")}' ;;`,
    ...groups.map((group) => {
      const second = listSecondWords(commands, group).map(({ word }) => word);
      return `${group}) kind='${second.join(" ")}' ;;`;
    }),
    ...commands.map(formatCommand),
  ];
  return cases.map((line) => `        ${line}`).join("\n");
}

function formatCommand(
  { name, flags, args, repeats }: CommandWords,
): string {
  const words = flags
    .flatMap(({ long, short }) => short === "" ? [long] : [long, short]);
  const kinds = args.map((completes) =>
    Array.isArray(completes) ? completes.join(" ") : completes ?? ""
  );
  const cases = kinds.map((kind, at) => {
    const isRest = repeats && at === kinds.length - 1;
    return `${isRest ? "*" : at}) kind='${kind}' ;;`;
  });
  const lines = [
    `'${name}')`,
    `    flags='${words.join(" ")}'`,
    ...cases.length === 0
      ? []
      : ["    case ${#words[@]} in", ...cases.map((line) => `        ${line}`)]
        .concat("    esac"),
    "    ;;",
  ];
  return lines.join("\n        ");
}
