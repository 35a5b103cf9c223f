/**
 * The flags of `cni`.
 *
 * @module
 */

import { DEFAULT_SOCKET } from "../daemon/wire/daemon_socket.ts";
import {
  type CommandCall,
  type FlagTable,
  type FlagValues,
  LISTING,
  type STANDARD_FLAGS,
} from "../base/command_line/command.ts";

/** All flags by long name. */
export const FLAGS = {
  "ifname": {
    short: "i",
    value: "NAME",
    summary: "interface name; overrides CNI_IFNAME (default eth0)",
  },
  "container-id": {
    value: "ID",
    completes: "container",
    summary: "container ID (default derived from the namespace's path)",
  },
  "no-undo": {
    summary: "keep the state of a failed ADD for inspection",
  },
  "all": {
    summary: "remove all attachments; takes no namespaces",
  },
  "orphans": {
    summary: "find resources of deleted containers in all networks",
  },
  "yes": { summary: "with --orphans: remove the orphans" },
  "grace": {
    value: "TIME",
    summary: "with --orphans: keep younger orphans (default 5m)",
  },
  "sandbox": { summary: "also repair the interface in the container" },
  "dry-run": { summary: "show what would change without changing it" },
  "strict": { summary: "treat notes and warnings as errors" },
  "ignore": {
    value: "CODES",
    summary: "omit warnings with these codes, such as gateway-off-subnet",
  },
  "format": {
    value: "FORMAT",
    default: "text",
    summary: "text, json, github (annotations) or sarif",
    completes: ["text", "json", "github", "sarif"],
  },
  "force": {
    summary: "replace or remove what exists or is still in use",
  },
  "to": {
    value: "FORM",
    summary: "target form: chain or list (default the other form)",
    completes: ["chain", "list"],
  },
  "daemon": {
    summary: "let the node daemon run the plugins: set daemonSocket to " +
      DEFAULT_SOCKET,
  },
  "no-daemon": {
    summary: "run plugins in this process, not through the node daemon",
  },
  "output": {
    value: "FILE",
    summary: "write to this file; - for stdout",
    completes: "file",
  },
  "diff": { summary: "show the changes, and write nothing" },
  "write": { summary: "replace the input file" },
  "cni-path": {
    value: "DIRECTORIES",
    summary: "colon-separated plugin directories; overrides CNI_PATH " +
      "(default /opt/cni/bin)",
    completes: "directory",
  },
  "conf-dir": {
    value: "DIRECTORY",
    summary: "configuration directory; overrides NETCONFPATH " +
      "(default /etc/cni/net.d)",
    completes: "directory",
  },
  "cache-dir": {
    value: "DIRECTORY",
    summary: "directory of the attachment cache (default /var/lib/cni)",
    completes: "directory",
  },
  "only": {
    value: "NAMES",
    summary: "comma-separated plugins to install (default see above)",
    completes: "plugins",
  },
  "copy": { summary: "copy the executable for each plugin" },
  "link": { summary: "link each plugin to the executable (default)" },
  "prune": {
    summary:
      "remove plugins that an earlier installation added and this one omits",
  },
  "if-installed": { summary: "succeed if there is nothing to undo" },
  "rollback": { summary: "restore the replaced files, as cni uninstall does" },
  "wide": LISTING.wide,
  "del": { summary: "also run DEL" },
  "from": {
    value: "FILE",
    summary: "show a trace that CNI_TRACE has written",
    completes: "file",
  },
  "chrome": {
    value: "FILE",
    summary: "write Chrome's trace format, which Perfetto opens",
    completes: "file",
  },
  "mermaid": { summary: "print a flowchart for Markdown" },
  "svg": {
    value: "FILE",
    summary: "draw a diagram into this file; - for stdout",
    completes: "file",
  },
  "watch": { summary: "show the changes as they happen, until Ctrl-C" },
  "pod": {
    value: "POD",
    summary: "only attachments of this pod, as namespace/name",
    completes: "netns",
  },
  "fix": { summary: "fix what is safe to fix" },
  "try": { summary: "attach, ping and detach temporary namespaces" },
  "wait": {
    value: "TIME",
    summary: "check again until nothing is wrong, for at most this long",
  },
  "exit-code": { summary: "exit with 1 if there is a problem" },
  "undo-timeout": {
    value: "TIME",
    default: "30s",
    summary: "time limit for undoing a failed ADD",
  },
  "log-file": {
    value: "FILE",
    summary: "log file, or journal; overrides CNI_LOG_FILE and " +
      "/etc/cni/log.json",
    completes: "file",
  },
  "level": {
    value: "LEVEL",
    summary: "show only lines of this level and above",
    completes: ["debug", "info", "warn", "error"],
  },
  "findings": {
    summary: "count the findings of cni doctor instead",
  },
  "textfile": {
    value: "FILE",
    summary: "write into this file, for node-exporter's textfile collector",
    completes: "file",
  },
  "raw": { summary: "show the lines unchanged, as key=value or JSON" },
  "tail": { short: "n", value: "N", summary: "show only the last N lines" },
  "name": { value: "NAME", summary: "name of the network (default pods)" },
  "type": {
    value: "TYPE",
    summary:
      "plugin: bridge, ptp, macvlan, ipvlan or vlan (default bridge if " +
      "installed, otherwise ptp)",
    completes: "starter",
  },
  "subnet": {
    value: "CIDR",
    summary: "subnet of the containers (default a free one)",
  },
  "ipv6": { summary: "also assign IPv6 addresses, from a free subnet" },
  "master": {
    value: "NAME",
    summary: "host interface of macvlan, ipvlan or vlan " +
      "(default the one with the default route)",
  },
  "vlan-id": { value: "ID", summary: "VLAN ID for the type vlan, 1 to 4094" },
  "portmap": {
    summary: "forward host ports (default for bridge and ptp, if installed)",
  },
  "no-portmap": { summary: "forward no host ports" },
  "bandwidth": { summary: "apply rate limits that the runtime requests" },
  "cni-version": {
    value: "VERSION",
    summary: "version of the CNI specification (default 1.0.0)",
  },
  "chained": {
    summary: "a plugin that changes the interface of a previous plugin",
  },
  "ipam": { summary: "a plugin that provides addresses" },
  "checkout": {
    value: "DIRECTORY",
    summary: "import from this checkout of the project (default the one that " +
      "cni was built in or runs in, otherwise jsr.io)",
    completes: "directory",
  },
  "config": {
    value: "FILE",
    summary: "what plugins need for the test (default built in)",
    completes: "file",
  },
  "requirement": {
    value: "NAMES",
    summary:
      "comma-separated requirements to test; prints everything that shows a defect",
  },
  "thorough": { summary: "test every value and system call, not a sample" },
  "call-timeout": {
    value: "TIME",
    default: "20s",
    summary: "time limit of each plugin call and each command of FILE",
  },
  "junit": {
    value: "FILE",
    summary: "write the results as JUnit XML",
    completes: "file",
  },
  "html": {
    value: "FILE",
    summary: "write a page with a matrix of plugins and requirements",
    completes: "file",
  },
  "verbose": { summary: "show the plugins' output while ADD is undone" },
} as const satisfies FlagTable;

/** A flag's long name. */
export type FlagName = keyof typeof FLAGS;

/** A call of a command of `cni`. Flags that the command does not have are absent. */
export type CniCall = CommandCall<CniFlags>;

/** The values of flags. */
export type CniFlags = Partial<
  FlagValues<typeof FLAGS & typeof STANDARD_FLAGS>
>;

/** Picks flags of `cni` for a command. */
export function pick(...names: readonly FlagName[]): FlagTable {
  return Object.fromEntries(names.map((name) => [name, FLAGS[name]]));
}

/** Flags that answer a question of `cni init`; with any of them, the command does not prompt. */
export const INIT_ANSWERS = [
  "name",
  "type",
  "subnet",
  "ipv6",
  "master",
  "vlan-id",
  "portmap",
  "no-portmap",
  "bandwidth",
] as const;

/** The flags for directories. */
export const DIRECTORIES = ["cni-path", "conf-dir", "cache-dir"] as const;
