/**
 * The commands of `cni`, with their arguments, flags and help.
 *
 * @module
 */

import { DEFAULT_SOCKET } from "../daemon/protocol/daemon_socket.ts";
import { describeClusterGc } from "./cluster_gc/row.ts";
import { describeDaemon } from "./daemon/row.ts";
import type { Argument, CommandRow, Program } from "./program/command.ts";
import { OWN_ROWS } from "./program/own_rows.ts";
import { FLAGS, FOLDERS, LISTING, pick } from "./flags.ts";

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
    about: [
      "If a plugin fails or the time is up, ADD is undone: DEL runs for all " +
      "plugins. --timeout limits ADD, and --undo-timeout limits DEL. Fails if the " +
      "namespace already has an attachment with this interface name.",
      "Passes CNI_ARGS (K=V;K=V) and CAP_ARGS (a JSON object keyed by capability) " +
      "to the plugins.",
    ],
    args: [NETWORK, NETNS],
    flags: pick(
      ...ATTACHMENT,
      "no-undo",
      "undo-timeout",
      "verbose",
      "no-daemon",
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
    load: async () => (await import("./commands/add.ts")).add,
  },
  {
    name: "check",
    summary: "Check that an attachment is unchanged",
    about: [
      "Prints nothing if it is unchanged. Also checks attachments made by a " +
      "container runtime.",
    ],
    args: [NETWORK, ATTACHED],
    flags: pick(...ATTACHMENT, "no-daemon", ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni check pods blue && echo fine": "use in a script",
    },
    load: async () => (await import("./commands/check.ts")).check,
  },
  {
    name: "del",
    summary: "Detach a namespace from a network",
    about: [
      "Uses the configuration and arguments of ADD, even if the network's " +
      "configuration has since changed or been removed. Continues if a plugin " +
      "fails. Can be repeated, even after the namespace is gone. If no " +
      "attachment is known, prints a note and still runs the plugins.",
    ],
    args: [NETWORK, ATTACHED],
    flags: pick(...ATTACHMENT, "strict", "no-daemon", ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni del pods blue": "detach the namespace blue of ip netns",
      "cni del pods /proc/4711/ns/net --container-id 0a1b2c":
        "detach a container by its ID",
    },
    load: async () => (await import("./commands/del.ts")).del,
  },
  {
    name: "gc",
    summary: "Remove attachments that are no longer in use",
    about: [
      "Keeps the attachments of the given namespaces and deletes all others of " +
      "the network. Then the network's plugins remove other leftovers. Do not " +
      "run it while a runtime attaches or detaches containers.",
      "With --orphans, looks for leftovers of containers that are gone, of all " +
      "networks and also of the Go plugins: leases, cached attachments, files, " +
      "links and firewall rules. It needs no runtime, and may run at any time. " +
      "Prints what it finds; with --yes, removes it.",
    ],
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
        ...FOLDERS,
      ),
      ...LISTING,
    },
    timeout: TIMEOUT,
    examples: {
      "cni gc --orphans": "show what containers that are gone have left",
      "cni gc --orphans --yes --grace 1h": "remove what is older than an hour",
      "cni gc pods blue green:net1": "keep these, remove all others",
      "cni gc pods blue --dry-run": "show what would be deleted",
      "cni gc pods --all": "remove every attachment to pods",
    },
    load: async () => (await import("./commands/gc.ts")).gc,
  },
  {
    name: "trace",
    summary: "Show what ADD does, and how long each step takes",
    about: [
      "Runs ADD, with --del also DEL, and shows a time line of plugins, requests " +
      "to the kernel, files and processes. Without NETNS, uses a throw-away " +
      "namespace; otherwise keeps the attachment without --del. With " +
      "--from, shows a trace that plugins wrote because CNI_TRACE=FILE was set in " +
      "their environment. Values of keys that look like secrets are masked.",
    ],
    args: [{ ...NETWORK, isOptional: true }, { ...NETNS, isOptional: true }],
    flags: pick(
      "del",
      "from",
      "svg",
      "chrome",
      "wide",
      ...ATTACHMENT,
      "undo-timeout",
      ...FOLDERS,
    ),
    timeout: TIMEOUT,
    examples: {
      "cni trace pods": "see where the time goes, in a throw-away namespace",
      "cni trace pods blue": "attach blue, and see where the time goes",
      "cni trace pods blue --del --svg add.svg --chrome add.json":
        "draw it, and write it for https://ui.perfetto.dev",
      "cni trace --from /run/trace": "show a trace of CNI_TRACE",
    },
    load: async () => (await import("./commands/trace.ts")).trace,
  },
  {
    name: "status",
    summary: "Check whether a network is ready for another container",
    about: ["Prints nothing if it is ready."],
    args: [NETWORK, { ...NETNS, isOptional: true, isHidden: true }],
    flags: pick("no-daemon", ...FOLDERS),
    timeout: TIMEOUT,
    examples: {
      "cni status pods": "ask all plugins of the network pods",
    },
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    name: "validate",
    summary: "Check configurations against their plugins",
    about: [
      "Checks that the plugins exist, support the configuration's version, and " +
      "accept its keys and values, and that networks do not overlap. Keys of " +
      "third-party plugins are not checked. A file may also hold Kubernetes " +
      "objects in YAML; a folder stands for its files.",
      "Exits with 1 if there is an error; with --strict, also if there is a " +
      "warning.",
    ],
    args: [{
      name: "NETWORK",
      summary: "network names, files, folders, or - for stdin",
      completes: "configuration",
      isOptional: true,
      isRepeated: true,
    }],
    flags: {
      "all": { summary: "check all networks in the configuration folder" },
      ...pick("strict", "format", ...FOLDERS),
    },
    timeout: TIMEOUT,
    examples: {
      "cni validate ./new.conflist":
        "check a configuration before installing it",
      "cni validate --all --strict": "check all networks of this node",
      "cni validate --format github deploy/*.yaml":
        "annotate NetworkAttachmentDefinitions in CI",
    },
    load: async () => (await import("./commands/validate.ts")).validate,
  },
  {
    name: "init",
    summary: "Write a first network, by asking or from flags",
    about: [
      "Asks on a terminal if no flag answers. Without --subnet, uses one that no " +
      "address, route or network of this node has. Validates the network before " +
      "writing it, and replaces a file only with --force.",
    ],
    flags: pick(
      "name",
      "type",
      "subnet",
      "ipv6",
      "master",
      "vlan-id",
      "portmap",
      "no-portmap",
      "bandwidth",
      "cni-version",
      "output",
      "force",
      "cni-path",
      "conf-dir",
    ),
    examples: {
      "cni init": "answer questions",
      "cni init --name pods --type bridge --ipv6 --bandwidth":
        "write /etc/cni/net.d/10-pods.conflist",
      "cni init --type macvlan --master eth1 --subnet 192.168.7.0/24 --output -":
        "show a network without writing it",
    },
    load: async () => (await import("./commands/init.ts")).init,
  },
  {
    name: "explain",
    summary: "Explain a plugin, a key of its configuration, or a finding",
    about: ["Without KEY, lists the plugins. See docs/schemas.md."],
    args: [{
      name: "KEY",
      summary:
        "plugin, or plugin and key, such as bridge.vlanTrunk; or a code " +
        "of cni doctor",
      completes: "plugin",
      isOptional: true,
    }],
    flags: LISTING,
    examples: {
      "cni explain bridge": "show the keys of bridge",
      "cni explain bridge.vlanTrunk": "show one key",
      "cni explain CNI0601": "show what a finding means, and its fix",
    },
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    name: "schema",
    summary: "Print the JSON Schema of a plugin, or of lists of plugins",
    about: [
      "Editors complete and check configurations with it. --all --output FOLDER " +
      "writes one file for each schema.",
    ],
    args: [{
      name: "TYPE",
      summary: "a plugin, conf or conflist (default conflist)",
      completes: "schema",
      isOptional: true,
    }],
    flags: {
      "all": { summary: "print or write all schemas" },
      ...pick("output"),
    },
    examples: {
      "cni schema > conflist.json": "write the schema of *.conflist files",
      "cni schema --all --output schemas": "write all schemas into a folder",
    },
    load: async () => (await import("./commands/explain.ts")).schema,
  },
  {
    name: "convert",
    summary:
      "Rewrite a configuration to run its plugins in one process, or back",
    about: [
      "Turns a list of plugins into a list with the single plugin chain, which " +
      "runs the others, or the reverse. Nothing else changes: converting a list " +
      "twice restores it.",
    ],
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
    examples: {
      "cni convert pods": "show the other form",
      "cni convert pods --diff": "show what would change",
      "cni convert --to list --write /etc/cni/net.d/":
        "convert all files of a directory",
      "cni convert --to chain --write /etc/cni/net.d/10-pods.conflist":
        "start fewer processes for each pod",
      "cni convert --to chain --daemon --write pods":
        "have the node daemon attach pods, by one call each",
      "cni convert --to list old.conf --output new.conflist":
        "convert a bare plugin to a list",
    },
    load: async () => (await import("./commands/convert.ts")).convert,
  },
];

