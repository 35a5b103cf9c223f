/**
 * What the Go plugins' own tests have in common for macvlan, ipvlan and vlan.
 *
 * Source: containernetworking/plugins plugins/main/{macvlan,ipvlan,vlan}/*_test.go.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { canPing, ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import type { Row } from "./conformance.ts";
import {
  addMaster,
  MASTER,
  MasterScene,
  type OnMasterType,
} from "./on_master.ts";
import type { Keys } from "./plugin_scene.ts";

/** One attachment from STATUS to DEL. */
export interface OnMasterRound {
  readonly type: OnMasterType;
  /** The newest one if undefined. */
  readonly cniVersion?: string;
  /** Keys of the configuration. */
  readonly keys?: Keys;
  /** Changes the scene before anything else. */
  readonly prepare?: (scene: MasterScene) => void;
  readonly env?: Readonly<Record<string, string>>;
  readonly assertAdded?: (
    result: CallOutput["json"],
    scene: MasterScene,
  ) => void;
}

/** Runs STATUS, ADD, CHECK and DEL, as far as the version has them. */
export async function roundOnMaster(
  { type, cniVersion = "1.1.0", keys, prepare, env, assertAdded }:
    OnMasterRound,
): Promise<void> {
  using scene = new MasterScene(type, { cniVersion, ...keys });
  prepare?.(scene);
  const { state } = scene;
  const options = env === undefined ? {} : { env };
  if (isAtLeast(cniVersion, "1.1.0")) await scene.succeed("STATUS");
  const { json } = await scene.succeed("ADD", {}, options);
  assertAdded?.(json, scene);
  const prevResult = { prevResult: json };
  if (isAtLeast(cniVersion, "0.4.0")) {
    await scene.succeed("CHECK", prevResult, options);
  } else {
    const refusal = "config version does not allow CHECK";
    await scene.fail("CHECK", [1, refusal], prevResult);
  }
  await scene.succeed("DEL", prevResult, options);
  assertEquals(scene.state, state);
  await scene.succeed("DEL", prevResult, options);
}

/** Returns the container's link as iproute2 shows it. */
// deno-lint-ignore no-explicit-any -- as iproute2 prints it
export function linkIn({ hosts }: MasterScene): any {
  return ipJson(hosts.sandbox, "link", "show", "eth0")[0];
}

/** Asserts that result and link are as ADD with the default configuration leaves them. */
function assertAttached(
  type: OnMasterType,
  result: CallOutput["json"],
  scene: MasterScene,
): void {
  const { sandbox } = scene.hosts;
  const { address: mac, flags, linkinfo } = linkIn(scene);
  assertEquals([linkinfo.info_kind, flags.includes("UP")], [type, true]);
  assertEquals(linkNames(sandbox), ["lo", "eth0"]);
  for (const gateway of ["10.1.2.1", "2001:db8:1::1"]) {
    assert(canPing(sandbox, gateway), gateway);
  }
  if (result.interfaces === undefined) {
    const { ip4, ip6 } = result;
    assertEquals([ip4.ip, ip6.ip], ["10.1.2.2/24", "2001:db8:1::2/64"]);
    return;
  }
  const { interfaces, ips } = result;
  assertEquals(interfaces, [{ name: "eth0", mac, sandbox: sandbox.path }]);
  assertEquals(
    ips.map((ip: Keys) => [ip["address"], ip["gateway"], ip["interface"]]),
    [
      ["10.1.2.2/24", "10.1.2.1", 0],
      ["2001:db8:1::2/64", "2001:db8:1::1", 0],
    ],
  );
}

/** Moves the master to the sandbox: tests make another one there. */
export function moveMaster(type: OnMasterType, { hosts }: MasterScene): void {
  runIn(hosts.host, "ip", "link", "del", MASTER);
  addMaster(hosts, type, hosts.sandbox);
}

/** Routes everything by the master. */
export function routeByMaster(
  { hosts }: MasterScene,
  where: "host" | "sandbox",
): void {
  const script = `ip address add 192.0.2.1/24 dev ${MASTER}
    ip route add default via 192.0.2.9 dev ${MASTER}`;
  runIn(hosts[where], "sh", "-ec", script);
}

/** Returns the rows of one plugin. */
export function rowsOnMaster(type: OnMasterType): Record<string, Row> {
  const inContainer = { linkInContainer: true };
  return {
    ...Object.fromEntries(SPEC_VERSIONS.map((cniVersion): [string, Row] => [
      `ADD, CHECK and DEL, ${cniVersion}`,
      () =>
        roundOnMaster({
          type,
          cniVersion,
          assertAdded: (result, scene) => assertAttached(type, result, scene),
        }),
    ])),
    "the master is in the container": () =>
      roundOnMaster({
        type,
        keys: inContainer,
        prepare: (scene) => moveMaster(type, scene),
        assertAdded(_, scene): void {
          const { sandbox } = scene.hosts;
          const { link, linkinfo } = linkIn(scene);
          assertEquals([link, linkinfo.info_kind], [MASTER, type]);
          assert(canPing(sandbox, "10.1.2.1"));
        },
      }),
    ...type === "vlan" ? {} : {
      "without master the default route's link is used": () =>
        roundOnMaster({
          type,
          keys: { master: "" },
          prepare: (scene) => routeByMaster(scene, "host"),
          assertAdded: (result, scene) => assertAttached(type, result, scene),
        }),
      "without master the container's default route's link is used": () =>
        roundOnMaster({
          type,
          keys: { ...inContainer, master: "", ipam: STATIC },
          prepare(scene): void {
            moveMaster(type, scene);
            routeByMaster(scene, "sandbox");
          },
          assertAdded(_, scene): void {
            assertEquals(linkIn(scene).link, MASTER);
          },
        }),
      "without master and default route ADD fails, and DEL succeeds":
        async () => {
          using scene = new MasterScene(type, { master: undefined });
          await scene.fail("ADD", [7, "no default route interface found"]);
          await scene.succeed("DEL");
        },
    },
    "an MTU is set, and 0 is the master's": async () => {
      for (const [mtu, actual] of [[1400, 1400], [0, 1500]]) {
        await roundOnMaster({
          type,
          keys: { mtu },
          assertAdded: (_, scene) => assertEquals(linkIn(scene).mtu, actual),
        });
      }
    },
    "DEL without ADD succeeds": async () => {
      using scene = new MasterScene(type);
      await scene.succeed("DEL");
    },
    "dns replaces the IPAM plugin's": async () => {
      const dns = { nameservers: ["192.0.2.53"] };
      for (const keys of [{ dns }, { ipam: { ...STATIC, dns } }]) {
        await roundOnMaster({
          type,
          keys,
          assertAdded: (result) => assertEquals(result.dns, dns),
        });
      }
    },
  };
}

/** One address, and no route. */
export const STATIC = {
  type: "static",
  addresses: [{ address: "10.1.2.2/24" }],
};
