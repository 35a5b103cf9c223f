/**
 * The commands of `cni`, with their arguments, flags and help.
 *
 * @module
 */

import { describeClusterGc, RELEASE } from "../ipam/whereabouts/command.ts";
import { describeDaemon } from "./daemon/row.ts";
import {
  type Argument,
  type CommandRow,
  LISTING,
  type Program,
} from "../base/command_line/command.ts";
import { BUILT_IN_COMMANDS } from "../base/command_line/built_in_commands.ts";
import { DIRECTORIES, FLAGS, INIT_ANSWERS, pick } from "./flags.ts";

/** A network. */
const NETWORK: Argument = {
  name: "NETWORK",
  summary: "network name, or path of a configuration (with a slash)",
  completes: "network",
};
/** A namespace that is, or will be, attached. */
const NETNS: Argument = {
  name: "NETNS",
  summary: "namespace name or path, namespace/pod, container ID, or pid:4711",
  completes: "netns",
};

/** A namespace that is attached. */
const ATTACHED: Argument = { ...NETNS, completes: "attached" };

/** Flags that identify an attachment. */
const ATTACHMENT = ["ifname", "container-id"] as const;
/** The time limit that the kubelet gives a runtime. */
const TIMEOUT = "220s";

/** The commands that run a network's plugins. */
const NETWORK_COMMANDS: readonly CommandRow[] = [
  {
    name: "add",
    summary: "Attach a namespace to a network and print the result",
    args: [NETWORK, NETNS],
    flags: pick(
      ...ATTACHMENT,
      "no-undo",
      "undo-timeout",
      "verbose",
      "no-daemon",
      ...DIRECTORIES,
    ),
    timeout: TIMEOUT,
    load: async () => (await import("./add/command.ts")).add,
  },
  {
    name: "check",
    summary: "Check that an attachment is unchanged",
    args: [NETWORK, ATTACHED],
    flags: pick(...ATTACHMENT, "no-daemon", ...DIRECTORIES),
    timeout: TIMEOUT,
    load: async () => (await import("./check/command.ts")).check,
  },
  {
    name: "repair",
    summary: "Restore rules and routes that containers lost",
    args: [{
      ...ATTACHED,
      name: "NAME",
      isOptional: true,
      isRepeated: true,
    }],
    flags: {
      "all": { summary: "repair all containers of this node" },
      ...pick("dry-run", "sandbox", "no-daemon", ...DIRECTORIES),
    },
    timeout: TIMEOUT,
    load: async () => (await import("./repair/command.ts")).repair,
  },
  {
    name: "del",
    summary: "Detach a namespace from a network",
    args: [NETWORK, ATTACHED],
    flags: pick(...ATTACHMENT, "strict", "no-daemon", ...DIRECTORIES),
    timeout: TIMEOUT,
    load: async () => (await import("./del/command.ts")).del,
  },
  {
    name: "gc",
    summary: "Remove attachments that are no longer in use",
    args: [{ ...NETWORK, isOptional: true }, {
      name: "NETNS[:IFNAME]",
      summary: "namespaces to keep, with one interface or all",
      completes: "interface",
      isOptional: true,
      isRepeated: true,
    }],
    flags: {
      ...pick(
        "all",
        "dry-run",
        "orphans",
        "yes",
        "grace",
        "exit-code",
        "no-daemon",
        ...DIRECTORIES,
      ),
      ...LISTING,
    },
    timeout: TIMEOUT,
    load: async () => (await import("./gc/command.ts")).gc,
  },
  {
    name: "trace",
    summary: "Show what ADD does, and how long each step takes",
    args: [{ ...NETWORK, isOptional: true }, { ...NETNS, isOptional: true }],
    flags: {
      ...pick("del", "from", "svg", "chrome"),
      "wide": { summary: "also show short steps, and objects in full" },
      ...pick(...ATTACHMENT, "undo-timeout", ...DIRECTORIES),
    },
    timeout: TIMEOUT,
    load: async () => (await import("./trace/command.ts")).trace,
  },
  {
    name: "status",
    summary: "Check whether a network is ready for another container",
    args: [NETWORK, { ...NETNS, isOptional: true, isHidden: true }],
    flags: pick("no-daemon", ...DIRECTORIES),
    timeout: TIMEOUT,
    load: async () => (await import("./status/command.ts")).status,
  },
  {
    name: "validate",
    summary: "Check configurations against their plugins",
    args: [{
      name: "NETWORK",
      summary: "network names, files, directories, or - for stdin",
      completes: "configuration",
      isOptional: true,
      isRepeated: true,
    }],
    flags: {
      "all": { summary: "check all networks in the configuration directory" },
      ...pick("strict", "ignore", "format", ...DIRECTORIES),
    },
    timeout: TIMEOUT,
    load: async () => (await import("./validate/command.ts")).validate,
  },
  {
    name: "init",
    summary: "Write a first network, from prompts or flags",
    flags: pick(
      ...INIT_ANSWERS,
      "cni-version",
      "output",
      "force",
      "cni-path",
      "conf-dir",
    ),
    load: async () => (await import("./init/command.ts")).init,
  },
  {
    name: "explain",
    summary: "Explain a plugin, a key of its configuration, or a finding",
    args: [{
      name: "KEY",
      summary:
        "plugin, or plugin and key, such as bridge.vlanTrunk; or a code " +
        "of cni doctor",
      completes: "plugin",
      isOptional: true,
    }],
    flags: { ...LISTING, ...pick("cni-path") },
    load: async () => (await import("./explain/command.ts")).explain,
  },
  {
    name: "schema",
    summary: "Print the JSON Schema of a plugin, or of network lists",
    args: [{
      name: "TYPE",
      summary: "a plugin, conf or conflist (default conflist)",
      completes: "schema",
      isOptional: true,
    }],
    flags: {
      "all": { summary: "print or write all schemas" },
      ...pick("output", "cni-path"),
    },
    load: async () => (await import("./explain/command.ts")).schema,
  },
  {
    name: "convert",
    summary:
      "Rewrite a configuration to run its plugins in one process, or back",
    args: [{
      name: "FILE",
      summary: "configurations, directories, network names, or - for stdin",
      completes: "configuration",
      isRepeated: true,
    }],
    flags: {
      ...pick("to", "daemon"),
      "no-daemon": { summary: "remove daemonSocket" },
      ...pick("diff", "output", "write", "cni-path", "conf-dir"),
    },
    load: async () => (await import("./convert/command.ts")).convert,
  },
];

