/**
 * flannel, as the Go plugin's own tests have it, at each version, and what
 * flanneld's users rely on.
 *
 * Source: flannel-io/cni-plugin flannel_linux_test.go, README.md.
 */

import { assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { ipJson, linkNames } from "../../testing/ip_json.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { FlannelScene, SUBNET_ENV } from "../../plugins/flannel/testing.ts";
import type { Keys } from "../_harness/plugin_scene.ts";
import { RecordingPlugins } from "../_harness/recording_plugins.ts";
import { expand } from "./rows.ts";

/** Builds a row: what a delegate gets from ADD, without what is in temporary directories. */
function passesOn(
  keys: Keys,
  env: readonly string[],
  expected: Keys,
): Row {
  return async () => {
    using scene = new FlannelScene({ ipam: undefined, ...keys }, env);
    using plugins = new RecordingPlugins();
    plugins.add("bridge");
    plugins.add("ipvlan");
    const path = { env: { CNI_PATH: plugins.directory.path } };
    await scene.succeed("ADD", {}, path);
    const [{ stdin = undefined, type = "" } = {}] = plugins.calls;
    const common = { cniVersion: "1.1.0", name: "net1" };
    assertEquals(stdin, { ...common, ...expected });
    assertEquals(type, expected["type"]);
    // The same on disk, for DEL.
    const { flannelIfName, ...saved } = JSON.parse(
      scene.saved["test-container"] ?? "",
    );
    assertEquals([saved, flannelIfName], [stdin, "eth0"]);
  };
}

/** The configuration of bridge, if the network has no other keys. */
const OF_IPV4 = {
  type: "bridge",
  isGateway: true,
  ipMasq: false,
  mtu: 1450,
  ipam: {
    type: "host-local",
    ranges: [[{ subnet: "10.244.1.0/24" }]],
    routes: [{ dst: "10.244.0.0/16" }],
  },
};

conformance("flannel", {
  ...expand(SPEC_VERSIONS, (cniVersion) => [
    `FL-1 ADD, CHECK and DEL by bridge, ${cniVersion}`,
    async (): Promise<void> => {
      using scene = new FlannelScene({ cniVersion });
      if (isAtLeast(cniVersion, "1.1.0")) await scene.succeed("STATUS");
      const { json: prevResult } = await scene.succeed("ADD");
      const { host, sandbox } = scene.hosts;
      const [link] = ipJson(sandbox, "address", "show", "dev", "eth0");
      assertEquals([link.mtu, link.addr_info[0].local], [1450, "10.244.1.2"]);
      const [route] = ipJson(sandbox, "route", "show", "10.244.0.0/16");
      assertEquals(route.gateway, "10.244.1.1");
      assertEquals(linkNames(host).includes("cni0"), true);
      if (isAtLeast(cniVersion, "0.4.0")) {
        await scene.succeed("CHECK", { prevResult });
      }
      await scene.succeed("DEL", { prevResult });
      assertEquals(linkNames(sandbox), ["lo"]);
      assertEquals(scene.hosts.leases(), []);
      assertEquals(scene.saved, {});
      await scene.succeed("DEL", { prevResult });
    },
  ]),
  "FL-2 IPv4: bridge is the gateway, with MTU, masquerade and subnet of the node":
    passesOn({}, SUBNET_ENV.ipv4, OF_IPV4),
  "FL-3 IPv6": passesOn({}, SUBNET_ENV.ipv6, {
    ...OF_IPV4,
    ipMasq: true,
    mtu: 1430,
    ipam: {
      type: "host-local",
      ranges: [[{ subnet: "fd00:10:244:1::/64" }]],
      routes: [{ dst: "fd00:10:244::/56" }],
    },
  }),
  "FL-4 both families and several networks, each once": passesOn(
    {},
    SUBNET_ENV.dual,
    {
      ...OF_IPV4,
      mtu: 1430,
      ipam: {
        type: "host-local",
        ranges: [
          [{ subnet: "10.244.1.0/24" }],
          [{ subnet: "fd00:10:244:1::/64" }],
        ],
        routes: [
          { dst: "10.244.0.0/16" },
          { dst: "10.245.0.0/16" },
          { dst: "fd00:10:244::/56" },
        ],
      },
    },
  ),
  "FL-5 keys of the delegate win, and are passed on": passesOn(
    {
      delegate: {
        mtu: 1400,
        ipMasq: true,
        isGateway: false,
        hairpinMode: true,
        forceAddress: null,
      },
    },
    SUBNET_ENV.ipv4,
    {
      ...OF_IPV4,
      mtu: 1400,
      ipMasq: true,
      isGateway: false,
      hairpinMode: true,
      forceAddress: null,
    },
  ),
  "FL-6 another delegate does not become the gateway": passesOn(
    { Delegate: { type: "ipvlan", master: "eth0" } },
    SUBNET_ENV.ipv4,
    {
      type: "ipvlan",
      master: "eth0",
      ipMasq: false,
      mtu: 1450,
      ipam: OF_IPV4.ipam,
    },
  ),
  "FL-7 the ipam of the network is kept, its ranges are replaced, its routes come first":
    passesOn(
      {
        ipam: {
          type: "my-ipam",
          dataDir: "/x",
          subnet: "1.2.3.0/24",
          ranges: [[{ subnet: "1.2.3.0/24" }]],
          routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.9", priority: 3 }],
        },
      },
      SUBNET_ENV.ipv4,
      {
        ...OF_IPV4,
        ipam: {
          type: "my-ipam",
          dataDir: "/x",
          subnet: "1.2.3.0/24",
          ranges: [[{ subnet: "10.244.1.0/24" }]],
          routes: [
            { dst: "0.0.0.0/0", gw: "10.244.1.9", priority: 3 },
            { dst: "10.244.0.0/16" },
          ],
        },
      },
    ),
  "FL-8 the runtime's values replace the delegate's": passesOn(
    {
      runtimeConfig: { mac: "c2:11:22:33:44:55" },
      delegate: { runtimeConfig: { ips: ["10.244.1.7"] } },
    },
    SUBNET_ENV.ipv4,
    { ...OF_IPV4, runtimeConfig: { mac: "c2:11:22:33:44:55" } },
  ),
  ...expand([
    [{ type: 7 }, "must have (string) 'type' field"],
    [{ name: "x" }, "must not have 'name' field, it'll be set by flannel"],
    [{ ipam: {} }, "must not have 'ipam' field, it'll be set by flannel"],
  ], ([delegate, text]) => [
    `FL-9 a delegate with ${JSON.stringify(delegate)} is refused`,
    async (): Promise<void> => {
      using scene = new FlannelScene({ delegate });
      await scene.fail("ADD", [7, text]);
      assertEquals(scene.saved, {});
      // But DEL still works.
      assertEquals((await scene.run("DEL")).exitCode, 0);
    },
  ]),
  "FL-10 ADD fails until flanneld has written its file, and STATUS says so":
    async () => {
      using scene = new FlannelScene();
      const path = `${scene.config["subnetFile"]}`;
      await Deno.remove(path);
      const text = `failed to load flannel 'subnet.env' file: open ${path}: ` +
        "no such file or directory. Check the flannel pod log for this node";
      await scene.fail("ADD", [11, text]);
      await scene.fail("STATUS", [50, text]);
      await scene.succeed("DEL");
    },
  ...expand([
    ["FLANNEL_MTU", "is missing FLANNEL_MTU."],
    ["FLANNEL_IPMASQ", "is missing FLANNEL_IPMASQ."],
    ["FLANNEL_SUBNET", "is missing FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET."],
    ["FLANNEL_NETWORK", "is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK."],
  ], ([key, text]) => [
    `FL-11 a file without ${key} is refused`,
    async (): Promise<void> => {
      using scene = new FlannelScene(
        {},
        SUBNET_ENV.ipv4.filter((line) => !line.startsWith(key)),
      );
      await scene.fail("ADD", [7, text]);
      await scene.fail("STATUS", [50, text]);
    },
  ]),
  "FL-12 DEL works from the saved configuration when subnet.env and the network have changed":
    async () => {
      using scene = new FlannelScene();
      await scene.succeed("ADD");
      await Deno.remove(`${scene.config["subnetFile"]}`);
      await scene.succeed("DEL", { delegate: { type: "ipvlan" }, ipam: {} });
      assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
      assertEquals(scene.hosts.leases(), []);
    },
  "FL-13 the saved configuration stays until the delegate's DEL is done":
    async () => {
      using scene = new FlannelScene();
      using plugins = new RecordingPlugins();
      plugins.add("bridge", { DEL: "exit 1" });
      const path = { env: { CNI_PATH: plugins.directory.path } };
      await scene.succeed("ADD", {}, path);
      const before = scene.saved;
      assertEquals((await scene.run("DEL", {}, path)).exitCode, 1);
      assertEquals(scene.saved, before);
      plugins.add("bridge");
      await scene.succeed("DEL", {}, path);
      assertEquals(scene.saved, {});
      assertEquals(plugins.story, ["bridge ADD", "bridge DEL", "bridge DEL"]);
    },
}, allOf(needsRoot));
