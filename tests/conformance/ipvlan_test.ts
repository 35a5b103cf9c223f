/**
 * ipvlan, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/main/ipvlan/ipvlan_test.go.
 */

import { assertEquals } from "@std/assert";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import { conformance } from "../_harness/conformance.ts";
import { MASTER, MasterScene, needsKind } from "../_harness/on_master.ts";
import {
  linkIn,
  roundOnMaster,
  rowsOnMaster,
  STATIC,
} from "../_harness/on_master_rows.ts";

const type = "ipvlan";

/** The result of a plugin before it in the chain. */
const PREV_RESULT = {
  cniVersion: "1.1.0",
  interfaces: [{ name: MASTER }],
  ips: [{ address: "10.1.2.77/24", gateway: "10.1.2.1", interface: 0 }],
  routes: [{ dst: "0.0.0.0/0" }],
};

conformance("ipvlan", {
  ...rowsOnMaster(type),
  "each mode": async () => {
    for (const mode of ["l2", "l3", "l3s", ""]) {
      await roundOnMaster({
        type,
        keys: { mode, ipam: STATIC },
        assertAdded(_, scene): void {
          assertEquals(linkIn(scene).linkinfo.info_data.mode, mode || "l2");
        },
      });
    }
    using scene = new MasterScene(type, { mode: "other" });
    await scene.fail("ADD", [7, 'unknown ipvlan mode: "other"']);
  },
  "in a chain it has the addresses of prevResult": async () => {
    using scene = new MasterScene(type, { ipam: undefined, master: undefined });
    const { sandbox } = scene.hosts;
    const { state } = scene;
    const { json } = await scene.succeed("ADD", { prevResult: PREV_RESULT });
    const [{ address: mac, addr_info }] = ipJson(
      sandbox,
      "address",
      "show",
      "eth0",
    );
    assertEquals(json.interfaces, [{
      name: "eth0",
      mac,
      sandbox: sandbox.path,
    }]);
    assertEquals(json.ips, PREV_RESULT.ips);
    assertEquals(addr_info[0].local, "10.1.2.77");
    const [route] = ipJson(sandbox, "route", "show", "default");
    assertEquals(route.gateway, "10.1.2.1");
    await scene.succeed("CHECK", { prevResult: json });
    await scene.succeed("DEL", { prevResult: json });
    assertEquals(scene.state, state);
  },
  "in a chain it needs one interface or a master": async () => {
    using scene = new MasterScene(type, { master: undefined });
    const text =
      "chained master failure. PrevResult lacks a single named interface";
    for (
      const interfaces of [[], [{ name: "a" }, { name: "b" }], [{ name: "" }]]
    ) {
      const prevResult = { ...PREV_RESULT, interfaces, ips: [] };
      await scene.fail("ADD", [7, text], { prevResult });
      await scene.succeed("DEL", { prevResult });
    }
    const prevResult = { ...PREV_RESULT, interfaces: [], ips: [] };
    await scene.succeed("ADD", { prevResult, master: MASTER });
  },
  "without ipam and prevResult ADD fails and leaves nothing": async () => {
    using scene = new MasterScene(type, { ipam: undefined });
    await scene.fail("ADD", [7, "no plugin name provided"]);
    assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
  },
  "DEL succeeds without the default route that ADD used": async () => {
    using scene = new MasterScene(type, { master: undefined });
    const { host, sandbox } = scene.hosts;
    runIn(host, "ip", "route", "add", "default", "dev", MASTER);
    await scene.succeed("ADD");
    runIn(host, "ip", "route", "del", "default");
    await scene.succeed("DEL");
    assertEquals([linkNames(sandbox), scene.hosts.leases()], [["lo"], []]);
  },
}, allOf(needsKind(type), needsRoot));
