/**
 * portmap's rules of iptables, as the Go plugin's own tests have them.
 *
 * Source: containernetworking/plugins
 * plugins/meta/portmap/portmap_iptables_test.go, chain_test.go.
 */

import { assertEquals } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import type { IptablesRule } from "../../plugins/parts/firewall/iptables/rules.ts";
import {
  type ChainNames,
  chainNamesOf,
  entriesOf,
  portRulesOf,
  skeletonOf,
} from "../../plugins/portmap/iptables_rules.ts";
import type { Forwarding } from "../../plugins/portmap/mapping.ts";
import type { Protocol } from "../../plugins/portmap/schema.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { conformance } from "../_harness/conformance.ts";
import {
  MappedPorts,
  SAMPLE,
  withPorts,
} from "../../plugins/portmap/testing/mapped_ports.ts";
import { needsRuleTools } from "../_harness/rules.ts";

const CONTAINER =
  "icee6giejonei6sohng6ahngee7laquohquee9shiGo7fohferakah3Feiyoolu2pei7ciPhoh7shaoX6vai3vuf0ahfaeng8yohb9ceu0daez5hashee8ooYai5wa3y";
const IP4 = Cidr.parse("10.0.0.2/24"), IP6 = Cidr.parse("2001:db8::2/64");
const CHAIN = "CNI-DN-67e92b96e692a494b6b85";
const CONDITIONS = { 4: ["-a", "b"], 6: ["-c", "d"] };

/** Returns a forwarding on network `test`, and its chain. */
async function wantedOf(
  keys: Partial<Forwarding> = {},
): Promise<[Forwarding, ChainNames]> {
  const forwarding: Forwarding = {
    owner: { network: "test", containerId: CONTAINER, ifName: "foo" },
    netns: "/run/netns/foo",
    addresses: [IP4, IP6],
    mappings: SAMPLE.map(({ hostPort, containerPort, protocol, hostIP }) => ({
      protocol: protocol as Protocol,
      hostPort: Number(hostPort),
      containerPort: Number(containerPort),
      hostIp: hostIP === undefined ? undefined : Ip.parse(String(hostIP)),
    })),
    snat: true,
    masqAll: false,
    markMasqBit: 13,
    externalSetMarkChain: undefined,
    conditions: { 4: [], 6: [] },
    ...keys,
  };
  return [forwarding, await chainNamesOf(forwarding.owner)];
}

async function portRules(
  address: Cidr,
  keys?: Partial<Forwarding>,
): Promise<string[]> {
  const [forwarding, names] = await wantedOf(keys);
  return portRulesOf(forwarding, address, names).map(format);
}

function format({ chain, args, isFirst }: IptablesRule): string {
  assertEquals(chain.length < 29, true, "longer than iptables allows");
  const rule = args.join(" ");
  return chain === CHAIN ? rule : `${chain}${isFirst ? " 1" : ""}: ${rule}`;
}

/** Returns the two or three rules of one mapping. */
function rulesFor(
  packets: string,
  sources: readonly string[],
  target: string,
  mark = "CNI-HOSTPORT-SETMARK",
): string[] {
  return [
    ...sources.map((source) => `${packets} -s ${source} -j ${mark}`),
    `${packets} -j DNAT --to-destination ${target}`,
  ];
}

const EVERYWHERE: readonly [packets: string, port: number][] = [
  ["-p tcp --dport 8080", 80],
  ["-p tcp --dport 8081", 80],
  ["-p udp --dport 8080", 81],
  ["-p udp --dport 8082", 82],
];
const BY_IP4: typeof EVERYWHERE = [
  ...EVERYWHERE,
  ["-p tcp --dport 8083 -d 192.168.0.2", 83],
  ["-p tcp --dport 8084", 84],
];
const BY_IP6: typeof EVERYWHERE = [
  ...EVERYWHERE,
  ["-p tcp --dport 8085 -d 2001:db8:a::1", 85],
  ["-p tcp --dport 8086", 86],
];
const SOURCES = ["10.0.0.2/24", "127.0.0.1"];

