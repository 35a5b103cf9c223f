import { AsyncLocalStorage } from "node:async_hooks";
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { enableChangeChecks, withChangeCheck } from "../../ffi/change_check.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { inNetns } from "../../ffi/netns.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import {
  FakeFirewalld,
  needsBus,
} from "../../tests/_harness/fake_firewalld.ts";
import { ADDRESSES, FirewallScene } from "./testing.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const needs = allOf(needsRuleTools, needsInetRules);
const RULE_BACKENDS = ["iptables", "nftables"] as const;
const ISOLATED = { ingressPolicy: "isolated" };

/** Runs a command line on the scene's host. */
function change({ hosts }: FirewallScene, command: string): void {
  runIn(hosts.host, "sh", "-ec", command);
}

rootTest("firewall's ADD and DEL are idempotent", needs, async (t) => {
  for (const backend of RULE_BACKENDS) {
    await t.step(backend, async () => {
      using scene = new FirewallScene({ backend, ...ISOLATED });
      const { prevResult } = scene;
      await scene.succeed("ADD", { prevResult });
      const before = [scene.rules, scene.table];
      assertStringIncludes(scene.table, "id: test-container");
      await scene.succeed("ADD", { prevResult });
      await scene.succeed("CHECK", { prevResult });
      await scene.succeed("STATUS");
      assertEquals([scene.rules, scene.table], before);
      for (let time = 0; time < 2; time++) {
        await scene.succeed("DEL", { prevResult });
        assertEquals([scene.ownRules, scene.table], [[], ""]);
      }
    });
  }
});

/** How many addresses a call has, and how long it may take, in ms. */
const MANY = 20_000, MANY_MS = 60_000;

rootTest(
  "firewall with iptables does not compare every address with every rule",
  needs,
  async () => {
    using scene = new FirewallScene({ backend: "iptables" });
    const ips = Array.from({ length: MANY }, (_, at) => ({
      address: `10.${at >> 16}.${at >> 8 & 255}.${at & 255}/32`,
    }));
    const prevResult = { ...scene.prevResult, ips };
    for (const command of ["ADD", "CHECK"]) {
      const startMs = performance.now();
      await scene.succeed(command, { prevResult });
      const ms = performance.now() - startMs;
      assert(ms < MANY_MS, `${command} took ${ms} ms`);
    }
  },
);

rootTest("firewall.del() reads each set of addresses once", needs, async () => {
  using scene = new FirewallScene({ backend: "nftables" });
  const { prevResult } = scene;
  await scene.succeed("ADD", { prevResult });
  let dumps = 0;
  using stack = new DisposableStack();
  stack.defer(intercept(NetlinkSocket.prototype, "dump", (_, work) => {
    dumps++;
    return work();
  }));
  await scene.succeed("DEL", { prevResult });
  // The addresses and the further owners, for IPv4 and IPv6, and chain admin.
  assertEquals(dumps, 5);
});

rootTest(
  "firewall.add() replaces the addresses of an earlier ADD",
  needs,
  async (t) => {
    for (const backend of RULE_BACKENDS) {
      await t.step(backend, async () => {
        using scene = new FirewallScene({ backend });
        const { prevResult } = scene;
        await scene.succeed("ADD", { prevResult });
        const ips = [{ address: "10.0.0.9/24" }];
        const other = { ...prevResult, ips };
        await scene.succeed("ADD", { prevResult: other });
        assertEquals(/10\.0\.0\.2|2001:/.test(scene.table), false, scene.table);
        assertEquals(scene.ownRules, []);
        await scene.succeed("DEL");
        assertEquals(scene.rules.filter((line) => /10\.0\.0/.test(line)), []);
        assertEquals(scene.table, "");
      });
    }
  },
);

