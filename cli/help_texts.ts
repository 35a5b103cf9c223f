/**
 * The help of `cni` in addition to the table of commands. Few calls need these
 * texts, so the build packs them.
 *
 * @module
 */

import { DEFAULT_SOCKET } from "../daemon/wire/daemon_socket.ts";
import type { HelpTexts } from "../base/command_line/command.ts";

const TEXTS: HelpTexts = {
  "add": {
    about: [
      "If a plugin fails or the time limit expires, the command runs DEL for all " +
      "plugins. --timeout limits ADD, and --undo-timeout limits DEL. Fails if the " +
      "namespace already has an attachment with this interface name.",
      "Passes CNI_ARGS (K=V;K=V) and CAP_ARGS (a JSON object keyed by capability) " +
      "to the plugins.",
    ],
    examples: {
      "cni add pods blue": "attach the namespace blue of ip netns",
      "cni add pods /proc/4711/ns/net -i net1 --json | jq .ips":
        "attach a second interface to a process, and show its addresses",
      "cni add ./new.conflist blue --timeout 10s":
        "test a configuration before you install it",
    },
  },
  "check": {
    about: [
      "Compares the result of ADD with the kernel's state, and prints nothing if " +
      "they agree. Also checks attachments that a container runtime made.",
    ],
    examples: {
      "cni check pods blue && echo fine": "use in a script",
    },
  },
  "repair": {
    about: [
      "Restores what CHECK finds missing on the host: rules, addresses, routes, " +
      "bridge ports, forwarding. Does not change containers that lack nothing, " +
      "and changes nothing inside containers without --sandbox. Exits with 1 if " +
      "something is still missing.",
    ],
    examples: {
      "cni repair --all": "after firewalld was reloaded or rules were flushed",
      "cni repair --all --dry-run": "only show what is missing",
    },
  },
  "del": {
    about: [
      "Uses the configuration and arguments of ADD, even if the network's " +
      "configuration was changed or removed since. Continues if a plugin fails. " +
      "Is idempotent, even after the namespace was deleted. If the cache contains " +
      "no such attachment, prints a note and still runs the plugins.",
    ],
    examples: {
      "cni del pods blue": "detach the namespace blue of ip netns",
      "cni del pods /proc/4711/ns/net --container-id 0a1b2c":
        "detach a container by its ID",
    },
  },
  "gc": {
    about: [
      "Keeps the attachments of the given namespaces and deletes all other " +
      "attachments to the network. Then the network's plugins remove other " +
      "orphans. Do not run it while a runtime attaches or detaches containers.",
      "With --orphans, finds resources of deleted containers in all networks, even " +
      "if the Go plugins created them: leases, cached attachments, files, links and " +
      "firewall rules. It can run at any time. Lists the orphans; with --yes, " +
      "removes them.",
    ],
    examples: {
      "cni gc --orphans": "show resources of deleted containers",
      "cni gc --orphans --yes --grace 1h":
        "remove orphans that are older than an hour",
      "cni gc pods blue green:net1":
        "keep these attachments, remove all others",
      "cni gc pods blue --dry-run": "show what would be deleted",
      "cni gc pods --all": "remove every attachment to pods",
    },
  },
  "trace": {
    about: [
      "Runs ADD, with --del also DEL, and shows a time line of plugins, requests " +
      "to the kernel, files and processes. Without NETNS, uses a temporary " +
      "namespace; with NETNS, keeps the attachment unless --del is given. With " +
      "--from, shows a trace that plugins wrote because CNI_TRACE=FILE was set in " +
      "their environment. Values of keys that look like secrets are masked.",
    ],
    examples: {
      "cni trace pods": "see where the time goes, in a temporary namespace",
      "cni trace pods blue": "attach blue, and see where the time goes",
      "cni trace pods blue --del --svg add.svg --chrome add.json":
        "draw the trace, and write it for https://ui.perfetto.dev",
      "cni trace --from /run/trace": "show a trace of CNI_TRACE",
    },
  },
  "status": {
    about: ["Prints nothing if the network is ready."],
    examples: {
      "cni status pods": "query all plugins of the network pods",
    },
  },
  "validate": {
    about: [
      "Checks that the plugins exist, support the configuration's version, and " +
      "accept its keys and values, and that networks do not overlap. Keys of " +
      "third-party plugins are not checked. A file can also contain Kubernetes " +
      "objects in YAML; a directory stands for its files.",
      "Exits with 1 if there is an error or, with --strict, a warning. --ignore " +
      "omits intended warnings; each warning ends with its code.",
    ],
    examples: {
      "cni validate ./new.conflist":
        "check a configuration before you install it",
      "cni validate --all --strict": "check all networks of this node",
      "cni validate --format github deploy/*.yaml":
        "annotate NetworkAttachmentDefinitions in CI",
    },
  },
  "init": {
    about: [
      "On a terminal, prompts for the values that no flag gives. Without --subnet, " +
      "uses a subnet that no address, route or network of this node overlaps. " +
      "Without --type, uses bridge if it is installed, and otherwise ptp. " +
      "Validates the network before it writes the file, and replaces a file only " +
      "with --force.",
    ],
    examples: {
      "cni init": "answer prompts",
      "cni init --name pods --type bridge --ipv6 --bandwidth":
        "write /etc/cni/net.d/10-pods.conflist",
      "cni init --type macvlan --master eth1 --subnet 192.168.7.0/24 --output -":
        "show a network without writing it",
    },
  },
  "explain": {
    about: ["Without KEY, lists the plugins. See docs/validate.md."],
    examples: {
      "cni explain bridge": "show the keys of bridge",
      "cni explain bridge.vlanTrunk": "show one key",
      "cni explain CNI0601": "show what a finding means, and its fix",
    },
  },
  "schema": {
    about: [
      "Editors use the schema to complete and check configurations. --all --output " +
      "DIRECTORY writes one file for each schema.",
    ],
    examples: {
      "cni schema > conflist.json": "write the schema of *.conflist files",
      "cni schema --all --output schemas": "write all schemas into a directory",
    },
  },
  "convert": {
    about: [
      "Turns a network list into a list with the single plugin chain, which runs " +
      "the other plugins, or the reverse. Nothing else changes: converting a list " +
      "twice restores it.",
    ],
    examples: {
      "cni convert pods": "show the other form",
      "cni convert pods --diff": "show what would change",
      "cni convert --to list --write /etc/cni/net.d/":
        "convert all files of a directory",
      "cni convert --to chain --write /etc/cni/net.d/10-pods.conflist":
        "start fewer processes for each pod",
      "cni convert --to chain --daemon --write pods":
        "let the node daemon attach each pod with one call",
      "cni convert --to list old.conf --output new.conflist":
        "convert a single-plugin configuration to a list",
    },
  },
  "daemon enable": {
    about: [
      "Installs, enables and starts the systemd unit that runs the daemon of this " +
      "executable. cni install does the same where systemd runs.",
    ],
    examples: { "cni daemon enable": "start the daemon again" },
  },
  "daemon disable": {
    about: [
      "Plugins then run their calls locally. An update with cni install does not " +
      "start the daemon again.",
    ],
    examples: { "cni daemon disable": "free its memory" },
  },
  "daemon restart": {
    about: ["Running calls have 10 s to finish. No call is lost."],
    examples: { "cni daemon restart": "run a different version" },
  },
  "daemon status": {
    about: [
      `Shows the process that listens on ${DEFAULT_SOCKET}, regardless of what ` +
      "started it. Exits with 1 if no process listens.",
    ],
    examples: {
      "cni daemon status": "show the daemon",
      "cni daemon status --json | jq .running": "use in a script",
    },
  },
  "list": {
    about: [
      "Includes attachments made by runtimes that use the same cache. EXISTS is " +
      "no if the namespace was deleted but the attachment is still cached. " +
      "MISSING names the networks that a pod requests and does not have, if a " +
      "node daemon follows the node's pods.",
    ],
    examples: {
      "cni list": "show all attachments",
      "cni list --pod default/web": "show the networks of a pod",
      "cni list pods --json | jq -r '.[].addresses[]'":
        "list the addresses in use",
    },
  },
  "show": {
    about: [
      "Reads the live state from the kernel: bridges and uplinks, the namespaces " +
      "that are connected to them, and the addresses, routes, rules, limits, " +
      "masquerade, port maps and VLANs of their interfaces. Marks differences " +
      "from the cached results of ADD, and marks objects without an attachment as " +
      "foreign.",
    ],
    examples: {
      "cni show": "show the node",
      "cni show default/web": "show one pod",
      "cni show --svg node.svg": "draw a diagram",
      "cni show --watch": "follow changes",
    },
  },
  "networks": {
    about: [
      "With NETWORK, shows the details of one network: subnets, used and free " +
      "addresses, gateways, its bridge or master, the node daemon, and its pods.",
    ],
    examples: {
      "cni networks": "show all networks",
      "cni networks pods": "show the details of one network",
      "cni networks --exit-code > /dev/null": "use in a script",
    },
  },
  "plugins": {
    about: [
      "Queries each plugin for its versions. --timeout applies to each plugin.",
    ],
    examples: {
      "cni plugins --cni-path dist/bin:/opt/cni/bin":
        "show which of two directories a plugin comes from",
    },
  },
  "logs": {
    about: [
      "Reads the log file that /etc/cni/log.json or CNI_LOG_FILE names " +
      "(default /var/log/cni/plugins.log), with the file that was rotated before " +
      "it, or the journal.",
    ],
    examples: {
      "cni logs --raw | grep msg=": "search the unchanged lines",
      "cni logs default/web": "show what happened to a pod",
      "cni logs --level error -n 20": "show the last errors",
    },
  },
  "doctor": {
    about: [
      "Inspects the kernel, plugins, configurations, disks, addresses, sysctls, " +
      "rules, limits, daemons and every attachment. Each finding states its " +
      "effect, its fix, and a code that cni explain describes.",
      "Exits with 0 if there is no error, with 1 if there are errors, and with 3 " +
      "if there are none but a check could not run. With --strict, warnings count " +
      "as errors.",
      "It sends a few packets from each container and to it. The kernel reports " +
      "what drops a lost packet: a rule with its handle, or a function.",
      "--pod sends the packets of one pod, and shows which arrive. --to names an " +
      "address to reach, and --from the sender: a container, node, or outside.",
      "--fix fixes what is safe to fix, and reports each change. It never changes " +
      "a running container.",
      "--try attaches two temporary namespaces, A and B, to each network. They " +
      "send packets to each other, the node, gateways and the outside, and query " +
      "the name server. Then --try runs CHECK, detaches them, and restores what " +
      "ADD changed on the node. It shows which packets arrived, and what stopped " +
      "the others; --svg draws the report. Exits with 1 if something failed.",
      "--wait checks again until the exit code is 0 or the time limit expires; " +
      "--timeout then limits each run.",
    ],
    examples: {
      "cni doctor": "check the node",
      "cni doctor --wait 2m": "in a script: wait until the node is ready",
      "cni doctor --pod default/web": "show where the packets of a pod stop",
      "cni doctor --pod default/web --to 203.0.113.7:443": "test an address",
      "cni doctor --try": "prove that each network works",
      "cni doctor --fix": "also fix what is safe to fix",
      "cni doctor --json | jq -r '.findings[].code'": "use in a script",
    },
  },
  "probe": {
    about: [
      "Pings from A to B and back, from inside their namespaces. With PORT, also " +
      "opens a TCP connection from A to B. Needs no program in the containers. If " +
      "a packet does not arrive, shows where it stops, as cni doctor --pod does, and " +
      "exits with 1.",
    ],
    examples: {
      "cni probe default/web default/db 5432":
        "test a connection between two pods",
      "cni probe blue 10.96.0.1 443": "test an address",
    },
  },
  "metrics": {
    about: [
      "Prints gauges in the text format of Prometheus. --textfile replaces a " +
      "file atomically. A metric that cannot be read is omitted: " +
      "cni_metric_failed is 1 for it, and the exit code is 1. --findings runs the " +
      "checks of cni doctor, and counts their findings instead.",
    ],
    examples: {
      "cni metrics": "show the metrics",
      "cni metrics --textfile /var/lib/node_exporter/textfile/cni.prom":
        "write the metrics for node-exporter",
    },
  },
  "report": {
    about: [
      "Collects versions, configurations, caches, state directories, links, " +
      "addresses, routes and rules of the host and the attached namespaces, the " +
      "findings of cni doctor, and logs. Secrets are masked. Lists what was " +
      "collected.",
    ],
    examples: {
      "cni report": "write the archive into the current directory",
      "cni report /tmp/node7.tar.gz": "choose the file",
    },
  },
  "install": {
    about: [
      "Copies the executable to DIRECTORY/cni and links each plugin to it. Runtimes " +
      "can keep calling plugins during the installation. Replaced files are kept " +
      "in DIRECTORY/.cni-install, and cni uninstall restores them.",
      "multus, multus-shim, passthru, debug, flannel, whereabouts and contivk8s " +
      "are installed only if --only names them. DIRECTORY is created if it does not " +
      "exist.",
      "Where systemd runs, and if runtimes use DIRECTORY by default, also installs, " +
      "enables and starts the node daemon, which makes calls faster. An update " +
      "restarts it. In an image, the daemon starts when the image boots.",
    ],
    examples: {
      "cni install /opt/cni/bin": "install or update all plugins",
      "cni install /opt/cni/bin --only ptp,host-local,portmap":
        "install some plugins",
      "cni install /opt/cni/bin --dry-run":
        "show what would be replaced, and how that affects the networks",
    },
  },
  "uninstall": {
    about: [
      "Removes the executable and its links, and restores the files that they " +
      "replaced, byte for byte. Keeps files that a different program put in their " +
      "place. Fails if a configuration or an attachment needs a plugin that would " +
      "be missing, unless --force is given. If the node daemon runs from " +
      "DIRECTORY, stops it and removes its unit first, or fails. If systemd did " +
      "not start the daemon, stop it yourself.",
    ],
    examples: {
      "cni uninstall /opt/cni/bin":
        "restore the plugins from before cni install",
    },
  },
  "netns add": {
    about: [
      "The namespace is visible to ip netns. As with ip netns add, its loopback " +
      "link is down.",
    ],
    examples: {
      "cni netns add blue": "create the namespace blue",
    },
  },
  "netns del": {
    about: [
      "Deletes the name; the kernel deletes the namespace after its last process " +
      "exits. Fails if the namespace is attached to networks, unless --force is " +
      "given.",
    ],
    examples: {
      "cni netns del blue": "delete the namespace blue",
    },
  },
  "netns list": {
    examples: {
      "cni netns list --json | jq -r '.[].name'": "list only the names",
    },
  },
  "netns exec": {
    about: [
      "The program replaces this process: it owns the terminal, receives the " +
      "signals and sets the exit code. It sees the namespace's links in /sys, " +
      "and the files of /etc/netns/NAME in /etc.",
    ],
    examples: {
      "cni netns exec blue -- ip address": "show the links of a namespace",
      "cni netns exec default/web -- ss -tlnp":
        "run a program in a pod's namespace",
    },
  },
  "new plugin": {
    about: [
      "Writes the directory NAME with main.ts, plugin_test.ts, a configuration and " +
      "deno.json. Without --chained or --ipam, the plugin creates the interface.",
    ],
    examples: {
      "cni new plugin greeter": "create the directory greeter",
      "cni new plugin greeter --chained --checkout ../cni-plugins":
        "work without access to jsr.io",
    },
  },
  "conform": {
    about: [
      "Calls executables as a runtime would, in temporary network and mount " +
      "namespaces, and tests each requirement of the CNI specification: versions, " +
      "errors, inputs, ADD, DEL, CHECK, GC, STATUS, 20 containers at the same " +
      "time, and an ADD that is killed at each system call. Prints the results, the " +
      "calls that show a defect, and what the executable needs. Needs root and " +
      "iproute2 and, for some requirements, strace and setpriv.",
      "What a plugin needs is derived from its type, or stated in --config. Exits " +
      "with 1 if a MUST fails (with --strict also a SHOULD), and with 3 if " +
      "nothing could be tested.",
    ],
    examples: {
      "cni conform /opt/cni/bin --html matrix.html":
        "test all plugins of a directory",
      "cni conform ./greeter --cni-path /opt/cni/bin":
        "test one plugin, with the IPAM plugins of a directory",
      "cni conform --requirement del-twice ./greeter":
        "show a defect, step by step",
      "cni conform --junit conform.xml ./greeter": "use in CI",
    },
  },
  "completion": {
    examples: {
      "source <(cni completion bash)": "in ~/.bashrc",
      'cni completion zsh > "${fpath[1]}/_cni"':
        "once, with compinit in ~/.zshrc",
      "cni completion fish > ~/.config/fish/completions/cni.fish": "once",
    },
  },
};

/** Loads the texts. The build packs what this returns. */
export function loadHelpTexts(): Promise<HelpTexts> {
  return Promise.resolve(TEXTS);
}
