/**
 * Lint rule `cni/change-checked`: what changes the node or something else asks before
 * whether its call may still do so, with `checkChange()` (`ffi/change_check.ts`).
 *
 * The node daemon runs many calls. One that was given up, after which the container
 * was attached again, must change nothing of the new attachment. So each function
 * that writes by a lowest-level function calls `checkChange()`, or has a row in
 * {@linkcode UNCHECKED}.
 *
 * @module
 */

import { isIn, productPath } from "./project_files.ts";
import { findDenoMember, isReference } from "./references.ts";

/** Functions that write without a check, and why they may. */
export const UNCHECKED: readonly (readonly [
  /** A directory or file, or a file and a function in it. */
  place: string,
  reason: string,
])[] = [
  // The caller in the same directory or file checks.
  ["base/files/replace.ts rename", "replaceFile() checks"],
  ["cni/invoke/exec.ts spawn", "start() checks"],
  ["ipam/dhcp/ask.ts connect", "ask() checks before it sends anything"],
  ["ipam/host_local/unfinished.ts", "lease_files.ts checks before it writes"],
  ["kube/load_transport.ts #fetch", "client.ts checks each method but GET"],
  ["libcni/step_record.ts openToAppend", "appendState() checks"],
  ["plugins/chain/record.ts write", "appendState() checks"],
  ["plugins/debug/hooks.ts spawn", "findProblem() checks"],
  [
    "plugins/firewall/system_bus.ts connect",
    "firewalld.ts checks before each request that changes a zone",
  ],
  [
    "plugins/parts/firewall/iptables/program.ts start",
    "restoreIptables() checks; the other runs of iptables read",
  ],
  ["plugins/remote/http.ts connect", "exchange() checks each method but GET"],
  ["plugins/tap/selinux.ts setContext", "createTapAs() checks"],

  // Nothing that a later call has or uses.
  ["base/files/io.ts removeUnfinished", "a file that has no name yet"],
  ["base/files/lock.ts", "lock files, which are the same for all calls"],
  ["base/log/", "logs"],
  ["ffi/file/regular_file.ts", "logs, and records of the daemon"],
  [
    "base/process/child.ts kill",
    "processes that the call itself has started",
  ],
  [
    "ffi/socket/",
    "questions to other hosts and programs; Probes.announce() checks",
  ],
  ["ipam/host_local/check.ts", "tries whether it could write"],
  ["ipam/host_local/listing/lease_index.ts", "an index of the leases"],
  [
    "ipam/host_local/recovery/dead_leases.ts mark",
    "when a call last looked for leases of deleted containers",
  ],
  ["kube/exec_credential.ts", "a program that returns credentials"],
  ["plugins/multus/devices/grpc.ts", "only reads, from kubelet"],
  ["plugins/remote/held_netns.ts", "cat, which holds a namespace"],
  ["ffi/sysctl.ts isWritableSysctl", "opens a file, but does not write"],

  // Not part of a call in the daemon.
  ["base/files/copy_executable.ts", "installers"],
  ["base/files/libraries.ts", "installers"],
  ["base/files/replace.ts keepReplaced", "installers"],
  ["base/files/replace.ts replaceByLink", "installers"],
  ["plugins/multus/install/", "an installer"],
  ["base/service/", "a service's own sockets"],
  ["daemon/", "the daemon's own sockets, files, processes and cgroup"],
  ["ipam/dhcp/daemon.ts", "the DHCP daemon's own socket"],
  ["ffi/file/given_file.ts", "files that cni writes for its user; PID files"],
  ["ffi/netns.ts bindTo", "cni netns"],
  ["ffi/netns.ts unbindNetNs", "cni netns"],
  ["ffi/packet_events.ts", "cni probe"],
  ["plugins/noop/", "always a process of its own"],
];

/** The commands of the tool, which the daemon does not run, may write as they like. */
const TOOL = ["cli/", "testing/conform/", "main.ts"];

/**
 * Members of `Deno` that write, each with its synchronous twin, or begin something
 * that may write. An empty directory is no change: what is put there is one.
 */