rootTest("firewall.check() reports each change", needs, async (t) => {
  const rows: [backend: string, command: string, ...texts: string[]][] = [
    [
      "iptables",
      "iptables -F CNI-FORWARD; ip6tables -D CNI-FORWARD 2; iptables -D CNI-ISOLATION-STAGE-1 1; iptables -I FORWARD -j REJECT",
      "expected rule [-s 10.0.0.2/32 -j ACCEPT] not found",
      "expected rule [-d 10.0.0.2/32 -m conntrack",
      "expected rule [-d 2001:db8:1:2::1/128 -m conntrack",
      "expected CNI-ISOLATION-STAGE-1 rule",
      "expected CNI-FORWARD to come first in FORWARD",
    ],
    [
      "iptables",
      "iptables -D CNI-FORWARD -s 10.0.0.2/32 -j ACCEPT",
      "expected rule [-s 10.0.0.2/32 -j ACCEPT] not found",
    ],
    [
      "iptables",
      "ip6tables -D CNI-FORWARD 2",
      "expected rule [-d 2001:db8:1:2::1/128 -m conntrack",
    ],
    [
      "iptables",
      "iptables -D CNI-FORWARD 1",
      "expected CNI-FORWARD rule [-m comment --comment CNI firewall plugin admin overrides -j CNI-ADMIN] not found",
    ],
    [
      "iptables",
      "iptables -D FORWARD 2",
      "expected FORWARD rule [-m comment --comment CNI firewall plugin rules -j CNI-FORWARD] not found",
    ],
    [
      "iptables",
      "iptables -I FORWARD -j REJECT",
      "expected CNI-FORWARD to come first in FORWARD",
    ],
    [
      "iptables",
      "iptables -D CNI-ISOLATION-STAGE-1 1",
      "expected CNI-ISOLATION-STAGE-1 rule",
    ],
    [
      "iptables",
      "iptables -F CNI-ISOLATION-STAGE-2",
      "expected CNI-ISOLATION-STAGE-2 rule",
    ],
    [
      "iptables",
      "iptables -D FORWARD 1; iptables -A FORWARD -m comment --comment 'CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)' -j CNI-ISOLATION-STAGE-1",
      "expected CNI-FORWARD to come first in FORWARD",
    ],
    [
      "nftables",
      "nft delete element inet cni_firewall addresses4 '{ 10.0.0.2 }'",
      "expected 10.0.0.2 in table inet cni_firewall not found",
    ],
    [
      "nftables",
      "nft flush chain inet cni_firewall forward",
      "expected rules of chain forward of table inet cni_firewall not found",
    ],
    [
      "nftables",
      "nft add rule inet cni_firewall ingress_policy drop",
      "expected rules of chain ingress_policy",
    ],
    [
      "nftables",
      "nft flush map inet cni_firewall within_bridge",
      'expected ingress policy of "cni0" not found',
    ],
    [
      "nftables",
      "nft flush set inet cni_firewall bridges",
      'expected ingress policy of "cni0" not found',
    ],
    [
      "nftables",
      "nft delete table inet cni_firewall",
      "expected 10.0.0.2, 2001:db8:1:2::1 in table",
    ],
  ];
  await eachRow(t, rows, async ([backend, command, ...texts]) => {
    using scene = new FirewallScene({ backend, ...ISOLATED });
    const { prevResult } = scene;
    await scene.succeed("ADD", { prevResult });
    change(scene, command);
    const state = [scene.rules, scene.table];
    for (const text of texts) {
      await scene.fail("CHECK", [999, text], { prevResult });
    }
    assertEquals([scene.rules, scene.table], state, "CHECK changed something");
    await scene.succeed("ADD", { prevResult });
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL", { prevResult });
    assertEquals([scene.ownRules, scene.table], [[], ""]);
  }, ([, command]) => command);
});

rootTest("firewall.check() does not add chains", needs, async () => {
  using scene = new FirewallScene({ backend: "iptables" });
  const { prevResult, rules } = scene;
  await scene.fail("CHECK", [999, "expected FORWARD rule"], { prevResult });
  assertEquals(scene.rules, rules);
});

