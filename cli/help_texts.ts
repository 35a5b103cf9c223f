/**
 * What the help of `cni` tells beside the table of commands. Few calls need it,
 * so that the build packs it.
 *
 * @module
 */

import { DEFAULT_SOCKET } from "../daemon/wire/daemon_socket.ts";
import type { HelpTexts } from "../base/command_line/command.ts";

const TEXTS: HelpTexts = {
  "add": {
    about: [
      "If a plugin fails or the time is up, ADD is undone: DEL runs for all " +
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
        "try a configuration before installing it",
    },
  },
  "check": {
    about: [
      "Compares what the result of ADD says with what there is, and prints " +
      "nothing if they agree. Also checks attachments made by a container runtime.",
    ],
    examples: {
      "cni check pods blue && echo fine": "use in a script",
    },
  },
  "del": {
    about: [
      "Uses the configuration and arguments of ADD, even if the network's " +
      "configuration has since changed or been removed. Continues if a plugin " +
      "fails. Can be repeated, even after the namespace is gone. If no " +
      "attachment is known, prints a note and still runs the plugins.",
    ],
    examples: {
      "cni del pods blue": "detach the namespace blue of ip netns",
      "cni del pods /proc/4711/ns/net --container-id 0a1b2c":
        "detach a container by its ID",
    },
  },
  "gc": {
    about: [
      "Keeps the attachments of the given namespaces and deletes all others of " +
      "the network. Then the network's plugins remove other leftovers. Do not " +
      "run it while a runtime attaches or detaches containers.",
      "With --orphans, looks for leftovers of containers that are gone, of all " +
      "networks and also of the Go plugins: leases, cached attachments, files, " +
      "links and firewall rules. It needs no runtime, and may run at any time. " +
      "Prints what it finds; with --yes, removes it.",
    ],
    examples: {
      "cni gc --orphans": "show what containers that are gone have left",
      "cni gc --orphans --yes --grace 1h": "remove what is older than an hour",
      "cni gc pods blue green:net1": "keep these, remove all others",
      "cni gc pods blue --dry-run": "show what would be deleted",
      "cni gc pods --all": "remove every attachment to pods",
    },
  },
  "trace": {
    about: [
      "Runs ADD, with --del also DEL, and shows a time line of plugins, requests " +
      "to the kernel, files and processes. Without NETNS, uses a throw-away " +
      "namespace; otherwise keeps the attachment without --del. With " +
      "--from, shows a trace that plugins wrote because CNI_TRACE=FILE was set in " +
      "their environment. Values of keys that look like secrets are masked.",
    ],
    examples: {
      "cni trace pods": "see where the time goes, in a throw-away namespace",
      "cni trace pods blue": "attach blue, and see where the time goes",
      "cni trace pods blue --del --svg add.svg --chrome add.json":
        "draw it, and write it for https://ui.perfetto.dev",
      "cni trace --from /run/trace": "show a trace of CNI_TRACE",
    },
  },
  "status": {
    about: ["Prints nothing if it is ready."],
    examples: {
      "cni status pods": "ask all plugins of the network pods",
    },
  },
  "validate": {
    about: [
      "Checks that the plugins exist, support the configuration's version, and " +
      "accept its keys and values, and that networks do not overlap. Keys of " +
      "third-party plugins are not checked. A file may also hold Kubernetes " +
      "objects in YAML; a directory stands for its files.",
      "Exits with 1 if there is an error; with --strict, also if there is a " +
      "warning. --ignore leaves out warnings that are meant so, by the codes at " +
      "their ends.",
    ],
    examples: {
      "cni validate ./new.conflist":
        "check a configuration before installing it",
      "cni validate --all --strict": "check all networks of this node",
      "cni validate --format github deploy/*.yaml":
        "annotate NetworkAttachmentDefinitions in CI",
    },
  },
  "init": {
    about: [
      "Asks on a terminal if no flag answers. Without --subnet, uses one that no " +
      "address, route or network of this node has. Without --type, uses bridge " +
      "if it is installed, else ptp. Validates the network before writing it, " +
      "and replaces a file only with --force.",
    ],
    examples: {
      "cni init": "answer questions",
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
      "Editors complete and check configurations with it. --all --output DIRECTORY " +
      "writes one file for each schema.",
    ],
    examples: {
      "cni schema > conflist.json": "write the schema of *.conflist files",
      "cni schema --all --output schemas": "write all schemas into a directory",
    },
  },
  "convert": {
    about: [
      "Turns a list of plugins into a list with the single plugin chain, which " +
      "runs the others, or the reverse. Nothing else changes: converting a list " +
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
        "have the node daemon attach pods, by one call each",
      "cni convert --to list old.conf --output new.conflist":
        "convert a bare plugin to a list",
    },
  },
  "daemon enable": {
    about: [
      "Has systemd run the daemon of this executable. cni install does the same " +
      "on a node that systemd runs.",
    ],
    examples: { "cni daemon enable": "run the daemon again" },
  },
  "daemon disable": {
    about: [
      "Plugins then do the work themselves. An update by cni install does not " +
      "start the daemon again.",
    ],
    examples: { "cni daemon disable": "have its memory back" },
  },
  "daemon restart": {
    about: ["Calls that run have 10 s to finish; others are not lost."],
    examples: { "cni daemon restart": "run another version" },
  },
  "daemon status": {
    about: [
      `Shows the process that listens on ${DEFAULT_SOCKET}, whoever has started ` +
      "it. Exits with 1 if there is none.",
    ],
    examples: {
      "cni daemon status": "show it",
      "cni daemon status --json | jq .running": "use in a script",
    },
  },
  "list": {
    about: [
      "Includes attachments made by runtimes that use the same cache. EXISTS is " +
      "no if the namespace is gone but the attachment is still cached.",
    ],
    examples: {
      "cni list": "show all",
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
      "from the cached results of ADD, and what no attachment explains as foreign.",
    ],
    examples: {
      "cni show": "show the node",
      "cni show default/web": "show one pod",
      "cni show --svg node.svg": "draw a picture",
      "cni show --watch": "follow changes",
    },
  },
  "networks": {
    about: [
      "With NETWORK, tells all about one: subnets, used and free addresses, " +
      "gateways, its bridge or master, the node daemon, and what is attached.",
    ],
    examples: {
      "cni networks": "show all",
      "cni networks pods": "tell all about one",
      "cni networks --exit-code > /dev/null": "use in a script",
    },
  },
  "plugins": {
    about: [
      "Asks each plugin for its versions. --timeout applies to each plugin.",
    ],
    examples: {
      "cni plugins --cni-path dist/bin:/opt/cni/bin":
        "show which of two directories a plugin comes from",
    },
  },
  "logs": {
    about: [
      "Reads the log file that /etc/cni/log.json or CNI_LOG_FILE names " +
      "(default /var/log/cni/plugins.log), and its older part, or the journal.",
    ],
    examples: {
      "cni logs --raw | grep msg=": "search the lines as they are",
      "cni logs default/web": "show what happened to a pod",
      "cni logs --level error -n 20": "show the last errors",
    },
  },
  "doctor": {
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
    examples: {
      "cni doctor": "check the node",
      "cni doctor --wait 2m": "in a script: wait until the node is ready",
      "cni doctor --pod default/web": "show where the packets of a pod end",
      "cni doctor --try": "prove that each network works",
      "cni doctor --fix": "also fix what is safe to fix",
      "cni doctor --json | jq -r '.findings[].code'": "use in a script",
    },
  },
  "probe": {
    about: [
      "Pings from A to B and back, from inside their namespaces; with PORT, also " +
      "connects from A to B by TCP. Needs no program in the containers. If " +
      "something does not arrive, shows where the packets of A and B end, as " +
      "cni doctor --pod does. Exits with 1 if something does not arrive.",
    ],
    examples: {
      "cni probe default/web default/db 5432": "try a connection of two pods",
      "cni probe blue 10.96.0.1 443": "try an address",
    },
  },
  "metrics": {
    about: [
      "Prints gauges in the text format of Prometheus. --textfile replaces a " +
      "file atomically. A metric that cannot be read is missing, and " +
      "cni_metric_failed is 1 for it; the exit code is 1 then. --findings runs " +
      "the checks of cni doctor, and counts what they find instead.",
    ],
    examples: {
      "cni metrics": "show them",
      "cni metrics --textfile /var/lib/node_exporter/textfile/cni.prom":
        "write them for node-exporter",
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
      "cni report": "write it into the current directory",
      "cni report /tmp/node7.tar.gz": "choose the file",
    },
  },
  "install": {
    about: [
      "Copies the executable to DIRECTORY/cni and links each plugin to it. Runtimes " +
      "can call plugins of the directory meanwhile. Files that are replaced are kept " +
      "in DIRECTORY/.cni-install and restored by cni uninstall.",
      "multus, multus-shim, passthru, debug, flannel, whereabouts and contivk8s " +
      "are installed only if --only names them. DIRECTORY is created if it does not " +
      "exist.",
      "On a node that systemd runs, and if runtimes use DIRECTORY by default, also " +
      "installs, enables and starts the node daemon, which makes calls faster. An " +
      "update restarts it. In an image, the daemon starts when the image is booted.",
    ],
    examples: {
      "cni install /opt/cni/bin": "install or update all plugins",
      "cni install /opt/cni/bin --only ptp,host-local,portmap":
        "install some plugins",
      "cni install /opt/cni/bin --dry-run":
        "show what would be replaced, and what it means for the networks",
    },
  },
  "uninstall": {
    about: [
      "Removes the executable and its links, and restores the files that they " +
      "replaced, byte for byte. Files that another program has put in their place " +
      "are kept. Fails if a configuration or an attachment needs a plugin that " +
      "would be missing, unless --force is given. Stops and removes the node " +
      "daemon's service first, if it is that of DIRECTORY. End a daemon that " +
      "systemd does not run yourself.",
    ],
    examples: {
      "cni uninstall /opt/cni/bin": "go back to the plugins from before",
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
      "Deletes the name; the namespace itself ends with its last process. Fails " +
      "if the namespace is attached to networks, unless --force is given.",
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
      "cni netns exec blue -- ip address": "show its links",
      "cni netns exec default/web -- ss -tlnp": "enter a pod",
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
      "Calls executables as a runtime would, in throw-away network and mount " +
      "namespaces, and tries each demand of the CNI specification: versions, " +
      "errors, inputs, ADD, DEL, CHECK, GC, STATUS, 20 containers at once, and an " +
      "ADD that is killed at each system call. Prints which are kept, what shows " +
      "a defect, and what the executable needs. Needs root and iproute2; strace " +
      "and setpriv for some.",
      "What plugins need is guessed by type, or said in --config. Exits with 1 if " +
      "a MUST is broken (with --strict also a SHOULD), and with 3 if nothing " +
      "could be tried.",
    ],
    examples: {
      "cni conform /opt/cni/bin --html matrix.html":
        "try all plugins of a directory",
      "cni conform ./greeter --cni-path /opt/cni/bin":
        "try one, with the IPAM plugins of a directory",
      "cni conform --demand del-twice ./greeter": "show a defect, step by step",
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
