/** portmap's rules of iptables: by each variant, at once, and after accidents. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { allOf, type Needs, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { legacyPath } from "../../tests/_harness/legacy_path.ts";
import {
  type MappedCall,
  MappedPorts,
  onePort,
  SAMPLE,
  withPorts,
} from "./testing/mapped_ports.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import {
  needsLegacyIptables,
  needsRuleTools,
} from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { sectionsOf } from "./iptables_rules.ts";

const IPTABLES = { backend: "iptables" };
const ONE = { hostPort: 8080, containerPort: 80, protocol: "tcp" };
const GC = { cniVersion: "1.1.0" };
const needsBoth: Needs = allOf(needsRuleTools, needsLegacyIptables());

/** A host with the Go plugin's backend. */
class Host extends MappedPorts {
  constructor() {
    super(IPTABLES);
  }

  /** The containers' rules of IPv4 with this text. */
  count(text: string): number {
    return this.containerRules()
      .filter((rule) => rule.startsWith("4") && rule.includes(text)).length;
  }

  /** Lists which addresses have a port, the one that gets it first. */
  targetsOf(port: number): string[] {
    const rules = this.containerRules();
    const entries = rules.filter((rule) =>
      rule.startsWith("4 -A CNI-HOSTPORT-DNAT ") &&
      rule.includes(`--dports ${port} `)
    );
    return entries.flatMap((entry) => {
      const chain = entry.split(" ").at(-1);
      const dnat = rules.find((rule) =>
        rule.startsWith(`4 -A ${chain} `) && rule.includes("DNAT --to-dest")
      );
      return dnat?.split(" ").at(-1) ?? [];
    });
  }

  /** Makes a program of these names run another one, and returns PATH. */
  pathOf(programs: Readonly<Record<string, string>>): string {
    const directory = Deno.makeTempDirSync({ dir: this.hosts.directory });
    for (const [name, target] of Object.entries(programs)) {
      for (const suffix of ["", "-restore"]) {
        const script = `#!/bin/sh\nexec /usr/sbin/${target}${suffix} "$@"\n`;
        const path = `${directory}/${name}${suffix}`;
        Deno.writeTextFileSync(path, script, { mode: 0o755 });
      }
    }
    return directory;
  }

  /** PATH of a host whose `iptables` is of the legacy variant. */
  legacy(): { PATH: string } {
    return legacyPath(this.hosts);
  }
}

function test(
  name: string,
  body: (t: Deno.TestContext) => Promise<void>,
  needs: Needs = needsRuleTools,
): void {
  rootTest(`portmap by iptables ${name}`, needs, body);
}

test(
  "leaves both families to nftables on a host without a working ip6tables",
  async (t) => {
    await eachRow(t, [3, 111, 126, 127], async (code) => {
      using host = new Host();
      const keys = { backend: undefined };
      const directory = await Deno.makeTempDir({ dir: host.hosts.directory });
      const env = { PATH: directory };
      for (const program of ["ip6tables", "ip6tables-restore"]) {
        const script = `#!/bin/sh\nexit ${code}\n`;
        const path = `${directory}/${program}`;
        await Deno.writeTextFile(path, script, { mode: 0o755 });
      }
      await host.succeed("ADD", keys, { env });
      assertEquals(host.containerRules(), []);
      assertMatch(host.table, /: 10\.1\.2\.5 \. 80[^]*: 2001:db8:1::5 \. 80/);
      await host.succeed("CHECK", keys, { env });
      await host.succeed("DEL", keys, { env });
      assertEquals(host.table, "");
      // iptables is enough for a container with IPv4 only.
      const one = { env, addresses: ["10.1.2.5/24"] };
      await host.succeed("ADD", keys, one);
      assertEquals([host.count("DNAT --to"), host.table], [1, ""]);
      await host.succeed("DEL", keys, one);
      assertEquals(host.containerRules(), []);
    }, (code) => `exit code ${code}`);
  },
);

