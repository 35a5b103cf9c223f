/**
 * The commands for named namespaces.
 *
 * @module
 */

import type { Argument, CommandRow } from "../command.ts";
import { NETNS } from "./arguments.ts";

const NAME: Argument = {
  name: "NAME",
  summary: "name of a network namespace",
  completes: "netns",
};

/** The commands of `ip netns`, for nodes without it. */
export const NETNS_COMMANDS: readonly CommandRow[] = [
  {
    name: "netns add",
    summary: "Makes a network namespace with a name",
    about: [
      "ip netns sees it too. Its loopback link is down, as it is with ip " +
      "netns add.",
    ],
    args: [{ name: "NAME", summary: "name of the namespace" }],
    examples: [{ line: "cni netns add blue", what: "make one" }],
    load: async () => (await import("../commands/netns.ts")).addNetns,
  },
  {
    name: "netns del",
    summary: "Takes a network namespace's name away",
    about: [
      "The namespace ends with the last process in it. One that is attached " +
      "to networks is refused without --force.",
    ],
    args: [NAME],
    flags: ["force", "cache-dir"],
    examples: [{ line: "cni netns del blue", what: "delete one" }],
    load: async () => (await import("../commands/netns.ts")).delNetns,
  },
  {
    name: "netns list",
    summary: "Shows the network namespaces with names",
    flags: ["cache-dir"],
    examples: [
      {
        line: "cni netns list --json | jq -r '.[].name'",
        what: "list the names alone",
      },
    ],
    load: async () => (await import("../commands/netns.ts")).listNetns,
  },
  {
    name: "netns exec",
    summary: "Runs a program in a network namespace",
    about: [
      "The program takes the tool's place, with its terminal, signals and exit " +
      "code. It sees the namespace's links in /sys, and files of " +
      "/etc/netns/NAME in place of those in /etc.",
    ],
    args: [NETNS, {
      name: "COMMAND",
      summary: "the program and its arguments",
      completes: "command",
      isRepeated: true,
    }],
    isWrapper: true,
    examples: [
      { line: "cni netns exec blue -- ip address", what: "look at its links" },
    ],
    load: async () => (await import("../commands/netns.ts")).execNetns,
  },
];
