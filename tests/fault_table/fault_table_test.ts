/**
 * Every plugin and verb with a fault after each step that changes the node: the
 * step fails although it is done, the process is dead from then on, or a node
 * daemon's call fails. Then the runtime's DEL, DEL again and GC must leave the
 * node as it was. Each step gets one of the faults, in turn;
 * `CNI_FAULTS=all` gives it all of them.
 *
 * The steps are listed in golden/fault_steps.txt, which
 * `CNI_FAULT_TABLE=write` writes again.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { RuleRequests } from "../../ffi/rtnl/rule.ts";
import { QdiscRequests } from "../../ffi/rtnl/traffic_control_qdisc.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import { localnetKeyOf } from "../../plugins/portmap/route_localnet.ts";
import { pluginNames } from "../../plugins/registry.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  needsRoot,
  rootTest,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";
import { byDaemon } from "../_harness/by_daemon.ts";
import { BIN, needsBin } from "../_harness/executables.ts";
import { FAULT_ROWS, type FaultRow, titleOf, WITHOUT_ROW } from "./rows.ts";
import type { Keys } from "../_harness/plugin_scene.ts";
import { needsInetRules } from "../_harness/rules.ts";
import { spawnIn } from "../_harness/spawn_in.ts";
import { type Fault, NodeChanges } from "./node_changes.ts";

const PAGE = new URL("../golden/fault_steps.txt", import.meta.url);

const INTRO =
  `Each step with which a plugin changes something: requests to the kernel, commits
of nftables, files, programs. tests/fault_table/fault_table_test.ts injects
faults after them, and writes this list with CNI_FAULT_TABLE=write.
`;

/** Reads the sections of the page, by their titles. */
function readPage(): Map<string, string> {
  const [, ...parts] = Deno.readTextFileSync(PAGE).split("\n## ");
  return new Map(parts.map((part) => {
    const [title = "", ...lines] = part.split("\n");
    return [title, squeeze(lines.join("\n"))];
  }));
}

/** Writes the page with new sections; the others stay. */
function writePage(sections: ReadonlyMap<string, string>): void {
  const known = new Map([...readPage(), ...sections]);
  const parts = FAULT_ROWS.map(titleOf).filter((title) => known.has(title))
    .map((title) => `## ${title}\n\n${known.get(title)}\n`);
  const others = Object.entries(WITHOUT_ROW)
    .map(([type, why]) => `## ${type}\n\n${why}\n`);
  Deno.writeTextFileSync(PAGE, [INTRO, ...parts, ...others].join("\n"));
}

/** Removes the breaks within lines of a list. */
function squeeze(text: string): string {
  return text.trim().split(/\n(?!- )/).join(" ").replaceAll(/ {2,}/g, " ");
}

