/**
 * ADD, once and many times concurrently.
 *
 * @module
 */

import { isAtLeast } from "../../../cni/version.ts";
import type { Requirement } from "../requirement.ts";
import { Broken, expect, Untried } from "../verdict.ts";
import { checkResult } from "../result_shape.ts";
import {
  type Attachment,
  describeReply,
  type Json,
  type Scene,
} from "../scene.ts";
import type { State } from "../state.ts";
import { readDocument, type Reply } from "../call.ts";

/** The lists of a result. */
interface Parts {
  readonly interfaces: readonly Json[];
  readonly ips: readonly Json[];
}

/** Reads the lists of what a plugin printed, whatever that is. */
export function partsOf(result: Json | undefined): Parts {
  const read = (key: string): Json[] => {
    const list: unknown = result?.[key];
    return Array.isArray(list) ? list.map((one) => one ?? {}) : [];
  };
  return { interfaces: read("interfaces"), ips: read("ips") };
}

/** Lists the addresses of a result of any version. */
export function addressesOf(result: Json | undefined): string[] {
  const pair = [result?.["ip4"]?.ip, result?.["ip6"]?.ip];
  const list = partsOf(result).ips.map(({ address }) => address);
  return [...pair, ...list].filter((one) => typeof one === "string");
}

/** Lists the names of a container's links. */
export function linksOf(scene: Scene, one: Attachment): string[] {
  return scene.stateOf(one).filter((line) => line.startsWith("link "))
    .map((line) => line.split(" ")[1] ?? "");
}

/** Attaches in a version, and detaches. */
export function attachIn(scene: Scene, version: string): Promise<RoundTrip> {
  return scene.once(`a round trip in ${version}`, async () => {
    scene.version = version;
    const one = await scene.container();
    const added = await scene.call("ADD", one);
    const prevResult = isAtLeast(version, "0.4.0") ? added.json : undefined;
    const deleted = await scene.call("DEL", one, { keys: { prevResult } });
    await scene.remove(one);
    return { added, deleted };
  });
}

/** The outcomes of ADD and DEL. */
interface RoundTrip {
  readonly added: Reply;
  readonly deleted: Reply;
}

/** Looks at the result of ADD in each version; the requirement is not about whether that succeeds. */
async function lookAtResults(
  scene: Scene,
  look: (result: Json, version: string) => void,
): Promise<void> {
  let isAny = false;
  for (const version of scene.versions) {
    const { added } = await attachIn(scene, version);
    if (added.exit !== "0") continue;
    look(added.json ?? {}, version);
    isAny = true;
  }
  if (!isAny) throw new Untried("ADD fails in every version");
}

/** Attaches a container that has an interface of the name, which must fail. */
async function taken(
  scene: Scene,
): Promise<{ readonly one: Attachment; readonly before: State }> {
  if (scene.subject.ifName === "lo") throw new Untried("lo is always there");
  const one = await scene.container();
  scene.shell(`ip link add ${one.ifName} type veth peer name x1`, one);
  const before = scene.stateOf(one);
  await scene.fail("although the interface exists", "ADD", one);
  return { one, before };
}

/** How many are attached at the same time. */
const CROWD = 20;