/** The commands for the node daemon as a service of systemd. */
const SERVICE_COMMANDS: readonly CommandRow[] = [
  {
    name: "daemon enable",
    summary: "Start the node daemon, now and at each boot",
    load: async () => (await import("./daemon/node_command.ts")).enable,
  },
  {
    name: "daemon disable",
    summary: "Stop the node daemon, and do not start it at boot",
    load: async () => (await import("./daemon/node_command.ts")).disable,
  },
  {
    name: "daemon restart",
    summary: "Restart the node daemon",
    load: async () => (await import("./daemon/node_command.ts")).restart,
  },
  {
    name: "daemon status",
    summary: "Show whether the node daemon listens",
    load: async () => (await import("./daemon/node_command.ts")).status,
  },
];

/** The commands that show the node's state, and its daemon. */
const NODE_COMMANDS: readonly CommandRow[] = [
  {
    name: "list",
    summary: "Show the attachments on this node",
    args: [{ ...NETWORK, isOptional: true }],
    flags: { ...LISTING, ...pick("pod", "exit-code", ...DIRECTORIES) },
    load: async () => (await import("./list/command.ts")).list,
  },
  {
    name: "show",
    summary: "Show the networks of this node as a tree or a diagram",
    args: [{
      ...NETNS,
      name: "NAME",
      isOptional: true,
    }],
    flags: pick(
      "watch",
      "mermaid",
      "svg",
      "exit-code",
      "conf-dir",
      "cache-dir",
    ),
    isService: true,
    load: async () => (await import("./show/command.ts")).show,
  },
  {
    name: "networks",
    summary: "Show the configured networks and their problems",
    args: [{ ...NETWORK, isOptional: true }],
    flags: { ...LISTING, ...pick("exit-code", ...DIRECTORIES) },
    load: async () => (await import("./networks/command.ts")).networks,
  },
  {
    name: "plugins",
    summary: "Show the installed plugins and whether they work",
    flags: { ...LISTING, ...pick("exit-code", ...DIRECTORIES) },
    timeout: "5s",
    load: async () => (await import("./plugins/command.ts")).plugins,
  },
  {
    name: "logs",
    summary: "Show what the plugins logged",
    args: [{
      name: "NAME",
      summary: "pod, container or network namespace (default all)",
      completes: "attached",
      isOptional: true,
    }],
    flags: pick("log-file", "level", "tail", "raw", "wide", "cache-dir"),
    load: async () => (await import("./logs/command.ts")).logs,
  },
  {
    name: "doctor",
    summary: "Find problems on this node, and how to fix them",
    flags: {
      pod: {
        ...FLAGS.pod,
        value: "NAME",
        summary: "show where the packets of a pod, container, pid:N or " +
          "namespace stop",
      },
      to: {
        value: "ADDRESS[:PORT]",
        summary: "with --pod: probe this address; with --from: this port",
      },
      from: {
        value: "NAME",
        summary: "with --pod: probe it from a container, node or outside",
      },
      ...pick("fix", "wait", "try", "svg", "strict", ...DIRECTORIES),
    },
    timeout: "2m",
    load: async () => (await import("./doctor/command.ts")).doctor,
  },
  {
    name: "probe",
    summary: "Test whether one container can reach another",
    args: [
      { ...ATTACHED, name: "A" },
      {
        ...ATTACHED,
        name: "B",
        summary: "as A, or an IP address",
      },
      { name: "PORT", summary: "TCP port of B", isOptional: true },
    ],
    flags: pick("cache-dir", "conf-dir", "cni-path"),
    timeout: "1m",
    load: async () => (await import("./probe/command.ts")).probe,
  },
  {
    name: "metrics",
    summary: "Show pools, attachments and orphans as metrics",
    flags: pick("textfile", "findings", ...DIRECTORIES),
    timeout: "2m",
    load: async () => (await import("./metrics/command.ts")).metrics,
  },
  describeClusterGc("cni"),
  RELEASE,
  {
    name: "report",
    summary: "Collect the state of the node in an archive",
    args: [{
      name: "FILE",
      summary: "the archive, .tar.gz (default cni-report-HOST-TIME.tar.gz)",
      completes: "file",
      isOptional: true,
    }],
    flags: pick(...DIRECTORIES),
    timeout: "2m",
    load: async () => (await import("./report/command.ts")).report,
  },
  describeDaemon("/run/cni"),
  ...SERVICE_COMMANDS,
];

