/**
 * Kernel parameters that affect packets of containers.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import type { IpFamily } from "../../net/ip.ts";
import {
  AcceptRa,
  acceptRaOf,
  enableForwarding,
  FORWARDING,
  listLearnedAddresses,
} from "../../plugins/parts/address/ip_forward.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { listLive } from "../node/live.ts";
import {
  forwardingCommand,
  nameOfSysctl,
  readSysctlOf,
} from "../node/sysctls.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import type { NodeReader } from "../node/node_reader.ts";

const CALL_IPTABLES = "net/bridge/bridge-nf-call-iptables";

/** Lists the families that the host does not forward, with the number of interfaces that need it. */
export function listNotForwarded(node: NodeReader): Map<IpFamily, number> {
  // ADD turns forwarding on, so it matters only if containers exist.
  const live = listLive(node).filter(({ isRouted }) => isRouted);
  const counts = ([4, 6] as const).flatMap((family) => {
    const { length } = live.filter(({ addresses }) =>
      addresses.some((address) => address.family === family)
    );
    return length > 0 && readSysctlOf(node.host, FORWARDING[family]) === "0"
      ? [[family, length] as const]
      : [];
  });
  return new Map(counts);
}

function findForwarding(node: NodeReader): Findings {
  return [...listNotForwarded(node)].map(([family, count]) => {
    const key = FORWARDING[family];
    const name = nameOfSysctl(key);
    const use = count === 1
      ? "1 interface of containers uses"
      : `${count} interfaces of containers use`;
    return error(
      `${name} is 0, and ${use} IPv${family}`,
      "their packets do not leave the node",
      {
        command: forwardingCommand(node.host, family),
        fix: {
          did: `set ${name} to 1`,
          run: () => enableForwarding(node.host.netns, family),
        },
      },
    );
  });
}

/**
 * Finds links with an address from a router's advertisements that the kernel
 * ignores since forwarding is on, while the node has no other IPv6 router.
 */
function findIgnoredRouters(node: NodeReader): Findings {
  const { host } = node;
  const isDefault = host.route.list({ family: 6 })
    .some(({ destination }) => destination.prefixLength === 0);
  if (isDefault || readSysctlOf(node.host, FORWARDING[6]) !== "1") return [];
  const links = new Set(listLearnedAddresses(host).map((one) => one.ifindex));
  return host.link.list().filter(({ index, name }) =>
    links.has(index) &&
    readSysctlOf(node.host, acceptRaOf(name)) === AcceptRa.unlessForwarding
  ).map(({ name }) => {
    const key = acceptRaOf(name);
    return error(
      `the node has no IPv6 default route: "${name}" ignores router ` +
        "advertisements, because accept_ra is 1 and forwarding is on",
      "the node and its containers reach no other host over IPv6, and the address of " +
        `"${name}" expires`,
      {
        command: shell`echo ${AcceptRa.always} > /proc/sys/${key}`,
        advice: "the default route returns with the next advertisement",
        look: "ip -6 route show default",
        fix: {
          did: `set accept_ra of "${name}" to ${AcceptRa.always}`,
          run: () =>
            inNetns(host.netns, () => writeSysctl(key, AcceptRa.always)),
        },
      },
    );
  });
}

/** Reports whether a plugin, or the plugin that it runs, creates a link that containers share. */
function hasBridge({ type }: PluginConf): boolean {
  const metadata = METADATA.get(type);
  return [metadata, METADATA.get(metadata?.runs?.type ?? "")]
    .some((one) => one?.network?.sharedLink !== undefined);
}

/**
 * Without it, a Service's address fails if its pod is behind the same bridge, and
 * the ingress policy `isolated` does not isolate.
 */
function findBridgeCalls(node: NodeReader): Findings {
  const value = readSysctlOf(node.host, CALL_IPTABLES);
  if (value === "1") return [];
  const networks = node.networks.filter(({ plugins }) =>
    plugins.some(hasBridge)
  );
  const isolated = networks.find(({ plugins }) =>
    plugins.some(({ type, document }) =>
      METADATA.get(type)?.filtersBridge?.(document)
    )
  );
  const first = isolated ?? networks[0];
  if (first === undefined) return [];
  if (isolated === undefined && !hasKubeProxy(node)) return [];
  const name = nameOfSysctl(CALL_IPTABLES);
  const bridge = `the bridge of "${first.name}"`;
  const set = shell`sysctl -w ${name}=1`;
  const state = value === undefined ? "does not exist" : `is ${value}`;
  const user = isolated === undefined
    ? `there are rules of kube-proxy and ${bridge}`
    : `"${first.name}" has the ingress policy isolated`;
  return [
    warning(
      `${name} ${state}, but ${user}`,
      isolated === undefined
        ? "a pod does not reach a Service that is behind the same bridge"
        : "containers reach each other on that bridge",
      // Without the module, the kernel does not have the parameter.
      {
        command: value === undefined ? `modprobe br_netfilter && ${set}` : set,
      },
    ),
  ];
}

