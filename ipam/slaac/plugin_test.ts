/** slaac, with radvd beyond the link of a temporary host. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
} from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { needsKind } from "../../tests/_harness/on_master.ts";
import {
  needsRadvd,
  RouterNet,
  type RouterNetType,
} from "../../tests/_harness/router_net.ts";

const IPAM = { type: "slaac", timeoutSeconds: 60 };
/** Time limit of waits for events that do not happen. */
const IMPATIENT = { type: "slaac", timeoutSeconds: 2 };
const PREFIX = "prefix 2001:db8:1::/64 {};";
const LEARNED = { "cni.dev/learned": true };

for (const type of ["bridge", "macvlan", "ipvlan", "vlan"] as const) {
  const needs = type === "bridge" ? [] : [needsKind(type)];
  rootTest(
    `slaac returns the addresses that the kernel forms on ${type}, until DEL`,
    allOf(needsRadvd, ...needs),
    async () => await getsAddresses(type),
  );
}

async function getsAddresses(type: RouterNetType): Promise<void> {
  await using net = new RouterNet(type);
  await net.advertise(
    `AdvManagedFlag on; AdvOtherConfigFlag on; ${PREFIX}
     prefix 2001:db8:2::/64 {
       AdvValidLifetime infinity; AdvPreferredLifetime infinity;
     };
     RDNSS 2001:db8::53 fe80::53 {}; DNSSL example.test lab.example.test {};`,
  );
  const links = ipJson(net.hosts.host, "link").length;
  const prevResult = await net.succeed("ADD", IPAM);
  const { gateway } = net;
  const shown = net.addresses();
  assert(shown.every(({ dynamic }) => dynamic), JSON.stringify(shown));
  assertEquals(
    prevResult.ips.map(({ address }: { address: string }) => address).sort(),
    shown.map(({ local, prefixlen }) => `${local}/${prefixlen}`).sort(),
  );
  // In the order of the router.
  const networks = prevResult.ips
    .map(({ address }: { address: string }) => address.slice(0, 11));
  assertEquals(networks, ["2001:db8:1:", "2001:db8:2:"]);
  assertEquals(prevResult.routes, [{ dst: "::/0", gw: gateway, ...LEARNED }]);
  assertEquals(prevResult.dns, {
    nameservers: ["2001:db8::53"],
    search: ["example.test", "lab.example.test"],
  });
  // The kernel's default route still expires if the router does.
  const [route, ...others] = ipJson(
    net.hosts.sandbox,
    ...["-6", "route", "show", "default"],
  );
  assertEquals([route.protocol, others], ["ra", []]);
  await net.succeed("CHECK", IPAM, { prevResult });
  await net.succeed("DEL", IPAM, { prevResult });
  assertEquals(ipJson(net.hosts.host, "link").length, links);
}

/** Reports whether a container has a route to an address. */
function reaches(sandbox: NetNs, address: string): boolean {
  try {
    return ipJson(sandbox, "-6", "route", "get", address).length > 0;
  } catch {
    return false;
  }
}

rootTest("slaac follows a router that renumbers", needsRadvd, async () => {
  await using net = new RouterNet("bridge");
  await net.advertise(
    "prefix 2001:db8:1::/64 { AdvValidLifetime 8; AdvPreferredLifetime 6; };",
  );
  const prevResult = await net.succeed("ADD", IPAM);
  await net.advertise("prefix 2001:db8:2::/64 {};");
  await net.gets("2001:db8:2:");
  await eventually(
    "the old address is gone",
    () => net.addresses().every(({ local }) => local.startsWith("2001:db8:2:")),
  );
  await net.succeed("CHECK", IPAM, { prevResult });
  runIn(net.hosts.sandbox, "ip", "-6", "address", "flush", "dev", "eth0");
  assertFailure(
    await net.run("CHECK", IPAM, { prevResult }),
    999,
    "has no address from a router advertisement",
  );
});

rootTest(
  "slaac keeps no address of a router that stopped",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    await net.advertise(
      `AdvDefaultLifetime 5;
     prefix 2001:db8:1::/64 { AdvValidLifetime 5; AdvPreferredLifetime 5; };`,
    );
    const prevResult = await net.succeed("ADD", IPAM);
    await net.stopAdvertising();
    await eventually("it has no address", () => net.addresses().length === 0);
    await eventually(
      "no route leads to the router",
      () => !reaches(net.hosts.sandbox, "2001:db8:9::1"),
    );
    const check = await net.run("CHECK", IPAM, { prevResult });
    assertFailure(check, 999, "has no address from a router advertisement");
  },
);

/** Lists the routers of a container's default routes. */
function listGateways(sandbox: NetNs): string[] {
  const text = runIn(sandbox, "ip", "-6", "route", "show", "default");
  return [...text.matchAll(/via (\S+)/g)].map(([, ip = ""]) => ip).sort();
}

rootTest(
  "slaac follows two routers, one of which withdraws its prefix and itself",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    const [first, second] = [net.gateway, "fe80::bb"];
    const { sandbox } = net.hosts;
    await net.advertise(`AdvRASrcAddress { ${first}; }; ${PREFIX}`);
    const other = net.addRouter(
      second,
      "prefix 2001:db8:2::/64 { DeprecatePrefix on; };",
    );
    const prevResult = await net.succeed("ADD", IPAM);
    await net.has("2001:db8:1:", "2001:db8:2:");
    const gateways = (): string => listGateways(sandbox).join(" ");
    const both = [first, second].sort().join(" ");
    await eventually(
      "it has both routers",
      () => gateways() === both,
      gateways,
    );
    await other.stop("SIGTERM");
    await eventually("it has one", () => gateways() === first, gateways);
    const deprecated = net.addresses().filter(({ deprecated }) => deprecated)
      .map(({ local }) => local.slice(0, 11));
    assertEquals(deprecated, ["2001:db8:2:"]);
    await net.succeed("CHECK", IPAM, { prevResult });
  },
);

