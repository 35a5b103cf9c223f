/**
 * macvlan, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/main/macvlan/macvlan_test.go.
 */

import { assert, assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { canPing, linkNames, runIn } from "../../testing/ip_json.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { MasterScene, needsKind } from "../_harness/on_master.ts";
import {
  linkIn,
  moveMaster,
  type OnMasterRound,
  roundOnMaster,
  routeByMaster,
  rowsOnMaster,
} from "../_harness/on_master_rows.ts";

const type = "macvlan";

/** No IPAM plugin. */
const LAYER2 = { ipam: undefined };

function round(rest: Omit<OnMasterRound, "type">): Row {
  return () => roundOnMaster({ type, ...rest });
}

/** Attaches with MACs in some places, and asserts which one counts. */
function withMac(
  mac: string,
  rest: Pick<OnMasterRound, "keys" | "env">,
): Row {
  return round({
    ...rest,
    assertAdded(result, scene): void {
      assertEquals(linkIn(scene).address, mac);
      assertEquals(result.interfaces[0].mac, mac);
    },
  });
}

const CONFIG = "c2:11:22:33:44:01", ARGS = "c2:11:22:33:44:02";
const RUNTIME = "c2:11:22:33:44:03";
const runtimeConfig = { mac: RUNTIME };
const env = { CNI_ARGS: `IgnoreUnknown=true;MAC=${ARGS}` };

const LAYER2_ROWS = Object.fromEntries(
  SPEC_VERSIONS.map((cniVersion): [string, Row] => [
    `without ipam, ${cniVersion}`,
    isAtLeast(cniVersion, "0.3.0")
      ? round({
        cniVersion,
        keys: LAYER2,
        assertAdded(result, scene): void {
          assertEquals([result.interfaces.length, result.ips], [1, undefined]);
          const { flags, address } = linkIn(scene);
          assert(flags.includes("UP"));
          assertEquals(result.interfaces[0].mac, address);
        },
      })
      : async (): Promise<void> => {
        using scene = new MasterScene(type, { ...LAYER2, cniVersion });
        const { exitCode, json } = await scene.run("ADD");
        assertEquals(exitCode, 1);
        assertEquals(json.msg, "cannot convert: no valid IP addresses");
        await scene.succeed("DEL");
        assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
      },
  ]),
);

conformance("macvlan", {
  ...rowsOnMaster(type),
  ...LAYER2_ROWS,
  "without ipam, on a master in the container": round({
    keys: { ...LAYER2, linkInContainer: true, master: "" },
    prepare(scene): void {
      moveMaster(type, scene);
      routeByMaster(scene, "sandbox");
    },
  }),
  "on a macvlan, it is on that one's master": async () => {
    using scene = new MasterScene(type);
    const { hosts } = scene;
    await scene.succeed("ADD");
    const keys = { master: "eth0", linkInContainer: true };
    const options = { ifName: "net1" };
    const { json } = await scene.succeed("ADD", keys, options);
    const prevResult = { ...keys, prevResult: json };
    await scene.succeed("CHECK", prevResult, options);
    await scene.succeed("DEL", prevResult, options);
    assertEquals(linkNames(hosts.sandbox), ["lo", "eth0"]);
  },
  "each mode": async () => {
    for (const mode of ["bridge", "private", "vepa", "passthru", ""]) {
      await roundOnMaster({
        type,
        keys: { mode },
        assertAdded(_, scene): void {
          assertEquals(linkIn(scene).linkinfo.info_data.mode, mode || "bridge");
        },
      });
    }
    using scene = new MasterScene(type, { mode: "other" });
    await scene.fail("ADD", [7, 'unknown macvlan mode: "other"']);
  },
  "bcqueuelen": round({
    keys: { bcqueuelen: 200 },
    assertAdded(_, scene): void {
      assertEquals(linkIn(scene).linkinfo.info_data.bcqueuelen, 200);
    },
  }),
  "the configuration's MAC": withMac(CONFIG, { keys: { mac: CONFIG } }),
  "the MAC of CNI_ARGS": withMac(ARGS, { keys: { mac: CONFIG }, env }),
  "the runtime's MAC": withMac(RUNTIME, {
    keys: { mac: CONFIG, runtimeConfig },
    env,
  }),
  "a MAC in upper case, of RuntimeConfig in upper case": withMac(RUNTIME, {
    keys: { RuntimeConfig: { Mac: RUNTIME.toUpperCase() } },
  }),
  "in a chain with tuning and sbr": async () => {
    using scene = new MasterScene(type);
    const { hosts, state } = scene;
    const { cniVersion, name, ...macvlan } = scene.config;
    const dataDir = `${hosts.directory}/tuning`;
    const tuning = { type: "tuning", mac: CONFIG, mtu: 1300, dataDir };
    const plugins = [macvlan, tuning, { type: "sbr" }];
    const run = async (command: string, prevResult?: unknown) => {
      const config = { cniVersion, name, plugins, prevResult };
      const output = await hosts.run("chain", command, config);
      assertEquals(output.exitCode, 0, output.stdout);
      return output;
    };
    const { json } = await run("ADD");
    assertEquals([linkIn(scene).address, linkIn(scene).mtu], [CONFIG, 1300]);
    const ping = ["-c1", "-i0.2", "-w2", "-I", "10.1.2.2", "10.1.2.1"];
    runIn(hosts.sandbox, "ping", ...ping);
    await run("CHECK", json);
    await run("DEL", json);
    assertEquals(scene.state, state);
  },
  "two containers reach each other": async () => {
    using scene = new MasterScene(type);
    const { hosts } = scene;
    const sandbox = hosts.addNetns();
    await scene.succeed("ADD");
    await scene.succeed("ADD", {}, { sandbox, containerId: "other" });
    assert(canPing(sandbox, "10.1.2.2"));
    assert(canPing(hosts.sandbox, "2001:db8:1::3"));
  },
}, allOf(needsKind(type), needsRoot));
