/**
 * `cni completion`: prints a script with which a shell asks the tool for the
 * words that may follow.
 *
 * @module
 */

import { ifPossible } from "../../cni/files/io.ts";
import {
  type CommandRow,
  type Completes,
  flagsOf,
  type FlagTable,
  type Output,
  type Program,
  STANDARD_FLAGS,
} from "../../tool/command.ts";
import { findFlag } from "../../tool/parse.ts";
import { listNodeAttachments } from "../attachments/node_attachments.ts";
import type { CniCall } from "../flags.ts";
import { listNamed } from "../netns/named.ts";
import { listNetworkNames, readFolders } from "../network.ts";

/** Scripts for the shells. Each shell selects the words that match. */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# Completion of cni in bash: source <(cni completion bash)

_cni() {
    local cur=\${COMP_WORDS[COMP_CWORD]} line
    [[ $cur == '=' ]] && cur=
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
# Completion of cni in zsh: put it into a file _cni in a folder of fpath

_cni() {
    local line
    local -a entries
    for line in "\${(@f)$("$words[1]" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            '') ;;
            :file) compset -P '--*='; _files ;;
            :directory) compset -P '--*='; _files -/ ;;
            :command) _command_names -e ;;
            *) entries+=("\${line/$'\\t'/:}") ;;
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

/** Prints a shell's script. */
export function completion({ args: [shell = ""] }: CniCall): Output {
  const text = SCRIPTS[shell]?.trimEnd() ?? "";
  return { json: { shell, script: text }, text };
}

/** Words with descriptions, or a kind of words that the shell itself knows. */
interface Completion {
  readonly words?: Readonly<Record<string, string>>;
  readonly kind?: "file" | "directory" | "command";
}

/**
 * Prints the words that may come next, one per line, with a tab and their
 * description, or the kind of words: `:file`, `:directory` or `:command`.
 *
 * The arguments are the words of the command line, up to the one at the cursor.
 */
export function complete(call: CniCall): Output {
  const { words = {}, kind } = findCompletion(call);
  const lines = Object.entries(words).map((entry) =>
    entry.filter(Boolean).join("\t")
  );
  const text = kind === undefined ? lines.join("\n") : `:${kind}`;
  return { json: kind ?? Object.keys(words), text };
}

function findCompletion(call: CniCall): Completion {
  const { program } = call;
  const typed = call.args.slice(0, -1);
  const cursor = call.args.at(-1) ?? "";
  const rows = program.rows.filter(({ isHidden }) => !isHidden);
  const table: FlagTable = Object.assign({}, ...rows.map(flagsOf));
  const { words, flags, open } = readWords(typed, table);
  const names = { ...call, flags };
  const { name, flag, given } = findFlag(cursor, table);
  // bash breaks words at "=".
  const row = findRow(rows, words);
  if (open !== undefined) {
    const { completes } = (row ? flagsOf(row)[open] : table[open]) ?? {};
    return offer(completes, names, cursor.replace(/^=/, ""));
  }
  if (flag !== undefined && given !== undefined && name !== "") {
    return offer(flag.completes, names, given);
  }
  if (cursor.startsWith("-")) {
    return { words: listFlagWords(row ? flagsOf(row) : STANDARD_FLAGS) };
  }
  if (row === undefined) return { words: listCommandWords(program, words) };
  const { args = [] } = row;
  const at = words.length - row.name.split(" ").length;
  const last = args.at(-1)?.isRepeated ? args.at(-1) : undefined;
  const arg = args[at] ?? last;
  return arg?.isHidden ? {} : offer(arg?.completes, names, cursor);
}

/** The words before the cursor. */
interface Words {
  readonly words: readonly string[];
  readonly flags: Readonly<Record<string, string>>;
  /** The flag whose value is at the cursor. */
  readonly open: string | undefined;
}

function readWords(typed: readonly string[], table: FlagTable): Words {
  const words: string[] = [], flags: Record<string, string> = {};
  let open: string | undefined;
  for (const word of typed) {
    if (open !== undefined && word === "=") continue;
    const { name, flag, given } = findFlag(word, table);
    if (open !== undefined) {
      flags[open] = word;
      open = undefined;
    } else if (flag?.value !== undefined && given === undefined) {
      open = name;
    } else if (given !== undefined) {
      flags[name] = given;
    } else if (!word.startsWith("-")) {
      words.push(word);
    }
  }
  return { words, flags, open };
}

function findRow(
  rows: readonly CommandRow[],
  words: readonly string[],
): CommandRow | undefined {
  return rows.find(({ name }) =>
    name.split(" ").every((word, at) => word === words[at])
  );
}

/** Lists the commands, or those that begin with a word. */
function listCommandWords(
  { rows }: Program,
  words: readonly string[],
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { name, summary, isHidden } of rows) {
    const [first = "", second] = name.split(" ");
    if (isHidden || words.length > 1 || (words[0] ?? first) !== first) continue;
    if (words.length === 1) found[second ?? ""] = summary;
    else if (second === undefined) found[first] = summary;
    else found[first] = found[first] ? `${found[first]}, ${second}` : second;
  }
  return found;
}

function listFlagWords(flags: FlagTable): Record<string, string> {
  return Object.fromEntries(
    Object.entries(flags).flatMap(([name, { short, summary }]) => [
      [`--${name}`, summary],
      ...short ? [[`-${short[0]}`, summary]] : [],
    ]),
  );
}

/** Names without characters that are special to a shell. */
const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_.@%+,-]*$/u;

/** Offers values. Ignores errors, which would clutter the prompt. */
function offer(
  completes: Completes | undefined,
  call: CniCall,
  typed: string,
): Completion {
  switch (completes) {
    case undefined:
      return {};
    case "file":
    case "directory":
    case "command":
      return { kind: completes };
    case "network": {
      if (typed.includes("/")) return { kind: "file" };
      const { confDir } = readFolders(call);
      return offerPlain(ifPossible(() => listNetworkNames(confDir)) ?? []);
    }
    case "netns": {
      const pods = ifPossible(() => listPods(call)) ?? [];
      const isPath = typed.includes("/") &&
        !pods.some((pod) => pod.startsWith(typed));
      if (isPath) return { kind: "file" };
      const named = ifPossible(listNamed) ?? [];
      return offerPlain([...named.map(({ name }) => name), ...pods]);
    }
    default:
      return { words: describe(completes) };
  }
}

function offerPlain(names: readonly string[]): Completion {
  const isPlain = (name: string): boolean =>
    name.split("/").every((part) => PLAIN.test(part));
  return { words: describe(names.filter(isPlain)) };
}

function listPods(call: CniCall): string[] {
  const pods = listNodeAttachments(readFolders(call)).map(({ pod }) => pod);
  return [...new Set(pods)].filter((pod) => pod !== undefined);
}

function describe(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(words.map((word) => [word, ""]));
}
