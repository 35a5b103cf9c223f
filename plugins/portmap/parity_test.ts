/**
 * portmap  compared with the Go plugin: what each leaves in the host's iptables
 * on the same configuration, and one checking and deleting what the other has
 * added. The only difference that is meant is the rule that ends an interface's
 * rules.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isAtLeast } from "../../cni/version.ts";
import { Conntrack } from "../../ffi/conntrack/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  MappedPorts,
  onePort,
  SAMPLE,
  withPorts,
} from "./testing/mapped_ports.ts";
import {
  listPeers,
  nameOf,
  normaliseResult,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import {
  needsInetRules,
  needsRuleTools,
  nftRules,
} from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const manyPorts = withPorts(
  Array.from({ length: 17 }, (_, index) => ({
    hostPort: 9000 + index,
    containerPort: 80,
    protocol: index % 8 === 0 ? "udp" : "tcp",
  })),
);
const BACKEND = { backend: "iptables" };

const ROWS: Readonly<Record<string, Keys>> = {
  "no ports": withPorts([]),
  "one port": {},
  "all kinds of ports": withPorts(SAMPLE),
  "more ports than one rule can have": withPorts(
    Array.from({ length: 31 }, (_, index) => ({
      hostPort: 9000 + index,
      containerPort: 80,
      protocol: "tcp",
    })),
  ),
  "two protocols": manyPorts,
  "no SNAT": { ...withPorts(SAMPLE), snat: false },
  "a mark bit": { markMasqBit: 5 },
  "the last mark bit": { markMasqBit: 31 },
  "conditions": {
    conditionsV4: ["-d", "192.168.1.0/24", "!", "-s", "10.9.0.0/16"],
    conditionsV6: ["-m", "comment", "--comment", 'a "quoted" text'],
  },
  "a name that is too long for a comment": { name: "n".repeat(250) },
  "SCTP": withPorts([{ hostPort: 1, containerPort: 65535, protocol: "sctp" }]),
};

/** Rows for the newest peer only. */
const NEW_ROWS: Readonly<Record<string, Keys>> = {
  "masquerade for all": { ...withPorts(SAMPLE), masqAll: true },
};

/** A mapping of each protocol. */
const MAPPED = withPorts(
  ["udp", "tcp"].map((protocol) => ({
    hostPort: 5353,
    containerPort: 53,
    protocol,
  })),
);
/** The mapping's flows of UDP, and those that DEL keeps or that the sides treat differently. */
const TRACK = `track() {
    conntrack -I -t 100 -p $1 --sport 4000 --dport $2 -s $3 -d $4 $5 $6
  }
  track udp 5353 192.0.2.2 192.0.2.1 "-g 10.1.2.5:53"
  track udp 5353 2001:db8::2 2001:db8::1 "-g [2001:db8:1::5]:53"
  track udp 6000 192.0.2.3 192.0.2.1 "-g 10.1.2.5:53"
  track udp 5353 192.0.2.4 198.51.100.1
  track tcp 5353 192.0.2.5 192.0.2.1 "-g 10.1.2.5:53" "--state ESTABLISHED"`;
const LEFT = {
  ours: ["17 198.51.100.1 5353", "17 192.0.2.1 6000"],
  go: ["17 192.0.2.1 6000", "6 192.0.2.1 5353"],
};

/** Lists protocol, destination and port of the tracked flows. */
function flowsOf({ hosts }: MappedPorts): string[] {
  using conntrack = Conntrack.open(hosts.host.path);
  return conntrack.list().map(({ protocol, original }) =>
    `${protocol} ${original.destination} ${original.destinationPort}`
  );
}

/** Returns rules without those that only we have. */
function comparable(rules: readonly string[]): string[] {
  return rules.filter((rule) => !/--comment "if: [^"]*"$/.test(rule));
}

/** Returns a plugin's result and rules, and the rules after its DEL. */
async function observe(who: Who, keys: Keys): Promise<unknown> {
  using host = new MappedPorts({ ...BACKEND, ...keys });
  const { stdout } = await host.succeed("ADD", {}, { who });
  const added = comparable(host.rules());
  await host.succeed("DEL", {}, { who });
  const result = normaliseResult(stdout, host.hosts);
  return { result, added, left: host.rules() };
}

