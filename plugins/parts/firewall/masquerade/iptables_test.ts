import { assertEquals, assertRejects } from "@std/assert";
import { NetNs } from "../../../../ffi/netns.ts";
import { rootTest } from "../../../../testing/capabilities.ts";
import { TestHosts } from "../../../../testing/test_hosts.ts";
import { delIptablesMasquerade } from "./iptables.ts";
import { namesOf } from "./names.ts";
import { eachRow } from "../../../../tests/_harness/table.ts";

/** A program that exits with the codes in a file, one line for each run. */
const SCRIPT = `#!/bin/sh
codes="$(dirname "$0")/codes"
read -r code < "$codes"
sed -i 1d "$codes"
[ "$code" = 0 ] || echo "it ended with $code" >&2
exit "$code"
`;

rootTest("delIptablesMasquerade() fails if the chain remains", async (t) => {
  // Sources: iptables include/xtables.h `OTHER_PROBLEM`, `RESOURCE_PROBLEM`:
  // missing chain; another program has the lock.
  const rows: [name: string, codes: number[], error: string | undefined][] = [
    ["no chain", [1], undefined],
    ["removed", [0, 0, 0], undefined],
    ["another tear-down was faster", [0, 0, 1, 1], undefined],
    ["locked from the start", [4], "it ended with 4"],
    ["locked for the second list", [0, 4], "it ended with 4"],
    ["refused", [0, 0, 1, 0], "it ended with 1"],
    ["locked, still when it is looked again", [0, 0, 4, 4], "it ended with 4"],
  ];
  const owner = { network: "net1", containerId: "c1", ifName: "eth0" };
  await eachRow(t, rows, async ([, codes, error]) => {
    using hosts = TestHosts.create();
    using netns = NetNs.open(hosts.host.path);
    const path = `${hosts.directory}/iptables`;
    for (const program of [path, `${path}-restore`]) {
      await Deno.writeTextFile(program, SCRIPT, { mode: 0o755 });
    }
    const file = `${hosts.directory}/codes`;
    await Deno.writeTextFile(file, `${codes.join("\n")}\n`);
    const iptables = { netns, family: 4, table: "nat", path } as const;
    const names = await namesOf(owner);
    const del = (): Promise<void> =>
      delIptablesMasquerade(iptables, names, () => true);
    if (error === undefined) await del();
    else await assertRejects(del, Error, error);
    assertEquals(await Deno.readTextFile(file), "");
  });
});