test(
  "runs no program to list a chain that the container does not have",
  async () => {
    using host = new Host();
    const addresses = ["10.1.2.5/24"];
    let programs = 0;
    using stack = new DisposableStack();
    stack.defer(intercept(Deno.Command.prototype, "spawn", (_, work) => {
      programs++;
      return work();
    }));
    const countOf = async (command: string): Promise<number> => {
      programs = 0;
      await host.succeed(command, {}, { addresses });
      return programs;
    };
    await countOf("ADD");
    await countOf("DEL");
    // The chain with all ports is listed, and the rules are changed.
    assertEquals(await countOf("ADD"), 2);
    // The container's chain as well.
    assertEquals(await countOf("DEL"), 3);
  },
);

test(
  "forwards on a host with iptables-legacy, in its tables only",
  async () => {
    using host = new Host();
    const env = host.legacy();
    for (const last of ["DEL", "GC"]) {
      await host.succeed("ADD", { backend: undefined }, { env });
      assertEquals(host.containerRules(), []);
      assertEquals(host.containerRules("-legacy").length, 9);
      await host.succeed("CHECK", {}, { env });
      // The administrator may have changed the program meanwhile.
      if (last === "DEL") await host.succeed("DEL");
      else await host.succeed("GC", { ...GC, "cni.dev/valid-attachments": [] });
      assertEquals(host.containerRules("-legacy"), []);
    }
  },
  needsBoth,
);

test(
  "deletes rules of iptables-nft on a host that now has iptables-legacy",
  async () => {
    using host = new Host();
    await host.succeed("ADD");
    await host.succeed("DEL", {}, { env: host.legacy() });
    assertEquals(host.containerRules(), []);
  },
  needsBoth,
);

test("runs a script named iptables", async (t) => {
  await eachRow(t, ["nft", "legacy"], async (variant) => {
    using host = new Host();
    const programs = {
      iptables: `iptables-${variant}`,
      ip6tables: `ip6tables-${variant}`,
    };
    const env = { PATH: host.pathOf(programs) };
    const suffix = variant === "legacy" ? "-legacy" : "";
    await host.succeed("ADD", {}, { env });
    assertEquals(host.containerRules(suffix).length, 9);
    await host.succeed("CHECK", {}, { env });
    await host.succeed("DEL", {}, { env });
    assertEquals(host.containerRules(suffix), []);
  });
}, needsBoth);

/** Ports, which CHECK must recognize in the list of their chain. */
const SPELLINGS: Readonly<Record<string, Keys>> = {
  "all kinds": withPorts([
    ...SAMPLE,
    { hostPort: 9000, containerPort: 90, protocol: "sctp" },
  ]),
  "no masquerade": { snat: false },
  "all masqueraded": { masqAll: true },
  "another mark": { markMasqBit: 31 },
};

test(
  "CHECK accepts the rules of ADD, however iptables prints them",
  async (t) => {
    const rows = Object.entries(SPELLINGS)
      .flatMap(([name, keys]) =>
        ["nft", "legacy"].map((variant) => ({ name, keys, variant }))
      );
    await eachRow(t, rows, async ({ keys, variant }) => {
      using host = new Host();
      const PATH = host.pathOf({
        iptables: `iptables-${variant}`,
        ip6tables: `ip6tables-${variant}`,
      });
      const log = `${host.hosts.directory}/checked`;
      for (const program of ["iptables", "ip6tables"]) {
        const path = `${PATH}/${program}-restore`;
        const script = `#!/bin/sh\n/usr/bin/tee -a ${log} |` +
          ` /usr/sbin/${program}-${variant}-restore "$@"\n`;
        await Deno.writeTextFile(path, script);
      }
      await host.succeed("ADD", keys, { env: { PATH } });
      await Deno.remove(log);
      await host.succeed("CHECK", keys, { env: { PATH } });
      const checked = await Deno.readTextFile(log).catch(() => "");
      assertEquals(checked, "");
    }, ({ name, variant }) => `${name}, ${variant}`);
  },
  needsBoth,
);

