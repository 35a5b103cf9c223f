/**
 * CHECK, which sees what has changed since ADD.
 *
 * @module
 */

import type { Requirement } from "../requirement.ts";
import { expect, Untried } from "../verdict.ts";
import type { Attachment, Scene } from "../scene.ts";
import { differences } from "../state.ts";
import { partsOf } from "./add.ts";

/** Attaches, changes something, and expects CHECK to fail. */
async function noticed(
  scene: Scene,
  what: string,
  change: (one: Attachment) => void,
): Promise<void> {
  const one = await scene.added();
  const before = await scene.call("CHECK", one);
  if (before.exit !== "0") throw new Untried("CHECK fails right after ADD");
  change(one);
  const { exit } = await scene.call("CHECK", one);
  expect(exit !== "0", `CHECK succeeds although ${what}`);
}

/** Returns the addresses that the container got, with their interfaces. */
function addressesInside({ prevResult, ifName }: Attachment): string[][] {
  const { ips, interfaces } = partsOf(prevResult);
  return ips.map(({ address, interface: at }) => [
    address,
    interfaces[at]?.name ?? ifName,
  ]);
}

/** What ADD changes on the node and in the container, as lines of state. */
interface Made {
  readonly one: Attachment;
  readonly onNode: readonly string[];
  readonly inside: readonly string[];
}

async function make(scene: Scene): Promise<Made> {
  const one = await scene.container();
  const before = scene.state(), within = scene.stateOf(one);
  await scene.added(one);
  const come = (lines: string[]): string[] =>
    lines.filter((line) => line.startsWith("left: "))
      .map((line) => line.slice("left: ".length));
  return {
    one,
    onNode: come(differences(before, scene.state())),
    inside: come(differences(within, scene.stateOf(one))),
  };
}

/** Makes a requirement: CHECK fails without what ADD made of a sort. */
function missing(
  { id, title, what, sort, undo }: {
    readonly id: string;
    readonly title: string;
    readonly what: string;
    readonly sort: RegExp;
    /** Takes a line away, by a command. */
    readonly undo: (line: string) => string;
  },
): Requirement {
  return {
    id,
    title,
    section: "2 CHECK",
    strength: "SHOULD",
    since: "0.4.0",
    async run(scene): Promise<void> {
      const made = await make(scene);
      const { one } = made;
      const places = [[made.onNode, undefined], [made.inside, one]] as const;
      const found = places.flatMap(([lines, where]) =>
        lines.filter((line) => sort.test(line))
          .map((line) => [line, where] as const)
      );
      const [first] = found;
      if (first === undefined) throw new Untried(`ADD makes no ${what}`);
      const before = await scene.call("CHECK", one);
      if (before.exit !== "0") throw new Untried("CHECK fails right after ADD");
      const [line, where] = first;
      scene.shell(undo(line), where);
      const { exit } = await scene.call("CHECK", one);
      expect(exit !== "0", `CHECK succeeds without "${line}"`);
    },
  };
}