rootTest(
  "firewall.add() keeps the order of rules in chain FORWARD",
  needs,
  async (t) => {
    const policy = "jump CNI-ISOLATION-STAGE-1", own = "jump CNI-FORWARD";
    const rows: [name: string, before: string, order: string[]][] = [
      ["empty", "true", [policy, own]],
      ["rules of others", "iptables -A FORWARD -s 10.9.9.9 -j DROP", [
        policy,
        own,
        "drop",
      ]],
      ["everything is refused", "iptables -A FORWARD -j DROP", [
        policy,
        own,
        "drop",
      ]],
    ];
    for (const [name, before, order] of rows) {
      await t.step(name, async () => {
        using scene = new FirewallScene({ backend: "iptables", ...ISOLATED });
        const { prevResult } = scene;
        const forward = (): string[] =>
          scene.rules.filter((line) => /^-A FORWARD/.test(line)).slice(
            0,
            order.length,
          )
            .map((line) =>
              line.replace(/.* -j (CNI.*)$/, "jump $1").replace(
                /.* -j DROP$/,
                "drop",
              )
            );
        change(scene, before);
        await scene.succeed("ADD", { prevResult });
        assertEquals(forward(), order);
        // Without the jump that accepts, and with it before the policy's.
        change(scene, "iptables -D FORWARD 2");
        await scene.succeed("ADD", { prevResult, ingressPolicy: "open" });
        assertEquals(forward(), order);
        change(
          scene,
          "iptables -F FORWARD; iptables -A FORWARD -p tcp -j REJECT",
        );
        await scene.succeed("ADD", { prevResult });
        assertEquals(forward().slice(0, 2), [policy, own]);
        // A rule that refuses some packets is the administrator's choice.
        change(scene, "iptables -I FORWARD -s 10.9.9.9 -j DROP");
        await scene.succeed("ADD", { prevResult });
        assertEquals(forward()[0], "drop");
        change(
          scene,
          "iptables -I FORWARD -m comment --comment 'no more' -j DROP",
        );
        await scene.succeed("ADD", { prevResult });
        assertEquals(forward().slice(0, 2), [policy, own]);
      });
    }
  },
);

rootTest(
  "firewall.del() removes all rules even if parts of the input are missing",
  needs,
  async (t) => {
    const rows: [name: string, keys: Keys, env: Record<string, string>][] = [
      ["no prevResult", { prevResult: undefined }, {}],
      ["no prevResult, no namespace", { prevResult: undefined }, {
        CNI_NETNS: "",
      }],
      ["a namespace that is gone", { prevResult: undefined }, {
        CNI_NETNS: "/run/netns/none",
      }],
      ["an invalid prevResult", { prevResult: { ips: 7 } }, {}],
      ["an unknown policy", { ingressPolicy: "closed" }, {}],
      ["an unknown backend", { backend: "ebtables" }, {}],
      ["another backend", { backend: "nftables" }, {}],
      ["one more", { backend: "iptables" }, {}],
      ["firewalld, which is not there", { backend: "firewalld" }, {}],
    ];
    for (const backend of RULE_BACKENDS) {
      await eachRow(t, rows, async ([, keys, env]) => {
        using scene = new FirewallScene({ backend, ...ISOLATED });
        const { prevResult } = scene;
        await scene.succeed("ADD", { prevResult });
        for (let time = 0; time < 2; time++) {
          const { exitCode, stdout } = await scene.run("DEL", {
            prevResult,
            ...keys,
          }, { env });
          assertEquals([exitCode, stdout], [0, ""]);
          assertEquals([scene.ownRules, scene.table], [[], ""]);
        }
      }, ([name]) => `${backend}: ${name}`);
    }
    await t.step("an attachment that never existed", async () => {
      using scene = new FirewallScene();
      const { rules } = scene;
      await scene.succeed("DEL");
      await scene.succeed("DEL", { prevResult: scene.prevResult });
      assertEquals([scene.rules, scene.table], [rules, ""]);
    });
    await t.step(
      "no record and no prevResult, but the interface's addresses",
      async () => {
        using scene = new FirewallScene({ backend: "iptables" });
        const { prevResult, hosts: { sandbox } } = scene;
        await scene.succeed("ADD", { prevResult });
        change(scene, "nft delete table inet cni_firewall");
        runIn(
          sandbox,
          "ip",
          "link",
          "add",
          "eth0",
          "type",
          "veth",
          "peer",
          "name",
          "x0",
        );
        runIn(sandbox, "ip", "addr", "add", "10.0.0.2/24", "dev", "eth0");
        runIn(
          sandbox,
          "ip",
          "addr",
          "add",
          "2001:db8:1:2::1/64",
          "dev",
          "eth0",
          "nodad",
        );
        await scene.succeed("DEL");
        assertEquals(scene.ownRules, []);
      },
    );
  },
);