test("CHECK reports each missing rule", async (t) => {
  using host = new Host();
  await host.succeed("ADD");
  const rules = host.rules().filter((rule) => !rule.includes('"if: '));
  assertEquals(rules.length, 9 + 8);
  await eachRow(t, rules, async (rule) => {
    const [family, , ...rest] = rule.split(" ");
    const program = family === "4" ? "iptables" : "ip6tables";
    const change = (how: string): string => {
      const command = `${program} -t nat ${how} ${rest.join(" ")}`;
      return runIn(host.hosts.host, "sh", "-c", command);
    };
    change("-D");
    const output = await host.run("CHECK");
    assertFailure(output, 999, `could not check ipv${family} dnat: rule `);
    await host.succeed("ADD");
    await host.succeed("CHECK");
  });
  await host.succeed("DEL");
  const checked = await host.run("CHECK");
  for (const family of [4, 6]) {
    const text = `could not check ipv${family} dnat: ` +
      "chain CNI-DN-c1e9fb002d065367ef1e4 not found in iptables table";
    assertFailure(checked, 999, text);
  }
});

test("DEL works without ports, addresses or namespace, and with another backend", async (t) => {
  const rows: [string, object, object][] = [
    ["no ports", withPorts([]), {}],
    ["no prevResult", { prevResult: undefined }, {}],
    ["no namespace", {}, { env: { CNI_NETNS: "" } }],
    ["a namespace that is gone", {}, { env: { CNI_NETNS: "/run/netns/none" } }],
    ["another backend", { backend: "nftables" }, {}],
    ["no backend", { backend: undefined }, {}],
    ["broken keys", { markMasqBit: 77, snat: "x" }, {}],
  ];
  using host = new Host();
  await eachRow(t, rows, async ([, keys, options]) => {
    await host.succeed("ADD");
    await host.succeed("DEL", { ...keys }, options);
    assertEquals(host.containerRules(), []);
  });
});

test("DEL keeps the ports of the container's other interface on the network", async () => {
  using host = new Host();
  const second = {
    ifName: "net1",
    addresses: ["10.1.2.6/24", "2001:db8:1::6/64"],
  };
  await host.succeed("ADD");
  await host.succeed("ADD", onePort(8081), second);
  await host.succeed("CHECK");
  await host.succeed("CHECK", onePort(8081), second);
  const both = host.containerRules();
  await host.succeed("ADD");
  assertEquals(host.containerRules().length, both.length);
  await host.succeed("DEL", onePort(8081), second);
  await host.succeed("CHECK");
  assertEquals([host.count("10.1.2.5:80"), host.count("10.1.2.6:80")], [1, 0]);
  await host.succeed("DEL");
  assertEquals(host.containerRules(), []);
});

test("ADD replaces the rules of an earlier ADD with other ports and addresses", async () => {
  using host = new Host();
  await host.succeed("ADD", withPorts(SAMPLE), {
    addresses: ["10.1.2.9/24", "2001:db8:1::9/64"],
  });
  await host.succeed("ADD");
  const replaced = host.rules();
  await host.succeed("DEL");
  await host.succeed("ADD");
  assertEquals(host.rules(), replaced);
});

/** Mappings of a living container, those of another one, and what is refused. */
const TAKEN: readonly (readonly [
  name: string,
  first: Keys,
  second: Keys,
  refused: string | undefined,
])[] = [
  ["the port", onePort(8080), onePort(8080), "8080/tcp"],
  ["one of several", onePort(8080), withPorts(SAMPLE), "8080/tcp"],
  [
    "of one address",
    withPorts([{ ...ONE, hostIP: "192.0.2.1" }]),
    withPorts([{ ...ONE, hostIP: "192.0.2.1" }]),
    "8080/tcp of 192.0.2.1",
  ],
  [
    "all addresses of a family",
    withPorts([{ ...ONE, hostIP: "0.0.0.0" }]),
    onePort(8080),
    "8080/tcp",
  ],
  [
    "under the same condition",
    { conditionsV4: ["-s", "192.0.2.7", "!", "-i", "x0"] },
    { conditionsV4: ["-s", "192.0.2.7/32", "!", "-i", "x0"] },
    "8080/tcp",
  ],
  [
    "another protocol",
    onePort(8080),
    withPorts([{ ...ONE, protocol: "udp" }]),
    undefined,
  ],
  [
    "another address",
    withPorts([{ ...ONE, hostIP: "192.0.2.1" }]),
    withPorts([{ ...ONE, hostIP: "192.0.2.3" }]),
    undefined,
  ],
  [
    "one address of all",
    onePort(8080),
    withPorts([{ ...ONE, hostIP: "192.0.2.1" }]),
    undefined,
  ],
  [
    "all but one address",
    withPorts([{ ...ONE, hostIP: "192.0.2.1" }]),
    onePort(8080),
    undefined,
  ],
  [
    "under another condition",
    { conditionsV4: ["-s", "192.0.2.7"] },
    onePort(8080),
    undefined,
  ],
];

