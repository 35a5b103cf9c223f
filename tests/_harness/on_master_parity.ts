/**
 * macvlan, ipvlan and vlan  compared with the Go plugins: what each leaves for
 * the same configuration, and one checking and deleting what the other has
 * added.
 *
 * @module
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isAtLeast } from "../../cni/version.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { MasterScene, needsKind, type OnMasterType } from "./on_master.ts";
import {
  ASKED_MAC,
  callAs,
  listPeers,
  nameOf,
  normaliseResult,
  observeNetns,
  succeedAs,
  testLeavesTheSame,
  type Who,
} from "./parity.ts";
import type { Peer } from "./peers.ts";
import type { Keys } from "./plugin_scene.ts";

/** The values that are compared. */
export interface OnMasterParity {
  /** Keys of configurations, by name. */
  readonly rows: Readonly<Record<string, Keys>>;
  /** Those that only the newest Go plugin knows. */
  readonly newRows?: Readonly<Record<string, Keys>>;
  /** Configurations that are refused, with the text that both errors have. */
  readonly refusals: readonly (readonly [keys: Keys, text: string])[];
}

/** Registers the tests of a plugin. */
export function testParityOnMaster(
  type: OnMasterType,
  { rows, newRows = {}, refusals }: OnMasterParity,
): void {
  const needs = needsKind(type);
  for (const peer of listPeers(type)) {
    if (!needs.ignore) {
      const isNewest = isAtLeast(peer.cniVersion, "1.1.0");
      const all = { ...rows, ...isNewest ? newRows : {} };
      for (const [name, keys] of Object.entries(all)) {
        testLeavesTheSame(
          peer,
          [type, name],
          (who) => observe(who, type, keys),
        );
      }
    }
    rootTest(
      `${type} refuses what the Go plugin refuses (${peer.name})`,
      needs,
      async () => {
        using scene = new MasterScene(type);
        for (const [keys, text] of refusals) {
          for (const who of ["ours", peer] as const) {
            const { exitCode, json } = await call(who, scene, "ADD", keys);
            assertEquals(exitCode, 1);
            assertStringIncludes(json.msg, text, nameOf(who));
          }
        }
      },
    );
    for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
      rootTest(
        `${nameOf(other)} checks and deletes what ${
          nameOf(adder)
        } adds: ${type} (${peer.name})`,
        needs,
        () => cross(type, [adder, other], peer),
      );
    }
  }
}

async function call(
  who: Who,
  scene: MasterScene,
  command: string,
  keys: Keys,
): Promise<CallOutput> {
  const config = { ...scene.config, cniVersion: "1.0.0", ...keys };
  const type = `${scene.config["type"]}`;
  return await callAs(who, scene.hosts, { type, command, config });
}

/** Returns result and state after ADD. */
async function observe(
  who: Who,
  type: OnMasterType,
  keys: Keys,
): Promise<unknown> {
  using scene = new MasterScene(type, { cniVersion: "1.0.0", ...keys });
  const { hosts, config } = scene;
  const added = { type, command: "ADD", config };
  const env = { CNI_ARGS: `IgnoreUnknown=1;MAC=${ASKED_MAC}` };
  const options = type === "macvlan" ? { env } : {};
  const { stdout } = await succeedAs(who, hosts, added, options);
  const [{ linkinfo }] = ipJson(hosts.sandbox, "link", "show", "eth0");
  return {
    result: normaliseResult(stdout, hosts),
    sandbox: await observeNetns(hosts.sandbox),
    settings: linkinfo.info_data,
    host: await observeNetns(hosts.host),
  };
}

/** ADD by one side, CHECK and DEL by the other, and DEL by both again. */
async function cross(
  type: OnMasterType,
  [adder, other]: readonly [Who, Who],
  { cniVersion }: Peer,
): Promise<void> {
  using scene = new MasterScene(type, { cniVersion });
  const { hosts, config, state } = scene;
  const run = (who: Who, command: string, keys: Keys): Promise<CallOutput> =>
    succeedAs(who, hosts, { type, command, config: { ...config, ...keys } });
  const { json: prevResult } = await run(adder, "ADD", {});
  await run(other, "CHECK", { prevResult });
  await run(other, "DEL", { prevResult });
  assertEquals(scene.state, state);
  for (const who of [adder, other]) await run(who, "DEL", { prevResult });
}