rootTest(
  "firewall.del() keeps an address that has a new owner",
  needs,
  async (t) => {
    for (const backend of RULE_BACKENDS) {
      await t.step(backend, async () => {
        using scene = new FirewallScene({ backend });
        const { prevResult } = scene;
        await scene.succeed("ADD", { prevResult });
        const later = { containerId: "later" };
        await scene.succeed("ADD", { prevResult }, later);
        const before = [scene.rules, scene.table];
        await scene.succeed("DEL", { prevResult });
        assertEquals([scene.rules, scene.table], before);
        await scene.succeed("CHECK", { prevResult }, later);
        await scene.succeed("DEL", {}, later);
        assertEquals([scene.ownRules, scene.table], [[], ""]);
      });
    }
  },
);

rootTest(
  "firewall.del() removes the policy of a link that only the container uses",
  needs,
  async (t) => {
    for (const backend of RULE_BACKENDS) {
      for (const ingressPolicy of ["same-bridge", "isolated"]) {
        await t.step(`${backend}, ${ingressPolicy}`, async () => {
          using scene = new FirewallScene({ backend, ingressPolicy });
          const { prevResult: ofBridge } = scene;
          const [, inside] = ofBridge["interfaces"] as Keys[];
          const interfaces = [{ name: "veth0123456789a" }, inside];
          const ofPtp = { ...ofBridge, interfaces };
          // The table of nftables stays as long as it has addresses.
          const other = { containerId: "other" };
          const ips = [{ address: "10.0.0.3/24" }];
          await scene.succeed(
            "ADD",
            { prevResult: { ...ofBridge, ips } },
            other,
          );
          await scene.succeed("ADD", { prevResult: ofPtp });
          assertStringIncludes(scene.rules + scene.table, "veth0123456789a");
          await scene.succeed("CHECK", { prevResult: ofPtp });
          await scene.succeed("DEL", { prevResult: ofPtp });
          assert(!(scene.rules + scene.table).includes("veth0123456789a"));
          await scene.succeed("CHECK", {
            prevResult: { ...ofBridge, ips },
          }, other);
          await scene.succeed("DEL", { prevResult: ofPtp });
        });
      }
    }
  },
);

rootTest(
  "firewall keeps the administrator's nftables rules",
  needs,
  async () => {
    using scene = new FirewallScene({ backend: "nftables" });
    const { prevResult } = scene;
    await scene.succeed("ADD", { prevResult });
    change(
      scene,
      "nft add rule inet cni_firewall admin ip daddr 192.0.2.1 drop",
    );
    await scene.succeed("DEL", { prevResult });
    assertStringIncludes(scene.table, "ip daddr 192.0.2.1 drop");
    assert(!scene.table.includes("10.0.0.2"), scene.table);
    await scene.succeed("ADD", { prevResult });
    await scene.succeed("CHECK", { prevResult });
  },
);

rootTest(
  "firewall sets a bridge's nftables policy to the policy of the latest ADD",
  needs,
  async () => {
    using scene = new FirewallScene({ backend: "nftables" });
    const { prevResult } = scene;
    for (
      const [ingressPolicy, verdict] of [["isolated", "drop"], [
        "same-bridge",
        "return",
      ], ["isolated", "drop"]]
    ) {
      await scene.succeed("ADD", { prevResult, ingressPolicy });
      assertStringIncludes(scene.table, `"cni0" . "cni0" : ${verdict}`);
      await scene.succeed("CHECK", { prevResult, ingressPolicy });
    }
  },
);

