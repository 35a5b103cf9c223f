/**
 * The commands of `cni`.
 *
 * @module
 */

import {
  type Argument,
  type CommandRow,
  type FlagName,
  type Program,
  SHELLS,
} from "./command.ts";

const NETWORK: Argument = {
  name: "NETWORK",
  summary:
    "name of a network, or the path of its configuration, with a slash in it",
  completes: "network",
};
const NETNS: Argument = {
  name: "NETNS",
  summary: "path of a network namespace, or its name as ip netns has it",
  completes: "netns",
};
const NAME: Argument = {
  name: "NAME",
  summary: "name of a network namespace",
  completes: "netns",
};

/** Where things are. */
const FOLDERS: readonly FlagName[] = ["cni-path", "conf-dir", "cache-dir"];
/** Which attachment it is. */
const ATTACHMENT: readonly FlagName[] = ["ifname", "container-id"];
/** As long as the kubelet gives a runtime. */
const TIMEOUT = "220s";

/** What runs the plugins of a network. */
const NETWORK_COMMANDS: readonly CommandRow[] = [
  {
    name: "add",
    summary: "Attaches a namespace to a network and prints the result",
    about: [
      "If a plugin fails, the others are undone, with 30 seconds for it. A " +
      "namespace that is attached already by this interface name is refused.",
      "CNI_ARGS (K=V;K=V) and CAP_ARGS (a JSON object, by capability) go to " +
      "the plugins.",
    ],
    args: [NETWORK, NETNS],
    flags: [...ATTACHMENT, "no-undo", ...FOLDERS],
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
    load: async () => (await import("./commands/add.ts")).add,
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
    load: async () => (await import("./commands/check.ts")).check,
  },
  {
    name: "del",
    summary: "Detaches a namespace from a network",
    about: [
      "Uses the configuration and the arguments of the time when it was " +
      "attached, even if the network's configuration has been changed or " +
      "removed. Goes on after a plugin that fails. May be repeated, and the " +
      "namespace may be gone.",
    ],
    args: [NETWORK, NETNS],
    flags: [...ATTACHMENT, ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      { line: "cni del pods blue", what: "detach what ip netns calls blue" },
      {
        line: "cni del pods /proc/4711/ns/net --container-id 0a1b2c",
        what: "detach a container that only its ID can tell",
      },
    ],
    load: async () => (await import("./commands/del.ts")).del,
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
    flags: ["all", ...FOLDERS],
    timeout: TIMEOUT,
    examples: [
      {
        line: "cni gc pods blue green:net1",
        what: "keep these, remove others",
      },
      { line: "cni gc pods --all", what: "remove every attachment to pods" },
    ],
    load: async () => (await import("./commands/gc.ts")).gc,
  },
  {
    name: "status",
    summary: "Asks whether a network could take another container",
    about: ["Prints nothing if it could."],
    args: [NETWORK, { ...NETNS, isOptional: true }],
    flags: FOLDERS,
    timeout: TIMEOUT,
    examples: [{ line: "cni status pods", what: "ask all plugins of pods" }],
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    name: "validate",
    summary: "Checks a network's configuration against its plugins",
    about: [
      "The plugins must be there, and serve the configuration's version.",
    ],
    args: [NETWORK, { ...NETNS, isOptional: true }],
    flags: FOLDERS,
    timeout: TIMEOUT,
    examples: [
      {
        line: "cni validate ./new.conflist",
        what: "look at a configuration before it is installed",
      },
    ],
    load: async () => (await import("./commands/validate.ts")).validate,
  },
  {
    name: "convert",
    summary:
      "Rewrites a configuration to run its plugins in one process, or back",
    about: [
      "A list of plugins becomes a list of the plugin chain alone, which runs " +
      "the others, and the other way round. Nothing else is changed, so to " +
      "convert twice is to have what there was.",
    ],
    args: [{
      name: "FILE",
      summary: "path of a network's configuration",
      completes: "file",
    }],
    flags: ["to", "output", "write", "cni-path"],
    examples: [
      {
        line: "cni convert /etc/cni/net.d/10-pods.conflist",
        what: "see the other form",
      },
      {
        line: "cni convert --to chain --write /etc/cni/net.d/10-pods.conflist",
        what: "have one process for each pod from now on",
      },
      {
        line: "cni convert --to list old.conf --output new.conflist",
        what: "make a list of the configuration of a bare plugin",
      },
    ],
    load: async () => (await import("./commands/convert.ts")).convert,
  },
];

