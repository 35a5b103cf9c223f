/**
 * tap, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/main/tap/tap_test.go.
 */

import { assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { needsOwnLink, ownLinkScene } from "../_harness/own_link_cases.ts";
import type { Keys, PluginScene } from "../_harness/plugin_scene.ts";

/** The keys of the Go plugin's tests. */
const KEYS: Keys = {
  mac: "c2:11:22:33:44:55",
  mtu: 5000,
  multiQueue: true,
  owner: 0,
  group: 0,
};

async function addCheckDel(scene: PluginScene): Promise<unknown> {
  const { cniVersion } = scene.config as { cniVersion: string };
  const { sandbox } = scene.hosts;
  const before = [linkNames(sandbox), scene.hosts.leases()];
  const { json: prevResult } = await scene.succeed("ADD");
  const [link] = ipJson(sandbox, "address", "show", "eth0");
  assertEquals([link.address, link.mtu], [KEYS["mac"], KEYS["mtu"]]);
  const { type, persist, multi_queue } = link.linkinfo.info_data;
  assertEquals([type, persist, multi_queue], ["tap", true, true]);
  if (isAtLeast(cniVersion, "0.3.0")) {
    const expected = [{
      name: "eth0",
      mac: KEYS["mac"],
      sandbox: sandbox.path,
    }];
    assertEquals(prevResult.interfaces, expected);
  }
  if (isAtLeast(cniVersion, "0.4.0")) {
    await scene.succeed("CHECK", { prevResult });
  }
  await scene.succeed("DEL", { prevResult });
  assertEquals([linkNames(sandbox), scene.hosts.leases()], before);
  return link.master;
}

const EACH: readonly (readonly [string, Row])[] = SPEC_VERSIONS.map(
  (cniVersion) => [`TA-1 ADD, CHECK and DEL, ${cniVersion}`, async () => {
    using scene = ownLinkScene("tap", { ...KEYS, cniVersion });
    await addCheckDel(scene);
  }],
);

const ONCE: Readonly<Record<string, Row>> = {
  "TA-2 a port of a bridge in the container": async () => {
    using scene = ownLinkScene("tap", { ...KEYS, bridge: "br0" });
    runIn(scene.hosts.sandbox, "ip", "link", "add", "br0", "type", "bridge");
    assertEquals(await addCheckDel(scene), "br0");
  },

  "TA-3 a link of that name on the host makes no difference": async () => {
    using scene = ownLinkScene("tap", KEYS);
    const add = "tuntap add mode tap name eth0";
    runIn(scene.hosts.host, "ip", ...add.split(" "));
    await addCheckDel(scene);
  },

  "TA-4 no IPAM": async () => {
    using scene = ownLinkScene("tap", { ...KEYS, ipam: undefined });
    await addCheckDel(scene);
  },
};

conformance("tap", Object.fromEntries(EACH), needsOwnLink("tap"));
conformance("tap", ONCE, needsOwnLink("tap"));
