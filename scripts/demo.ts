// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

/**
 * `deno task demo`: builds the executables and puts two containers on a
 * network with them, in network namespaces made for the purpose, so that
 * nothing is done to the machine's own network.
 *
 * Ends with status 1 if anything is not as it should be.
 *
 * @module
 */

import { inNetns, NetNs } from "../ffi/netns.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { execIn } from "../testing/exec_in.ts";
import { ensureCompiled } from "./compile.ts";
import { answerHelp } from "./help.ts";
import { importFlags } from "./net.ts";

const CONFLIST = new URL("../docs/examples/10-ptp.conflist", import.meta.url);
const PEER = new URL("demo/peer.ts", import.meta.url).pathname;
const PORT = 8080;
/** Whether results are printed as JSON, too. */
const IS_VERBOSE = Deno.args.includes("--verbose");
/** Marks a run that the demo started. */
const NESTED = "--in-user-namespace";

/** Prints a heading. */
function heading(text: string): void {
  console.log(`\n%c${text}`, "font-weight: bold");
}

/** A network configuration list. */
interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly { readonly type: string }[];
}

/** One container that is to be attached. */
interface Container {
  readonly id: string;
  readonly netns: NetNs;
}

/** The part of a printed result that the demo uses. */
interface PrintedResult {
  readonly interfaces: readonly { name: string; sandbox?: string }[];
  readonly ips: readonly { address: string; gateway: string }[];
}

/** A node: its namespace, the directory of the plugins, and the network. */
interface Node {
  readonly netns: NetNs;
  readonly path: string;
  readonly list: ConfList;
}

const failures: string[] = [];

/** Prints an outcome, and remembers it if it is bad. */
function report(isTrue: boolean, statement: string): void {
  console.log(
    `  %c${isTrue ? "✓" : "✗"}%c ${statement}`,
    `color: ${isTrue ? "green" : "red"}`,
    "",
  );
  if (!isTrue) failures.push(statement);
}

/** Reports whether this process may create network namespaces. */
function mayMakeNetns(): boolean {
  try {
    NetNs.create()[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}

/** Runs a command as root of a new user namespace. */
function unshare(...command: string[]): number {
  return new Deno.Command("unshare", {
    args: ["-Urnm", ...command],
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).outputSync().code;
}

/** Starts the demo again where it may make namespaces, if there is such a place. */
async function runInUserNamespace(): Promise<number> {
  if (Deno.args.includes(NESTED) || unshare("true") !== 0) {
    console.error(
      "The demo makes network namespaces: run it as root, in a privileged " +
        "container, or where user namespaces are allowed.",
    );
    return 1;
  }
  console.log("Not root: running in a user namespace (unshare -Urnm).");
  const script = new URL(import.meta.url).pathname;
  const run = [Deno.execPath(), "run", "-A", ...await importFlags(), script];
  return unshare(...run, ...Deno.args, NESTED);
}

/** The documented list, with its leases in a directory of the demo. */
function readConfList(dataDir: string): ConfList {
  const list = JSON.parse(Deno.readTextFileSync(CONFLIST));
  for (const plugin of list.plugins) plugin.ipam.dataDir = dataDir;
  return list;
}

/**
 * Runs the plugins one by one as a runtime does, in reverse for DEL.
 *
 * @throws {Error} With the plugin's output if one fails
 */
function runPlugins(
  { netns, path, list }: Node,
  command: "ADD" | "CHECK" | "DEL",
  container: Container,
  prevResult?: PrintedResult,
): { type: string; milliseconds: number; stdout: string }[] {
  const { plugins, name, cniVersion } = list;
  const order = command === "DEL" ? plugins.toReversed() : plugins;
  let result = prevResult;
  return order.map((plugin) => {
    const { type } = plugin;
    const config = { ...plugin, name, cniVersion };
    const start = performance.now();
    const { code, stdout, stderr } = execIn(netns, {
      path: `${path}/${type}`,
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: container.id,
        CNI_NETNS: container.netns.path,
        CNI_IFNAME: "eth0",
        CNI_PATH: path,
      },
      stdin: JSON.stringify(
        result ? { ...config, prevResult: result } : config,
      ),
    });
    const milliseconds = performance.now() - start;
    if (code !== 0) throw new Error(`${type} ${command}: ${stdout}${stderr}`);
    if (command === "ADD") result = JSON.parse(stdout);
    return { type, milliseconds, stdout };
  });
}

/** Attaches a container and shows the result. */
function attach(node: Node, container: Container): PrintedResult {
  let result: PrintedResult = { interfaces: [], ips: [] };
  for (
    const { type, milliseconds, stdout } of runPlugins(node, "ADD", container)
  ) {
    console.log(`  ${type} ADD ${container.id}: ${milliseconds.toFixed(0)} ms`);
    if (IS_VERBOSE) console.log(stdout.replace(/^/gm, "    "));
    result = JSON.parse(stdout);
  }
  return result;
}

/** Shows that the containers are as they were attached, and detaches them. */
function checkAndDetach(
  node: Node,
  containers: readonly Container[],
  results: readonly PrintedResult[],
): void {
  for (const command of ["CHECK", "DEL"] as const) {
    heading(command);
    for (const [position, container] of containers.entries()) {
      for (
        const run of runPlugins(
          node,
          command,
          container,
          results[position],
        )
      ) {
        const time = run.milliseconds.toFixed(0);
        report(
          run.stdout === "",
          `${run.type} ${command} ${container.id}: ${time} ms`,
        );
      }
    }
  }
}

/** Draws the result. */
function draw(results: readonly PrintedResult[]): void {
  const lines = results.map(({ interfaces, ips }, position) => {
    const addresses = ips.map(({ address }) => address).join(" ");
    return `  │ ${interfaces[0]?.name} ├──── ${interfaces[1]?.name} ` +
      `container ${"ab"[position]}  ${addresses}`;
  });
  const gateways = results[0]?.ips.map(({ gateway }) => gateway).join(" ");
  console.log(`  ┌───── node ──────┐  each end there: ${gateways}`);
  console.log(lines.join("\n"));
  console.log("  └─────────────────┘");
}

/** Runs the peer program in a namespace, to its end. */
function ask(from: NetNs, address: string): string {
  const { stdout } = inNetns(from, () =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-config", PEER, "ask", address, `${PORT}`],
      stderr: "null",
    }).outputSync());
  return new TextDecoder().decode(stdout).trim();
}

