/**
 * The commands about the tool itself.
 *
 * @module
 */

import { type CommandRow, SHELLS } from "../command.ts";
import { FOLDERS } from "./arguments.ts";

/** The commands about the tool itself. */
export const OWN_COMMANDS: readonly CommandRow[] = [
  {
    name: "completion",
    summary: "Prints a shell script that completes commands, flags and names",
    args: [{
      name: "SHELL",
      summary: SHELLS.join(", "),
      completes: SHELLS,
    }],
    examples: [
      { line: "source <(cni completion bash)", what: "in ~/.bashrc" },
      {
        line: 'cni completion zsh > "${fpath[1]}/_cni"',
        what: "once, with compinit in ~/.zshrc",
      },
      {
        line: "cni completion fish > ~/.config/fish/completions/cni.fish",
        what: "once",
      },
    ],
    load: async () => (await import("../commands/completion.ts")).completion,
  },
  {
    name: "help",
    summary: "Shows help for a command",
    args: [{
      name: "COMMAND",
      summary: "the command; all commands if omitted",
      isOptional: true,
      isRepeated: true,
    }],
    examples: [{
      line: "cni help netns exec",
      what: "show help for netns exec",
    }],
    load: async () => (await import("../commands/help.ts")).help,
  },
  {
    name: "version",
    summary: "Prints the version",
    load: async () => (await import("../commands/help.ts")).version,
  },
  {
    name: "__complete",
    summary: "Prints words for completion",
    args: [{ name: "KIND", summary: "network or netns" }],
    flags: FOLDERS,
    isHidden: true,
    load: async () => (await import("../commands/completion.ts")).complete,
  },
];