for (const peer of listPeers("portmap")) {
  // An old release takes a second for a row.
  const isNewest = isAtLeast(peer.cniVersion, "1.1.0");
  const rows = isNewest ? { ...ROWS, ...NEW_ROWS } : pick(ROWS);
  for (const [name, keys] of Object.entries(rows)) {
    testLeavesTheSame(peer, ["portmap", name], (who) => observe(who, keys));
  }

  if (isNewest) {
    rootTest(
      `portmap refuses the same input as the Go plugin, with its messages (${peer.name})`,
      needsRuleTools,
      async (t) => {
        await eachRow(t, REFUSED, async ([, keys, text]) => {
          using host = new MappedPorts({ ...BACKEND, ...keys });
          for (const who of ["ours", peer] as const) {
            const { exitCode, json } = await host.run("ADD", {}, { who });
            assertEquals(exitCode, 1);
            assertStringIncludes(`${json.msg} ${json.details}`, text);
          }
        });
        using host = new MappedPorts(BACKEND);
        const texts = await Promise.all((["ours", peer] as const).map(
          async (who) => (await host.run("CHECK", {}, { who })).json.msg,
        ));
        assertEquals(texts[0], texts[1]);
      },
    );
  }

  if (isNewest) {
    rootTest(
      `portmap.del() ends its flows of UDP, as ${peer.name} does`,
      needsInetRules,
      async (t) => {
        await eachRow(t, ["iptables", "nftables"], async (backend) => {
          for (const who of ["ours", peer] as const) {
            using host = new MappedPorts({ backend, ...MAPPED });
            await host.succeed("ADD", {}, { who });
            runIn(host.hosts.host, "sh", "-ec", TRACK);
            await host.succeed("DEL", {}, { who });
            const left = LEFT[who === "ours" ? who : "go"];
            assertEquals(flowsOf(host).sort(), left.toSorted());
          }
        });
      },
    );

    rootTest(
      `portmap checks and deletes what ${peer.name} added to nftables`,
      needsInetRules,
      async (t) => {
        const rows = ["DEL", "GC"] as const;
        await eachRow(t, rows, async (command) => {
          using host = new MappedPorts({
            backend: "nftables",
            ...withPorts(SAMPLE),
          });
          const rules = (): string[] =>
            nftRules(host.hosts.host, /test-container/);
          await host.succeed("ADD", {}, { who: peer });
          assertEquals(rules().length, 6 + 2 + 6 + 1);
          await host.succeed("CHECK");
          await host.succeed("DEL");
          assertEquals(rules(), []);
          // Either side's DEL tolerates that the other was faster.
          await host.succeed("DEL", {}, { who: peer });
          await host.succeed("ADD");
          await host.succeed("DEL", {}, { who: peer });
          await host.succeed("CHECK");
          const gc = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
          await host.succeed(command, command === "GC" ? gc : {});
          assertEquals(rules(), []);
          assertEquals(nftRules(host.hosts.host, /cni_portmap/), []);
        });
      },
    );
  }

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `portmap: what is added by ${nameOf(adder)} is checked and deleted by ${
        nameOf(other)
      }`,
      needsRuleTools,
      async (t) => {
        await eachRow(t, Object.entries(pick(rows)), async ([, keys]) => {
          using host = new MappedPorts({ ...BACKEND, ...keys });
          // CHECK of Go 1.1.1 looks for the rules of IPv4 in ip6tables, too.
          const check = async (who: Who): Promise<unknown> =>
            who === "ours" || isNewest
              ? await host.succeed("CHECK", {}, { who })
              : undefined;
          await host.succeed("ADD", {}, { who: adder });
          await check(other);
          await host.succeed("ADD", {}, { who: other });
          await check(adder);
          await host.succeed("DEL", {}, { who: other });
          assertEquals(host.containerRules(), []);
        });
      },
    );
  }
}

/** Calls that both sides refuse, and the words that both use. */
const REFUSED: readonly [what: string, keys: Keys, text: string][] = [
  ["no prevResult", { prevResult: undefined }, "must be called as chained"],
  ["host port 0", onePort(0), "Invalid host port number: 0"],
  ["container port 0", onePort(1, 0), "Invalid container port number: 0"],
  ["a backend", { backend: "x" }, 'unrecognized backend "x"'],
  [
    "a mark bit",
    { markMasqBit: 32 },
    "MasqMarkBit must be between 0 and 31",
  ],
  [
    "two marks",
    { markMasqBit: 3, externalSetMarkChain: "X" },
    "Cannot specify externalSetMarkChain and markMasqBit",
  ],
  [
    "conditions of nft",
    { conditionsV4: ["ip", "saddr"], conditionsV6: ["x"] },
    "iptables backend was requested but configuration contains " +
    "nftables-specific options [conditionsV4 conditionsV6]",
  ],
  ["conditions", { conditionsV4: ["--none"] }, "unable to setup DNAT"],
  [
    "a missing chain",
    { externalSetMarkChain: "NONE" },
    "Chain 'NONE' does not exist",
  ],
];

/** Returns the rows that have most in them. */
function pick(rows: Readonly<Record<string, Keys>>): Record<string, Keys> {
  const names = [
    "all kinds of ports",
    "conditions",
    "a name that is too long for a comment",
  ];
  return Object.fromEntries(names.map((name) => [name, rows[name] ?? {}]));
}