/** Starts the peer program in a namespace; it listens when this returns. */
async function listen(
  netns: NetNs,
  name: string,
): Promise<Deno.ChildProcess> {
  const child = inNetns(netns, () =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-config", PEER, "listen", `${PORT}`, name],
      stdout: "piped",
    }).spawn());
  const reader = child.stdout.getReader();
  await reader.read();
  reader.releaseLock();
  return child;
}

/** Shows that the namespaces reach each other. */
async function proveReachability(
  places: readonly { name: string; netns: NetNs; addresses: string[] }[],
): Promise<void> {
  const servers: Deno.ChildProcess[] = [];
  try {
    for (const { netns, name } of places) {
      servers.push(await listen(netns, name));
    }
    for (const from of places) {
      for (const to of places.filter((place) => place !== from)) {
        for (const address of to.addresses) {
          report(
            ask(from.netns, address) === to.name,
            `${from.name} reaches ${to.name} at ${address}`,
          );
        }
      }
    }
  } finally {
    for (const server of servers) {
      server.kill("SIGKILL");
      await server.stdout.cancel();
      await server.status;
    }
  }
}

/** Shows that nothing is left. */
function proveNothingLeft(
  places: readonly { name: string; netns: NetNs }[],
  leases: string,
): void {
  for (const { name, netns } of places) {
    using rtnl = Rtnl.open(netns.path);
    const links = rtnl.link.list().map(({ name }) => name);
    report(links.join() === "lo", `links of ${name}: ${links}`);
    const routes = rtnl.route.list();
    report(routes.length === 0, `routes of ${name}: ${routes.length}`);
  }
  const left = [...Deno.readDirSync(leases)].map(({ name }) => name)
    .filter((name) => name !== "lock" && !name.startsWith("last_reserved_ip"));
  report(left.length === 0, `leases: ${left.length}`);
}

/** The whole show; everything it makes is gone when it returns. */
async function demo(path: string): Promise<void> {
  using stack = new DisposableStack();
  const directory = Deno.makeTempDirSync({ prefix: "cni-demo-" });
  stack.defer(() => Deno.removeSync(directory, { recursive: true }));
  const [node, a, b] = [0, 1, 2].map(() => stack.use(makeNetns()));
  if (!node || !a || !b) return;
  const list = readConfList(`${directory}/leases`);
  const place: Node = { netns: node, path, list };
  const containers = [{ id: "a", netns: a }, { id: "b", netns: b }];

  heading(`Network "${list.name}" (docs/examples/10-ptp.conflist)`);
  const results = containers.map((container) => attach(place, container));
  draw(results);

  heading("Who reaches whom, over TCP");
  const addressesOf = (result?: PrintedResult): string[] =>
    result?.ips.map(({ address }) => address.replace(/\/.*/, "")) ?? [];
  const places = [
    { name: "container a", netns: a, addresses: addressesOf(results[0]) },
    { name: "container b", netns: b, addresses: addressesOf(results[1]) },
    {
      name: "the node",
      netns: node,
      addresses: results[0]?.ips.map(({ gateway }) => gateway) ?? [],
    },
  ];
  await proveReachability(places);

  checkAndDetach(place, containers, results);

  heading("What is left");
  proveNothingLeft(places, `${directory}/leases/${list.name}`);
}

/** Creates a namespace with its loopback up. */
function makeNetns(): NetNs {
  const netns = NetNs.create();
  using rtnl = Rtnl.open(netns.path);
  rtnl.link.set(rtnl.link.get("lo").index, { isUp: true });
  return netns;
}

/** Shows that the namespaces are gone: only descriptors of ours held them. */
function proveNetnsGone(): void {
  // To return to its own namespace, a thread may hold it.
  const own = Deno.readLinkSync("/proc/self/ns/net");
  const held = [...Deno.readDirSync("/proc/self/fd")].filter(({ name }) => {
    try {
      const target = Deno.readLinkSync(`/proc/self/fd/${name}`);
      return target.startsWith("net:") && target !== own;
    } catch {
      return false;
    }
  });
  report(held.length === 0, `namespaces held: ${held.length}`);
}

/** Builds, shows, and returns the exit status. */
async function main(): Promise<number> {
  const path = await ensureCompiled();
  if (!mayMakeNetns()) return runInUserNamespace();
  try {
    await demo(path);
  } catch (error) {
    report(false, error instanceof Error ? error.message : String(error));
  }
  proveNetnsGone();
  if (failures.length === 0) {
    console.log("\nAll as it should be.");
    return 0;
  }
  console.log(`\n${failures.length} not as it should be.`);
  return 1;
}

answerHelp(
  `Build the executables and put two containers on a network, in network namespaces
that end with the demo.

Usage: deno task demo [--verbose]

  --verbose  also prints the results of ADD, as JSON`,
);
Deno.exit(await main());
