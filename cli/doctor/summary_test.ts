import { assertEquals } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { ConfDirectory, createNode } from "./testing/node.ts";
import type { Directories } from "../node/network.ts";
import { summarize } from "./summary.ts";

/** Summarizes a node in one line. */
async function lineOf(
  label: string,
  directories: Partial<Directories>,
): Promise<string | undefined> {
  using node = createNode(directories);
  const lines = await summarize(node);
  return lines.find((line) => line.label === label)?.text;
}

Deno.test("summarize() does not count tools as plugins", async () => {
  using directory = new PluginDirectory();
  for (const name of ["ptp", "host-local", "cni", "cni-multus"]) {
    directory.addOwnExecutable(name);
  }
  directory.add("cnitool", "echo Usage: cnitool add NETWORK NETNS; exit 1");
  assertEquals(
    await lineOf("Plugins", { pluginDirs: [directory.path] }),
    `2 in ${directory.path}: 2 of this project`,
  );
});

Deno.test("summarize() states why it does not count addresses", async () => {
  using confs = new ConfDirectory();
  const write = (ipam: object): void =>
    confs.write(JSON.stringify({
      cniVersion: "1.1.0",
      name: "pods",
      plugins: [{ type: "ptp", ipam }],
    }));
  write({ type: "dhcp" });
  const line = (): Promise<string | undefined> =>
    lineOf("Addresses", { confDir: confs.path });
  assertEquals(
    await line(),
    'not counted: no network has "ipam" of type host-local',
  );
  write({ type: "host-local", subnet: "10.1.0.0" });
  assertEquals(await line(), "pods unknown: its configuration is invalid");
});

Deno.test("summarize() rounds many addresses to a power of two", async () => {
  using confs = new ConfDirectory();
  const dataDir = `${confs.path}/none`;
  const wide = { subnet: "10.0.0.0/8" };
  for (
    const [range, size] of [
      // Without network, gateway and broadcast, some fewer than 2^20.
      [{ subnet: "10.0.0.0/12" }, "2^20"],
      [{ ...wide, rangeStart: "10.16.0.0", rangeEnd: "10.31.255.255" }, "2^20"],
      [{ ...wide, rangeStart: "10.16.0.0", rangeEnd: "10.32.0.9" }, "2^20"],
      [{ subnet: "fd00::/64" }, "2^64"],
    ] as const
  ) {
    confs.write(JSON.stringify({
      cniVersion: "1.1.0",
      name: "pods",
      plugins: [{
        type: "ptp",
        ipam: { type: "host-local", dataDir, ...range },
      }],
    }));
    assertEquals(
      await lineOf("Addresses", { confDir: confs.path }),
      `pods 0 of ${size} (${range.subnet})`,
    );
  }
});