/** The commands for the node daemon as a service of systemd. */
const SERVICE_COMMANDS: readonly CommandRow[] = [
  {
    name: "daemon enable",
    summary: "Start the node daemon, now and at each boot",
    about: [
      "Has systemd run the daemon of this executable. cni install does the same " +
      "on a node that systemd runs.",
    ],
    examples: { "cni daemon enable": "run the daemon again" },
    load: async () => (await import("./commands/daemon.ts")).enable,
  },
  {
    name: "daemon disable",
    summary: "Stop the node daemon, now and at each boot",
    about: [
      "Plugins then do the work themselves. An update by cni install does not " +
      "start the daemon again.",
    ],
    examples: { "cni daemon disable": "have its memory back" },
    load: async () => (await import("./commands/daemon.ts")).disable,
  },
  {
    name: "daemon restart",
    summary: "Start the node daemon again",
    about: ["Calls that run have 10 s to finish; others are not lost."],
    examples: { "cni daemon restart": "run another version" },
    load: async () => (await import("./commands/daemon.ts")).restart,
  },
  {
    name: "daemon status",
    summary: "Show whether the node daemon listens",
    about: [
      `Shows the process that listens on ${DEFAULT_SOCKET}, whoever has started ` +
      "it. Exits with 1 if there is none.",
    ],
    examples: {
      "cni daemon status": "show it",
      "cni daemon status --json | jq .running": "use in a script",
    },
    load: async () => (await import("./commands/daemon.ts")).status,
  },
];

