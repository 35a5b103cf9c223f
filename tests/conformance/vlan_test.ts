/**
 * vlan, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/main/vlan/vlan_test.go.
 */

import { assertEquals } from "@std/assert";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { linkNames } from "../../testing/ip_json.ts";
import { conformance } from "../_harness/conformance.ts";
import { writeFakeIpam } from "../_harness/fake_ipam.ts";
import { MasterScene, needsKind, VLAN } from "../_harness/on_master.ts";
import {
  linkIn,
  roundOnMaster,
  rowsOnMaster,
} from "../_harness/on_master_rows.ts";

const type = "vlan";

conformance("vlan", {
  ...rowsOnMaster(type),
  "each VLAN from 0 to 4094": async () => {
    for (const vlanId of [0, VLAN, 4094, undefined]) {
      await roundOnMaster({
        type,
        keys: { vlanId },
        assertAdded(_, scene): void {
          assertEquals(linkIn(scene).linkinfo.info_data.id, vlanId ?? 0);
        },
      });
    }
  },
  "other VLANs are refused": async () => {
    using scene = new MasterScene(type);
    for (const vlanId of [-1, 4095]) {
      const text = `invalid VLAN ID ${vlanId} (must be between 0 and 4094)`;
      await scene.fail("ADD", [7, text], { vlanId });
      await scene.succeed("DEL", { vlanId });
    }
  },
  "a master is required": async () => {
    using scene = new MasterScene(type, { master: undefined });
    await scene.fail("ADD", [7, '"master" field is required.']);
    await scene.succeed("DEL");
  },
  "an IPAM plugin may be missing": async () => {
    using scene = new MasterScene(type, { ipam: undefined });
    await scene.succeed("ADD");
    assertEquals(linkNames(scene.hosts.sandbox), ["lo", "eth0"]);
    await scene.succeed("DEL");
    assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
  },
  "the IPAM plugin's error keeps its code, and no link is left": async () => {
    using scene = new MasterScene(type, (hosts) => {
      const stdout = { code: 111, msg: "no address left" };
      const ADD = { stdout, exitCode: 1 };
      return { ipam: { type: writeFakeIpam(hosts.path, { ADD }).type } };
    });
    await scene.fail("ADD", [111, "no address left"]);
    assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
  },
  "CHECK compares VLAN and MTU": async () => {
    using scene = new MasterScene(type);
    const { json: prevResult } = await scene.succeed("ADD");
    const rows: readonly [object, string][] = [
      [{ vlanId: 6 }, 'Interface "eth0" has VLAN 5, not 6'],
      [{ mtu: 1400 }, 'Interface "eth0" has MTU 1500, not 1400'],
    ];
    for (const [keys, text] of rows) {
      await scene.fail("CHECK", [999, text], { ...keys, prevResult });
    }
  },
}, allOf(needsKind(type), needsRoot));
