// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else runs

/**
 * `deno task demo`: builds the executables and puts two containers on a
 * network with them, in network namespaces made for the purpose, so that
 * nothing is done to the machine's own network.
 *
 * Exits with 1 if a check fails.
 *
 * @module
 */

import { ifPossible } from "../base/files/io.ts";
import { NetNs } from "../ffi/netns.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { EchoSocket } from "../ffi/socket/ping.ts";
import { Ip } from "../net/ip.ts";
import { execIn } from "../testing/exec_in.ts";
import { ensureCompiled } from "./compile.ts";
import { ROOT } from "./compile/project.ts";
import { answerHelp } from "./help.ts";
import { importFlags } from "./net.ts";

const CONFLIST = "docs/examples/10-ptp.conflist";
/** Marks a run that the demo started. */
const NESTED = "--in-user-namespace";

/** A network configuration list. */
interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly { readonly type: string }[];
}

/** The part of a result that the demo shows. */
interface Result {
  readonly interfaces: readonly { readonly name: string }[];
  readonly ips: readonly {
    readonly address: string;
    readonly gateway: string;
  }[];
}

/** A network namespace: of the node, or of a container. */
interface Place {
  readonly name: string;
  readonly netns: NetNs;
}

let failures = 0;

/** Prints an outcome, and counts it if it is bad. */
function report(isTrue: boolean, statement: string): void {
  const [mark, color] = isTrue ? ["✓", "green"] : ["✗", "red"];
  console.log(`  %c${mark}%c ${statement}`, `color: ${color}`, "");
  if (!isTrue) failures++;
}

function heading(text: string): void {
  console.log(`\n%c${text}`, "font-weight: bold");
}

/** A runtime, which runs the plugins of a list one by one. */
class Runtime {
  readonly #node: NetNs;
  readonly #path: string;
  readonly #list: ConfList;

  constructor(node: NetNs, path: string, list: ConfList) {
    this.#node = node;
    this.#path = path;
    this.#list = list;
  }

  /**
   * Runs the plugins, in reverse for DEL, and prints how long each takes.
   *
   * @returns What the last one printed
   * @throws {Error} With the plugin's output if one fails
   */
  run(command: string, { name: id, netns }: Place, result?: Result): string {
    const { plugins, ...common } = this.#list;
    let printed = result === undefined ? "" : JSON.stringify(result);
    for (const plugin of command === "DEL" ? plugins.toReversed() : plugins) {
      const { type } = plugin;
      const prevResult = printed === "" ? undefined : JSON.parse(printed);
      const startMs = performance.now();
      const { code, stdout, stderr } = execIn(this.#node, {
        path: `${this.#path}/${type}`,
        env: {
          CNI_COMMAND: command,
          CNI_CONTAINERID: id,
          CNI_NETNS: netns.path,
          CNI_IFNAME: "eth0",
          CNI_PATH: this.#path,
        },
        stdin: JSON.stringify({ ...plugin, ...common, prevResult }),
      });
      const ms = (performance.now() - startMs).toFixed(0);
      if (code !== 0) throw new Error(`${type} ${command}: ${stdout}${stderr}`);
      console.log(`  ${type} ${command} ${id}: ${ms} ms`);
      if (command === "ADD") printed = stdout;
    }
    if (Deno.args.includes("--verbose")) console.log(printed);
    return printed;
  }
}

/** Draws the node and its containers. */
function draw(results: readonly Result[]): void {
  const gateways = results[0]?.ips.map(({ gateway }) => gateway).join(" ");
  console.log(`  ┌───── node ──────┐  each host end: ${gateways}`);
  for (const [at, { interfaces, ips }] of results.entries()) {
    const [outer, inner] = interfaces;
    const addresses = ips.map(({ address }) => address).join(" ");
    console.log(
      `  │ ${outer?.name} ├──── ${inner?.name} ` +
        `container ${"ab"[at]}  ${addresses}`,
    );
  }
  console.log("  └─────────────────┘");
}

/** How often an address is asked, and how long between, in ms. */
const TRIES = 40, PAUSE_MS = 50;

/** Reports whether an address answers an echo request from a namespace. */
async function ping(from: NetNs, address: string): Promise<boolean> {
  using socket = EchoSocket.open(from, { destination: Ip.parse(address) });
  for (let attempt = 0; attempt < TRIES; attempt++) {
    ifPossible(() => socket.send());
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    if (socket.hasReply()) return true;
  }
  return false;
}

