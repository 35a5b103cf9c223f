/**
 * Completion in zsh.
 *
 * @module
 */

import type { Completes, Program } from "../../tool/command.ts";
import {
  type CommandWords,
  type FlagWords,
  listCommandWords,
  listFirstWords,
  listSecondWords,
} from "./words.ts";

/** Formats the function that zsh's completion system loads. */
export function formatZsh(program: Program): string {
  const { name } = program;
  const commands = listCommandWords(program);
  const first = listFirstWords(commands);
  const cases = first.map(({ word }) => formatFirst(name, commands, word));
  return `#compdef ${name}
# Completion of ${name} in zsh: put it into a file _${name} in a folder of fpath

# The last argument is the kind; _arguments puts options for compadd before it.
_${name}_names() {
    local -a names
    names=(\${(f)"$(${name} __complete $argv[-1] 2>/dev/null)"})
    (( $#names )) && compadd "\${(@)argv[1,-2]}" -a names
    [[ $PREFIX == */* ]] && _files
}

_${name}() {
    local curcontext=$curcontext state line
    local -a commands
    _arguments -C '--help[shows help]' '1: :->command' '*:: :->rest'
    case $state in
        command)
            commands=(${formatPairs(first)})
            _describe command commands
            ;;
        rest)
            case $words[1] in
${cases.join("\n")}
            esac
            ;;
    esac
}

if [[ $funcstack[1] == _${name} ]]; then
    _${name} "$@"
else
    compdef _${name} ${name}
fi
`;
}

/** Formats the words after a first word: a command's arguments, or second words. */
function formatFirst(
  program: string,
  commands: readonly CommandWords[],
  word: string,
): string {
  const indent = " ".repeat(16);
  const single = commands.find(({ name }) => name === word);
  if (single !== undefined) {
    return `${indent}${word}) ${formatArguments(program, single)} ;;`;
  }
  const second = listSecondWords(commands, word);
  const cases = second.map((row) => {
    const command = commands.find(({ name }) => name === `${word} ${row.word}`);
    const text = command === undefined ? "" : formatArguments(program, command);
    return `${indent}            ${row.word}) ${text} ;;`;
  });
  return `${indent}${word})
                    _arguments -C '1: :->command' '*:: :->rest'
                    if [[ $state == command ]]; then
                        commands=(${formatPairs(second)})
                        _describe command commands
                    else
                        case $words[1] in
${cases.join("\n")}
                        esac
                    fi
                    ;;`;
}

function formatPairs(
  pairs: readonly { readonly word: string; readonly summary: string }[],
): string {
  return pairs.map(({ word, summary }) => quote(`${word}:${summary}`))
    .join(" ");
}

function formatArguments(
  program: string,
  { flags, args, repeats }: CommandWords,
): string {
  const positions = args.map((completes, at) => {
    const isRest = repeats && at === args.length - 1;
    const position = isRest ? "*" : `${at + 1}`;
    return quote(`${position}: :${formatAction(program, completes)}`);
  });
  const options = flags.flatMap((flag) => formatFlag(program, flag));
  return ["_arguments", ...options, ...positions].join(" ");
}

function formatFlag(program: string, flag: FlagWords): string[] {
  const { long, short, summary, hasValue, completes } = flag;
  const value = hasValue ? `: :${formatAction(program, completes)}` : "";
  const text = `[${summary.replace(/[\[\]]/g, "\\$&")}]${value}`;
  return [long, short].filter((word) => word !== "")
    .map((word) => quote(word + text));
}

function formatAction(
  program: string,
  completes: Completes | undefined,
): string {
  switch (completes) {
    case undefined:
      return "";
    case "network":
    case "netns":
      return `_${program}_names ${completes}`;
    case "command":
      return "_normal";
    case "file":
      return "_files";
    case "directory":
      return "_files -/";
    default:
      return `(${completes.join(" ")})`;
  }
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