/** Reports whether kube-proxy has rules, by iptables or nftables. */
function hasKubeProxy({ hostNetns }: NodeReader): boolean {
  using nftables = openNftables(hostNetns);
  if (nftables === undefined) return false;
  return nftables.hasTable({ family: "ip", name: "kube-proxy" }) ||
    nftables.hasChain({ family: "ip", name: "nat" }, "KUBE-SERVICES");
}

/** Finds parameters of containers that the kernel does not have. */
function findMissing({ networks }: NodeReader): Findings {
  const wanted = networks.flatMap((network) =>
    network.plugins.flatMap(({ type, document }) =>
      (METADATA.get(type)?.sysctls?.(document) ?? [])
        .map((key) => ({ network, type, key }))
    )
  );
  if (wanted.length === 0) return [];
  using netns = NetNs.create();
  const isThere = (key: string): boolean =>
    inNetns(
      netns,
      () => ifPossible(() => Deno.statSync(`/proc/sys/${key}`)),
    ) !== undefined;
  return wanted.filter(({ key }) => !isThere(key)).map((
    { network, type, key },
  ) =>
    error(
      `the kernel has no ${
        nameOfSysctl(key)
      } in containers, which ${type} of ` +
        `"${network.name}" sets`,
      "ADD fails, and containers of that network do not start",
      {
        advice: `correct or remove it in ${network.path}; some parameters ` +
          "belong to the whole node, or need a module",
        look: shell`unshare -n sysctl ${nameOfSysctl(key)}`,
      },
    )
  );
}

/** Checks of kernel parameters. */
export const SYSCTL_CHECKS: readonly Check[] = [
  {
    code: "CNI0308",
    name: "sysctl-missing",
    finds: "a network sets a sysctl that does not exist in containers",
    effect: "Containers of that network do not start.",
    cause:
      "The name is misspelt, or the parameter belongs to the whole node or to a module that is not loaded.",
    howToInspect: "`unshare -n sysctl NAME`.",
    howToFix: "Correct or remove it, or load the module.",
    run: findMissing,
  },
  {
    code: "CNI0601",
    name: "ip-forward",
    finds: "forwarding is off while containers need it",
    effect: "Packets of containers do not leave the node.",
    cause: "A program or a file in /etc/sysctl.d turned it off after ADD.",
    howToInspect: "`sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding`.",
    howToFix: "`sysctl -w`, also in /etc/sysctl.d; or `cni doctor --fix`.",
    run: findForwarding,
  },
  {
    code: "CNI0603",
    name: "bridge-nf-call",
    finds:
      "packets within a bridge do not pass the rules of kube-proxy or of the ingress policy isolated",
    effect:
      "A pod does not reach a Service of a pod on the same bridge, or containers that should be isolated reach each other.",
    cause: "br_netfilter is not loaded, or the sysctl was turned off.",
    howToInspect: "`sysctl net.bridge.bridge-nf-call-iptables`.",
    howToFix: "Load br_netfilter, and set the sysctl to 1.",
    run: findBridgeCalls,
  },
  {
    code: "CNI0612",
    name: "router-ignored",
    finds: "the node ignores its IPv6 router because it forwards",
    effect:
      "The node and its containers reach nothing over IPv6. Later, the node loses its address.",
    cause:
      "Another program enabled forwarding: the kernel then ignores router advertisements where `accept_ra` is 1. ADD sets 2 on such links first.",
    howToInspect: "`ip -6 route show default`, `sysctl -a -r accept_ra`.",
    howToFix:
      "Set `accept_ra` of the uplink to 2, also in /etc/sysctl.d; or `cni doctor --fix`. The next advertisement restores the route.",
    run: findIgnoredRouters,
  },
];
