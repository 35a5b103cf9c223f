/**
 * The commands about the tool itself.
 *
 * @module
 */

import type { CommandRow } from "../../tool/command.ts";
import { OWN_ROWS } from "../../tool/own_rows.ts";

/** The commands about the tool itself. */
export const OWN_COMMANDS: readonly CommandRow[] = [
  {
    name: "completion",
    summary: "Prints a shell script that completes commands, flags and names",
    args: [{
      name: "SHELL",
      summary: "bash, zsh or fish",
      completes: ["bash", "zsh", "fish"],
    }],
    examples: {
      "source <(cni completion bash)": "in ~/.bashrc",
      'cni completion zsh > "${fpath[1]}/_cni"':
        "once, with compinit in ~/.zshrc",
      "cni completion fish > ~/.config/fish/completions/cni.fish": "once",
    },
    load: async () => (await import("../commands/completion.ts")).completion,
  },
  ...OWN_ROWS,
  {
    name: "__complete",
    summary: "Prints words for completion",
    args: [{
      name: "WORD",
      summary: "words of a command line",
      isOptional: true,
      isRepeated: true,
    }],
    isHidden: true,
    load: async () => (await import("../commands/completion.ts")).complete,
  },
];
