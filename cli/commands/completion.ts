/**
 * `cni completion`: prints what makes a shell complete the tool's commands.
 *
 * @module
 */

import { ifPossible } from "../../cni/io_failure.ts";
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
      `Cannot complete in "${shell}": known are ${SHELLS.join(", ")}`,
    );
  }
  const text = FORMATS[known](program).trimEnd();
  return { json: { shell, script: text }, text };
}

/** What the scripts ask for when a word is being completed. */
const WORDS: Readonly<Record<string, (call: CommandCall) => string[]>> = {
  network: (call) => listNetworkNames(readFolders(call).confDir),
  netns: () => listNamed().map(({ name }) => name),
};

/** A name that no shell reads as anything else. */
const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_.@%+,-]*$/u;

/** Prints names, one a line. Nobody wants to hear of errors at the prompt. */
export function complete(call: CommandCall): Output {
  const [kind = ""] = call.args;
  const known = ifPossible(() => WORDS[kind]?.(call)) ?? [];
  const words = known.filter((word) => PLAIN.test(word));
  return { json: words, text: words.join("\n") };
}
