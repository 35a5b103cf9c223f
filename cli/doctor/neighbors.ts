/**
 * Hosts and ports that have a container's address, or receive its packets.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { pause } from "../../base/deadline.ts";
import { ArpSocket } from "../../ffi/socket/arp_socket.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { unlessNoAddress } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { type Check, error, type Finding, type Findings } from "./finding.ts";
import { listLive, type LiveInterface } from "../node/live.ts";
import type { NodeReader } from "../node/node_reader.ts";

/** How many ARP requests to send for an address, and how long to wait after each, in ms. */
const ATTEMPTS = 3, LISTEN_MS = 100;

/** Finds containers with the same address, if the node routes to them or they share a bridge. */
function findTwins(node: NodeReader): Findings {
  const owners = listLive(node).flatMap((live) =>
    live.addresses.map(({ ip }) => ({ ip: `${ip}`, live }))
  );
  return [...Map.groupBy(owners, ({ ip }) => ip)].flatMap(([ip, some]) => {
    const all = some.map(({ live }) => live);
    const second = all.find((live, at) =>
      all.slice(0, at).some((other) => areRivals(live, other))
    );
    const first = second && all.find((other) => areRivals(second, other));
    if (first === undefined) return [];
    return [error(
      `${first.attachment} and ${second?.attachment} both have ${ip}`,
      "packets to that address reach only one of the containers",
      {
        advice:
          "give each container its own address, and restart the one that " +
          "must not have this address: static addresses are for one " +
          "container, and lost leases are allocated again",
        look: node.cni("show --json", ["conf-dir", "cache-dir"]) +
          shell` | grep ${ip}`,
        subject: second?.attachment,
        about: [[first.attachment], [second?.attachment ?? ""]],
      },
    )];
  });
}

function areRivals(one: LiveInterface, other: LiveInterface): boolean {
  return one !== other &&
    (one.isRouted && other.isRouted ||
      one.entry !== undefined && one.entry.index === other.entry?.index);
}

/**
 * Finds others with a container's address. Asks only on bridges with ports that
 * no attachment has: of the others, the cache has the addresses.
 */
async function findDuplicates(node: NodeReader): Promise<Findings> {
  const live = listLive(node)
    .filter(({ entry, link }) => entry && isBridge(entry) && link?.mac);
  const byBridge = Map.groupBy(live, ({ entry }) => entry?.index ?? 0);
  const ports = node.host.link.list();
  const findings: Finding[] = [...findTwins(node)];
  for (const [index, some] of byBridge) {
    const bridge = some[0]?.entry;
    const own = some.map(({ hostEnd }) => hostEnd?.index);
    const foreign = ports.filter((port) =>
      port.masterIndex === index && !own.includes(port.index)
    );
    if (bridge === undefined || foreign.length === 0) continue;
    findings.push(...await askOn(node, bridge, some));
  }
  return findings;
}

async function askOn(
  { host, signal }: NodeReader,
  bridge: Link,
  live: readonly LiveInterface[],
): Promise<Finding[]> {
  const { name, index, mac } = bridge;
  if (mac === undefined || !bridge.isUp) return [];
  using socket = new ArpSocket(host.netns, { index, mac });
  const findings = new Map<string, Finding>();
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    signal.throwIfAborted();
    for (const { addresses } of live) {
      for (const { ip, family } of addresses) if (family === 4) socket.ask(ip);
    }
    await pause(LISTEN_MS);
    for (const { ip, mac } of socket.receive()) {
      const right = live.find(({ addresses }) =>
        addresses.some((one) => one.ip.equals(ip))
      );
      if (right === undefined) continue;
      const all = live.filter(({ addresses }) =>
        addresses.some((one) => one.ip.equals(ip))
      ).map(({ link }) => link?.mac?.hex);
      if (all.includes(mac.hex)) continue;
      findings.set(
        `${ip} ${mac}`,
        error(
          `${mac} on "${name}" also has ${ip}, the address of ${right.attachment}`,
          "packets to that container sometimes go to the other machine",
          {
            advice:
              "remove the address from the other machine, which no plugin " +
              "attached, or exclude it from the network's range",
            look: shell`bridge fdb show br ${name} | grep ${mac}`,
            subject: right.attachment,
          },
        ),
      );
    }
  }
  return [...findings.values()];
}

