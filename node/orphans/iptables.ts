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
import { type Owner, parseQuoted, uniqueIps } from "./comments.ts";
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
  const found: Chain[] = [];
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
      found.push(...await listChains(iptables));
    })
  );
  orphans.push(...judgeChains(scene, found));
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

/** A container's chain in one table. */
interface Chain {
  readonly name: string;
  readonly owner: Owner;
  readonly table: TableName;
  readonly addresses: readonly Ip[];
  /** Paths of namespaces. */
  readonly namespaces: readonly string[];
}

async function listChains(iptables: Iptables): Promise<Chain[]> {
  const rules = await listTable(iptables);
  return rules.flatMap((rule) => {
    const name = optionsOf(rule)("-j") ?? "";
    const owner = CHAIN.test(name) ? parseQuoted(commentOf(rule)) : undefined;
    if (owner === undefined) return [];
    const own = rules.filter((one) => one.startsWith(`-A ${name} `));
    return [{
      name,
      owner,
      table: iptables.table,
      addresses: [rule, ...own].flatMap(addressIn),
      namespaces: own.flatMap(namespaceIn),
    }];
  });
}

/** Judges a container's chains of both families together. */
function judgeChains(scene: Scene, found: readonly Chain[]): Orphan[] {
  return [...Map.groupBy(found, ({ name }) => name)].flatMap(
    ([name, chains]) => {
      const [first] = chains;
      if (first === undefined) return [];
      const { owner: { container, network }, table } = first;
      const isAlive = chains.flatMap(({ namespaces }) => namespaces)
        .some((path) => scene.evidence.isAlive(path));
      const why = isAlive ? undefined : scene.evidence.findProof({
        container,
        addresses: uniqueIps(chains.flatMap(({ addresses }) => addresses)),
      });
      if (why === undefined) return [];
      return [{
        kind: "iptables",
        where: `chain ${name} of table ${table}`,
        container,
        network,
        why,
        remove: () => removeChain(scene, table, name),
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
      async remove(): Promise<void> {
        // A new container may have the address by now, and the same rules.
        if (!scene.renew().findProof({ addresses: ips })) return;
        await eachIptables(
          placeOf(scene, iptables.table),
          [FORWARD],
          (iptables) =>
            changeRules(
              iptables,
              async () =>
                (await listTable(iptables)).filter((rule) => own.includes(rule))
                  .map(deletionOf),
            ),
        );
      },
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