rootTest(
  "slaac adds no route to a router that is no default router",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    await net.advertise(`AdvDefaultLifetime 0; ${PREFIX}`);
    const { ips: [ip], routes } = await net.succeed("ADD", IPAM);
    assertMatch(ip.address, /^2001:db8:1:.*\/64$/);
    assertEquals([ip.gateway, routes], [undefined, undefined]);
    assertEquals(listGateways(net.hosts.sandbox), []);
  },
);

rootTest("slaac waits for a router that comes late", needsRadvd, async () => {
  await using net = new RouterNet("bridge");
  const adding = net.succeed("ADD", IPAM);
  const list = (): string => runIn(net.hosts.sandbox, "ip", "-br", "link");
  await eventually(
    "it asks for a router",
    () => /eth0.* UP /.test(list()),
    list,
  );
  await net.advertise(PREFIX);
  assertEquals((await adding).ips.length, 1);
});

rootTest("slaac forms addresses as configured", needsRadvd, async () => {
  await using net = new RouterNet("bridge");
  await net.advertise(PREFIX);
  const mac = "02:00:5e:00:53:01";
  const add = async (
    keys: object,
    pod?: string,
  ): Promise<{ address: string; sandbox: NetNs }> => {
    const sandbox = net.hosts.addNetns();
    const env = pod === undefined ? {} : {
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=${pod}`,
    };
    const options = { sandbox, containerId: crypto.randomUUID(), env };
    const more = pod === undefined ? { runtimeConfig: { mac } } : {};
    const { ips } = await net.succeed(
      "ADD",
      { ...IPAM, ...keys },
      more,
      options,
    );
    assertEquals(ips.length, 1);
    await net.run("DEL", IPAM, {}, { ...options, sandbox });
    return { address: ips[0].address, sandbox };
  };
  const stable = { addressGeneration: "stable-privacy" };
  const first = await add({});
  assertEquals(first.address, "2001:db8:1::5eff:fe00:5301/64");
  const random = await add({ addressGeneration: "random" });
  assertNotEquals(random.address, first.address);
  const web = await add(stable, "web-0");
  assertEquals((await add(stable, "web-0")).address, web.address);
  assertNotEquals((await add(stable, "web-1")).address, web.address);
});

rootTest(
  "slaac adds no default route, and temporary addresses, as configured",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    await net.advertise(PREFIX);
    const ipam = { ...IPAM, defaultRoute: false, temporaryAddresses: true };
    const { ips, routes } = await net.succeed("ADD", ipam);
    assertEquals([ips.length, routes], [1, undefined]);
    assertEquals(
      ipJson(net.hosts.sandbox, "-6", "route", "show", "default"),
      [],
    );
    await eventually(
      "it has a temporary address",
      () => net.addresses().some(({ temporary }) => temporary === true),
    );
    const [{ address }] = ips;
    const { local } = net.addresses().find(({ temporary }) => !temporary) ??
      { local: "" };
    assertEquals(address, `${local}/64`);
  },
);

rootTest("slaac leaves nothing if no router answers", async () => {
  await using net = new RouterNet("bridge");
  const before = ipJson(net.hosts.host, "link").length;
  const text = 'No router advertisement reached "eth0" in 2 s';
  assertFailure(await net.run("ADD", IMPATIENT), 11, text);
  assertEquals(ipJson(net.hosts.host, "link").length, before);
});

rootTest(
  "slaac names the missing prefix of an advertisement",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    const text = 'No router advertised a prefix for addresses to "eth0"';
    for (
      const [options, details] of [
        ["AdvManagedFlag on;", 'use the IPAM plugin dhcp with "family": 6'],
        [
          "prefix 2001:db8:1::/64 { AdvAutonomous off; };",
          "a prefix needs the flag for autonomous configuration",
        ],
      ] as const
    ) {
      await net.advertise(options);
      const ipam = { ...IMPATIENT, timeoutSeconds: 8 };
      const output = await net.run("ADD", ipam);
      assertFailure(output, 11, text);
      assertMatch(output.json.details, new RegExp(details));
    }
  },
);

rootTest(
  "slaac names the address that another host uses",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    await net.advertise(PREFIX);
    net.addRouterAddress("2001:db8:1::5eff:fe00:5301/64");
    const more = { runtimeConfig: { mac: "02:00:5e:00:53:01" } };
    assertFailure(
      await net.run("ADD", { ...IPAM, timeoutSeconds: 8 }, more),
      11,
      "another host has 2001:db8:1::5eff:fe00:5301",
    );
  },
);

rootTest(
  "slaac fails for a bridge that is the gateway",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    await net.advertise(PREFIX);
    assertFailure(
      await net.run("ADD", IPAM, { isGateway: true }),
      7,
      "the network has a router",
    );
  },
);

rootTest("slaac.status() succeeds, and add() needs an interface", async () => {
  await using net = new RouterNet("bridge");
  await net.succeed("STATUS", IPAM);
  assertFailure(
    await net.hosts.run("slaac", "ADD", net.config(IPAM)),
    999,
    'Cannot find interface "eth0"',
  );
  assertFailure(
    await net.hosts.run("slaac", "ADD", net.config(IPAM), { ifName: "lo" }),
    4,
    '"lo" is the loopback interface',
  );
});