rootTest(
  "firewall.gc() removes the addresses of stale attachments",
  needs,
  async (t) => {
    for (const backend of RULE_BACKENDS) {
      await t.step(backend, async () => {
        using scene = new FirewallScene({ backend });
        const add = async (
          containerId: string,
          address: string,
          keys: Keys = {},
        ): Promise<void> => {
          const prevResult = { ...scene.prevResult, ips: [{ address }] };
          await scene.succeed("ADD", { prevResult, ...keys }, { containerId });
        };
        await add("stays", "10.0.0.3/24");
        await add("goes", "10.0.0.4/24");
        await add("elsewhere", "10.0.1.5/24", { name: "net2" });
        const left = (): string => [...scene.rules, scene.table].join("\n");
        await scene.succeed("GC");
        assertMatch(left(), /10\.0\.0\.4/);
        const valid = [{ containerID: "stays", ifname: "eth0" }];
        await scene.succeed("GC", { "cni.dev/valid-attachments": valid });
        assert(!left().includes("10.0.0.4"), left());
        for (const address of ["10.0.0.3", "10.0.1.5"]) {
          assertStringIncludes(left(), address);
        }
        await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
        assert(!left().includes("10.0.0.3"), left());
        assertStringIncludes(left(), "10.0.1.5");
      });
    }
  },
);

rootTest(
  "firewall sets the policy for a host link, not for a container link",
  needs,
  async () => {
    using scene = new FirewallScene({ backend: "nftables", ...ISOLATED });
    const { sandbox } = scene.hosts;
    const interfaces = [
      { name: "cni0", sandbox: sandbox.path },
      { name: "cni1" },
    ];
    const prevResult = { ...scene.prevResult, interfaces };
    await scene.succeed("ADD", { prevResult });
    assertStringIncludes(scene.table, '"cni1" . "cni1" : drop');
    assert(!scene.table.includes('"cni0"'), scene.table);
    await scene.succeed("CHECK", { prevResult });
  },
);

rootTest(
  "firewall refuses invalid input before it changes anything",
  needs,
  async (t) => {
    const rows: [keys: Keys, code: number, text: string][] = [
      [{ prevResult: undefined }, 7, "missing prevResult from earlier plugin"],
      [{ ingressPolicy: "closed" }, 7, 'unknown ingress policy: "closed"'],
      [
        { backend: "ebtables" },
        7,
        'expected "iptables", "firewalld" or "nftables", got "ebtables"',
      ],
      [
        { iptablesAdminChainName: "no chain" },
        7,
        '"no chain" cannot be the name of a chain',
      ],
      [{ firewalldZone: 7 }, 7, "firewalldZone"],
    ];
    await eachRow(t, rows, async ([keys, code, text]) => {
      using scene = new FirewallScene();
      const { prevResult, rules } = scene;
      await scene.fail("ADD", [code, text], { prevResult, ...keys });
      assertEquals([scene.rules, scene.table], [rules, ""]);
    }, ([keys]) => JSON.stringify(keys));
    const none =
      'interface needs to be set for ingress policy "isolated", make sure to chain "firewall" plugin with "bridge"';
    const bridges: [interfaces: unknown, text: string][] = [
      [[], none],
      [[{ name: "cni0", sandbox: "/run/netns/pod" }], none],
      [[{ name: "" }], "got empty bridge name"],
      [[{ name: "a-name-of-sixteen" }], "cannot be the name of a bridge"],
    ];
    await eachRow(t, bridges, async ([interfaces, text]) => {
      using scene = new FirewallScene(ISOLATED);
      const prevResult = { ...scene.prevResult, interfaces };
      await scene.fail("ADD", [7, text], { prevResult });
      assertEquals([scene.ownRules, scene.table], [[], ""]);
    }, ([interfaces, text]) => `${JSON.stringify(interfaces)}: ${text}`);
  },
);