test("ADD refuses a port of a running container", async (t) => {
  await eachRow(t, TAKEN, async ([, first, second, refused]) => {
    using host = new Host();
    const addresses = ["10.1.2.5/24"];
    await host.succeed("ADD", first, { addresses });
    const before = host.rules();
    const sandbox = host.hosts.addNetns();
    const other = { containerId: "other", sandbox, addresses: ["10.1.2.6/24"] };
    const output = await host.run("ADD", second, other);
    if (refused === undefined) {
      assertEquals(output.exitCode, 0, output.stdout);
      await host.succeed("CHECK", second, other);
    } else {
      const text = `Host port ${refused} is taken by another container`;
      assertFailure(output, 11, text);
      assertFailure(
        output,
        11,
        "net: net1, id: test-container, address: 10.1.2.5",
      );
      assertEquals(host.rules(), before);
    }
    await host.succeed("ADD", first, { addresses });
    await host.succeed("CHECK", first, { addresses });
    await host.succeed("DEL", second, other);
    await host.succeed("CHECK", first, { addresses });
  }, ([name]) => name);
});

test("ADD keeps the port with the first network of a container", async () => {
  using host = new Host();
  const addresses = ["10.1.2.6/24"];
  await host.succeed("ADD");
  await host.succeed("ADD", { name: "net2" }, { ifName: "net1", addresses });
  assertEquals(host.targetsOf(8080), ["10.1.2.5:80", "10.1.2.6:80"]);
});

test("ADD removes the chains of dead containers that have its port", async (t) => {
  const addresses = ["10.1.2.6/24"];
  const netns = (path: string): MappedCall => ({ env: { CNI_NETNS: path } });
  const none = netns("/run/netns/cni-test-none");
  const neighbor = "ip link add v0 type veth peer name v1; ip link set v0 up;" +
    "ip neigh add 10.1.2.6 lladdr 02:00:00:00:00:06 dev v0";
  const rows: [string, (path: string) => MappedCall, boolean, string?][] = [
    ["the namespace is gone", () => ({ addresses, ...none }), true],
    [
      "its path leads to another one",
      (path) => ({ addresses, ...netns(path) }),
      true,
    ],
    ["the Go plugin's, and the address is ours", () => ({ who: "go" }), true],
    ["the Go plugin's", () => ({ addresses, who: "go" }), true],
    [
      "the Go plugin's, and the host knows its MAC",
      () => ({ addresses, who: "go" }),
      false,
      neighbor,
    ],
    ["the namespace is there", () => ({ addresses }), false],
    ["the address is ours, but the namespace is there", () => ({}), false],
  ];
  await eachRow(t, rows, async ([, optionsOf, isDead, script = ""]) => {
    using host = new Host();
    const { directory, sandbox } = host.hosts;
    runIn(host.hosts.host, "sh", "-ec", script);
    const path = `${directory}/netns`;
    await Deno.symlink(sandbox.path, path);
    const name = "renamed";
    const options = { containerId: "older", ...optionsOf(path) };
    await host.succeed("ADD", { name }, options);
    const unrelated = { containerId: "unrelated", ...none };
    await host.succeed("ADD", { name, ...onePort(9090) }, unrelated);
    assertEquals(host.targetsOf(8080).length, 1);
    await Deno.remove(path);
    await Deno.symlink(host.hosts.addNetns().path, path);
    const output = await host.run("ADD");
    if (isDead) assertEquals(host.targetsOf(8080), ["10.1.2.5:80"]);
    else assertFailure(output, 11, "Host port 8080/tcp is taken");
    assertEquals(host.targetsOf(8080).length, 1);
    assertEquals(host.targetsOf(9090).length, 1);
  });
});

