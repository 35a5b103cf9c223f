/** The plugin dhcp with Debian's ISC DHCP and Kea. */

import { assertEquals } from "@std/assert";
import { KEA_ROOT } from "../../scripts/setup/debian_packages.ts";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  type Needs,
  rootTest,
} from "../../testing/capabilities.ts";
import type { Background } from "../../tests/_harness/background.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { needsDhcpd, needsRadvd } from "../../tests/_harness/router_net.ts";
import { RoutedScene } from "./testing.ts";

type Family = 4 | 6;

/** Subnets with the router's address, the only address to lease, and a name server. */
const NETWORKS = {
  4: {
    subnet: "10.9.0.0/24",
    router: "10.9.0.1/24",
    address: "10.9.0.10",
    server: "10.9.0.53",
  },
  6: {
    subnet: "2001:db8:1::/64",
    router: "2001:db8:1::1/64",
    address: "2001:db8:1::100",
    server: "2001:db8::53",
  },
} as const;
const DOMAIN = "example.test";
/** Times of a lease, in seconds. */
const RENEWAL = 1, REBINDING = 1800, EXPIRY = 3600;

/** A DHCP server. */
interface Server {
  readonly needs: Needs;
  readonly start: (scene: RoutedScene, family: Family) => Promise<Background>;
  /** What it logs of a declined address. */
  readonly declined: Readonly<Record<Family, string>>;
}

const KEA_ENV = {
  LD_LIBRARY_PATH: `${KEA_ROOT}/usr/lib/${Deno.build.arch}-linux-gnu`,
};

const KEA_PROGRAMS = `${KEA_ROOT}/usr/sbin`;

/** Whether Kea and all of its libraries are there. */
function canRunKea(): boolean {
  const path = `${KEA_PROGRAMS}/kea-dhcp4`;
  return isExecutable(path) &&
    new Deno.Command(path, {
      args: ["-v"],
      env: KEA_ENV,
      stdout: "null",
      stderr: "null",
    }).outputSync().success;
}

const SERVERS: Readonly<Record<string, Server>> = {
  "ISC DHCP": {
    needs: needsDhcpd,
    start: (scene, family) => scene.serve(dhcpdConfig(family), family),
    declined: {
      4: `DHCPDECLINE of ${NETWORKS[4].address}`,
      6: "Decline message",
    },
  },
  Kea: {
    needs: ignoreUnless(
      canRunKea(),
      "needs Debian's Kea in build/kea",
    ),
    start: startKea,
    declined: { 4: "DHCP4_DECLINE_LEASE", 6: "DHCP6_DECLINE_LEASE" },
  },
};

function dhcpdConfig(family: Family): string {
  const { subnet, router, address, server } = NETWORKS[family];
  const [network, length] = subnet.split("/");
  return family === 4
    ? `default-lease-time ${EXPIRY}; max-lease-time ${EXPIRY}; ping-check off;
      option dhcp-renewal-time ${RENEWAL}; option dhcp-rebinding-time ${REBINDING};
      option routers ${router.split("/")[0]};
      option domain-name-servers ${server}; option domain-name "${DOMAIN}";
      subnet ${network} netmask 255.255.255.0 { range ${address} ${address}; }`
    : `default-lease-time ${EXPIRY}; preferred-lifetime ${EXPIRY};
      option dhcp-renewal-time ${RENEWAL}; option dhcp-rebinding-time ${REBINDING};
      option dhcp6.name-servers ${server}; option dhcp6.domain-search "${DOMAIN}";
      subnet6 ${network}/${length} { range6 ${address} ${address}; }`;
}

async function startKea(
  scene: RoutedScene,
  family: Family,
): Promise<Background> {
  const { subnet, router, address, server } = NETWORKS[family];
  const { directory } = scene.hosts;
  const name = `kea-dhcp${family}`;
  const options = family === 4
    ? {
      "routers": router.split("/")[0],
      "domain-name-servers": server,
      "domain-name": DOMAIN,
    }
    : { "dns-servers": server, "domain-search": DOMAIN };
  const config = {
    [`Dhcp${family}`]: {
      "interfaces-config": { "interfaces": ["wire"] },
      "lease-database": { "type": "memfile", "persist": false },
      ...family === 6 && {
        "server-id": { "type": "LLT", "persist": false },
        "preferred-lifetime": EXPIRY,
      },
      "renew-timer": RENEWAL,
      "rebind-timer": REBINDING,
      "valid-lifetime": EXPIRY,
      "option-data": Object.entries(options)
        .map(([name, data]) => ({ name, data })),
      [`subnet${family}`]: [{
        "id": 1,
        subnet,
        "interface": "wire",
        "pools": [{ "pool": `${address}-${address}` }],
      }],
      "loggers": [{
        name,
        "severity": "INFO",
        "output_options": [{ "output": "stderr" }],
      }],
    },
  };
  const file = `${directory}/${name}.json`;
  await Deno.writeTextFile(file, JSON.stringify(config));
  const env = {
    ...KEA_ENV,
    KEA_PIDFILE_DIR: directory,
    KEA_LOCKFILE_DIR: directory,
  };
  const kea = scene.spawn(
    "env",
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    ...[`${KEA_PROGRAMS}/${name}`, "-c", file],
  );
  await kea.says(`DHCP${family}_STARTED`);
  return kea;
}

for (const [name, { needs, start, declined }] of Object.entries(SERVERS)) {
  for (const family of [4, 6] as const) {
    const { address, router, server: nameserver } = NETWORKS[family];
    const [gateway, length] = router.split("/");
    rootTest(
      `dhcp renews, confirms, releases and declines an IPv${family} lease of ${name}`,
      allOf(needs, needsRadvd),
      async () => {
        const limits = { timeoutMs: 2000, resendTimeoutMs: 5000 };
        await using scene = await RoutedScene.start("bridge", limits);
        const { daemon } = scene;
        if (family === 4) scene.addRouterAddress(router);
        const server = await start(scene, family);
        const request = ["domain-name-servers", "domain-name", "58", "59"]
          .map((option) => ({ option }));
        const ipam = { ...scene.ipam, family, ...family === 4 && { request } };
        const prevResult = await scene.succeed("ADD", ipam);
        const [ip] = prevResult.ips;
        assertEquals(
          [ip.address, ip.gateway],
          family === 4
            ? [`${address}/${length}`, gateway]
            : [`${address}/128`, scene.gateway],
        );
        assertEquals(
          prevResult.dns,
          family === 4
            ? { nameservers: [nameserver], domain: DOMAIN }
            : { nameservers: [nameserver], search: [DOMAIN] },
        );
        await daemon.says("msg=renewed");
        await daemon.stop();
        await daemon.start(limits);
        await daemon.says("msg=confirmed");
        await scene.succeed("CHECK", ipam, { prevResult });
        await scene.succeed("DEL", ipam, { prevResult });
        // Only a released address can be leased to a different container.
        const other = {
          containerId: "other",
          sandbox: scene.hosts.addNetns(),
        };
        const { ips: [{ address: again }] } = await scene
          .succeed("ADD", ipam, {}, other);
        assertEquals(again, ip.address);
        await scene.succeed("DEL", ipam, {}, other);
        scene.addRouterAddress(`${address}/${length}`);
        assertFailure(
          await scene.run("ADD", ipam, { conflictCheck: true }),
          11,
          "",
        );
        await server.says(declined[family]);
        assertEquals(daemon.leases, []);
      },
    );
  }
}
