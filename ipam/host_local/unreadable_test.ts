import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { canUseNetns, ignoreUnless } from "../../testing/capabilities.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { Disk, type Output, ownProgram, runAs } from "./testing.ts";

const needsMount = ignoreUnless(canUseNetns, "needs root");

/** What stands for a lease, and the shell commands that put it at $1. */
const UNREADABLE: [what: string, make: string][] = [
  // No process may read the first page of memory: EIO, or EACCES.
  ["a file on a damaged disk", 'touch "$1" && mount --bind /proc/1/mem "$1"'],
  ["a directory", 'mkdir "$1" && touch "$1/file"'],
  ["a pipe", 'mkfifo "$1"'],
];

const config = (more: JsonObject = {}): JsonObject => ({
  cniVersion: "1.1.0",
  name: "net",
  type: "ptp",
  ipam: { type: "host-local", dataDir: "/mnt", subnet: "10.1.2.0/29" },
  ...more,
});

Deno.test({
  name:
    `host-local: an unreadable lease does not affect other attachments${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async (t) => {
    const program = await ownProgram();
    await eachRow(t, UNREADABLE, async ([what, make]) => {
      await using disk = await Disk.mount(
        "64k",
        `mkdir net && put() { ${make}; } && put net/10.1.2.3`,
      );
      const run = runAs(disk.enter(program));
      const call = async (
        command: string,
        containerId: string,
        more?: JsonObject,
      ): Promise<Output> => {
        const env = { CNI_CONTAINERID: containerId };
        const output = await run(command, config(more), env);
        const where = `${what}: ${command} of ${containerId}`;
        assertEquals(output.exitCode, 0, `${where}: ${output.stdout}`);
        if (command !== "STATUS") {
          assertStringIncludes(output.stderr, "/mnt/net/10.1.2.3", where);
        }
        return output;
      };
      const results: Record<string, Output["json"]> = {};
      for (const id of ["a", "b"]) results[id] = (await call("ADD", id)).json;
      const addresses = Object.values(results).map(({ ips }) => ips[0].address);
      assertEquals(addresses, ["10.1.2.2/29", "10.1.2.4/29"]);
      await call("CHECK", "a", { prevResult: results["a"] });
      await call("STATUS", "a");
      await call("DEL", "a");
      // The attachment of the lease may be any.
      await call("DEL", "unknown");
      const { length } = leasesIn(disk);
      assertEquals(length, 2);
      await call("GC", "", { "cni.dev/valid-attachments": [] });
      assertEquals(leasesIn(disk), ["10.1.2.3"]);
      // The other addresses are leased, and then no more.
      const ids = ["c", "d", "e", "f"];
      for (const id of ids) await call("ADD", id);
      const full = await run("ADD", config(), { CNI_CONTAINERID: "g" });
      assert(full.exitCode !== 0);
      assertStringIncludes(full.json.msg, "no IP addresses available");
    });
  },
});

/**
 * Mounts a disk that damaged two leases of a network.
 *
 * @param more A command that puts more on it
 */
function mountDamaged(more = ":"): Promise<Disk> {
  const [[, make] = ["", ""]] = UNREADABLE;
  return Disk.mount(
    "64k",
    `mkdir net && put() { ${make}; } && put net/10.1.2.3 && put net/10.1.2.4 && ${more}`,
  );
}

Deno.test({
  name:
    `host-local: DEL fails if no file of the directory can be read${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async () => {
    await using disk = await mountDamaged();
    const run = runAs(disk.enter(await ownProgram()));
    const { exitCode, json } = await run("DEL", config(), {
      CNI_CONTAINERID: "a",
    });
    assertEquals([exitCode, json?.code], [1, 5]);
  },
});

Deno.test({
  name:
    `host-local: DEL succeeds next to unreadable leases if another file is readable${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async () => {
    await using disk = await mountDamaged(
      "echo 10.1.2.3 > net/last_reserved_ip.0",
    );
    const run = runAs(disk.enter(await ownProgram()));
    for (const command of ["DEL", "ADD", "DEL", "DEL"]) {
      const { exitCode, stdout } = await run(command, config(), {
        CNI_CONTAINERID: "a",
      });
      assertEquals(exitCode, 0, stdout);
    }
    assertEquals(leasesIn(disk), ["10.1.2.3", "10.1.2.4"]);
  },
});

function leasesIn({ dataDir }: Disk): string[] {
  return [...Deno.readDirSync(`${dataDir}/net`)].map(({ name }) => name)
    .filter((name) => /^\d/.test(name)).sort();
}