export const CHECK_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "check",
    title: "CHECK succeeds right after ADD",
    section: "2 CHECK",
    strength: "MUST",
    since: "0.4.0",
    async run(scene): Promise<void> {
      const one = await scene.added();
      await scene.succeed("CHECK", one);
    },
  },
  {
    id: "check-changes-nothing",
    title: "CHECK changes nothing",
    section: "2 CHECK",
    strength: "PRACTICE",
    since: "0.4.0",
    async run(scene): Promise<void> {
      const one = await scene.added();
      const [before, inside] = [scene.state(), scene.stateOf(one)];
      await scene.call("CHECK", one);
      await scene.same(before, () => scene.state(), "CHECK changed");
      await scene.same(inside, () => scene.stateOf(one), "CHECK changed");
    },
  },
  {
    id: "check-allows-more",
    title: "CHECK accepts addresses and routes that other programs added",
    section: "2 CHECK",
    strength: "MUST",
    since: "0.4.0",
    kinds: ["interface", "chained"],
    async run(scene): Promise<void> {
      const one = await scene.added();
      scene.shell(`ip address add 192.0.2.77/32 dev ${one.ifName}`, one);
      scene.shell(
        `ip link set ${one.ifName} up; ` +
          `ip route add 198.51.100.0/24 dev ${one.ifName}`,
        one,
      );
      await scene.succeed("CHECK", one);
    },
  },
  {
    id: "check-address",
    title: "CHECK fails if an address is missing",
    section: "2 CHECK",
    strength: "SHOULD",
    since: "0.4.0",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      await noticed(scene, "the address is missing", (one) => {
        const [first] = addressesInside(one);
        if (first === undefined) throw new Untried("there is no address");
        const [address, link] = first;
        scene.shell(`ip address del ${address} dev ${link}`, one);
      });
    },
  },
  {
    id: "check-route",
    title: "CHECK fails if a route of the result is missing",
    section: "2 CHECK",
    strength: "SHOULD",
    since: "0.4.0",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      await noticed(scene, "the route is missing", (one) => {
        const [route] = one.prevResult?.["routes"] ?? [];
        if (route === undefined) throw new Untried("there is no route");
        scene.shell(`ip route del ${route.dst}`, one);
      });
    },
  },
  {
    id: "check-down",
    title: "CHECK fails if the interface is down",
    section: "2 CHECK",
    strength: "SHOULD",
    since: "0.4.0",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      await noticed(scene, "the interface is down", (one) => {
        scene.shell(`ip link set ${one.ifName} down`, one);
      });
    },
  },
  {
    id: "check-link",
    title: "CHECK fails if the interface is missing",
    section: "2 CHECK",
    strength: "SHOULD",
    since: "0.4.0",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      if (scene.subject.ifName === "lo") throw new Untried("lo cannot go");
      await noticed(scene, "the interface is missing", (one) => {
        scene.shell(`ip link del ${one.ifName}`, one);
      });
    },
  },
  {
    id: "check-lease",
    title: "CHECK fails if the address is no longer reserved",
    section: "2 CHECK",
    strength: "SHOULD",
    since: "0.4.0",
    kinds: ["ipam"],
    async run(scene): Promise<void> {
      const { one, onNode } = await make(scene);
      const lease = onNode.find((line) =>
        /^file .*\/[\d.:a-f]+$/.test(line) && /\d[.:]/.test(line)
      );
      if (lease === undefined) throw new Untried("no file has the address");
      const before = await scene.call("CHECK", one);
      if (before.exit !== "0") throw new Untried("CHECK fails right after ADD");
      scene.shell(`rm ${lease.slice("file ".length)}`);
      const { exit } = await scene.call("CHECK", one);
      expect(exit !== "0", "CHECK succeeds although the lease is missing");
    },
  },
  missing({
    id: "check-firewall",
    title: "CHECK fails if the firewall rules are missing",
    what: "firewall rules",
    sort: /^(nft|iptables|ip6tables) /,
    undo: () =>
      "nft flush ruleset; for table in $(cat /proc/net/ip_tables_names); do " +
      "iptables-legacy -t $table -F; done 2> /dev/null || true",
  }),
  missing({
    id: "check-shaping",
    title: "CHECK fails if a qdisc is missing",
    what: "qdisc",
    sort: /^qdisc /,
    undo: (line) => {
      const [, device] = / dev (\S+)/.exec(line) ?? [];
      const at = line.includes("ingress") ? "ingress" : "root";
      return `tc qdisc del dev ${device} ${at}`;
    },
  }),
  missing({
    id: "check-rule",
    title: "CHECK fails if a policy rule is missing",
    what: "policy rule",
    sort: /^rule /,
    undo: (line) => {
      const [, priority] = /priority (\d+)/.exec(line) ?? [];
      return `ip rule del priority ${priority}`;
    },
  }),
  missing({
    id: "check-sysctl",
    title: "CHECK fails if a sysctl has a different value",
    what: "other value of net.core.somaxconn, the sysctl that is compared",
    sort: /^sysctl core\/somaxconn:/,
    undo: () => "sysctl -qw net.core.somaxconn=77",
  }),
  {
    id: "check-too-early",
    title: "CHECK before version 0.4.0 is refused with code 1",
    section: "5 Error",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      const early = scene.versions.filter((one) => one < "0.4.0").at(-1);
      if (early === undefined) throw new Untried("it has no such version");
      scene.version = early;
      const one = await scene.added();
      const { json } = await scene.fail(`in ${early}`, "CHECK", one);
      expect(json?.code === 1, `code ${json?.code}`);
    },
  },
];
