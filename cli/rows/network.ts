/**
 * The commands that run the plugins of a network, and `convert`.
 *
 * @module
 */

import type { CommandRow } from "../../tool/command.ts";
import { FOLDERS, pick } from "../flags.ts";
import { NETNS, NETWORK } from "./arguments.ts";

/** Flags that identify an attachment. */
const ATTACHMENT = ["ifname", "container-id"] as const;
/** The time limit that the kubelet gives a runtime. */
const TIMEOUT = "220s";

/** The commands that run a network's plugins. */
export const NETWORK_COMMANDS: readonly CommandRow[] = [
  {
    name: "add",
    summary: "Attaches a namespace to a network and prints the result",
    about: [
      "If a plugin fails or time is up, the command undoes ADD with DEL of all " +
      "plugins. --timeout limits ADD and --undo-timeout limits DEL. Fails if " +
      "the namespace already has an attachment with this interface name.",
      "Passes CNI_ARGS (K=V;K=V) and CAP_ARGS (a JSON object with capabilities " +
      "as keys) to the plugins.",
    ],
    args: [NETWORK, NETNS],
    flags: pick(
      ...ATTACHMENT,
      "no-undo",
      "undo-timeout",
      "verbose",
      ...FOLDERS,
    ),
    timeout: TIMEOUT,
    examples: {
      "cni add pods blue": "attach the namespace blue of ip netns",
      "cni add pods /proc/4711/ns/net -i net1 --json | jq .ips":
        "attach a second interface to a process, and show its addresses",
      "cni add ./new.conflist blue --timeout 10s":
        "try a configuration before installing it",
    },
    load: async () => (await import("../commands/add.ts")).add,
  },
  {
    name: "check",
    summary: "Checks that an attachment is unchanged",
    about: [
      "Prints nothing if it is unchanged. Also checks attachments made by a " +
      "container runtime.",
    ],
    args: [NETWORK, NETNS],
    flags: pick(...ATTACHMENT, ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni check pods blue && echo fine": "use in a script",
    },
    load: async () => (await import("../commands/check.ts")).check,
  },
  {
    name: "del",
    summary: "Detaches a namespace from a network",
    about: [
      "Uses the configuration and arguments of ADD, even if the network's " +
      "configuration has been changed or removed since. Continues after a " +
      "plugin fails. May be repeated, and the namespace may be gone. If no " +
      "attachment is known, prints a note and still runs the plugins.",
    ],
    args: [NETWORK, NETNS],
    flags: pick(...ATTACHMENT, "strict", ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni del pods blue": "detach the namespace blue of ip netns",
      "cni del pods /proc/4711/ns/net --container-id 0a1b2c":
        "detach a container by its ID",
    },
    load: async () => (await import("../commands/del.ts")).del,
  },
  {
    name: "gc",
    summary: "Removes attachments that are no longer in use",
    about: [
      "Keeps the attachments of the given namespaces and deletes all others to " +
      "the network. The network's plugins then remove other leftovers. No " +
      "runtime may attach or detach containers meanwhile.",
    ],
    args: [NETWORK, {
      name: "NETNS[:IFNAME]",
      summary: "namespaces to keep, with all their interfaces or one",
      completes: "netns",
      isOptional: true,
      isRepeated: true,
    }],
    flags: pick("all", "dry-run", ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni gc pods blue green:net1": "keep these, remove all others",
      "cni gc pods blue --dry-run": "show what would be deleted",
      "cni gc pods --all": "remove every attachment to pods",
    },
    load: async () => (await import("../commands/gc.ts")).gc,
  },
  {
    name: "status",
    summary: "Checks whether a network is ready for another container",
    about: ["Prints nothing if it is ready."],
    args: [NETWORK, { ...NETNS, isOptional: true, isHidden: true }],
    flags: pick(...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni status pods": "ask all plugins of the network pods",
    },
    load: async () => (await import("../commands/status.ts")).status,
  },
  {
    name: "validate",
    summary: "Checks a network's configuration against its plugins",
    about: [
      "Checks that the plugins exist, support the configuration's version, and " +
      "accept its keys and values. Does not check the keys of third-party " +
      "plugins. Fails on errors, and with --strict also on warnings.",
    ],
    args: [NETWORK, { ...NETNS, isOptional: true, isHidden: true }],
    flags: pick("strict", ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni validate ./new.conflist":
        "check a configuration before installing it",
    },
    load: async () => (await import("../commands/validate.ts")).validate,
  },
  {
    name: "convert",
    summary:
      "Rewrites a configuration to run its plugins in one process, or back",
    about: [
      "Turns a list of plugins into a list with only the plugin chain, which " +
      "runs the others, or the reverse. Changes nothing else, so converting a " +
      "list twice restores it.",
    ],
    args: [{
      name: "FILE",
      summary: "path of a network's configuration, or name of a network",
      completes: "file",
    }],
    flags: pick("to", "output", "write", "cni-path", "conf-dir"),
    examples: {
      "cni convert pods": "show the other form",
      "cni convert --to chain --write /etc/cni/net.d/10-pods.conflist":
        "start fewer processes for each pod",
      "cni convert --to list old.conf --output new.conflist":
        "convert a bare plugin to a list",
    },
    load: async () => (await import("../commands/convert.ts")).convert,
  },
];
