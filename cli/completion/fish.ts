/**
 * Completion in fish.
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

/** Formats the script. */
export function formatFish(program: Program): string {
  const { name } = program;
  const commands = listCommandWords(program);
  const first = listFirstWords(commands);
  const groups = first.map(({ word }) => word)
    .filter((word) => listSecondWords(commands, word).length > 0);
  const valued = commands.flatMap(({ flags }) => flags)
    .filter(({ hasValue }) => hasValue)
    .flatMap(({ long, short }) => short === "" ? [long] : [long, short]);
  const complete = `complete -c ${name}`;
  return `# Completion of ${name} in fish: put it into ~/.config/fish/completions/${name}.fish

# Prints the words before the cursor that are neither flags nor their values.
function __${name}_words
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $word
            case ${[...new Set(valued)].join(" ")}
                set skip 1
            case '-*'
            case '*'
                echo $word
        end
    end
end

# Reports whether the words begin with those of a command.
function __${name}_in
    set -l words (__${name}_words)
    string match -q -- "$argv *" "$words "
end

# Reports whether that many words follow those of a command.
function __${name}_at
    set -l words (__${name}_words)
    test (count $words) -eq (math $argv[1] + (count $argv) - 1)
    and __${name}_in $argv[2..]
end

# Prints names, and files where a path is being written.
function __${name}_names
    ${name} __complete $argv 2>/dev/null
    set -l token (commandline -ct)
    if string match -q '*/*' -- $token
        __fish_complete_path $token
    end
end

${complete} -f
${formatWords(complete, `test (count (__${name}_words)) -eq 0`, first)}
${
    groups.map((group) =>
      formatWords(
        complete,
        `__${name}_at 0 ${group}`,
        listSecondWords(commands, group),
      )
    ).join("\n")
  }
${commands.map((command) => formatCommand(name, command)).join("\n")}
`;
}

function formatWords(
  complete: string,
  condition: string,
  words: readonly { readonly word: string; readonly summary: string }[],
): string {
  return words.map(({ word, summary }) =>
    `${complete} -n ${quote(condition)} -a ${word} -d ${quote(summary)}`
  ).join("\n");
}

function formatCommand(
  program: string,
  { name, flags, args, repeats }: CommandWords,
): string {
  const complete = `complete -c ${program}`;
  const lines = flags.map((flag) =>
    `${complete} -n '__${program}_in ${name}' ${formatFlag(flag)}`
  );
  args.forEach((completes, at) => {
    const words = formatValues(program, completes);
    if (words === "") return;
    const isRest = repeats && at === args.length - 1;
    const condition = isRest
      ? `__${program}_in ${name}`
      : `__${program}_at ${at} ${name}`;
    lines.push(`${complete} -n '${condition}' ${words}`);
  });
  return lines.join("\n");
}

function formatFlag(
  { long, short, summary, hasValue, completes }: FlagWords,
): string {
  const letter = short === "" ? "" : ` -s ${short.slice(1)}`;
  const value = hasValue ? ` ${formatFlagValue(completes)}` : "";
  return `-l ${long.slice(2)}${letter}${value} -d ${quote(summary)}`;
}

function formatFlagValue(completes: Completes | undefined): string {
  if (completes === "directory") return "-x -a '(__fish_complete_directories)'";
  if (completes === "file") return "-r -F";
  return Array.isArray(completes) ? `-x -a '${completes.join(" ")}'` : "-x";
}

function formatValues(
  program: string,
  completes: Completes | undefined,
): string {
  switch (completes) {
    case undefined:
      return "";
    case "network":
    case "netns":
      return `-a '(__${program}_names ${completes})'`;
    case "command":
      return "-a '(__fish_complete_subcommand)'";
    case "file":
      return "-F";
    case "directory":
      return "-a '(__fish_complete_directories)'";
    default:
      return `-a '${completes.join(" ")}'`;
  }
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
