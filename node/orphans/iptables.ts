/**
 * Chains and rules of iptables: port mappings and the firewall, ours and the Go
 * plugins', and masquerades of the legacy iptables.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import {
  eachIptables,
  type Place,
} from "../../plugins/parts/iptables/places.ts";
import {
  commentOf,
  failureOf,
  type Iptables,
  optionsOf,
  runIptables,
  type TableName,
} from "../../plugins/parts/iptables/program.ts";
import { changeRules, deletionOf } from "../../plugins/parts/iptables/rules.ts";
import { parseQuoted } from "./comments.ts";
import type { Orphan } from "./orphan.ts";
import type { Scene } from "./search.ts";

const HOSTPORTS = "CNI-HOSTPORT-DNAT", FORWARD = "CNI-FORWARD";
/** A container's chain of port mappings, or of a masquerade. */
const CHAIN = /^CNI-(?:DN-[0-9a-f]{21}|SN-[0-9a-f]{21}|[0-9a-f]{24})$/;
/** The two rules of the firewall for an address. */
const ADDRESS_RULE =
  /^-A CNI-FORWARD (?:-s \S+ -j ACCEPT|-d \S+ -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT)$/;

/** Finds chains and rules. Runs programs only where the kernel has the chains. */
export async function findInIptables(scene: Scene): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  const failures: unknown[] = [];
  const search = async (run: () => Promise<void>): Promise<void> => {
    try {
      await run();
    } catch (error) {
      failures.push(error);
    }
  };
  await search(() =>
    eachIptables(placeOf(scene, "nat"), [HOSTPORTS], async (iptables) => {
      orphans.push(...await findChains(scene, iptables));
    })
  );
  await search(() =>
    eachIptables(placeOf(scene, "filter"), [FORWARD], async (iptables) => {
      orphans.push(...await findAddresses(scene, iptables));
    })
  );
  for (const error of failures) {
    scene.log.warn("Cannot search iptables", { error: describeError(error) });
  }
  return orphans;
}

function placeOf({ hostNetns, env, log }: Scene, table: TableName): Place {
  return { hostNetns, path: env["PATH"], table, isNamed: false, log };
}

async function findChains(
  scene: Scene,
  iptables: Iptables,
): Promise<Orphan[]> {
  const rules = await listTable(iptables);
  const entries = rules.flatMap((rule) => {
    const chain = optionsOf(rule)("-j") ?? "";
    const owner = CHAIN.test(chain) ? parseQuoted(commentOf(rule)) : undefined;
    return owner === undefined ? [] : [{ rule, chain, owner }];
  });
  return [...Map.groupBy(entries, ({ chain }) => chain)].flatMap(
    ([chain, [first, ...more]]) => {
      if (first === undefined) return [];
      const own = rules.filter((rule) => rule.startsWith(`-A ${chain} `));
      const { container, network } = first.owner;
      const leading = [first, ...more].map(({ rule }) => rule);
      const netns = own.flatMap(namespaceIn);
      const isAlive = netns.some((path) => scene.evidence.isAlive(path));
      const why = isAlive ? undefined : scene.evidence.findProof({
        container,
        addresses: [...leading, ...own].flatMap(addressIn),
      });
      if (why === undefined) return [];
      return [{
        kind: "iptables",
        where: `chain ${chain} of table ${iptables.table}`,
        container,
        network,
        why,
        remove: () => removeChain(scene, iptables.table, chain),
      }];
    },
  );
}

/** The containers' addresses: those that leave, or to which ports lead. */
function addressIn(rule: string): Ip[] {
  const option = optionsOf(rule);
  const target = option("--to-destination")?.replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1");
  const source = rule.startsWith("-A POSTROUTING ") ||
      rule.startsWith(`-A ${FORWARD} `)
    ? option("-s") ?? option("-d")
    : undefined;
  return [target, source].flatMap((text) => {
    const [address = "", length] = text?.split("/") ?? [];
    const ip = unlessNoAddress(() => Ip.parse(address));
    const isHost = ip && (length ?? ip.bitLength) === String(ip.bitLength) ||
      length === undefined;
    return ip && isHost ? [ip] : [];
  });
}

/** Our chains end with a rule that tells the namespace. */
function namespaceIn(rule: string): string[] {
  const path = /^if: .*?, netns: \S+ (.+)$/.exec(commentOf(rule))?.[1];
  return path === undefined ? [] : [path];
}

async function findAddresses(
  scene: Scene,
  iptables: Iptables,
): Promise<Orphan[]> {
  const rules = (await listTable(iptables))
    .filter((rule) => ADDRESS_RULE.test(rule));
  const byAddress = Map.groupBy(rules, (rule) => String(addressIn(rule)[0]));
  return [...byAddress].flatMap(([address, own]) => {
    const ips = own.slice(0, 1).flatMap(addressIn);
    const why = ips.length === 0
      ? undefined
      : scene.evidence.findProof({ addresses: ips });
    if (why === undefined) return [];
    return [{
      kind: "iptables",
      where: `rules of ${address} in chain ${FORWARD}`,
      container: "",
      network: "",
      why,
      remove: () =>
        eachIptables(
          placeOf(scene, iptables.table),
          [FORWARD],
          (iptables) =>
            changeRules(
              iptables,
              async () =>
                (await listTable(iptables)).filter((rule) => own.includes(rule))
                  .map(deletionOf),
            ),
        ),
    }];
  });
}

async function removeChain(
  scene: Scene,
  table: TableName,
  chain: string,
): Promise<void> {
  await eachIptables(
    placeOf(scene, table),
    [chain],
    (iptables) =>
      changeRules(iptables, async () => {
        const { stdout } = await runIptables(iptables, ["-S"]);
        const lines = stdout.split("\n");
        if (!lines.includes(`-N ${chain}`)) return [];
        return [
          ...lines.filter((line) =>
            line.startsWith("-A ") && optionsOf(line)("-j") === chain
          ).map(deletionOf),
          `-F ${chain}`,
          `-X ${chain}`,
        ];
      }),
  );
}

/** Lists all rules of a table, as lines `-A CHAIN …`. */
async function listTable(iptables: Iptables): Promise<string[]> {
  const listed = await runIptables(iptables, ["-S"]);
  if (!listed.success) throw failureOf(iptables, listed);
  return listed.stdout.split("\n").filter((line) => line.startsWith("-A "));
}
