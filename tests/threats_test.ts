/**
 * Every known threat has a defence, and a test that shows it. docs/security.md is
 * the summary.
 */

import { assert } from "@std/assert";

const ROOT = new URL("..", import.meta.url);

/** A threat, the defence against it, and the test that shows the defence. */
type Threat = readonly [
  threat: string,
  defence: string,
  file: string,
  name: string,
];

const THREATS: Readonly<Record<string, readonly Threat[]>> = {
  "Names and paths": [
    [
      "a container ID, network or interface name becomes a path",
      "names are checked as the specification says",
      "cni/call/args_test.ts",
      "the names in a call are checked",
    ],
    [
      "a name that leads out of the cache",
      "refused",
      "libcni/cache_test.ts",
      "AttachmentCache refuses names that lead to other paths",
    ],
    [
      "a container ID that is a directory of multus",
      "refused",
      "plugins/multus/records/scratch_cache_test.ts",
      "ScratchCache.write() refuses container IDs",
    ],
    [
      "a plugin type such as `../../bin/sh`",
      "refused",
      "cni/invoke/find_test.ts",
      "findExecutable() refuses what it cannot find",
    ],
    [
      "a network name that leads to another directory",
      "refused",
      "libcni/conf_files_test.ts",
      "readNetworkConfList() refuses names that lead to another directory",
    ],
    [
      "a pod or network name changes the API request",
      "names are escaped",
      "kube/request_test.ts",
      "apiPath() joins names that cannot change the path",
    ],
    [
      "an interface name from an annotation",
      "checked as the kernel would",
      "plugins/multus/select/annotations_test.ts",
      "parseNetworks() refuses interface names",
    ],
  ],
  "State on disk": [
    [
      "other users read leases, caches, results",
      "directories are 0700, files 0600",
      "libcni/cache_test.ts",
      "AttachmentCache.writeAttachment() creates files that only the owner can read",
    ],
    [
      "other users create a lock file in advance",
      "lock files are created for root alone",
      "libcni/lock_test.ts",
      "AttachmentLocks creates its directory and files for the owner only",
    ],
    [
      "another user holds a lock, and calls wait",
      "only root can open the locked files",
      "tests/locks_test.ts",
      "waits for no lock of another user",
    ],
    [
      "a stuck process keeps the lock of a sandbox: no pod is deleted",
      "DEL continues without the lock",
      "plugins/parts/sandbox/lock_netns_test.ts",
      "lockSandboxIfPossible() continues at the time limit",
    ],
    [
      "a pipe or device replaces a file, so that calls hang",
      "only regular files up to 16 MiB are read",
      "tests/hostile_node_test.ts",
      "neither hangs on a planted file nor prints or changes a link's target",
    ],
    [
      "a link replaces a file",
      "files are replaced by rename, and content is never printed",
      "tests/hostile_node_test.ts",
      "neither hangs on a planted file nor prints or changes a link's target",
    ],
    [
      "a temporary file of a crashed or concurrent process",
      "reused or left alone",
      "base/files/replace_test.ts",
      "replaceFile() leaves another process's unfinished file alone",
    ],
    [
      "`--textfile`, `--pid-file` or an output is a different user's link",
      "the path is walked by descriptors; such links are refused, and files replaced by rename",
      "ffi/file/given_file_test.ts",
      "follows no link that another user has put there",
    ],
    [
      "the file of a trace is a link",
      "opened without following links",
      "cli/trace/tracing_test.ts",
      "startTracing() follows no link",
    ],
    [
      "the file of `debug` is a link",
      "opened without following links",
      "plugins/debug/record_test.ts",
      "recordCall() appends to a file, and follows no link",
    ],
    [
      "the log file is a link",
      "opened without following links",
      "base/log/log_file_test.ts",
      "appendToLog() follows no link, and writes to nothing but files",
    ],
    [
      "a log that fills the disk",
      "two files of 1 MiB; records of 8 KiB",
      "base/log/log_file_test.ts",
      "appendToLog() takes no more than twice a megabyte",
    ],
  ],
  "Network namespaces": [
    [
      "CNI_NETNS is the host's own namespace",
      "ADD and DEL compare device and inode",
      "cni/skel_test.ts",
      "dispatch() compares the sandbox with the plugin's own namespace",
    ],
    [
      "the path resolves to the host's namespace after a reboot",
      "the runtime's side leaves the namespace out of DEL",
      "libcni/operation_test.ts",
      "dropRecycledNetns() keeps DEL out of the runtime's own namespace",
    ],
    [
      "the path leads to a different pod at DEL",
      "DEL changes only what the attachment's ADD created",
      "plugins/tuning/plugin_test.ts",
      "tuning.del() changes no other pod at the same path",
    ],
    [
      "the same, for routing rules",
      "rules carry the container's ID",
      "plugins/sbr/release_test.ts",
      "sbr.del() does not change another pod's sandbox",
    ],
    [
      "the path leads to the host's namespace after the comparison",
      "the opened namespace is compared again",
      "tests/replaced_netns_test.ts",
      "a daemon changes nothing in a namespace that replaces the sandbox",
    ],
    [
      "the path changes between open and use",
      "the path is opened once; sockets stay in their namespace",
      "ffi/netlink/socket_test.ts",
      "NetlinkSocket stays in the namespace where it was opened",
    ],
    [
      "DEL of a pod removes the firewall rules of another pod that has the same address",
      "an address keeps its rules until its last living owner is deleted",
      "plugins/firewall/shared_address_test.ts",
      "firewall.del() keeps an address that other containers have",
    ],
    [
      "a container creates a link that looks like its device",
      "a record on the host, with properties that only the kernel sets",
      "plugins/host_device/attack_test.ts",
      "host-device.del() moves none of the container's own links to the host",
    ],
    [
      "a container chooses a name on the host",
      "the name comes from the record; alternative names stay in the container",
      "plugins/host_device/attack_test.ts",
      "host-device.del() restores the device, whatever its container changed",
    ],
    [
      "a container keeps a macvlan on its device, and so the device's network",
      "DEL deletes the container's links on the device once it has left",
      "plugins/host_device/attack_test.ts",
      "a macvlan on it",
    ],
    [
      "a pod takes the address of its network's router",
      "gateways of a definition are never offered",
      "tests/pod_attacks_test.ts",
      "the address of the router of a network",
    ],
    [
      "a container takes a million names that DEL tries on the host",
      "at most eleven names are tried, and most numbers are random",
      "plugins/host_device/attack_test.ts",
      "host-device.del() tries few names, however many its container takes",
    ],
    [
      "a container changes its device during DEL",
      "DEL moves the device again, and checks it on the host",
      "plugins/host_device/attack_test.ts",
      "host-device.del() returns the device while its container changes it",
    ],
    [
      "a container makes a veth pair with the indexes of another container's, before DEL",
      "the kernel has to show that the host's end leads to the container",
      "plugins/parts/link/delete_veth_test.ts",
      "DEL of ptp and bridge keeps the Go plugin's veth pair of another container",
    ],
    [
      "the same before REPAIR, or a container gives an interface the name of another one",
      "the result has to list the host's end as well",
      "plugins/parts/link/delete_veth_test.ts",
      "REPAIR of ptp and bridge does not change host ends of other attachments",
    ],
    [
      "a container replaces its macvlan or ipvlan by one on a link of its own, with an index of the host's",
      "REPAIR makes no link on another one than the kernel shows",
      "plugins/parts/link/host_access_test.ts",
      "with hostAccess creates no link on a master that the container chose",
    ],
    [
      "a container changes its MAC, so that REPAIR allows it",
      "the MAC in the result is allowed",
      "plugins/bridge/mac_spoofing_test.ts",
      "REPAIR does not allow a MAC address that the container set itself",
    ],
    [
      "a container renames its loopback, which nobody can delete, so that DEL fails",
      "DEL finds links by their kind as well",
      "tests/renamed_link_test.ts",
      "and its chained plugins succeed, whatever the container did",
    ],
    [
      "a pod names its macvlan like the host's bridge or uplink, so that `ingressPolicy` applies there",
      "the policy is for an interface of the host",
      "plugins/firewall/plugin_test.ts",
      "firewall sets the policy for a host link, not for a container link",
    ],
    [
      "a container takes the MAC of another machine, so that `cni doctor` deletes that machine's entry",
      "the MAC in the result decides",
      "cli/doctor/testing/faults/links.ts",
      "a container that takes the MAC of another machine behind its bridge",
    ],
    [
      "a pod requests the MAC of a running pod",
      "`bridge` and `tuning` refuse the MAC of another port; the kernel refuses it for `macvlan`",
      "plugins/bridge/taken_mac_test.ts",
      "bridge.add() refuses the MAC of another port",
    ],
    [
      "a pod requests an address of a running pod or of the host",
      "`bridge` refuses the address of another port, and a gateway in the host's networks",
      "plugins/bridge/requested_test.ts",
      "bridge.add() refuses another container's address",
    ],
    [
      "the same over an IPAM plugin that assigns requests outside its ranges",
      "what the call requests is checked, whichever plugin assigns it",
      "plugins/parts/address/free_ip_test.ts",
      "requestedIpsOf() lists addresses that are not configured",
    ],
    [
      "a pod requests the address of the host or its router on the master's network",
      "`macvlan` and `ipvlan` refuse it",
      "plugins/parts/link/on_master_test.ts",
      "refuses an address that the host has on the master",
    ],
    [
      "a neighbour advertises itself as a router before `tuning` sets `accept_ra` to 0",
      "ADD deletes the learned addresses and routes",
      "plugins/tuning/learned_test.ts",
      "tuning.add() deletes the addresses and routes of a router that it disables",
    ],
    [
      "a thread cannot leave a sandbox",
      "the process exits",
      "base/service/wrong_netns_test.ts",
      "a service that cannot return from a namespace ends with 70",
    ],
    [
      "a container claims all addresses of a network by links that it makes",
      "host-local restores the addresses that the host knows, and one other of each range set",
      "ipam/host_local/recovery/lost_leases_test.ts",
      "host-local restores one claimed address of a container with forged links",
    ],
    [
      "a container claims the address of another one, whose lease is lost",
      "the runtime's cache and the host's routes decide",
      "plugins/parts/evidence/attached_test.ts",
      "listLiving() reads addresses and attachments from the runtime's cache",
    ],
  ],
  "Evidence of living containers": [
    [
      "a process puts a device or a leased file where a namespace was mounted",
      "no file is opened that is not a namespace",
      "plugins/parts/evidence/processes_test.ts",
      "evidence: only namespace files are opened",
    ],
    [
      "a process replaces its descriptor of a namespace between two looks",
      "the file is compared before it is opened",
      "ffi/netns_test.ts",
      "NetNs.openUntrusted() opens nothing but namespaces",
    ],
    [
      "a namespace has a million addresses",
      "the list ends at a limit",
      "ffi/netlink/socket_test.ts",
      "NetlinkSocket receives lists up to its limit",
    ],
    [
      "a container hides its address among too many others",
      "everything is kept if not all addresses could be read",
      "plugins/parts/evidence/processes_test.ts",
      "evidence: too many addresses keep all resources",
    ],
    [
      "command lines, environments and lists of mounts of gigabytes",
      "only the beginning is read",
      "base/process/process_files_test.ts",
      "readStart() reads as much as it may",
    ],
    [
      "a process has half a million descriptors",
      "they are counted instead of listed",
      "plugins/parts/evidence/processes_test.ts",
      "evidence: a large descriptor table is searched",
    ],
    [
      "many short names in long command lines and environments",
      "names are copied, so that the rest does not stay in memory",
      "base/process/process_files_test.ts",
      "copyText() does not keep the whole text in memory",
    ],
    [
      "a container's resolv.conf, or a runtime's configuration, leads to a device or a pipe",
      "nothing but regular files is opened",
      "ffi/file/untrusted_file_test.ts",
      "readUntrusted() opens nothing but regular files",
    ],
    [
      "a user's process has the name of a runtime, and limits or files of its own",
      "`cni doctor` reads only files of root's runtimes",
      "cli/doctor/runtimes_test.ts",
      "cni doctor reads only files of root's runtimes",
    ],
    [
      "a user's process has the environment of a plugin, so that orphans are kept",
      "only processes of root count as plugins",
      "plugins/parts/evidence/processes_test.ts",
      "evidence: only root's processes count as plugins",
    ],
  ],
  "The host's loopback": [
    [
      "a container with CAP_NET_RAW or a neighbour sends packets to 127.0.0.1 through a link that portmap has opened",
      "packets of 127.0.0.0/8 from this link are dropped, whichever backend forwards the ports",
      "plugins/portmap/loopback_test.ts",
      "containers cannot reach it, before and after DEL",
    ],
    [
      "a container advertises itself as the host's router",
      "the host's links to containers ignore advertisements",
      "plugins/bridge/gateway_test.ts",
      "a gateway bridge ignores router advertisements",
    ],
    [
      "a pod gets the address of the node, its router or a neighbour, and so the node's traffic",
      "`ptp` refuses it",
      "plugins/ptp/free_addresses_test.ts",
      "ptp.add() refuses an address that the host reaches elsewhere",
    ],
    [
      "a pod gets the address of another living container",
      "`ptp` refuses it",
      "plugins/ptp/free_addresses_test.ts",
      "ptp.add() refuses the address of a running container",
    ],
  ],
  "Input": [
    [
      "a name from a router or a DHCP server that is a line of resolv.conf",
      "only names of domains are accepted",
      "net/domain_names_test.ts",
      "isDomainName() refuses other texts",
    ],
    [
      "an answer of a DHCPv6 server to another client, or with addresses that none has",
      "ignored",
      "net/dhcp/message6_test.ts",
      "decodeAssociation() accepts addresses that a container can have",
    ],
    [
      "a router that advertises servers without end",
      "at most 16",
      "ipam/slaac/router_options_test.ts",
      "RouterDns keeps a limited number of servers, each once",
    ],
    [
      "malformed text or bytes from anywhere",
      "every parser throws documented errors only",
      "tests/fuzz_parsers_test.ts",
      "parsers survive",
    ],
    [
      "malformed configurations",
      "one error document, nothing left behind",
      "tests/fuzz_test.ts",
      "CNI_FUZZ_SEED",
    ],
    [
      "endless stdin",
      "16 MiB at most",
      "base/process/stdio_test.ts",
      "readStdin() refuses a stream that does not end",
    ],
    [
      "endless output of a plugin",
      "the plugin is killed after 16 MiB",
      "cni/invoke/exec_test.ts",
      "ends a plugin that prints without end",
    ],
    [
      "deep nesting that overflows the stack",
      "1000 levels at most",
      "base/json/json_test.ts",
      "nested",
    ],
    [
      "netlink messages from another process",
      "sockets are connected to the kernel",
      "ffi/netlink/socket_test.ts",
      "NetlinkSocket accepts replies from the kernel only",
    ],
    [
      "variables that steer Deno, Node or Tokio",
      "the executable does not read them",
      "tests/hostile_node_test.ts",
      "variables that Deno, Node or Tokio read change nothing that ptp does",
    ],
    [
      "sysctls that a definition may set",
      "an allowlist of the node",
      "plugins/tuning/allowlist_test.ts",
      "checkAgainst() needs a line that matches each name",
    ],
  ],
  "The cluster": [
    [
      "tokens or keys in errors",
      "errors never repeat them",
      "kube/connection_test.ts",
      "Connection keeps secrets out of errors",
    ],
    [
      "a kubeconfig in an error",
      "errors have the place, not the content",
      "kube/kubeconfig_test.ts",
      "readKubeconfig() reports problems without secrets",
    ],
    [
      "a server with another certificate",
      "only the kubeconfig's authorities count",
      "kube/trust_test.ts",
      "KubeClient trusts only the kubeconfig's authorities",
    ],
    [
      "a pod uses definitions of other namespaces",
      "`namespaceIsolation`",
      "plugins/multus/select/annotations_test.ts",
      "readAnnotations() restricts isolated pods to their namespace",
    ],
    [
      "a status is written to another pod of the same name",
      "the UID is part of the write",
      "kube/pod_annotations_test.ts",
      "PodAnnotator does not write to another pod of the same name",
    ],
    [
      "a pod names a device by annotation",
      "the kubelet or a claim must have given it to this pod",
      "plugins/multus/select/attachment_definitions_test.ts",
      "refuses a device that is not the pod's",
    ],
    [
      "the name of a device leads to another directory",
      "it is one component of a path, and real paths stay in `/sys/devices`",
      "plugins/host_device/find_device_test.ts",
      "host-device does not use a device name as a path",
    ],
    [
      "a pod requests an address or a MAC that its network does not offer",
      "capabilities of the definition decide",
      "plugins/multus/select/pod_requests_test.ts",
      "checkOffered() refuses requests that the network does not offer",
    ],
    [
      "a pod requests an address or a MAC of another container, or the node's address",
      "the caches of multus and the runtime show which container has it",
      "plugins/multus/permit/in_use_test.ts",
      "a pod cannot request an address or MAC of another container",
    ],
    [
      "a pod requests an address of a range that a different node allocated",
      "whereabouts takes it in the pool",
      "ipam/whereabouts/conformance_test.ts",
      "a requested address of the range is taken from it",
    ],
    [
      "`cni-args` set sysctls or promiscuous mode",
      "a list of keys",
      "plugins/multus/select/pod_requests_test.ts",
      "checkOffered() refuses requests that the network does not offer",
    ],
    [
      "a definition speaks for the pod: `cni.dev/pod`",
      "such keys are removed, in any case",
      "plugins/multus/model/edit_delegate_test.ts",
      "removeReserved() removes all keys that identify a pod",
    ],
    [
      "anything else that an annotation can contain",
      "each key is refused, or has no effect",
      "tests/pod_attacks_test.ts",
      "the author of a pod takes nothing of other pods",
    ],
    [
      "a pod takes the host port of a running pod",
      "it is refused, with limits across backends",
      "plugins/portmap/iptables_test.ts",
      "ADD refuses a port of a running container",
    ],
    [
      "an annotation names too many networks",
      "128 at most",
      "plugins/multus/select/annotations_test.ts",
      "128",
    ],
    [
      "an annotation requests too many addresses or host ports, each with a lock or rules",
      "16 addresses at most for a network; 128 addresses and 128 host ports for a pod",
      "plugins/multus/select/annotations_test.ts",
      "parseNetworks() refuses more addresses and ports than a pod can have",
    ],
    [
      "a pod routes the cluster's addresses past the cluster's network",
      "`podRoutes`, empty by default",
      "plugins/multus/select/requested_routes_test.ts",
      "checkPermittedRoutes() refuses routes outside the permitted subnets",
    ],
    [
      "a pod's route replaces a route or gateway of a different network",
      "it is refused",
      "plugins/multus/route/pod_routes_test.ts",
      "the cluster network's gateway",
    ],
    [
      "an annotation contains too many routes",
      "256 at most",
      "plugins/multus/select/requested_routes_test.ts",
      "more routes than a node allows",
    ],
  ],
  "Network attachment definitions": [
    [
      "a definition runs programs, writes and reads files, reaches sockets",
      "plugin types and keys are checked at every depth",
      "tests/definition_attacks_test.ts",
      "a definition runs, writes, reads and reaches nothing of the node",
    ],
    [
      "a definition makes rules for the whole node: another program's chain, zone or mark, an address",
      "such keys are refused, except for the defaults",
      "tests/definition_attacks_test.ts",
      "a definition runs, writes, reads and reaches nothing of the node",
    ],
    [
      "a key in another case, or with letters that Go folds",
      "keys are folded as Go does",
      "plugins/multus/select/definition_policy_test.ts",
      "checkDefinition() refuses keys",
    ],
    [
      "a plugin inside a third-party plugin",
      "any object with a type counts",
      "plugins/multus/select/definition_policy_test.ts",
      "checkDefinition() refuses plugins",
    ],
    [
      "a new plugin key that the rules do not cover",
      "every key is listed as harmful or harmless",
      "tests/node_keys_test.ts",
      "each key of each schema is in the table of node keys, or in HARMLESS",
    ],
    [
      "multus runs itself recursively",
      "types and an environment variable",
      "plugins/multus/tests/nesting_test.ts",
      "multus refuses a call of its own delegate",
    ],
    [
      "hooks and files of `debug`, also with Go multus",
      "a file on the node must approve them",
      "plugins/debug/plugin_test.ts",
      "debug in a definition does nothing, and DEL succeeds",
    ],
    [
      "an error quotes a file that a configuration names",
      "errors have line and column",
      "ipam/whereabouts/settings_test.ts",
      "readFlatFile() prints no content of an unrelated file",
    ],
    [
      "a key of a third-party plugin names a file",
      "paths, and key names that suggest a path, are refused",
      "plugins/multus/select/definition_policy_test.ts",
      "checkDefinition() refuses keys",
    ],
    [
      "a definition keeps a node's daemon busy for seconds",
      "at most 64 KiB and 64 plugins",
      "plugins/multus/select/definition_policy_test.ts",
      "checkSize() refuses sizes that overload a node",
    ],
    [
      "many definitions at these limits keep it busy",
      "other calls run between them",
      "plugins/multus/select/select_test.ts",
      "resolveNetworks() lets other calls run between definitions at the limits",
    ],
    [
      "definitions that people use are refused",
      "usual values are allowed",
      "plugins/multus/select/definition_policy_test.ts",
      "checkDefinition() refuses no definition in use",
    ],
  ],
  "Sockets of the daemon": [
    [
      "a caller of another user",
      "SO_PEERCRED, beside the directory's mode",
      "tests/daemon_test.ts",
      "closes connections of other users",
    ],
    [
      "a caller of another container, or without root's rights",
      "namespaces, root and capabilities are read from its process",
      "tests/daemon_test.ts",
      "declines calls of callers with fewer privileges",
    ],
    [
      "a process that reuses the ID of an exited caller",
      "a descriptor of the process, or its start time",
      "base/service/peer_process_test.ts",
      "notices a process ID that is used again",
    ],
    [
      "huge or malformed stdin, environment or names of a caller",
      "the launcher hands such calls to the engine",
      "scripts/launcher/call_test.ts",
      "the launcher leaves other calls to deno",
    ],
    [
      "a huge, truncated or missing answer of a daemon",
      "nothing is printed; ADD fails with code 11",
      "tests/daemon_caller_test.ts",
      "after a lost connection ADD fails, and the rest runs here",
    ],
    [
      "a listener of another user at the socket",
      "nothing is sent to it",
      "tests/daemon_caller_test.ts",
      "a caller sends nothing to a listener of another user",
    ],
    [
      "a stopped, silent or slow daemon",
      "limits of 1 s (250 ms after a timeout) and 5 s; ten timeouts disable the daemon",
      "tests/daemon_caller_test.ts",
      "a call waits for no daemon without end",
    ],
    [
      "a link or a pipe in place of the timeout counter",
      "the file is not followed",
      "daemon/wire/daemon_timeouts_test.ts",
      "recordTimeout() follows no link and waits for no pipe",
    ],
    [
      "huge or malformed requests",
      "refused at 16 MiB",
      "tests/daemon_test.ts",
      "declines malformed requests, and continues",
    ],
    [
      "callers that fill the memory",
      "at most 64 MiB of requests",
      "tests/daemon_test.ts",
      "keeps no more than 64 MiB of requests",
    ],
    [
      "callers that use up connections or open files",
      "limits per process and in total",
      "tests/daemon_test.ts",
      "accepts calls with few open files and many idle connections",
    ],
    [
      "anyone who can reach --metrics-address",
      "at most 64 connections; the oldest without a request is closed first",
      "daemon/server/state_server_test.ts",
      "StateServer closes the oldest connection without a request for a new one",
    ],
    [
      "slow callers",
      "a request must arrive within 20 s, or the connection is closed",
      "tests/daemon_test.ts",
      "serves other callers while slow callers send",
    ],
    [
      "many callers at the same time",
      "a limit of running calls; other calls wait in order",
      "tests/daemon_test.ts",
      "limits concurrent calls, and runs the others in order",
    ],
    [
      "a socket of a dead daemon",
      "the socket is replaced; a live daemon hands it over",
      "tests/daemon_test.ts",
      "restores removed sockets, and replaces sockets of a dead daemon",
    ],
    [
      "a different user's daemon behind remote",
      "owners of socket and directory are checked first",
      "tests/conformance/remote_test.ts",
      "a socket of another user is refused, and so is a file",
    ],
    [
      "huge or endless answers of that daemon",
      "at most 4 MiB, and a time limit",
      "tests/conformance/remote_test.ts",
      "sends a huge answer",
    ],
  ],
};

for (const [area, threats] of Object.entries(THREATS)) {
  Deno.test(`threats: ${area}: each defence has a test that exists`, async (t) => {
    for (const [threat, , file, name] of threats) {
      await t.step(threat, () => {
        const text = Deno.readTextFileSync(new URL(file, ROOT));
        assert(text.includes(name), `${file}: ${name}`);
      });
    }
  });
}
