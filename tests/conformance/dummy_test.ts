/**
 * dummy, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/main/dummy/dummy_test.go.
 */

import { assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { needsOwnLink, ownLinkScene } from "../_harness/own_link_cases.ts";

const EACH = (cniVersion: string): Row => async () => {
  using scene = ownLinkScene("dummy", { cniVersion });
  const { host, sandbox } = scene.hosts;
  // A link of that name on the host makes no difference.
  runIn(host, "ip", ..."link add eth0 type dummy".split(" "));
  const before = scene.state;
  const { json: prevResult } = await scene.succeed("ADD");
  const [link] = ipJson(sandbox, "address", "show", "eth0");
  assertEquals(link.linkinfo.info_kind, "dummy");
  assertEquals(link.flags.includes("UP"), true);
  assertEquals(
    link.addr_info.filter(({ scope }: { scope: string }) => scope === "global")
      .map(({ local }: { local: string }) => local),
    ["10.1.2.2", "2001:db8:1::2"],
  );
  if (isAtLeast(cniVersion, "0.3.0")) {
    const { address: mac } = link;
    const expected = [{ name: "eth0", mac, sandbox: sandbox.path }];
    assertEquals(prevResult.interfaces, expected);
  }
  if (isAtLeast(cniVersion, "0.4.0")) {
    await scene.succeed("CHECK", { prevResult });
  }
  await scene.succeed("DEL", { prevResult });
  assertEquals(scene.state, before);
};

const rows = SPEC_VERSIONS.map((cniVersion) =>
  [`DU-1 ADD, CHECK and DEL, ${cniVersion}`, EACH(cniVersion)] as const
);

const ONCE: Readonly<Record<string, Row>> = {
  "DU-2 a configuration without IPAM is refused": async () => {
    using scene = ownLinkScene("dummy", { ipam: undefined });
    const text = "dummy interface requires an IPAM configuration";
    await scene.fail("ADD", [7, text]);
    await scene.fail("CHECK", [7, text]);
    assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
    await scene.succeed("DEL");
  },

  "DU-3 DEL without an interface, a namespace, or the path": async () => {
    using scene = ownLinkScene("dummy");
    for (const env of [{}, { CNI_NETNS: "" }, { CNI_NETNS: "/run/netns/x" }]) {
      await scene.succeed("DEL", {}, { env });
    }
  },
};

conformance("dummy", Object.fromEntries(rows), needsOwnLink("dummy"));
conformance("dummy", ONCE, needsOwnLink("dummy"));