rootTest(
  "firewall.add() removes the rules of one family if the other's fail",
  needs,
  async () => {
    using scene = new FirewallScene({ backend: "iptables" });
    const { prevResult, hosts: { directory } } = scene;
    const programs = `${directory}/programs`;
    await Deno.mkdir(programs);
    await Deno.symlink("/usr/sbin/ip6tables", `${programs}/ip6tables`);
    const env = { PATH: `${programs}:/usr/sbin:/usr/bin:/sbin:/bin` };
    const restore = `${programs}/ip6tables-restore`;
    await Deno.writeTextFile(
      restore,
      "#!/bin/sh\necho no rules today >&2; exit 1\n",
      { mode: 0o755 },
    );
    const failed = await scene.run("ADD", { prevResult }, { env });
    assertFailure(failed, 999, "no rules today");
    assertEquals([scene.ownRules, scene.table], [[], ""]);
    assert(scene.rules.includes("-N CNI-FORWARD"), "IPv4 was not tried");
    await Deno.remove(restore);
    await Deno.symlink("/usr/sbin/ip6tables-restore", restore);
    await scene.succeed("ADD", { prevResult }, { env });
    await scene.succeed("CHECK", { prevResult }, { env });
  },
);

rootTest("firewall does nothing without addresses", needs, async () => {
  using scene = new FirewallScene();
  const { rules } = scene, prevResult = { ...scene.prevResult, ips: [] };
  assertEquals(
    (await scene.succeed("ADD", { prevResult })).json.ips,
    undefined,
  );
  await scene.succeed("CHECK", { prevResult });
  assertEquals([scene.rules, scene.table], [rules, ""]);
});

const needsFirewalld = allOf(needs, needsBus);

/** Buses that cannot be asked now; the result ends that. */
const BUSY_BUSES: Readonly<
  Record<string, (bus: Deno.UnixListener) => Promise<() => Promise<void>>>
> = {
  "has too many clients in its queue": async (bus) => {
    const { path } = bus.addr as Deno.UnixAddr;
    const first = await Deno.connect({ transport: "unix", path });
    return async () => {
      first.close();
      (await bus.accept()).close();
      bus.close();
    };
  },
  "hangs up": (bus) => {
    const served = (async () => {
      for await (const connection of bus) connection.close();
    })();
    const end = async (): Promise<void> => {
      bus.close();
      await served;
    };
    return Promise.resolve(end);
  },
};

rootTest(
  "firewall adds no rules while the bus does not report whether firewalld runs",
  needsFirewalld,
  async (t) => {
    for (const [name, occupy] of Object.entries(BUSY_BUSES)) {
      await t.step(`the bus ${name}`, async () => {
        using scene = new FirewallScene();
        const { prevResult, hosts: { host, directory } } = scene;
        const path = `${directory}/bus`;
        const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${path}` };
        const bus = inNetns(host, () => {
          writeSysctl("net/core/somaxconn", "0");
          return Deno.listen({ transport: "unix", path });
        });
        const end = await occupy(bus);
        const failed = await scene.run("ADD", { prevResult }, { env });
        const { ownRules } = scene;
        await end();
        assertFailure(failed, 11, "Cannot ask the system bus");
        assertEquals(ownRules, []);
        await scene.succeed("DEL", {}, { env });
        assertEquals(scene.table, "");
      });
    }
    await t.step("the bus has its most connections", async () => {
      using scene = new FirewallScene();
      const { prevResult, hosts: { directory } } = scene;
      const options = { mostConnections: 1 };
      await using firewalld = await FakeFirewalld.start(directory, options);
      const { env, sources } = firewalld;
      const failed = await scene.run("ADD", { prevResult }, { env });
      assertFailure(failed, 11, "Cannot ask the system bus");
      assertEquals([scene.ownRules, sources.size], [[], 0]);
    });
  },
);

rootTest(
  "firewall with firewalld adds the ingress policy to iptables",
  needsFirewalld,
  async () => {
    using scene = new FirewallScene({ backend: "firewalld", ...ISOLATED });
    const { prevResult } = scene;
    await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
    const { env } = firewalld;
    await scene.succeed("ADD", { prevResult }, { env });
    assertEquals(
      scene.rules.filter((line) => /CNI-(FORWARD|ADMIN)/.test(line)),
      [],
    );
    assertEquals(
      scene.rules.filter((line) => line === "-N CNI-ISOLATION-STAGE-1").length,
      2,
    );
    await scene.succeed("CHECK", { prevResult }, { env });
    change(scene, "iptables -F CNI-ISOLATION-STAGE-1");
    assertFailure(
      await scene.run("CHECK", { prevResult }, { env }),
      999,
      "CNI-ISOLATION-STAGE-1",
    );
    await scene.succeed("DEL", {}, { env });
    assertEquals([firewalld.sources.size, scene.table], [0, ""]);
  },
);

rootTest(
  "firewall adds rules itself, until DEL, if the bus refuses connections",
  needs,
  async (t) => {
    for (const [name, refusal] of Object.entries(REFUSING_BUSES)) {
      await t.step(name, async () => {
        using scene = new FirewallScene();
        const { prevResult } = scene;
        const path = `${scene.hosts.directory}/bus`;
        const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${path}` };
        const bound = `${path}-bound`;
        const bus = Deno.listen({ transport: "unix", path: bound });
        // Closing removes one name of the socket.
        await Deno.link(bound, path);
        const end = refusal(bus);
        await scene.succeed("ADD", { prevResult }, { env });
        assertEquals(scene.ownRules.length, 4);
        await scene.succeed("DEL", { prevResult }, { env });
        assertEquals(scene.ownRules, []);
        await end();
      });
    }
  },
);