export const ADD_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "add",
    title: "ADD succeeds in each version that VERSION lists",
    section: "1 Version considerations",
    strength: "MUST",
    async run(scene): Promise<void> {
      const failures: string[] = [];
      for (const version of scene.versions) {
        const { added } = await attachIn(scene, version);
        if (added.exit === "0") continue;
        failures.push(`${version}: ${describeReply(added)}`);
      }
      const [first] = failures;
      if (first === undefined) return;
      if (failures.length === scene.versions.length && scene.subject.isGuess) {
        throw new Untried(`ADD fails with the guessed configuration: ${first}`);
      }
      throw new Broken(first);
    },
  },
  {
    id: "result-version",
    title: "The result has the cniVersion of the configuration",
    section: "5 ADD Success",
    strength: "MUST",
    async run(scene): Promise<void> {
      await lookAtResults(scene, ({ cniVersion }, version) =>
        expect(
          cniVersion === version,
          `the result for cniVersion ${version} has cniVersion ${cniVersion}`,
        ));
    },
  },
  {
    id: "result-shape",
    title: "The result has the format of each version of the specification",
    section: "5 ADD Success",
    strength: "MUST",
    async run(scene): Promise<void> {
      await lookAtResults(scene, (result, version) => {
        const [wrong] = checkResult(result, version);
        expect(wrong === undefined, `${version}: ${wrong}`);
      });
    },
  },
  {
    id: "result-indexes",
    title:
      "ips refer to interfaces of the result; the container's have CNI_NETNS",
    section: "5 ADD Success",
    strength: "SHOULD",
    kinds: ["interface"],
    since: "0.3.0",
    async run(scene): Promise<void> {
      const one = await scene.added();
      const { interfaces, ips } = partsOf(one.prevResult);
      for (const { interface: at, address } of ips) {
        if (at === undefined) continue;
        expect(
          interfaces[at],
          `${address} refers to interface ${at}, which is not in the result`,
        );
      }
      const inside = interfaces.filter(({ sandbox }) => sandbox);
      expect(
        inside.some(({ name }) => name === one.ifName),
        `no interface "${one.ifName}" has a sandbox`,
      );
      for (const { name, sandbox } of inside) {
        expect(
          sandbox === one.sandbox.path,
          `sandbox of "${name}" is ${sandbox}, not ${one.sandbox.path}`,
        );
      }
    },
  },
  {
    id: "result-true",
    title: "The container has the interfaces and addresses of the result",
    section: "5 ADD Success",
    strength: "MUST",
    kinds: ["interface"],
    since: "0.3.0",
    async run(scene): Promise<void> {
      const one = await scene.added();
      const state = scene.stateOf(one);
      const { interfaces, ips } = partsOf(one.prevResult);
      expect(
        linksOf(scene, one).includes(one.ifName),
        `the container has no "${one.ifName}"`,
      );
      for (const { name, sandbox, mac } of interfaces) {
        if (!sandbox) continue;
        const link = state.find((line) => line.startsWith(`link ${name} `));
        expect(link, `the container has no "${name}"`);
        expect(
          !mac || link.includes(`mac ${mac}`),
          `the MAC of "${name}" is not ${mac}`,
        );
      }
      for (const { address, interface: at } of ips) {
        if (!interfaces[at]?.sandbox) continue;
        expect(
          state.some((line) => line.startsWith(`address ${address} `)),
          `the container has no address ${address}`,
        );
      }
    },
  },
  {
    id: "prev-result",
    title: "A chained plugin's result keeps the contents of prevResult",
    section: "5 ADD Success",
    strength: "MUST",
    kinds: ["chained"],
    since: "0.3.0",
    async run(scene): Promise<void> {
      const one = await scene.container();
      const before = one.prevResult ?? {};
      const after = (await scene.added(one)).prevResult ?? {};
      const names = (result: Json): string[] =>
        partsOf(result).interfaces.map(({ name }) => name);
      for (const name of names(before)) {
        expect(names(after).includes(name), `interface "${name}" is missing`);
      }
      for (const address of addressesOf(before)) {
        expect(addressesOf(after).includes(address), `${address} is missing`);
      }
      const { nameservers = [] } = before["dns"] ?? {};
      const servers = [after["dns"]?.nameservers].flat();
      expect(
        nameservers.every((one: string) => servers.includes(one)),
        "nameservers are missing",
      );
    },
  },
  {
    id: "ifname-taken",
    title: "ADD fails if the container has an interface of that name",
    section: "2 ADD",
    strength: "MUST",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      await taken(scene);
    },
  },
  {
    id: "ifname-taken-kept",
    title: "Such an ADD does not change the existing interface",
    section: "2 ADD",
    strength: "PRACTICE",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      const { one, before } = await taken(scene);
      await scene.same(
        before,
        () => scene.stateOf(one),
        "the failed ADD changed the container",
      );
    },
  },
  {
    id: "add-twice",
    title: "A second ADD of the same attachment does not change the first",
    section: "2 ADD",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      await scene.warmUp();
      const before = scene.state();
      const one = await scene.container();
      const { prevResult } = one;
      await scene.added(one);
      const [added, inside] = [scene.state(), scene.stateOf(one)];
      await scene.call("ADD", { ...one, prevResult });
      await scene.same(added, () => scene.state(), "the second ADD changed");
      await scene.same(
        inside,
        () => scene.stateOf(one),
        "the second ADD changed in the container",
      );
      await scene.succeed("DEL", one);
      await scene.remove(one);
      await scene.same(before, () => scene.state(), "after DEL");
    },
  },
  {
    id: "add-again",
    title: "ADD works again after DEL, in the same container",
    section: "3 Lifecycle & Ordering",
    strength: "MUST",
    async run(scene): Promise<void> {
      const one = await scene.container();
      const { prevResult } = one;
      await scene.added(one);
      await scene.succeed("DEL", one);
      one.prevResult = prevResult;
      const reply = await scene.call("ADD", one);
      expect(reply.exit === "0", `ADD failed: ${describeReply(reply)}`);
    },
  },
  {
    id: "long-names",
    title: "The longest IDs and interface names work",
    section: "2 Parameters",
    strength: "MUST",
    kinds: ["interface", "ipam"],
    async run(scene): Promise<void> {
      if (scene.subject.ifName !== undefined) {
        throw new Untried("the plugin's interface has a fixed name");
      }
      await scene.warmUp();
      // The interface of an IPAM plugin is another's.
      const isOwn = scene.subject.kind === "interface";
      const one = await scene.container(isOwn ? "abcdefgh.jklm-o" : undefined);
      const long = { ...one, containerId: "a0_.-".repeat(20) };
      const { json } = await scene.succeed("ADD", long);
      await scene.succeed("DEL", { ...long, prevResult: json });
    },
  },
  {
    id: "silence",
    title: "DEL and CHECK print nothing on stdout",
    section: "2 CNI operations",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      const one = await scene.added();
      const commands = scene.has("CHECK") ? ["CHECK", "DEL"] : ["DEL"];
      for (const command of commands) {
        const { stdout } = await scene.call(command, one);
        const text = stdout.trim();
        expect(
          text === "" || readDocument(text) !== undefined &&
              /"code"/.test(text),
          `${command} prints ${JSON.stringify(text.slice(0, 80))}`,
        );
      }
    },
  },
  {
    id: "at-once",
    title:
      "20 concurrent containers are attached, with distinct addresses, and detached",
    section: "3 Lifecycle & Ordering",
    strength: "MUST",
    async run(scene): Promise<void> {
      const most = Math.min(scene.subject.most ?? CROWD, CROWD);
      if (most < 2) throw new Untried("it attaches one container at a time");
      await scene.warmUp();
      const before = scene.state();
      const all: Attachment[] = [];
      for (let at = 0; at < most; at++) all.push(await scene.container());
      const replies = await Promise.all(
        all.map((one) => scene.call("ADD", one)),
      );
      replies.forEach((reply, at) => {
        const who = all[at]?.containerId;
        expect(
          reply.exit === "0",
          `ADD of ${who} failed: ${describeReply(reply)}`,
        );
      });
      if (scene.subject.kind !== "chained") {
        const addresses = replies.flatMap(({ json }) => addressesOf(json));
        const twice = addresses.find((one, at) =>
          addresses.indexOf(one) !== at
        );
        expect(twice === undefined, `${twice} was given twice`);
      }
      if (scene.subject.kind === "interface") {
        for (const one of all) {
          expect(
            linksOf(scene, one).includes(one.ifName),
            `${one.containerId} has no "${one.ifName}"`,
          );
        }
      }
      all.forEach((one, at) => one.prevResult = replies[at]?.json);
      const ends = await Promise.all(all.map((one) => scene.call("DEL", one)));
      ends.forEach((reply, at) => {
        const who = all[at]?.containerId;
        expect(
          reply.exit === "0",
          `DEL of ${who} failed: ${describeReply(reply)}`,
        );
      });
      for (const one of all) await scene.remove(one);
      await scene.same(before, () => scene.state(), "after all DELs");
    },
  },
];