conformance("portmap iptables", {
  "PM-10 names chains by network and container": async () => {
    const nameOf = async (network: string): Promise<string> =>
      (await chainNamesOf({ network, containerId: CONTAINER })).chain;
    assertEquals(await nameOf("testNetName"), "CNI-DN-bfd599665540dd91d5d28");
    assertEquals(await nameOf("test"), CHAIN);
  },

  "PM-11 leads all ports of a protocol to the chain, with conditions":
    async () => {
      const [forwarding, names] = await wantedOf({ conditions: CONDITIONS });
      const comment =
        `-m comment --comment dnat name: "test" id: "${CONTAINER}"`;
      for (
        const [address, condition] of [[IP4, "-a b"], [IP6, "-c d"]] as const
      ) {
        assertEquals(entriesOf(forwarding, address, names).map(format), [
          `CNI-HOSTPORT-DNAT 1: ${comment} -m multiport -p tcp --destination-ports ` +
          `8080,8081,8083,8084,8085,8086 ${condition} -j ${CHAIN}`,
          `CNI-HOSTPORT-DNAT 1: ${comment} -m multiport -p udp --destination-ports ` +
          `8080,8082 ${condition} -j ${CHAIN}`,
        ]);
      }
    },

  "PM-11 marks and translates each port, by the address's family": async () => {
    assertEquals(
      await portRules(IP4),
      BY_IP4.flatMap(([packets, port]) =>
        rulesFor(packets, SOURCES, `10.0.0.2:${port}`)
      ),
    );
    assertEquals(
      await portRules(IP6),
      BY_IP6.flatMap(([packets, port]) =>
        rulesFor(packets, ["2001:db8::2/64"], `[2001:db8::2]:${port}`)
      ),
    );
  },

  "PM-12 marks nothing without snat": async () => {
    const keys = { snat: false };
    assertEquals(
      await portRules(IP4, keys),
      BY_IP4.flatMap(([packets, port]) =>
        rulesFor(packets, [], `10.0.0.2:${port}`)
      ),
    );
    const [forwarding] = await wantedOf(keys);
    assertEquals(skeletonOf(forwarding).chains, ["CNI-HOSTPORT-DNAT"]);
  },

  "PM-13 marks by the chain of externalSetMarkChain": async () => {
    const { mappings: [first] } = (await wantedOf())[0];
    const keys = {
      mappings: first === undefined ? [] : [first],
      externalSetMarkChain: "PLZ-SET-MARK",
    };
    assertEquals(
      await portRules(IP4, keys),
      rulesFor("-p tcp --dport 8080", SOURCES, "10.0.0.2:80", "PLZ-SET-MARK"),
    );
    const [forwarding] = await wantedOf(keys);
    assertEquals(skeletonOf(forwarding).chains, ["CNI-HOSTPORT-DNAT"]);
  },

  "PM-14 leads packets to local addresses to the top-level chain": async () => {
    const [forwarding] = await wantedOf({ snat: false });
    const args = "-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT";
    assertEquals(skeletonOf(forwarding).rules.map(format), [
      `PREROUTING: ${args}`,
      `OUTPUT: ${args}`,
    ]);
  },

  "PM-15 masquerades what has the mark bit, before other rules": async () => {
    const [forwarding] = await wantedOf({ markMasqBit: 5 });
    assertEquals(skeletonOf(forwarding).rules.map(format).slice(0, 3), [
      "CNI-HOSTPORT-SETMARK: -m comment --comment CNI portfwd masquerade mark " +
      "-j MARK --set-xmark 0x20/0x20",
      "CNI-HOSTPORT-MASQ: -m mark --mark 0x20/0x20 -j MASQUERADE",
      "POSTROUTING 1: -m comment --comment CNI portfwd requiring masquerade " +
      "-j CNI-HOSTPORT-MASQ",
    ]);
  },
});

/** A host with another program's rules. */
class Host extends MappedPorts {
  constructor() {
    super({ backend: "iptables", ...withPorts(SAMPLE) });
    for (const chain of ["PREROUTING", "OUTPUT", "POSTROUTING"]) {
      const rule = ["-A", chain, "-m", "comment", "--comment", "canary value"];
      runIn(this.hosts.host, "iptables", "-t", "nat", ...rule, "-j", "ACCEPT");
    }
  }
}

conformance("portmap iptables", {
  "PM-23 adds chain and jumps beside other programs' rules": async () => {
    using host = new Host();
    await host.succeed("ADD");
    const of = (chain: string): string[] =>
      host.rules().filter((rule) => rule.startsWith(`4 -A ${chain} `))
        .map((rule) => rule.includes("canary") ? "canary" : rule);
    for (const chain of ["PREROUTING", "OUTPUT"]) {
      const args = "-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT";
      assertEquals(of(chain), ["canary", `4 -A ${chain} ${args}`]);
    }
    assertEquals(of("POSTROUTING").indexOf("canary"), 1);
    assertEquals(of("CNI-HOSTPORT-DNAT").length, 2);
  },

  "PM-24 adds nothing the second time": async () => {
    using host = new Host();
    await host.succeed("ADD");
    const rules = host.rules();
    await host.succeed("ADD");
    assertEquals(host.rules(), rules);
  },

  "PM-25 deletes twice": async () => {
    using host = new Host();
    await host.succeed("ADD");
    for (let time = 0; time < 2; time++) {
      await host.succeed("DEL");
      assertEquals(host.containerRules(), []);
    }
    const canaries = host.rules().filter((rule) => rule.includes("canary"));
    assertEquals(canaries.length, 3);
  },

  "PM-26 deletes ten times at once": async () => {
    using host = new Host();
    await host.succeed("ADD");
    await Promise.all(Array.from({ length: 10 }, () => host.succeed("DEL")));
    assertEquals(host.containerRules(), []);
  },
}, allOf(needsRoot, needsRuleTools));