const DIRECTORY: Argument = {
  name: "DIRECTORY",
  summary: "directory of plugins, such as /opt/cni/bin",
  completes: "directory",
};

/** The commands that put this executable on a node. */
const INSTALL_COMMANDS: readonly CommandRow[] = [
  {
    name: "install",
    summary: "Install this executable and its plugins into a directory",
    args: [DIRECTORY],
    flags: {
      ...pick("only", "prune", "copy", "link"),
      "no-daemon": { summary: "do not install or restart the node daemon" },
      ...pick("dry-run", "rollback", "force", "conf-dir", "cache-dir"),
    },
    load: async () => (await import("./install/command.ts")).install,
  },
  {
    name: "uninstall",
    summary: "Undo cni install: restore the files that it replaced",
    args: [DIRECTORY],
    flags: pick("dry-run", "if-installed", "force", "conf-dir", "cache-dir"),
    load: async () => (await import("./install/command.ts")).uninstall,
  },
];

const NAME: Argument = {
  name: "NAME",
  summary: "name of a network namespace",
  completes: "netns",
};

/** The commands of `ip netns`, for nodes without it. */
const NETNS_COMMANDS: readonly CommandRow[] = [
  {
    name: "netns add",
    summary: "Create a named network namespace",
    args: [{ name: "NAME", summary: "name of the namespace" }],
    load: async () => (await import("./netns/command.ts")).addNetns,
  },
  {
    name: "netns del",
    summary: "Delete a named network namespace",
    args: [NAME],
    flags: pick("force", "cache-dir"),
    load: async () => (await import("./netns/command.ts")).delNetns,
  },
  {
    name: "netns list",
    summary: "Show the named network namespaces",
    flags: { ...LISTING, ...pick("cache-dir") },
    load: async () => (await import("./netns/command.ts")).listNetns,
  },
  {
    name: "netns exec",
    summary: "Run a program in a network namespace",
    args: [NETNS, {
      name: "COMMAND",
      summary: "the program and its arguments",
      completes: "command",
      isRepeated: true,
    }],
    flags: pick("cache-dir"),
    isWrapper: true,
    load: async () => (await import("./netns/command.ts")).execNetns,
  },
];