/** The commands that show the node's state, and its daemon. */
const NODE_COMMANDS: readonly CommandRow[] = [
  {
    name: "list",
    summary: "Show the attachments on this node",
    about: [
      "Includes attachments made by runtimes that use the same cache. EXISTS is " +
      "no if the namespace is gone but the attachment is still cached.",
    ],
    args: [{ ...NETWORK, isOptional: true }],
    flags: { ...LISTING, ...pick("pod", "exit-code", ...FOLDERS) },
    examples: {
      "cni list": "show all",
      "cni list --pod default/web": "show the networks of a pod",
      "cni list pods --json | jq -r '.[].addresses[]'":
        "list the addresses in use",
    },
    load: async () => (await import("./commands/list.ts")).list,
  },
  {
    name: "show",
    summary: "Show the networks of this node as a tree or a picture",
    about: [
      "Reads the live state from the kernel: bridges and uplinks, the namespaces " +
      "that are connected to them, and the addresses, routes, rules, limits, " +
      "masquerade, port maps and VLANs of their interfaces. Marks differences " +
      "from the cached results of ADD, and what no attachment explains as foreign.",
    ],
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
      "cache-dir",
    ),
    isService: true,
    examples: {
      "cni show": "show the node",
      "cni show default/web": "show one pod",
      "cni show --svg node.svg": "draw a picture",
      "cni show --watch": "follow changes",
    },
    load: async () => (await import("./commands/show.ts")).show,
  },
  {
    name: "networks",
    summary: "Show the configured networks and their problems",
    about: [
      "With NETWORK, tells all about one: subnets, used and free addresses, " +
      "gateways, its bridge or master, the node daemon, and what is attached.",
    ],
    args: [{ ...NETWORK, isOptional: true }],
    flags: { ...LISTING, ...pick("exit-code", ...FOLDERS) },
    examples: {
      "cni networks": "show all",
      "cni networks pods": "tell all about one",
      "cni networks --exit-code > /dev/null": "use in a script",
    },
    load: async () => (await import("./commands/networks.ts")).networks,
  },
  {
    name: "plugins",
    summary: "Show the installed plugins and whether they work",
    about: [
      "Asks each plugin for its versions. --timeout applies to each plugin.",
    ],
    flags: { ...LISTING, ...pick("exit-code", ...FOLDERS) },
    timeout: "5s",
    examples: {
      "cni plugins --cni-path dist/bin:/opt/cni/bin":
        "show which of two folders a plugin comes from",
    },
    load: async () => (await import("./commands/plugins.ts")).plugins,
  },
  {
    name: "logs",
    summary: "Show what the plugins logged",
    about: [
      "Reads the log file that /etc/cni/log.json or CNI_LOG_FILE names " +
      "(default /var/log/cni/plugins.log), and its older part, or the journal.",
    ],
    args: [{
      name: "NAME",
      summary: "pod, container or network namespace (default all)",
      completes: "attached",
      isOptional: true,
    }],
    flags: pick("log-file", "level", "tail", "raw", "wide", "cache-dir"),
    examples: {
      "cni logs --raw | grep msg=": "search the lines as they are",
      "cni logs default/web": "show what happened to a pod",
      "cni logs --level error -n 20": "show the last errors",
    },
    load: async () => (await import("./commands/logs.ts")).logs,
  },
  {
    name: "doctor",
    summary: "Find what is wrong with this node, and how to fix it",
    about: [
      "Looks at the kernel, plugins, configurations, disks, addresses, sysctls, " +
      "rules, limits, daemons and every attachment. Each finding has its " +
      "consequence, what fixes it, and a code that cni explain describes.",
      "Exits with 0 if nothing is wrong, with 1 if there are errors, and with 3 if " +
      "there are none but a check could not run. With --strict, warnings count as " +
      "errors.",
      "--pod goes the way of a packet from a pod to the outside, step by step.",
      "--fix fixes what is safe to fix, and says what it did. It never changes " +
      "anything of a running container.",
      "--try attaches two throw-away namespaces, A and B, to each network, pings " +
      "between them, the node, gateways and the outside, asks the name server, " +
      "runs CHECK and detaches them. It shows who reached whom, and what stopped " +
      "the rest; --svg draws it. Exits with 1 if something failed.",
      "--wait looks again until the exit code is 0 or the time is up; --timeout is " +
      "then the limit of one look.",
    ],
    flags: {
      pod: {
        ...FLAGS.pod,
        value: "NAME",
        summary: "show where the packets of a pod, container, pid:N or " +
          "namespace end",
      },
      ...pick("fix", "wait", "try", "svg", "strict", ...FOLDERS),
    },
    timeout: "2m",
    examples: {
      "cni doctor": "check the node",
      "cni doctor --wait 2m": "in a script: wait until the node is ready",
      "cni doctor --pod default/web": "show where the packets of a pod end",
      "cni doctor --try": "prove that each network works",
      "cni doctor --fix": "also fix what is safe to fix",
      "cni doctor --json | jq -r '.findings[].code'": "use in a script",
    },
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "probe",
    summary: "Try whether one container reaches another",
    about: [
      "Pings from A to B and back, from inside their namespaces; with PORT, also " +
      "connects from A to B by TCP. Needs no program in the containers. If " +
      "something does not arrive, shows where the packets of A and B end, as " +
      "cni doctor --pod does. Exits with 1 if something does not arrive.",
    ],
    args: [
      { ...ATTACHED, name: "A" },
      {
        ...ATTACHED,
        name: "B",
        summary: "the same, or an IP address",
      },
      { name: "PORT", summary: "TCP port of B", isOptional: true },
    ],
    flags: pick("cache-dir", "conf-dir", "cni-path"),
    timeout: "1m",
    examples: {
      "cni probe default/web default/db 5432": "try a connection of two pods",
      "cni probe blue 10.96.0.1 443": "try an address",
    },
    load: async () => (await import("./commands/probe.ts")).probe,
  },
  {
    name: "metrics",
    summary: "Show pools, attachments and leftovers as metrics",
    about: [
      "Prints gauges in the text format of Prometheus. --textfile replaces a " +
      "file atomically. A metric that cannot be read is missing, and " +
      "cni_metric_failed is 1 for it; the exit code is 1 then.",
    ],
    flags: pick("textfile", ...FOLDERS),
    timeout: "2m",
    examples: {
      "cni metrics": "show them",
      "cni metrics --textfile /var/lib/node_exporter/textfile/cni.prom":
        "write them for node-exporter",
    },
    load: async () => (await import("./commands/metrics.ts")).metrics,
  },
  describeClusterGc("cni"),
  {
    name: "report",
    summary: "Collect the state of the node in an archive",
    about: [
      "Collects versions, configurations, caches, state folders, links, " +
      "addresses, routes and rules of the host and the attached namespaces, the " +
      "findings of cni doctor, and logs. Secrets are masked. Lists what was " +
      "collected.",
    ],
    args: [{
      name: "FILE",
      summary: "the archive, .tar.gz (default cni-report-HOST-TIME.tar.gz)",
      completes: "file",
      isOptional: true,
    }],
    flags: pick(...FOLDERS),
    timeout: "2m",
    examples: {
      "cni report": "write it into the current folder",
      "cni report /tmp/node7.tar.gz": "choose the file",
    },
    load: async () => (await import("./commands/report.ts")).report,
  },
  describeDaemon("/run/cni"),
  ...SERVICE_COMMANDS,
];

