/** REPAIR of sbr, alone and twice in a list, after other programs have removed rules and tables. */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { ETH0, NET1 } from "../../tests/_harness/two_networks.ts";
import { IP4, SbrScene } from "./testing.ts";

/** Lists of sbr plugins, behind one whose result has a route in table 100. */
const LISTS: readonly [name: string, plugins: Keys[]][] = [
  ["alone", [{}]],
  ["twice", [{}, {}]],
  ["twice, the first with table 100", [{ table: 100 }, {}]],
  ["twice, the last with table 100", [{}, { table: 100 }]],
  ["twice, both with table 100", [{ table: 100 }, { table: 100 }]],
];

const ROUTES = [
  { dst: "192.168.2.0/24", gw: "192.168.1.2" },
  { dst: "192.168.9.0/24", gw: "192.168.1.9", table: 100 },
];

/** What the plugin that created the interface makes again before REPAIR of sbr. */
const OF_INTERFACE = [
  "route replace 192.168.1.0/24 dev net1 scope link src 192.168.1.209",
  "route replace 192.168.2.0/24 via 192.168.1.2",
  "route replace 192.168.9.0/24 via 192.168.1.9 dev net1 onlink table 100",
];

/** The kernel's route to the subnet comes back as one of the plugin's. */
function stateOf({ state }: SbrScene): string[] {
  return state.map((line) => line.replace(/ proto kernel| onlink/, "")).sort();
}

/** Removes all rules that lead from the address to tables, or those tables. */
function lose(scene: SbrScene, what: string): void {
  const rules = scene.networks.rules().map((line) => line.split(": ")[1] ?? "");
  if (what.includes("rules")) {
    scene.ip(...rules.map((rule) => `rule del ${rule}`));
  }
  if (!what.includes("tables")) return;
  const tables = new Set([
    "100",
    ...rules.map((rule) => rule.split(" ").at(-1)),
  ]);
  scene.ip(...[...tables].map((table) => `route flush table ${table}`));
  scene.ip(...OF_INTERFACE);
}

for (const what of ["rules", "tables", "rules and tables"]) {
  rootTest(`sbr.repair() restores ${what}`, async (t) => {
    await eachRow(t, LISTS, async ([, plugins]) => {
      const lines = [...ETH0, ...NET1, OF_INTERFACE[2] ?? ""];
      using scene = new SbrScene(lines, { ips: [IP4], routes: ROUTES });
      for (const keys of plugins) await scene.succeed("ADD", keys);
      for (const keys of plugins) await scene.succeed("CHECK", keys);
      const added = stateOf(scene);
      lose(scene, what);
      for (const keys of plugins) {
        const all = { ...scene.keys, ...keys };
        const env = { CNI_REPAIR_SANDBOX: "1" };
        const ended = await scene.networks.run("sbr", "REPAIR", all, env);
        assertSuccess(ended);
        assertEquals(JSON.parse(ended.stdout).remaining, []);
      }
      assertEquals(stateOf(scene), added);
      for (const keys of plugins) await scene.succeed("CHECK", keys);
      for (const keys of plugins.toReversed()) await scene.succeed("DEL", keys);
      assertEquals([scene.networks.rules(), scene.table("101")], [[], []]);
    });
  });
}
