import { assertEquals } from "@std/assert";
import { encodeJson } from "../../base/json/json_bytes.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { parseWritten, unfoldChains } from "../node/chain_form.ts";
import type { ConfiguredNetwork } from "../node/node_reader.ts";
import { countPools } from "../node/pools.ts";

/** Configures a network in a file of its name. */
function configure(name: string, ...plugins: JsonObject[]): ConfiguredNetwork {
  const document = { cniVersion: "1.0.0", name, plugins };
  const { list } = parseWritten(encodeJson(document));
  const file = `${name}.conflist`;
  const inner = unfoldChains(list.plugins);
  return { name, path: `/net.d/${file}`, file, list, plugins: inner };
}

Deno.test("countPools() counts the pools in delegates of multus, each once", async () => {
  const dataDir = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const ipam = (subnet: string): JsonObject => (
      { type: "host-local", subnet, dataDir }
    );
    const pods = { type: "ptp", ipam: ipam("10.1.0.0/29") };
    const cniVersion = "1.0.0";
    const delegates = [
      { cniVersion, name: "pods", plugins: [pods] },
      {
        cniVersion,
        name: "storage",
        type: "bridge",
        ipam: ipam("10.2.0.0/30"),
      },
      { cniVersion, name: "static", type: "bridge", ipam: { type: "static" } },
      { name: "malformed" },
    ];
    const multus = { type: "multus", delegates };
    await Deno.mkdir(`${dataDir}/storage`);
    await Deno.writeTextFile(`${dataDir}/storage/10.2.0.2`, "c1\r\neth0");
    const networks = [
      configure("pods", pods),
      configure("multus", multus),
      configure("again", multus),
    ];
    const counts = countPools({ networks })
      .map(({ network, path, used, all }) => [network, path, used, all]);
    assertEquals(counts, [
      ["pods", "/net.d/pods.conflist", 0n, 5n],
      ["storage", "/net.d/multus.conflist", 1n, 1n],
    ]);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
});
