/**
 * `cni completion`: prints a script that completes the tool's commands in a
 * shell.
 *
 * @module
 */

import { ifPossible } from "../../cni/files/io.ts";
import { type CommandCall, type Output, SHELLS } from "../command.ts";
import { formatBash } from "../completion/bash.ts";
import { formatFish } from "../completion/fish.ts";
import { formatZsh } from "../completion/zsh.ts";
import { listNamed } from "../netns/named.ts";
import { listNetworkNames, readFolders } from "../network.ts";
import { UsageError } from "../usage_error.ts";

const FORMATS = { bash: formatBash, zsh: formatZsh, fish: formatFish };

/** Prints a shell's script. */
export function completion(
  { program, args: [shell = ""] }: CommandCall,
): Output {
  const known = SHELLS.find((name) => name === shell);
  if (known === undefined) {
    throw new UsageError(
      `Cannot complete in "${shell}": it must be ${SHELLS.join(" or ")}`,
    );
  }
  const text = FORMATS[known](program).trimEnd();
  return { json: { shell, script: text }, text };
}

/** Prints the words that the scripts ask for. */
const WORDS: Readonly<Record<string, (call: CommandCall) => string[]>> = {
  network: (call) => listNetworkNames(readFolders(call).confDir),
  netns: () => listNamed().map(({ name }) => name),
};

/** Names without characters that are special to a shell. */
const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_.@%+,-]*$/u;

/** Prints names, one per line. Ignores errors, which would clutter the prompt. */
export function complete(call: CommandCall): Output {
  const [kind = ""] = call.args;
  const known = ifPossible(() => WORDS[kind]?.(call)) ?? [];
  const words = known.filter((word) => PLAIN.test(word));
  return { json: words, text: words.join("\n") };
}