/** Returns the name of a step in the page: the same on every machine. */
function nameOf(
  step: string,
  { directory, path }: { readonly directory: string; readonly path: string },
): string {
  return step.replaceAll(path, "BIN").replaceAll(directory, "…")
    .replaceAll("/proc/sys/", "")
    .replace(/(leases\/\w+)\/[0-9a-f.:]+$/, "$1/ADDRESS")
    .replaceAll(/\b(veth|bwp|when_)?[0-9a-f]{8,}\b/g, "$1…")
    .replaceAll(/\/(usr\/)?(local\/)?s?bin\//g, "")
    // The number of the kernel's file system of namespaces.
    .replace(/netns-\d+:/, "netns-N:")
    .replace(/ --noflush.*/, "");
}

/** Joins equal steps that follow each other. */
function summarize(steps: readonly string[]): string {
  const parts: { name: string; count: number }[] = [];
  for (const name of steps) {
    const last = parts.at(-1);
    if (last?.name === name) last.count++;
    else parts.push({ name, count: 1 });
  }
  return parts.map(({ name, count }) =>
    count === 1 ? `\`${name}\`` : `\`${name}\` ×${count}`
  ).join(", ");
}

const VERBS = ["ADD", "DEL", "GC"] as const;
const BUT_GC = VERBS.slice(0, 2);
/** These change nothing. */
const READERS = ["CHECK", "STATUS"] as const;
/** The ways in which a step's fault comes about. */
const WAYS = ["error", "death", "daemon"] as const;
const TESTS_ALL = Deno.env.get("CNI_FAULTS") === "all";

/** How many faults a run must test on a machine that has what they need. */
const AT_LEAST = 150;
/** The exit code of strace if its program was killed. */
const SIGKILLED = 137;
/** By turns, the executable is killed at one of so many requests. */
const KILLED_REQUESTS = 5;
const needsKills = allOf(
  needsBin,
  ignoreUnless(hasCommand("strace"), "needs strace"),
);

type Verb = typeof VERBS[number];
type Way = typeof WAYS[number];

const OTHER: CallOptions = { containerId: "other" };

/** A host with a container that stays, and one whose calls fail. */
class Scene implements Disposable {
  readonly hosts = TestHosts.create();
  readonly row: FaultRow;
  readonly #others: CallOptions = { ...OTHER, sandbox: this.hosts.addNetns() };
  readonly #before: unknown[] = [];
  #first: unknown;
  #other: unknown;

  private constructor(row: FaultRow) {
    this.row = row;
  }

  static async make(row: FaultRow): Promise<Scene> {
    const scene = new Scene(row);
    row.prepare?.(scene.hosts);
    for (const [container, options] of [{}, scene.#others].entries()) {
      scene.#before.push(
        row.isChained ? await scene.#addBase(container, options) : null,
      );
    }
    // The daemon is there from now on.
    await byDaemon(async () => {
      const config = scene.#configOf(1);
      const { json } = await scene.#succeed("ADD", config, scene.#others);
      scene.#other = json;
    });
    // What attachments share is there from now on.
    const { json: result } = await scene.#succeed("ADD");
    await scene.cleanUp("the first DEL", result);
    scene.#first = scene.state();
    return scene;
  }

  async #addBase(container: number, options: CallOptions): Promise<unknown> {
    const ipam = {
      ...this.hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    };
    const base = this.row.base?.(this.hosts, container) ??
      { type: "ptp", ipam };
    const config = { cniVersion: "1.1.0", name: "net1", ...base };
    const adding = this.hosts.run(String(base["type"]), "ADD", config, options);
    return (await this.#check(adding)).json;
  }

  #configOf(container: number, extras: Keys = {}): Keys {
    const prevResult = this.#before[container];
    return {
      cniVersion: "1.1.0",
      name: "net1",
      type: this.row.type,
      ...prevResult ? { prevResult } : {},
      ...this.row.config(this.hosts, container),
      ...extras,
    };
  }

  /**
   * Returns the configuration of a verb.
   *
   * @param result Of an ADD; a runtime has none if ADD failed
   */
  configOf(verb: string, result?: unknown): Keys {
    const isKept = verb === "ADD" ||
      this.row.keepsPrevResult && result === undefined;
    return this.#configOf(0, {
      ...verb === "GC" ? { "cni.dev/valid-attachments": VALID } : {},
      ...isKept ? {} : { prevResult: result },
    });
  }

  run(verb: string, result?: unknown): Promise<CallOutput> {
    const config = this.configOf(verb, result);
    return this.hosts.run(this.row.type, verb, config);
  }

  async #succeed(
    verb: string,
    config = this.configOf(verb),
    options: CallOptions = {},
  ): Promise<CallOutput> {
    const { type } = this.row;
    return await this.#check(this.hosts.run(type, verb, config, options));
  }

  async #check(running: Promise<CallOutput>): Promise<CallOutput> {
    const output = await running;
    assertEquals(output.exitCode, 0, output.stdout);
    return output;
  }

  /** Brings about what a verb works on; returns the result of ADD. */
  async setUp(verb: Verb): Promise<unknown> {
    if (verb === "ADD") return undefined;
    return (await this.#succeed("ADD")).json;
  }

  /** Does what a runtime does after a failure, and compares the node. */
  async cleanUp(when: string, result?: unknown): Promise<void> {
    for (const verb of ["DEL", "DEL", "GC"]) {
      await this.#succeed(verb, this.configOf(verb, result));
    }
    if (this.#first === undefined) return;
    assertEquals(this.state(), this.#first, when);
  }

  /** Checks that the other container has all that it had, and detaches it. */
  async endOther(): Promise<void> {
    const config = this.#configOf(1, { prevResult: this.#other });
    await this.#succeed("CHECK", config, this.#others);
    await this.#succeed("DEL", config, this.#others);
  }

  /** Runs the executable, and kills it; returns whether it got that far. */
  async kill(verb: Verb, request: number, result: unknown): Promise<boolean> {
    const killing = `sendto:signal=SIGKILL:when=${request}`;
    const { output } = spawnIn(this.hosts.host, {
      path: "strace",
      args: [
        ...["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"],
        ...["-e", "trace=sendto", "-e", `inject=${killing}`],
        `${BIN}/${this.row.type}`,
      ],
      env: {
        ...this.hosts.environment(verb),
        CNI_PATH: BIN,
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
      },
      stdin: JSON.stringify(this.configOf(verb, result)),
    });
    const { code, stdout } = await output;
    assert([0, SIGKILLED].includes(code), `${code}: ${stdout}`);
    return code === SIGKILLED;
  }

  /** Describes all that there is. */
  state(): unknown {
    const { host, sandbox, directory } = this.hosts;
    return [
      describe(host),
      describe(sandbox, this.row.losesRoutes),
      hasCommand("nft") ? rulesOf(host) : "",
      listFiles(directory),
    ];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

const VALID = [{ containerID: OTHER.containerId, ifname: "eth0" }];

/** Describes a namespace, without what settles by itself. */
function describe({ path }: NetNs, losesRoutes = false): unknown {
  using rtnl = Rtnl.open(path);
  const links = rtnl.link.list()
    .map(({ isOperational: _isOperational, ...link }) => link);
  const addresses = rtnl.address.list()
    .filter(({ address: { ip } }) => !ip.isLinkLocal)
    .map(({ address, ifindex }) => `${ifindex} ${address}`);
  const routes = rtnl.route.list({ table: "any" })
    .filter(({ destination: { ip } }) => !ip.isLinkLocal && !ip.isMulticast);
  const rules = new RuleRequests(rtnl.socket).list();
  const qdiscs = new QdiscRequests(rtnl.socket).list();
  const localnets = links.map(({ name }) =>
    inNetns(rtnl.netns, () => readSysctl(localnetKeyOf(name)))
  );
  return [links, addresses, losesRoutes ? [] : routes, rules, qdiscs, localnets]
    .map((part) => JSON.stringify(part));
}

/** Lists rules and elements of all programs; their order within a set differs. */
function rulesOf(host: NetNs): string[] {
  return runIn(host, "nft", "list", "ruleset").replace(
    /counter packets.*?bytes \d+/g,
    "",
  )
    .split(/[\n,]/).map((line) => line.trim()).sort();
}

/** Lists files with their content; locks and unfinished files are reused. */
function listFiles(directory: string): string[] {
  return [...Deno.readDirSync(directory)].flatMap(({ name, isDirectory }) => {
    const path = `${directory}/${name}`;
    if (
      /^(bin|\.unfinished|calls|lock|.*\.lock|last_reserved_ip\..*)$/.test(name)
    ) {
      return [];
    }
    if (isDirectory) return listFiles(path);
    return [`${path}: ${Deno.readTextFileSync(path)}`];
  }).sort();
}

/** Runs a verb with a fault after a step; returns the steps that it made. */
async function runWith(
  scene: Scene,
  verb: Verb,
  { step, way }: { readonly step?: number; readonly way: Way },
): Promise<string[]> {
  const added = await scene.setUp(verb);
  const fault: Fault = way === "death" ? "death" : "error";
  const changes = new NodeChanges(step, fault);
  let output: CallOutput | undefined;
  const run = async (): Promise<void> => {
    output = await scene.run(verb, added);
  };
  try {
    await (way === "daemon" ? byDaemon(run) : run());
  } finally {
    changes[Symbol.dispose]();
  }
  assert(output);
  const { steps } = changes;
  const when = step === undefined
    ? verb
    : `${verb}, ${way} after step ${step}: ${steps[step - 1]}`;
  if (step === undefined) assertEquals(output.exitCode, 0, output.stdout);
  const isAdded = verb === "ADD" && output.exitCode === 0;
  await scene.cleanUp(when, isAdded ? output.json : added);
  return steps;
}

/** Sections of the table, by their titles. */
const sections = new Map<string, string>();
let points = 0;

for (const [index, row] of FAULT_ROWS.entries()) {
  const title = titleOf(row);
  rootTest(`faults of ${title}`, row.needs ?? allOf(), async (t) => {
    using scene = await Scene.make(row);
    const lines: string[] = [];
    for (const verb of row.gcForgets ? BUT_GC : VERBS) {
      await t.step(verb, async () => {
        const steps = await runWith(scene, verb, { way: "error" });
        const stride = TESTS_ALL ? 1 : row.stride ?? 1;
        for (let step = 1; step <= steps.length; step += stride) {
          const ways = TESTS_ALL
            ? WAYS
            : [WAYS[(index + step) % WAYS.length] ?? "error"];
          for (const way of ways) {
            await runWith(scene, verb, { step, way });
            points++;
          }
        }
        const names = steps.map((step) => nameOf(step, scene.hosts));
        const text = steps.length > 0 ? `: ${summarize(names)}` : "";
        const count = steps.length === 1 ? "1 step" : `${steps.length} steps`;
        lines.push(`- ${verb}, ${count}${text}`);
      });
    }
    await t.step("CHECK and STATUS", () => changesNothing(scene));
    if (!needsKills.ignore) {
      await t.step("SIGKILL", () => killProcesses(scene, index));
    }
    await scene.endOther();
    sections.set(title, lines.join("\n"));
  });
}

async function changesNothing(scene: Scene): Promise<void> {
  const added = await scene.setUp("DEL");
  const before = scene.state();
  for (const verb of READERS) {
    using changes = new NodeChanges();
    const { exitCode, stdout } = await scene.run(verb, added);
    changes[Symbol.dispose]();
    assertEquals([verb, exitCode], [verb, 0], stdout);
    // It may run iptables-restore to look for rules, and take a lock.
    const steps = changes.steps.filter((step) =>
      !/^run |\/run\/cni\/locks\//.test(step)
    );
    assertEquals(steps, [], verb);
  }
  assertEquals(scene.state(), before);
  await scene.cleanUp("CHECK and STATUS", added);
}

/** Kills the executable as it sends a request to the kernel. */
async function killProcesses(scene: Scene, index: number): Promise<void> {
  const one = 2 + index % KILLED_REQUESTS;
  if (!TESTS_ALL) return void await killProcess(scene, "ADD", one);
  for (const verb of BUT_GC) {
    for (let request = 1; await killProcess(scene, verb, request); request++);
  }
}

/** @returns Whether it made as many requests */
async function killProcess(
  scene: Scene,
  verb: Verb,
  request: number,
): Promise<boolean> {
  const added = await scene.setUp(verb);
  const wasKilled = await scene.kill(verb, request, added);
  await scene.cleanUp(`${verb}, killed at request ${request}`, added);
  if (wasKilled) points++;
  return wasKilled;
}

Deno.test("every plugin has a row of faults", () => {
  const types = new Set(FAULT_ROWS.map(({ type }) => type));
  const missing = pluginNames.filter((type) =>
    !types.has(type) && !(type in WITHOUT_ROW)
  );
  assertEquals(missing, [], "add rows to tests/fault_table/rows.ts");
});

Deno.test("fault_steps.txt lists the steps", async (t) => {
  if (Deno.env.get("CNI_FAULT_TABLE") === "write") writePage(sections);
  const page = readPage();
  for (const [title, section] of sections) {
    assertEquals(page.get(title), squeeze(section), title);
  }
  const titles = [...FAULT_ROWS.map(titleOf), ...Object.keys(WITHOUT_ROW)];
  assertEquals(
    titles.filter((title) => !page.has(title)),
    [],
    "run this file with CNI_FAULT_TABLE=write",
  );
  await t.step(`${points} faults were tested`, () => {
    const isAll = !allOf(needsRoot, needsInetRules, needsKills).ignore;
    assert(!isAll || points >= AT_LEAST, `only ${points}`);
  });
});