const FOLDER: Argument = {
  name: "FOLDER",
  summary: "folder of plugins, such as /opt/cni/bin",
  completes: "directory",
};

/** The commands that put this executable on a node. */
const INSTALL_COMMANDS: readonly CommandRow[] = [
  {
    name: "install",
    summary: "Install this executable and its plugins into a folder",
    about: [
      "Copies the executable to FOLDER/cni and links each plugin to it. Runtimes " +
      "can call plugins of the folder meanwhile. Files that are replaced are kept " +
      "in FOLDER/.cni-install and restored by cni uninstall.",
      "multus, multus-shim, passthru, debug, flannel, whereabouts and contivk8s " +
      "are installed only if --only names them. FOLDER is created if it does not " +
      "exist.",
      "On a node that systemd runs, and if runtimes use FOLDER by default, also " +
      "installs, enables and starts the node daemon, which makes calls faster. An " +
      "update restarts it. In an image, the daemon starts when the image is booted.",
    ],
    args: [FOLDER],
    flags: {
      ...pick("only", "copy", "link"),
      "no-daemon": { summary: "do not install or restart the node daemon" },
      ...pick("dry-run", "rollback", "force", "conf-dir", "cache-dir"),
    },
    examples: {
      "cni install /opt/cni/bin": "install or update all plugins",
      "cni install /opt/cni/bin --only ptp,host-local,portmap":
        "install some plugins",
      "cni install /opt/cni/bin --dry-run":
        "show what would be replaced, and what it means for the networks",
    },
    load: async () => (await import("./commands/install.ts")).install,
  },
  {
    name: "uninstall",
    summary: "Undo cni install: restore the files that it replaced",
    about: [
      "Removes the executable and its links, and restores the files that they " +
      "replaced, byte for byte. Files that another program has put in their place " +
      "are kept. Fails if a configuration or an attachment needs a plugin that " +
      "would be missing, unless --force is given. Stops and removes the node " +
      "daemon first, if it runs from FOLDER.",
    ],
    args: [FOLDER],
    flags: pick("dry-run", "force", "conf-dir", "cache-dir"),
    examples: {
      "cni uninstall /opt/cni/bin": "go back to the plugins from before",
    },
    load: async () => (await import("./commands/install.ts")).uninstall,
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
    about: [
      "The namespace is visible to ip netns. As with ip netns add, its loopback " +
      "link is down.",
    ],
    args: [{ name: "NAME", summary: "name of the namespace" }],
    examples: {
      "cni netns add blue": "create the namespace blue",
    },
    load: async () => (await import("./commands/netns.ts")).addNetns,
  },
  {
    name: "netns del",
    summary: "Delete a named network namespace",
    about: [
      "Deletes the name; the namespace itself ends with its last process. Fails " +
      "if the namespace is attached to networks, unless --force is given.",
    ],
    args: [NAME],
    flags: pick("force", "cache-dir"),
    examples: {
      "cni netns del blue": "delete the namespace blue",
    },
    load: async () => (await import("./commands/netns.ts")).delNetns,
  },
  {
    name: "netns list",
    summary: "Show the named network namespaces",
    flags: { ...LISTING, ...pick("cache-dir") },
    examples: {
      "cni netns list --json | jq -r '.[].name'": "list only the names",
    },
    load: async () => (await import("./commands/netns.ts")).listNetns,
  },
  {
    name: "netns exec",
    summary: "Run a program in a network namespace",
    about: [
      "The program replaces this process: it owns the terminal, receives the " +
      "signals and sets the exit code. It sees the namespace's links in /sys, " +
      "and the files of /etc/netns/NAME in /etc.",
    ],
    args: [NETNS, {
      name: "COMMAND",
      summary: "the program and its arguments",
      completes: "command",
      isRepeated: true,
    }],
    flags: pick("cache-dir"),
    isWrapper: true,
    examples: {
      "cni netns exec blue -- ip address": "show its links",
      "cni netns exec default/web -- ss -tlnp": "enter a pod",
    },
    load: async () => (await import("./commands/netns.ts")).execNetns,
  },
];