/** The commands for authors of plugins. */
const AUTHOR_COMMANDS: readonly CommandRow[] = [
  {
    name: "new plugin",
    summary: "Create a project with a plugin and its test",
    args: [{ name: "NAME", summary: "type of the plugin, such as my-plugin" }],
    flags: pick("chained", "ipam", "checkout"),
    load: async () => (await import("./new/command.ts")).newPlugin,
  },
  {
    name: "conform",
    summary: "Test plugins against the CNI specification",
    args: [{
      name: "EXECUTABLE",
      summary: "executables of plugins, or directories of them",
      completes: "file",
      isRepeated: true,
    }],
    flags: {
      ...pick(
        "config",
        "requirement",
        "thorough",
      ),
      "strict": { summary: "also exit with 1 if a SHOULD is violated" },
      ...pick("call-timeout", "junit", "html"),
      "cni-path": {
        ...FLAGS["cni-path"],
        summary: "colon-separated directories of other plugins, such as IPAM",
      },
    },
    timeout: "0",
    load: async () => (await import("./conform/command.ts")).conform,
  },
];

/** The commands about the tool itself. */
const OWN_COMMANDS: readonly CommandRow[] = [
  {
    name: "completion",
    summary:
      "Print a script that completes commands, flags and names in a shell",
    args: [{
      name: "SHELL",
      summary: "bash, zsh or fish",
      completes: ["bash", "zsh", "fish"],
    }],
    load: async () => (await import("./completion/command.ts")).completion,
  },
  ...BUILT_IN_COMMANDS,
  {
    name: "__complete",
    summary: "Print words for completion",
    args: [{
      name: "WORD",
      summary: "words of a command line",
      isOptional: true,
      isRepeated: true,
    }],
    isHidden: true,
    load: async () => (await import("./completion/command.ts")).complete,
  },
];

/** The tool. */
export const cni: Program = {
  name: "cni",
  about: "Attach network namespaces to networks with CNI plugins, and show " +
    "the node's networks, plugins and attachments.",
  synonyms: {
    attach: "add",
    connect: "add",
    delete: "del",
    describe: "show",
    detach: "del",
    diagnose: "doctor",
    disconnect: "del",
    exec: "netns exec",
    inspect: "show",
    lint: "validate",
    log: "logs",
    ls: "list",
    prune: "gc",
    ps: "list",
    reload: "repair",
    remove: "del",
    rm: "del",
    sysdump: "report",
    verify: "check",
  },
  texts: async () => await (await import("./help_texts.ts")).loadHelpTexts(),
  rows: [
    ...NETWORK_COMMANDS,
    ...NODE_COMMANDS,
    ...INSTALL_COMMANDS,
    ...NETNS_COMMANDS,
    ...AUTHOR_COMMANDS,
    ...OWN_COMMANDS,
  ],
};
