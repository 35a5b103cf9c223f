/**
 * Every threat of docs/security.md has a test that shows its defence.
 */

import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("..", import.meta.url);

/** The file of a threat's test, and a part of the test's name. */
const TESTS: Readonly<Record<string, readonly [file: string, name: string]>> = {
  "a container ID, network or interface name becomes a path": [
    "cni/call/args_test.ts",
    "the names in a call are checked",
  ],
  "a name that leads out of the cache": [
    "libcni/cache_test.ts",
    "AttachmentCache refuses names that lead to other paths",
  ],
  "a container ID that is a directory of multus": [
    "plugins/multus/memory/scratch_cache_test.ts",
    "ScratchCache.write() refuses container IDs",
  ],
  "a plugin type such as `../../bin/sh`": [
    "cni/invoke/find_test.ts",
    "findPlugin() refuses what it cannot find",
  ],
  "a network name that leads to another directory": [
    "libcni/conf_files_test.ts",
    "readNetworkConfList() refuses names that lead to another directory",
  ],
  "a pod or network name changes the API request": [
    "kube/request_test.ts",
    "apiPath() joins names that cannot change the path",
  ],
  "an interface name from an annotation": [
    "plugins/multus/select/annotations_test.ts",
    "parseNetworks() refuses interface names",
  ],
  "other users read leases, caches, results": [
    "libcni/cache_test.ts",
    "AttachmentCache.writeAttachment() creates files that only the owner can read",
  ],
  "other users create a lock file in advance": [
    "libcni/lock_test.ts",
    "AttachmentLocks creates its directory and files for the owner only",
  ],
  "another user holds a lock, and calls wait": [
    "plugins/parts/sandbox/lock_netns_test.ts",
    "lockSandbox() waits for no lock of another user",
  ],
  "a stuck process keeps the lock of a sandbox: no pod is deleted": [
    "plugins/parts/sandbox/lock_netns_test.ts",
    "lockSandboxIfPossible() goes on at the time limit",
  ],
  "a pipe or device replaces a file, so that calls hang": [
    "tests/hostile_node_test.ts",
    "follows no file planted in its state",
  ],
  "a link replaces a file": [
    "tests/hostile_node_test.ts",
    "follows no file planted in its state",
  ],
  "a temporary file of a crashed or concurrent process": [
    "base/files/replace_test.ts",
    "replaceFile() leaves another process's unfinished file alone",
  ],
  "`--textfile`, `--pid-file` or an output is a different user's link": [
    "ffi/file/given_file_test.ts",
    "follows no link that another user has put there",
  ],
  "the file of a trace is a link": [
    "cli/trace/tracing_test.ts",
    "startTracing() follows no link",
  ],
  "the file of `debug` is a link": [
    "plugins/debug/record_test.ts",
    "recordCall() appends to a file, and follows no link",
  ],
  "the log file is a link": [
    "base/log/log_file_test.ts",
    "appendToLog() follows no link, and writes to nothing but files",
  ],
  "a log that fills the disk": [
    "base/log/log_file_test.ts",
    "appendToLog() takes no more than twice a megabyte",
  ],
  "CNI_NETNS is the host's own namespace": [
    "cni/skel_test.ts",
    "dispatch() compares the sandbox with the plugin's own namespace",
  ],
  "the path resolves to the host's namespace after a reboot": [
    "libcni/operation_test.ts",
    "dropRecycledNetns() keeps DEL out of the runtime's own namespace",
  ],
  "the path leads to a different pod at DEL": [
    "plugins/tuning/plugin_test.ts",
    "tuning.del() spares another pod behind the same path",
  ],
  "the same, for routing rules": [
    "plugins/sbr/release_test.ts",
    "sbr.del() leaves another pod's sandbox alone",
  ],
  "the path leads to the host's namespace after the comparison": [
    "tests/replaced_netns_test.ts",
    "a daemon stays out of a namespace that takes the sandbox's place",
  ],
  "the path changes between open and use": [
    "ffi/netlink/socket_test.ts",
    "NetlinkSocket stays in the namespace where it was opened",
  ],
  "DEL of a pod removes the firewall rules of another pod that has the same address":
    [
      "plugins/firewall/shared_address_test.ts",
      "firewall.del() leaves an address to the other containers that have it",
    ],
  "a container creates a link that looks like its device": [
    "plugins/host_device/attack_test.ts",
    "host-device.del() brings no link of the container's own to the host",
  ],
  "a container chooses a name on the host": [
    "plugins/host_device/attack_test.ts",
    "host-device.del() returns the device as it was, whatever its container does",
  ],
  "a container changes its device during DEL": [
    "plugins/host_device/attack_test.ts",
    "host-device.del() returns the device while its container changes it",
  ],
  "a pod requests the MAC of a running pod": [
    "plugins/bridge/taken_mac_test.ts",
    "bridge.add() refuses the MAC of another port",
  ],
  "a pod requests an address of a running pod or of the host": [
    "plugins/bridge/requested_test.ts",
    "bridge.add() gives no container what",
  ],
  "a pod requests the address of the host or its router on the master's network":
    [
      "plugins/parts/link/on_master_test.ts",
      "gives no container what the host has on the master",
    ],
  "a neighbour advertises itself as a router before `tuning` sets `accept_ra` to 0":
    [
      "plugins/tuning/learned_test.ts",
      "tuning.add() deletes what a router that is ignored now had brought",
    ],
  "a thread cannot leave a sandbox": [
    "tests/daemon_test.ts",
    "that cannot return from a namespace ends with 70",
  ],
  "a container with CAP_NET_RAW or a neighbour sends packets to 127.0.0.1 through a link that portmap has opened":
    [
      "plugins/portmap/loopback_test.ts",
      "it is closed to containers, before and after DEL",
    ],
  "a pod gets the address of the node, its router or a neighbour, and so the node's traffic":
    [
      "plugins/ptp/free_addresses_test.ts",
      "ptp.add() takes no address that the host reaches elsewhere",
    ],
  "a pod gets the address of another living container": [
    "plugins/ptp/free_addresses_test.ts",
    "ptp.add() leaves a living container of the network its address",
  ],
  "malformed text or bytes from anywhere": [
    "tests/fuzz_parsers_test.ts",
    "parsers survive",
  ],
  "malformed configurations": ["tests/fuzz_test.ts", "CNI_FUZZ_SEED"],
  "endless stdin": [
    "base/process/stdio_test.ts",
    "readStdin() refuses a stream that does not end",
  ],
  "endless output of a plugin": [
    "cni/invoke/exec_test.ts",
    "ends a plugin that prints without end",
  ],
  "deep nesting that overflows the stack": ["base/json/json_test.ts", "nested"],
  "netlink messages from another process": [
    "ffi/netlink/socket_test.ts",
    "NetlinkSocket accepts replies from the kernel only",
  ],
  "variables that steer Deno, Node or Tokio": [
    "tests/hostile_node_test.ts",
    "no variable of its runtime steers a plugin",
  ],
  "sysctls that a definition may set": [
    "plugins/tuning/allowlist_test.ts",
    "checkAgainst() needs a line that matches each name",
  ],
  "tokens or keys in errors": [
    "kube/connection_test.ts",
    "Connection keeps secrets out of errors",
  ],
  "a kubeconfig in an error": [
    "kube/kubeconfig_test.ts",
    "readKubeconfig() reports problems without secrets",
  ],
  "a server with another certificate": [
    "kube/trust_test.ts",
    "KubeClient trusts only the kubeconfig's authorities",
  ],
  "a pod uses definitions of other namespaces": [
    "plugins/multus/select/annotations_test.ts",
    "readAnnotations() restricts isolated pods to their namespace",
  ],
  "a status is written to another pod of the same name": [
    "kube/pod_annotations_test.ts",
    "PodAnnotator does not write to another pod of the same name",
  ],
  "a pod names a device by annotation": [
    "plugins/multus/select/attachment_definitions_test.ts",
    "refuses a device that is not the pod's",
  ],
  "the name of a device leads to another directory": [
    "plugins/host_device/find_device_test.ts",
    "host-device takes no name of a device for a path",
  ],
  "a pod requests an address or a MAC that its network does not offer": [
    "plugins/multus/select/pod_requests_test.ts",
    "checkOffered() refuses everything else",
  ],
  "a pod requests an address or a MAC of another container, or the node's address":
    [
      "plugins/multus/in_use_test.ts",
      "a pod gets no address and MAC that another container has",
    ],
  "a pod requests an address of a range that a different node allocated": [
    "ipam/whereabouts/conformance_test.ts",
    "a requested address of the range is taken from it",
  ],
  "`cni-args` set sysctls or promiscuous mode": [
    "plugins/multus/select/pod_requests_test.ts",
    "checkOffered() refuses everything else",
  ],
  "a definition speaks for the pod: `cni.dev/pod`": [
    "plugins/multus/model/edit_delegate_test.ts",
    "removeReserved() leaves nothing that would speak for the pod",
  ],
  "anything else that an annotation can contain": [
    "tests/pod_attacks_test.ts",
    "the author of a pod gets nothing of others",
  ],
  "a pod takes the host port of a running pod": [
    "plugins/portmap/iptables_test.ts",
    "refuses a port that a living container has",
  ],
  "an annotation names too many networks": [
    "plugins/multus/select/annotations_test.ts",
    "128",
  ],
  "a pod routes the cluster's addresses past the cluster's network": [
    "plugins/multus/select/pod_routes_test.ts",
    "checkPermittedRoutes() refuses everything else",
  ],
  "a pod's route replaces a route or gateway of a different network": [
    "plugins/multus/route/pod_routes_test.ts",
    "the cluster network's gateway",
  ],
  "an annotation contains too many routes": [
    "plugins/multus/select/pod_routes_test.ts",
    "more than a node bears",
  ],
  "a definition runs programs, writes and reads files, reaches sockets": [
    "tests/definition_attacks_test.ts",
    "a definition runs, writes, reads and reaches nothing of the node",
  ],
  "a key in another case, or with letters that Go folds": [
    "plugins/multus/select/definition_policy_test.ts",
    "checkDefinition() refuses keys",
  ],
  "a plugin inside a third-party plugin": [
    "plugins/multus/select/definition_policy_test.ts",
    "checkDefinition() refuses plugins",
  ],
  "a new plugin key that the rules do not cover": [
    "tests/node_keys_test.ts",
    "each key of each schema is in the table of node keys, or is harmless",
  ],
  "multus runs itself recursively": [
    "plugins/multus/tests/nesting_test.ts",
    "multus called by its own delegate refuses",
  ],
  "hooks and files of `debug`, also with Go multus": [
    "plugins/debug/plugin_test.ts",
    "debug of a definition does nothing",
  ],
  "an error quotes a file that a configuration names": [
    "ipam/whereabouts/settings_test.ts",
    "readFlatFile() repeats nothing of a file that is not for it",
  ],
  "a key of a third-party plugin names a file": [
    "plugins/multus/select/definition_policy_test.ts",
    "checkDefinition() refuses keys",
  ],
  "a definition keeps a node's daemon busy for seconds": [
    "plugins/multus/select/definition_policy_test.ts",
    "checkSize() refuses more than a node bears",
  ],
  "definitions that people use are refused": [
    "plugins/multus/select/definition_policy_test.ts",
    "checkDefinition() refuses no definition in use",
  ],
  "a caller of another user": [
    "tests/daemon_test.ts",
    "closes connections of other users",
  ],
  "a caller of another container, or without root's rights": [
    "tests/daemon_test.ts",
    "takes no call of a caller that it has more rights than",
  ],
  "a process that reuses the ID of an exited caller": [
    "daemon/service/peer_process_test.ts",
    "notices a process ID that is used again",
  ],
  "huge or malformed stdin, environment or names of a caller": [
    "scripts/launcher/call_test.ts",
    "the launcher leaves other calls to deno",
  ],
  "a huge, truncated or missing answer of a daemon": [
    "tests/hand_over_test.ts",
    "after a lost connection ADD fails, and the rest runs here",
  ],
  "a listener of another user at the socket": [
    "tests/hand_over_test.ts",
    "a listener of another user gets nothing",
  ],
  "a stopped, silent or slow daemon": [
    "tests/hand_over_test.ts",
    "a call waits for no daemon without end",
  ],
  "a link or a pipe in place of the timeout counter": [
    "daemon/wire/daemon_losses_test.ts",
    "a loss follows no link and waits for no pipe",
  ],
  "huge or malformed requests": [
    "tests/daemon_test.ts",
    "refuses what is not a request, and goes on",
  ],
  "callers that fill the memory": [
    "tests/daemon_test.ts",
    "keeps no more than 64 MiB of requests",
  ],
  "callers that use up connections or open files": [
    "tests/daemon_test.ts",
    "takes calls with few files and many idle connections",
  ],
  "slow callers": [
    "tests/daemon_test.ts",
    "is there for others while callers dawdle",
  ],
  "many callers at the same time": [
    "tests/daemon_test.ts",
    "runs as many calls at once as it may",
  ],
  "a socket of a dead daemon": [
    "tests/daemon_test.ts",
    "puts its sockets back, and takes those of a dead one",
  ],
  "a different user's daemon behind [remote](remote.md)": [
    "tests/conformance/remote_test.ts",
    "a socket of another user is refused, and so is a file",
  ],
  "huge or endless answers of that daemon": [
    "tests/conformance/remote_test.ts",
    "sends a huge answer",
  ],
};

/** Lists the threats of the page. */
function listThreats(): string[] {
  const text = Deno.readTextFileSync(new URL("docs/security.md", ROOT));
  return text.split("\n\n").filter((part) => part.startsWith("| threat "))
    .flatMap((table) => table.trim().split("\n").slice(2))
    .map((row) => row.split(" | ")[0]?.slice(2).trim() ?? "");
}

Deno.test("each threat of docs/security.md has a test that exists", async (t) => {
  assertEquals(Object.keys(TESTS).toSorted(), listThreats().toSorted());
  for (const [threat, [file, name]] of Object.entries(TESTS)) {
    await t.step(threat, () => {
      const text = Deno.readTextFileSync(new URL(file, ROOT));
      assert(text.includes(name), `${file}: ${name}`);
    });
  }
});
