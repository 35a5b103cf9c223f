/**
 * The commands that run the plugins of a network, and `convert`.
 *
 * @module
 */

import type { CommandRow, FlagName } from "../command.ts";
import { FOLDERS, NETNS, NETWORK } from "./arguments.ts";

/** Flags that identify an attachment. */
const ATTACHMENT: readonly FlagName[] = ["ifname", "container-id"];
/** The time limit that the kubelet gives a runtime. */
const TIMEOUT = "220s";

/** The commands that run a network's plugins. */
export const NETWORK_COMMANDS: readonly CommandRow[] = [
  {
    name: "add",
    summary: "Attaches a namespace to a network and prints the result",
    about: [
      "If a plugin fails or time is up, ADD is undone by DEL of all plugins. " +
      "--timeout limits ADD, --undo-timeout limits what undoes it: together " +
      "they limit the command. A namespace that is attached already by this " +
      "interface name is refused.",
      "CNI_ARGS (K=V;K=V) and CAP_ARGS (a JSON object, by capability) go to " +
      "the plugins.",
    ],
    args: [NETWORK, NETNS],
    flags: [...ATTACHMENT, "no-undo", "undo-timeout", "verbose", ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      { line: "cni add pods blue", what: "attach what ip netns calls blue" },
      {
        line: "cni add pods /proc/4711/ns/net -i net1 --json | jq .ips",
        what: "attach a process by a second interface, and see its addresses",
      },
      {
        line: "cni add ./new.conflist blue --timeout 10s",
        what: "try a configuration that is not installed",
      },
    ],
    load: async () => (await import("../commands/add.ts")).add,
  },
  {
    name: "check",
    summary: "Checks that an attachment is as it was made",
    about: [
      "Prints nothing if it is. Attachments that a runtime made are found too.",
    ],
    args: [NETWORK, NETNS],
    flags: [...ATTACHMENT, ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      { line: "cni check pods blue && echo fine", what: "ask in a script" },
    ],
    load: async () => (await import("../commands/check.ts")).check,
  },
  {
    name: "del",
    summary: "Detaches a namespace from a network",
    about: [
      "Uses the configuration and the arguments of the time when it was " +
      "attached, even if the network's configuration has been changed or " +
      "removed. Goes on after a plugin that fails. May be repeated, and the " +
      "namespace may be gone. If nothing is known to be attached, it says so " +
      "and runs the plugins all the same.",
    ],
    args: [NETWORK, NETNS],
    flags: [...ATTACHMENT, "strict", ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      { line: "cni del pods blue", what: "detach what ip netns calls blue" },
      {
        line: "cni del pods /proc/4711/ns/net --container-id 0a1b2c",
        what: "detach a container that only its ID can tell",
      },
    ],
    load: async () => (await import("../commands/del.ts")).del,
  },
  {
    name: "gc",
    summary: "Removes what is left of attachments that nobody has any more",
    about: [
      "The attachments of the namespaces that are named stay; all others to " +
      "the network are deleted, and its plugins remove what else they find. " +
      "No runtime may attach or detach a container meanwhile.",
    ],
    args: [NETWORK, {
      name: "NETNS[:IFNAME]",
      summary: "namespaces that stay attached, by all their interfaces or one",
      completes: "netns",
      isOptional: true,
      isRepeated: true,
    }],
    flags: ["all", "dry-run", ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      {
        line: "cni gc pods blue green:net1",
        what: "keep these, remove others",
      },
      {
        line: "cni gc pods blue --dry-run",
        what: "see what would be deleted",
      },
      { line: "cni gc pods --all", what: "remove every attachment to pods" },
    ],
    load: async () => (await import("../commands/gc.ts")).gc,
  },
  {
    name: "status",
    summary: "Asks whether a network could take another container",
    about: ["Prints nothing if it could."],
    args: [NETWORK, { ...NETNS, isOptional: true }],
    flags: FOLDERS,
    timeout: TIMEOUT,
    examples: [{ line: "cni status pods", what: "ask all plugins of pods" }],
    load: async () => (await import("../commands/status.ts")).status,
  },
  {
    name: "validate",
    summary: "Checks a network's configuration against its plugins",
    about: [
      "The plugins must be there, serve the configuration's version, know the " +
      "keys and be able to read their values. Plugins of others are not asked " +
      "for their keys. Errors make it fail, warnings do not without --strict.",
    ],
    args: [NETWORK, { ...NETNS, isOptional: true }],
    flags: ["strict", ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      {
        line: "cni validate ./new.conflist",
        what: "look at a configuration before it is installed",
      },
    ],
    load: async () => (await import("../commands/validate.ts")).validate,
  },
  {
    name: "convert",
    summary:
      "Rewrites a configuration to run its plugins in one process, or back",
    about: [
      "A list of plugins becomes a list of the plugin chain alone, which runs " +
      "the others, and the other way round. Nothing else is changed, so to " +
      "convert a list twice is to have what there was.",
    ],
    args: [{
      name: "FILE",
      summary: "path of a network's configuration, or the network's name",
      completes: "file",
    }],
    flags: ["to", "output", "write", "cni-path", "conf-dir"],
    examples: [
      { line: "cni convert pods", what: "see the other form" },
      {
        line: "cni convert --to chain --write /etc/cni/net.d/10-pods.conflist",
        what: "start fewer processes for each pod from now on",
      },
      {
        line: "cni convert --to list old.conf --output new.conflist",
        what: "make a list of the configuration of a bare plugin",
      },
    ],
    load: async () => (await import("../commands/convert.ts")).convert,
  },
];