/** The commands for authors of plugins. */
const AUTHOR_COMMANDS: readonly CommandRow[] = [
  {
    name: "new plugin",
    summary: "Create a project with a plugin and its test",
    about: [
      "Writes the folder NAME with main.ts, plugin_test.ts, a configuration and " +
      "deno.json. Without --chained or --ipam, the plugin creates the interface.",
    ],
    args: [{ name: "NAME", summary: "type of the plugin, such as my-plugin" }],
    flags: pick("chained", "ipam", "checkout"),
    examples: {
      "cni new plugin greeter": "create the folder greeter",
      "cni new plugin greeter --chained --checkout ../cni-plugins":
        "work without access to jsr.io",
    },
    load: async () => (await import("./commands/new.ts")).newPlugin,
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
    examples: {
      "source <(cni completion bash)": "in ~/.bashrc",
      'cni completion zsh > "${fpath[1]}/_cni"':
        "once, with compinit in ~/.zshrc",
      "cni completion fish > ~/.config/fish/completions/cni.fish": "once",
    },
    load: async () => (await import("./commands/completion.ts")).completion,
  },
  ...OWN_ROWS,
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
    load: async () => (await import("./commands/completion.ts")).complete,
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
    remove: "del",
    rm: "del",
    sysdump: "report",
    verify: "check",
  },
  rows: [
    ...NETWORK_COMMANDS,
    ...NODE_COMMANDS,
    ...INSTALL_COMMANDS,
    ...NETNS_COMMANDS,
    ...AUTHOR_COMMANDS,
    ...OWN_COMMANDS,
  ],
};
