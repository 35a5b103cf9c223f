/**
 * The commands for named namespaces.
 *
 * @module
 */

import type { Argument, CommandRow } from "../../tool/command.ts";
import { pick } from "../flags.ts";
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
    summary: "Creates a named network namespace",
    about: [
      "The namespace is visible to ip netns. As with ip netns add, its loopback " +
      "link is down.",
    ],
    args: [{ name: "NAME", summary: "name of the namespace" }],
    examples: {
      "cni netns add blue": "create the namespace blue",
    },
    load: async () => (await import("../commands/netns.ts")).addNetns,
  },
  {
    name: "netns del",
    summary: "Deletes a named network namespace",
    about: [
      "Deletes the name; the namespace ends with the last process in it. " +
      "Without --force, fails if the namespace is attached to networks.",
    ],
    args: [NAME],
    flags: pick("force", "cache-dir"),
    examples: {
      "cni netns del blue": "delete the namespace blue",
    },
    load: async () => (await import("../commands/netns.ts")).delNetns,
  },
  {
    name: "netns list",
    summary: "Shows the named network namespaces",
    flags: pick("cache-dir"),
    examples: {
      "cni netns list --json | jq -r '.[].name'": "list only the names",
    },
    load: async () => (await import("../commands/netns.ts")).listNetns,
  },
  {
    name: "netns exec",
    summary: "Runs a program in a network namespace",
    about: [
      "The program replaces the tool's process, so it has the terminal and " +
      "receives signals, and its exit code is returned. It sees the " +
      "namespace's links in /sys, and the files of /etc/netns/NAME in /etc.",
    ],
    args: [NETNS, {
      name: "COMMAND",
      summary: "the program and its arguments",
      completes: "command",
      isRepeated: true,
    }],
    isWrapper: true,
    examples: {
      "cni netns exec blue -- ip address": "show its links",
    },
    load: async () => (await import("../commands/netns.ts")).execNetns,
  },
];