/** Shows that a place has no links, routes or leases any more. */
function proveEmpty({ name, netns }: Place): void {
  using rtnl = Rtnl.open(netns.path);
  const links = rtnl.link.list().map(({ name }) => name);
  report(links.join() === "lo", `links of ${name}: ${links}`);
  const routes = rtnl.route.list();
  report(routes.length === 0, `routes of ${name}: ${routes.length}`);
}

/** The whole show; everything it makes is gone when it returns. */
async function demo(path: string): Promise<void> {
  using stack = new DisposableStack();
  const leases = Deno.makeTempDirSync({ prefix: "cni-demo-" });
  stack.defer(() => Deno.removeSync(leases, { recursive: true }));
  const makePlace = (name: string): Place => {
    const netns = stack.use(NetNs.create());
    using rtnl = Rtnl.open(netns.path);
    rtnl.link.set(rtnl.link.get("lo").index, { isUp: true });
    return { name, netns };
  };
  const node = makePlace("the node");
  const containers = [makePlace("a"), makePlace("b")];
  const list = JSON.parse(Deno.readTextFileSync(ROOT + CONFLIST));
  for (const plugin of list.plugins) plugin.ipam.dataDir = leases;
  const runtime = new Runtime(node.netns, path, list);

  heading(`Network "${list.name}" (${CONFLIST})`);
  const results: Result[] = containers.map((container) =>
    JSON.parse(runtime.run("ADD", container))
  );
  draw(results);

  heading("Connectivity");
  const addresses = new Map<Place, string[]>([
    ...containers.map((one, at) =>
      [one, results[at]?.ips.map(({ address }) => address) ?? []] as const
    ),
    [node, results[0]?.ips.map(({ gateway }) => gateway) ?? []],
  ]);
  for (const from of addresses.keys()) {
    for (const [to, list] of addresses) {
      for (const address of from === to ? [] : list) {
        const ip = address.replace(/\/.*/, "");
        const text = `${from.name} reaches ${to.name} at ${ip}`;
        report(await ping(from.netns, ip), text);
      }
    }
  }

  for (const command of ["CHECK", "DEL"]) {
    heading(command);
    containers.forEach((one, at) => runtime.run(command, one, results[at]));
  }
  heading("Leftovers");
  for (const place of [node, ...containers]) proveEmpty(place);
  const left = [...Deno.readDirSync(`${leases}/${list.name}`)]
    .filter(({ name }) => /^[\d.:a-f]+$/.test(name));
  report(left.length === 0, `leases: ${left.length}`);
}

/** Runs a command as root of a new user namespace; returns its exit status. */
function unshare(...command: string[]): number {
  const args = ["-Urnm", ...command];
  const stdio = "inherit" as const;
  return new Deno.Command("unshare", { args, stdout: stdio, stderr: stdio })
    .outputSync().code;
}

/** Restarts the demo in a user namespace, if one can be created. */
async function runInUserNamespace(): Promise<number> {
  if (Deno.args.includes(NESTED) || unshare("true") !== 0) {
    console.error(
      "The demo creates network namespaces: run it as root, in a privileged " +
        "container, or where user namespaces are allowed.",
    );
    return 1;
  }
  console.log("Not root: running in a user namespace (unshare -Urnm).");
  const script = new URL(import.meta.url).pathname;
  const run = [Deno.execPath(), "run", "-A", ...await importFlags(), script];
  return unshare(...run, ...Deno.args, NESTED);
}

/** Builds, shows, and returns the exit status. */
async function main(): Promise<number> {
  const path = await ensureCompiled();
  const netns = ifPossible(() => NetNs.create());
  if (netns === undefined) return runInUserNamespace();
  netns[Symbol.dispose]();
  try {
    await demo(path);
  } catch (error) {
    report(false, error instanceof Error ? error.message : String(error));
  }
  console.log(
    failures === 0
      ? "\nEverything works as expected."
      : `\nFailed checks: ${failures}`,
  );
  return failures === 0 ? 0 : 1;
}

answerHelp(
  `Build the executables and put two containers on a network, in network namespaces
that end with the demo.
Usage: deno task demo [--verbose]
  --verbose  also prints the results of ADD, as JSON`,
);
Deno.exit(await main());
