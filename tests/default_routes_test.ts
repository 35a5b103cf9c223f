/**
 * A container with two networks that both have default routes,  compared with
 * the Go plugins'.
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { ipJson } from "../testing/ip_json.ts";
import { listPeers } from "./_harness/parity.ts";
import { TestHosts } from "../testing/test_hosts.ts";

/** Where traffic goes that no network is for. */
const ELSEWHERE = ["192.0.2.1", "2001:db8::1"] as const;

/** Attaches a container to two networks; returns its default routes, and which are used. */
async function defaultRoutes(type: string, bin: string): Promise<unknown> {
  using hosts = TestHosts.create();
  for (const number of [1, 2]) {
    const config = {
      cniVersion: "1.0.0",
      name: `net${number}`,
      type,
      bridge: `br${number}`,
      isGateway: true,
      ipam: {
        ...hosts.hostLocal(`10.${number}.0.0/24`, `fd00:${number}::/64`),
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
    };
    const options = { ifName: `eth${number}` };
    const { exitCode, stdout } = bin === ""
      ? await hosts.run(type, "ADD", config, options)
      : hosts.exec(`${bin}/${type}`, "ADD", config, {
        ...options,
        env: { CNI_PATH: bin },
      });
    assertEquals(exitCode, 0, stdout);
  }
  const { sandbox } = hosts;
  const [found] = ELSEWHERE.map((address) =>
    ipJson(sandbox, "route", "get", address)[0].dev
  );
  const list = (family: string): unknown =>
    ipJson(sandbox, family, "route", "show", "default").map(outline);
  return { found, ipv4: list("-4"), ipv6: list("-6") };
}

/** The visible traces of a default route. */
interface DefaultRoute {
  readonly dev?: string;
  readonly gateway?: string;
  readonly nexthops?: readonly DefaultRoute[];
}

/** Leaves out what the kernel fills in. */
function outline({ dev, gateway, nexthops }: DefaultRoute): unknown {
  return nexthops?.map(outline) ?? `${dev} ${gateway}`;
}

const peers = listPeers("default routes");

for (const type of ["ptp", "bridge"]) {
  rootTest(`the last network's default route is used: ${type}`, async () => {
    assertEquals(await defaultRoutes(type, ""), {
      found: "eth2",
      ipv4: ["eth2 10.2.0.1", "eth1 10.1.0.1"],
      ipv6: [["eth1 fd00:1::1", "eth2 fd00:2::1"]],
    });
  });

  for (const { name, directory } of peers) {
    const header = `default routes are the Go plugin's: ${type} (${name})`;
    rootTest(header, async () => {
      const ours = await defaultRoutes(type, "");
      assertEquals(ours, await defaultRoutes(type, directory));
    });
  }
}