const DENO_WRITES: ReadonlySet<string> = new Set([
  ...["Command", "connect", "kill"],
  ...[
    ...["chmod", "chown", "copyFile", "create", "link", "makeTempDir"],
    ...["makeTempFile", "open", "remove", "rename", "symlink", "truncate"],
    ...["utime", "writeFile", "writeTextFile"],
  ].flatMap((name) => [name, `${name}Sync`]),
]);

/** Functions of `ffi/libc` that do. */
const LIBC_WRITES: ReadonlySet<string> = new Set([
  ...["controlWithBytes", "controlWithNumber", "execvpe", "mount"],
  ...["mountDetached", "mountNew", "send", "sendInBackground", "sendNow"],
  ...["sendTo", "umount", "writeWhole"],
]);

/** A function that has a name, or the whole file. */
interface Place {
  readonly node: Deno.lint.Node;
  readonly name: string;
}

/** Reports writers that check nothing and have no row. */
export const changeChecked: Deno.lint.Rule = ruleFor(
  UNCHECKED.map(([place]) => place),
);

/** Makes the rule for other places that need no check. */
export function ruleFor(places: readonly string[]): Deno.lint.Rule {
  return {
    create(context): Deno.lint.LintVisitor {
      const path = productPath(context);
      if (path === undefined || isIn(path, TOOL)) return {};
      const { sourceCode } = context;
      // To visit the nodes of a file takes longer than to read its text.
      if (!/\b(Deno|libc|fetch)\b/.test(sourceCode.text)) return {};
      const checked = new Set<Deno.lint.Node>();
      const writes: (Place & { readonly at: Deno.lint.Node })[] = [];

      /** Finds the outermost function that has a name. */
      function placeOf(node: Deno.lint.Node): Place {
        for (const one of sourceCode.getAncestors(node)) {
          const name = one.type === "FunctionDeclaration"
            ? one.id
            : one.type === "MethodDefinition"
            ? one.key
            : undefined;
          if (name) return { node: one, name: sourceCode.getText(name) };
        }
        return { node: sourceCode.ast, name: "" };
      }

      return {
        CallExpression({ callee }): void {
          if (callee.type !== "Identifier" || !isReference(callee)) return;
          if (callee.name === "checkChange") checked.add(placeOf(callee).node);
          if (callee.name === "fetch") {
            writes.push({ ...placeOf(callee), at: callee });
          }
        },
        MemberExpression(node): void {
          const member = findDenoMember(node);
          const isWrite = member === undefined
            ? isLibcWrite(node, sourceCode.getText(placeOf(node).node))
            : DENO_WRITES.has(member) && !opensToRead(node, sourceCode);
          if (isWrite) writes.push({ ...placeOf(node), at: node });
        },
        "Program:exit"(): void {
          for (const { node, name, at } of writes) {
            if (checked.has(node)) continue;
            if (isIn(path, places) || places.includes(`${path} ${name}`)) {
              continue;
            }
            const message = `${name || path} may change something that a ` +
              "later call has made: call checkChange() before, or add a row " +
              "to UNCHECKED in scripts/lint/change_checked.ts";
            context.report({ node: at, message });
          }
        },
      };
    },
  };
}

function isLibcWrite(
  { object, property }: Deno.lint.MemberExpression,
  place: string,
): boolean {
  if (object.type !== "Identifier" || object.name !== "libc") return false;
  if (property.type !== "Identifier") return false;
  return LIBC_WRITES.has(property.name) ||
    property.name === "open" && place.includes("O_CREAT");
}

/** Reports whether a file is opened without options, or with `{ read: true }`. */
function opensToRead(
  { parent, property }: Deno.lint.MemberExpression,
  sourceCode: Deno.lint.SourceCode,
): boolean {
  if (!sourceCode.getText(property).startsWith("open")) return false;
  if (parent.type !== "CallExpression") return false;
  const options = parent.arguments[1];
  return options === undefined ||
    sourceCode.getText(options) === "{ read: true }";
}