/** What shows the state of the node. */
const NODE_COMMANDS: readonly CommandRow[] = [
  {
    name: "list",
    summary: "Shows the attachments of this node",
    about: [
      "They are those that the tool and runtimes with the same cache have " +
      "made. EXISTS says whether the namespace still does.",
    ],
    args: [{ ...NETWORK, isOptional: true }],
    flags: FOLDERS,
    examples: [
      { line: "cni list", what: "show all" },
      {
        line: "cni list pods --json | jq -r '.[].addresses[]'",
        what: "list the addresses in use",
      },
    ],
    load: async () => (await import("./commands/list.ts")).list,
  },
  {
    name: "networks",
    summary: "Shows the networks that are configured, and what is wrong",
    flags: FOLDERS,
    examples: [{ line: "cni networks", what: "show all" }],
    load: async () => (await import("./commands/networks.ts")).networks,
  },
  {
    name: "plugins",
    summary: "Shows the plugins that are installed, and whether they work",
    about: [
      "Each is asked for its versions, and has the time of --timeout to answer.",
    ],
    flags: FOLDERS,
    timeout: "5s",
    examples: [
      {
        line: "cni plugins --cni-path dist/bin:/opt/cni/bin",
        what: "see which of two folders a plugin would come from",
      },
    ],
    load: async () => (await import("./commands/plugins.ts")).plugins,
  },
];

/** What `ip netns` does, where it is not installed. */
const NETNS_COMMANDS: readonly CommandRow[] = [
  {
    name: "netns add",
    summary: "Makes a network namespace with a name",
    about: [
      "ip netns sees it too. Its loopback link is down, as it is with ip " +
      "netns add.",
    ],
    args: [{ name: "NAME", summary: "name of the namespace" }],
    examples: [{ line: "cni netns add blue", what: "make one" }],
    load: async () => (await import("./commands/netns.ts")).addNetns,
  },
  {
    name: "netns del",
    summary: "Takes a network namespace's name away",
    about: [
      "The namespace ends with the last process in it. Detach it from its " +
      "networks first.",
    ],
    args: [NAME],
    flags: ["cache-dir"],
    examples: [{ line: "cni netns del blue", what: "delete one" }],
    load: async () => (await import("./commands/netns.ts")).delNetns,
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
    load: async () => (await import("./commands/netns.ts")).listNetns,
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
    load: async () => (await import("./commands/netns.ts")).execNetns,
  },
];

/** What is about the tool itself. */
const OWN_COMMANDS: readonly CommandRow[] = [
  {
    name: "completion",
    summary: "Prints what makes a shell complete commands, flags and names",
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
    load: async () => (await import("./commands/completion.ts")).completion,
  },
  {
    name: "help",
    summary: "Tells about a command",
    args: [{
      name: "COMMAND",
      summary: "the command, or nothing for all of them",
      isOptional: true,
      isRepeated: true,
    }],
    examples: [{ line: "cni help netns exec", what: "tell about one" }],
    load: async () => (await import("./commands/help.ts")).help,
  },
  {
    name: "version",
    summary: "Prints the version",
    load: async () => (await import("./commands/help.ts")).version,
  },
  {
    name: "__complete",
    summary: "Prints words for completion",
    args: [{ name: "KIND", summary: "network or netns" }],
    flags: FOLDERS,
    isHidden: true,
    load: async () => (await import("./commands/completion.ts")).complete,
  },
];

/** The tool. */
export const cni: Program = {
  name: "cni",
  about: "Attaches network namespaces to container networks by CNI plugins, " +
    "and shows what is there.",
  rows: [
    ...NETWORK_COMMANDS,
    ...NODE_COMMANDS,
    ...NETNS_COMMANDS,
    ...OWN_COMMANDS,
  ],
};