test("GC removes the chains of stale attachments of its network only", async () => {
  using host = new Host();
  const ids = ["stays", "goes", "by-go"];
  for (const [index, containerId] of ids.entries()) {
    await host.succeed("ADD", onePort(8080 + index), {
      containerId,
      ...containerId === "by-go" ? { who: "go" } : {},
    });
  }
  await host.succeed("ADD", { name: "net12", ...onePort(1) });
  const all = host.containerRules();
  await host.succeed("GC", GC);
  assertEquals(host.containerRules(), all);
  const valid = [{ containerID: "stays", ifname: "eth0" }];
  await host.succeed("GC", { ...GC, "cni.dev/valid-attachments": valid });
  const rules = host.containerRules().join("\n");
  assert(!/goes|by-go|--dports 808[12]/.test(rules), rules);
  assertMatch(rules, /net12/);
  assertMatch(rules, /id: \\"stays/);
});

test(
  "GC removes the other chains if it cannot remove one",
  async (t) => {
    await eachRow(t, ["nft", "legacy"], async (variant) => {
      using host = new Host();
      const env = variant === "legacy" ? host.legacy() : {};
      const nat = (...args: string[]): string =>
        runIn(host.hosts.host, `iptables-${variant}`, "-t", "nat", ...args);
      const chains = (): string[] =>
        nat("-S").match(/(?<=^-N )CNI-DN-\w+/gm) ?? [];
      for (const [index, containerId] of ["c1", "c2", "c3"].entries()) {
        await host.succeed("ADD", onePort(8080 + index), { containerId, env });
      }
      const [kept = ""] = chains();
      assertEquals(chains().length, 3);
      // The kernel keeps a chain to which another program's rule leads.
      nat("-N", "theirs");
      nat("-A", "theirs", "-j", kept);
      const gc = { ...GC, "cni.dev/valid-attachments": [] };
      const failed = await host.run("GC", gc, { env });
      assertFailure(failed, 999, `Cannot remove the chain "${kept}"`);
      assertEquals(chains(), [kept]);
      nat("-F", "theirs");
      await host.succeed("GC", gc, { env });
      assertEquals(chains(), []);
    });
  },
  needsBoth,
);

test("DEL removes chains of Go plugins before 0.7", async () => {
  using host = new Host();
  await host.succeed("ADD");
  const [, hash] = /CNI-DN-(\w+)/.exec(host.containerRules().join()) ?? [];
  const chain = `CNI-SN-${hash}`;
  const script = `iptables -t nat -N CNI-HOSTPORT-SNAT
    iptables -t nat -N ${chain}
    iptables -t nat -A CNI-HOSTPORT-SNAT -p tcp -m multiport --dports 80 -j ${chain}
    iptables -t nat -A ${chain} -s 127.0.0.1 -j MASQUERADE`;
  runIn(host.hosts.host, "sh", "-ec", script);
  await host.succeed("DEL");
  assertEquals(host.containerRules(), []);
});

for (const variant of ["nft", "legacy"]) {
  test(`concurrent ADDs and DELs succeed (${variant})`, async () => {
    using host = new Host();
    const env = variant === "legacy" ? host.legacy() : {};
    const suffix = variant === "legacy" ? "-legacy" : "";
    const of = (index: number): [Keys, MappedCall] => [
      onePort(8000 + index),
      { containerId: `c${index}`, addresses: [`10.1.2.${index + 2}/24`], env },
    ];
    const indexes = Array.from({ length: 6 }, (_, index) => index);
    await Promise.all(
      indexes.map((index) => host.succeed("ADD", ...of(index))),
    );
    const rules = host.rules(suffix);
    for (const shared of ["PREROUTING", "OUTPUT", "POSTROUTING"]) {
      const found = rules.filter((rule) => rule.startsWith(`4 -A ${shared} `));
      assertEquals(found.length, 1, found.join("\n"));
    }
    assertEquals(host.containerRules(suffix).length, 6 * 5);
    await Promise.all([
      ...indexes.slice(1).map((index) => host.succeed("DEL", ...of(index))),
      host.succeed("ADD", ...of(7)),
    ]);
    await host.succeed("CHECK", ...of(0));
    await host.succeed("CHECK", ...of(7));
    assertEquals(host.containerRules(suffix).length, 2 * 5);
  }, needsBoth);
}

test("ADD reports why it cannot forward", async (t) => {
  const rows: [string, Keys, string][] = [
    ["a condition", { conditionsV4: ["--none"] }, "--none"],
    ["one of the other family", { conditionsV4: ["-s", "fd00::1"] }, "fd00::1"],
    [
      "a chain that is missing",
      { externalSetMarkChain: "NO-CHAIN" },
      "NO-CHAIN",
    ],
    ["several lines", { conditionsV4: ["-s", "10.0.0.1\n-F"] }, "cannot read"],
  ];
  await eachRow(t, rows, async ([, keys, text]) => {
    using host = new Host();
    const output = await host.run("ADD", keys);
    assertFailure(output, 999, "unable to setup DNAT");
    assertFailure(output, 999, text);
    assertEquals(host.containerRules(), []);
  });
});

test("STATUS fails if iptables does not work", async () => {
  using host = new Host();
  await host.succeed("STATUS", GC);
  // iptables-nft refuses such a table.
  const table =
    "table ip nat { chain post { type nat hook postrouting priority 100; }; }";
  runIn(host.hosts.host, "nft", table);
  assertFailure(await host.run("STATUS", GC), 50, 'it has chain "post"');
});

/**
 * Runs of the first ADD: it lists the ports, checks the shared rules, which are
 * missing, lists these and the ports, and adds all rules.
 */
const RUNS_OF_ADD = 5;

/** Makes a program run fail, and all that follow if the process is dead. */
class Failing implements Disposable {
  readonly #put: () => void;
  #left: number;
  hasHappened = false;

  constructor(step: number, isDead: boolean) {
    this.#left = step;
    this.#put = intercept(
      Deno.Command.prototype,
      "spawn",
      (_args, work) => {
        this.#left--;
        if (this.#left > 0 || this.#left < 0 && !isDead) return work();
        this.hasHappened = true;
        throw new Error("injected");
      },
    );
  }

  [Symbol.dispose](): void {
    this.#put();
  }
}

test("leaves nothing if any run of a program fails or is the last", async (t) => {
  for (const isDead of [false, true]) {
    for (let step = 1;; step++) {
      let hasHappened = false;
      await t.step(`${isDead ? "last" : "failing"} run ${step}`, async () => {
        using host = new Host();
        const options = { addresses: ["10.1.2.5/24"] };
        {
          using failing = new Failing(step, isDead);
          const { exitCode } = await host.run("ADD", {}, options);
          hasHappened = failing.hasHappened;
          assertEquals(exitCode, hasHappened ? 1 : 0);
        }
        if (hasHappened && !isDead) assertEquals(host.containerRules(), []);
        await host.succeed("ADD", {}, options);
        await host.succeed("CHECK", {}, options);
        {
          using _failing = new Failing(step, isDead);
          await host.run("DEL", {}, options);
        }
        await host.succeed("DEL", {}, options);
        assertEquals(host.containerRules(), []);
      });
      if (!hasHappened) {
        assertEquals(step - 1, RUNS_OF_ADD);
        break;
      }
    }
  }
});

Deno.test("sectionsOf() splits a chain by interfaces", () => {
  const [one, two, three] = [
    '-A C -m comment --comment "if: eth0, netns: 4:1 /run/netns/a b"',
    '-A C -m comment --comment "if: eth1"',
    "-A C -j DNAT",
  ] as const;
  assertEquals(sectionsOf([three, one, two, three]), [
    { rules: [three, one], ifName: "eth0", netns: "4:1 /run/netns/a b" },
    { rules: [two], ifName: "eth1", netns: undefined },
    { rules: [three], ifName: undefined, netns: undefined },
  ]);
});