/** Finds bridges that send a container's frames to another port. */
function findWrongPorts(node: NodeReader): Findings {
  const entries = new NeighborRequests(node.host.socket).listForwarding();
  const live = listLive(node)
    .filter(({ entry, hostEnd }) => entry && isBridge(entry) && hostEnd);
  return live.flatMap((own) => {
    const { attachment, entry, hostEnd, link } = own;
    const mac = link?.mac;
    if (mac === undefined || entry === undefined) return [];
    const twin = live.find((other) =>
      other.attachment < attachment && other.entry?.index === entry.index &&
      other.link?.mac?.hex === mac.hex
    );
    if (twin !== undefined) {
      const changed = live.find((one) =>
        [attachment, twin.attachment].includes(one.attachment) &&
        hasChangedMac(one)
      );
      if (changed !== undefined) return [changedMac(changed, entry)];
      return [
        error(
          `${attachment} and ${twin.attachment} both have MAC ${mac} behind ` +
            `"${entry.name}"`,
          "the bridge sends the frames of both to the container that sent last",
          {
            advice:
              "give one of them a different MAC, in its pod or its network, " +
              "and restart it",
            look: shell`bridge fdb show br ${entry.name} | grep ${mac}`,
            subject: attachment,
          },
        ),
      ];
    }
    const wrong = entries.find((one) =>
      one.bridgeIndex === entry.index && one.mac.hex === mac.hex &&
      one.ifindex !== hostEnd?.index
    );
    if (wrong === undefined) return [];
    // The entry may be that of the machine whose MAC it is.
    if (hasChangedMac(own)) return [changedMac(own, entry)];
    const port = node.host.link.find(wrong.ifindex)?.name ?? "?";
    return [
      error(
        `"${entry.name}" sends frames for ${mac}, the MAC of ${attachment}, ` +
          `to the port "${port}" instead of "${hostEnd?.name}"`,
        "frames to that container are lost",
        {
          command: shell`bridge fdb del ${mac} dev ${port} master`,
          advice: "if it returns, another machine behind that port has " +
            "the same MAC: change one of them",
          look: shell`bridge fdb show br ${entry.name} | grep ${mac}`,
          subject: attachment,
        },
      ),
    ];
  });
}

/** Reports whether an interface has another MAC than in the result of ADD. */
function hasChangedMac({ cached, link }: LiveInterface): boolean {
  const given = givenMacOf(cached);
  return given !== undefined && link?.mac !== undefined &&
    given.hex !== link.mac.hex;
}

function givenMacOf(cached: LiveInterface["cached"]): Mac | undefined {
  const { mac = "" } = resultOf(cached)?.interfaces
    .find(({ name, sandbox }) => sandbox && name === cached.ifName) ?? {};
  return unlessNoAddress(() => Mac.parse(mac));
}

function changedMac(
  { attachment, cached, link }: LiveInterface,
  { name }: Link,
): Finding {
  return error(
    `${attachment} changed its MAC from ${givenMacOf(cached)} to ` +
      `${link?.mac}, which is also behind another port of "${name}"`,
    "the container can receive the frames of the other machine",
    {
      advice: "restart the container, and take the capability NET_ADMIN from " +
        "it if it does not need it",
      look: shell`bridge fdb show br ${name} | grep ${link?.mac}`,
      subject: attachment,
    },
  );
}

/** Checks of neighbours. */
export const NEIGHBOR_CHECKS: readonly Check[] = [
  {
    code: "CNI0505",
    name: "address-twice",
    finds: "another port of a bridge also has a container's address",
    effect: "Connections to the container break, or reach the other port.",
    cause:
      "A virtual machine, another program's container or a host behind the bridge uses an address of the range.",
    howToInspect: "`bridge fdb show br BRIDGE | grep MAC` names the port.",
    howToFix:
      "Change that address, or use `exclude` of host-local and restart the container.",
    run: findDuplicates,
  },
  {
    code: "CNI0511",
    name: "mac-twice",
    finds: "another port of a bridge also has a container's MAC",
    effect: "Frames for the container reach the other port, or are lost.",
    cause:
      "Two containers were given the same MAC, a container changed its own, or the bridge has a stale static entry.",
    howToInspect: "`bridge fdb show br BRIDGE | grep MAC` names the port.",
    howToFix:
      "Change the MAC of one of them; restart a container that changed its MAC; `bridge fdb del MAC dev PORT master` for a stale entry.",
    run: findWrongPorts,
  },
];
