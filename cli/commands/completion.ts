/**
 * `cni completion`: prints a script that completes the tool's commands in a
 * shell.
 *
 * @module
 */

import { ifPossible } from "../../cni/files/io.ts";
import type { Output, Program } from "../../tool/command.ts";
import type { CniCall } from "../flags.ts";
import { formatBash } from "../completion/bash.ts";
import { formatFish } from "../completion/fish.ts";
import { formatZsh } from "../completion/zsh.ts";
import { listNamed } from "../netns/named.ts";
import { listNetworkNames, readFolders } from "../network.ts";

const FORMATS: Readonly<Record<string, (program: Program) => string>> = {
  bash: formatBash,
  zsh: formatZsh,
  fish: formatFish,
};

/** Prints a shell's script. */
export function completion(
  { program, args: [shell = ""] }: CniCall,
): Output {
  const text = FORMATS[shell]?.(program).trimEnd() ?? "";
  return { json: { shell, script: text }, text };
}

/** Prints the words that the scripts ask for. */
const WORDS: Readonly<Record<string, (call: CniCall) => string[]>> = {
  network: (call) => listNetworkNames(readFolders(call).confDir),
  netns: () => listNamed().map(({ name }) => name),
};

/** Names without characters that are special to a shell. */
const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_.@%+,-]*$/u;

/** Prints names, one per line. Ignores errors, which would clutter the prompt. */
export function complete(call: CniCall): Output {
  const [kind = ""] = call.args;
  const known = ifPossible(() => WORDS[kind]?.(call)) ?? [];
  const words = known.filter((word) => PLAIN.test(word));
  return { json: words, text: words.join("\n") };
}