/** Makes a bus refuse clients; the result ends that. */
const REFUSING_BUSES: Readonly<
  Record<string, (bus: Deno.UnixListener) => () => Promise<void>>
> = {
  "whose socket was left over": (bus) => {
    bus.close();
    return () => Promise.resolve();
  },
  // As in a user namespace, where the user is another one for the bus.
  "for its login": (bus) => {
    const served = (async () => {
      for await (const connection of bus) {
        await connection.read(new Uint8Array(100));
        await connection.write(new TextEncoder().encode("REJECTED\r\n"));
        while (await connection.read(new Uint8Array(100)) !== null);
        connection.close();
      }
    })();
    return async () => {
      bus.close();
      await served;
    };
  },
};

rootTest(
  "firewall reports each refusal of firewalld",
  needsFirewalld,
  async (t) => {
    await t.step("an address in another zone", async () => {
      using scene = new FirewallScene();
      const { prevResult } = scene;
      await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
      const { env, sources } = firewalld;
      sources.set(ADDRESSES[1], "public");
      const failed = await scene.run("ADD", { prevResult }, { env });
      assertFailure(
        failed,
        999,
        `failed to add the address ${
          ADDRESSES[1]
        } to trusted zone; ZONE_CONFLICT`,
      );
      assertEquals(failed.stderr, "");
      assertEquals([...sources], [[ADDRESSES[1], "public"]]);
      assertEquals(scene.table, "");
    });
    await t.step("every request, and DEL can be repeated", async () => {
      using scene = new FirewallScene();
      const { prevResult } = scene;
      await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
      const { env } = firewalld;
      await scene.succeed("ADD", { prevResult }, { env });
      await scene.succeed("ADD", { prevResult }, { env });
      firewalld.failure = "NOT_AUTHORIZED: no";
      assertFailure(await scene.run("DEL", {}, { env }), 999, "NOT_AUTHORIZED");
      firewalld.failure = undefined;
      await scene.succeed("DEL", {}, { env });
      await scene.succeed("DEL", {}, { env });
      assertEquals([firewalld.sources.size, scene.table], [0, ""]);
    });
    await t.step("nothing, but the call is superseded", async () => {
      enableChangeChecks(new AsyncLocalStorage());
      using scene = new FirewallScene();
      const { prevResult } = scene;
      await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
      const { env } = firewalld;
      // As after a stop of the process, which has recorded the addresses.
      const check = (): void => {
        if (scene.table !== "") throw new Error("superseded");
      };
      const add = (): Promise<CallOutput> =>
        scene.run("ADD", { prevResult }, { env });
      assertFailure(await withChangeCheck(check, add), 999, "superseded");
      assertEquals(firewalld.sources.size, 0);
    });
    await t.step("the requests of GC", async () => {
      using scene = new FirewallScene();
      await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
      const { env } = firewalld;
      await scene.succeed("ADD", { prevResult: scene.prevResult }, { env });
      await scene.succeed("GC", { "cni.dev/valid-attachments": [] }, { env });
      assertEquals([firewalld.sources.size, scene.table], [0, ""]);
    });
    await t.step("a name lookup on the bus", async () => {
      using scene = new FirewallScene();
      const { prevResult, hosts: { directory } } = scene;
      const options = {
        denied:
          'send_interface="org.freedesktop.DBus" send_member="NameHasOwner"',
      };
      await using firewalld = await FakeFirewalld.start(directory, options);
      const { env, sources } = firewalld;
      await scene.succeed("ADD", { prevResult }, { env });
      assertEquals([scene.ownRules.length, sources.size], [4, 0]);
      await scene.succeed("CHECK", { prevResult }, { env });
      await scene.succeed("STATUS", {}, { env });
      await scene.succeed("DEL", {}, { env });
      assertEquals([scene.ownRules, scene.table], [[], ""]);
      await scene.succeed("ADD", { prevResult }, { env });
      await scene.succeed("GC", { "cni.dev/valid-attachments": [] }, { env });
      assertEquals([scene.ownRules, scene.table], [[], ""]);
    });
    // As AppArmor's abstractions/dbus-strict.
    await t.step("a call, although the bus reports its name", async () => {
      using scene = new FirewallScene();
      const { prevResult, hosts: { directory } } = scene;
      const options = {
        denied: 'send_destination="org.fedoraproject.FirewallD1"',
      };
      await using firewalld = await FakeFirewalld.start(directory, options);
      const { env, sources, calls } = firewalld;
      const run = async (command: string, keys: Keys): Promise<void> => {
        const { exitCode, stdout, stderr } = await scene.run(command, keys, {
          env,
        });
        assertEquals([command, exitCode], [command, 0], stdout);
        assertMatch(stderr, /firewalld.*FirewallD1/);
      };
      await run("ADD", { prevResult });
      assertEquals([scene.ownRules.length, sources.size], [4, 0]);
      await run("CHECK", { prevResult });
      await run("STATUS", {});
      await run("DEL", {});
      assertEquals([scene.ownRules, scene.table], [[], ""]);
      await run("ADD", { prevResult });
      await run("GC", { "cni.dev/valid-attachments": [] });
      assertEquals([scene.ownRules, scene.table, calls], [[], "", []]);
      const keys = { backend: "firewalld", prevResult };
      const failed = await scene.run("ADD", keys, { env });
      assertFailure(failed, 999, "failed to add the address");
      const status = await scene.run("STATUS", keys, { env });
      assertFailure(status, 50, "FirewallD1");
      await run("DEL", keys);
    });
    await t.step("a call while firewalld loads its rules", async () => {
      using scene = new FirewallScene();
      const { directory } = scene.hosts;
      await using firewalld = await FakeFirewalld.start(directory);
      firewalld.isBusy = true;
      const { env } = firewalld;
      await scene.succeed("STATUS", { backend: "firewalld" }, { env });
      assertEquals(firewalld.calls.length, 1);
    });
    await t.step("and the host has a bus without firewalld", async () => {
      using scene = new FirewallScene();
      const { prevResult } = scene;
      await using firewalld = await FakeFirewalld.start(scene.hosts.directory, {
        runs: false,
      });
      const { env } = firewalld;
      await scene.succeed("ADD", { prevResult }, { env });
      assertEquals(scene.ownRules.length, 4);
      await scene.succeed("DEL", { prevResult }, { env });
      const keys = { backend: "firewalld", prevResult };
      assertFailure(
        await scene.run("ADD", keys, { env }),
        999,
        "failed to add the address",
      );
      assertFailure(
        await scene.run("STATUS", keys, { env }),
        50,
        "firewalld is not running",
      );
      await scene.succeed("DEL", keys, { env });
    });
    await t.step("and the host has no bus", async () => {
      using scene = new FirewallScene({ backend: "firewalld" });
      const { prevResult } = scene;
      await scene.fail("ADD", [999, "the host has no system bus"], {
        prevResult,
      });
      await scene.fail("STATUS", [50, "the host has no system bus"]);
      await scene.succeed("DEL", { prevResult });
    });
  },
);
