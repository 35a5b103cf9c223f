/**
 * tuning, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/meta/tuning/tuning_test.go.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { dispatch } from "../../cni/skel.ts";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { tuning } from "../../plugins/tuning/plugin.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { assertFailure, assertSuccess } from "../_harness/call_outcome.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { BIN, needsBin } from "../_harness/executables.ts";
import type { Keys } from "../_harness/plugin_scene.ts";
import {
  ALL_SETTINGS,
  NEW_MAC,
  OLD_MAC,
  type ShownLink,
  SYSCTL,
  TunedLink,
  withAllowlist,
} from "../../plugins/tuning/testing.ts";

const BACKUP = "test-container_eth0.json";

/** Builds a row: ADD changes the interface, CHECK agrees, DEL restores it. */
function changes(keys: Keys, changed: Partial<ShownLink>, args = ""): Row {
  return async () => {
    using scene = new TunedLink(keys);
    const { link: before } = scene;
    const options = { env: { CNI_ARGS: args } };
    const { json } = await scene.succeed("ADD", {}, options);
    assertEquals(scene.link, { ...before, ...changed });
    const old = Object.fromEntries(
      Object.keys(changed).map((key) => [key, before[key as keyof ShownLink]]),
    );
    assertEquals(scene.backups, { [BACKUP]: { ...old, network: "net1" } });
    const { prevResult } = scene;
    const [host, own] = prevResult["interfaces"] as Keys[];
    const mac = changed.mac ?? OLD_MAC;
    assertEquals(json, { ...prevResult, interfaces: [host, { ...own, mac }] });

    const withResult = { prevResult: json };
    await scene.succeed("CHECK", withResult, options);
    await scene.succeed("DEL", withResult, options);
    assertEquals([scene.link, scene.backups], [before, {}]);
  };
}

const ROWS: Readonly<Record<string, Row>> = {
  "TU-1 a sysctl is set, without a backup": async () => {
    using scene = new TunedLink({ sysctl: { [SYSCTL]: "1" } });
    const { json } = await scene.succeed("ADD");
    assertEquals(json, scene.prevResult);
    assertEquals([scene.sysctl(), scene.backups], ["1", {}]);
    await scene.succeed("CHECK");
    await scene.succeed("DEL");
  },
};

const SETTINGS: Readonly<Record<string, [Keys, Partial<ShownLink>]>> = {
  "TU-2 TU-3 promiscuous mode": [{ promisc: true }, { promisc: true }],
  "TU-4 TU-5 MTU": [{ mtu: 1454 }, { mtu: 1454 }],
  "TU-6 TU-7 transmit queue length": [{ txQLen: 20_000 }, { txQLen: 20_000 }],
  "TU-8 TU-9 MAC": [{ mac: NEW_MAC }, { mac: NEW_MAC }],
  "TU-12 TU-13 all-multicast mode": [{ allmulti: true }, { allmulti: true }],
};

for (const [name, [keys, changed]] of Object.entries(SETTINGS)) {
  conformance("tuning", {
    [`${name} by the configuration`]: changes(keys, changed),
    [`${name} by args.cni`]: changes({ args: { cni: keys } }, changed),
  }, needsRoot);
}

conformance("tuning", {
  ...ROWS,

  "TU-10 a MAC by CNI_ARGS": changes(
    {},
    { mac: NEW_MAC },
    `IgnoreUnknown=1;MAC=${NEW_MAC}`,
  ),

  "TU-11 a MAC by runtimeConfig": changes(
    { RuntimeConfig: { mac: NEW_MAC } },
    { mac: NEW_MAC },
  ),

  "TU-14 all settings together": changes(ALL_SETTINGS, ALL_SETTINGS),

  "TU-17 a repeated sysctl is refused": async () => {
    using scene = new TunedLink();
    const one = `"${SYSCTL}":"1"`;
    const text = JSON.stringify({ ...scene.config, sysctl: { [SYSCTL]: "1" } })
      .replace(one, `${one},${one}`);
    const { stdout } = await TestHosts.dispatch(tuning, {
      env: scene.hosts.environment("ADD"),
      stdin: () => new TextEncoder().encode(text),
      invoker: createInvoker(dispatch, findPlugin),
      hostNetns: scene.hosts.host.path,
    });
    const { code, msg } = JSON.parse(stdout);
    assertEquals(code, 7);
    assertStringIncludes(msg, "duplicated sysctl keys are not allowed");
    assertEquals(scene.sysctl(), "0");
  },

  "TU-18 an interface name with a slash is refused": async () => {
    using scene = new TunedLink({ sysctl: { [SYSCTL]: "1" } });
    const options = { ifName: "dum/my0" };
    const text = "interface name contains / or : or whitespace characters";
    await scene.fail("ADD", [4, text], {}, options);
    assertEquals(scene.sysctl(), "0");
  },
}, needsRoot);

/** A story in each version: ADD, CHECK where there is one, DEL. */
for (const cniVersion of SPEC_VERSIONS) {
  conformance("tuning", {
    [`TU-14 all settings together, ${cniVersion}`]: async () => {
      const keys = { ...ALL_SETTINGS, sysctl: { [SYSCTL]: "1" } };
      using scene = new TunedLink({ cniVersion, ...keys });
      const { link: before } = scene;
      const sandbox = scene.hosts.sandbox.path;
      const prevResult = isAtLeast(cniVersion, "0.3.0")
        ? {
          cniVersion,
          interfaces: [{ name: "eth0", sandbox }],
          ips: [],
        }
        : { cniVersion, ip4: { ip: "10.0.0.2/24" } };
      if (cniVersion === "1.1.0") await scene.succeed("STATUS");
      const { json } = await scene.succeed("ADD", { prevResult });
      assertEquals(scene.link, ALL_SETTINGS);
      assertEquals([json.cniVersion, scene.sysctl()], [cniVersion, "1"]);
      const withResult = { prevResult: json };
      if (isAtLeast(cniVersion, "0.4.0")) {
        await scene.succeed("CHECK", withResult);
      } else {
        const refusal = "config version does not allow CHECK";
        await scene.fail("CHECK", [1, refusal], withResult);
      }
      const hasResult = isAtLeast(cniVersion, "0.4.0");
      const left = hasResult ? withResult : { prevResult: undefined };
      await scene.succeed("DEL", left);
      assertEquals([scene.link, scene.backups], [before, {}]);
    },
  }, needsRoot);
}

/** Builds a row: a sysctl with an allowlist. The list is in /etc, so in a process. */
function withList(list: string, isAllowed: boolean): Row {
  return () => {
    using scene = new TunedLink({ sysctl: { [SYSCTL]: "1" } });
    const { hosts } = scene;
    const script = withAllowlist(hosts.directory, `${BIN}/tuning`, list);
    const added = hosts.exec(script, "ADD", scene.config);
    if (isAllowed) assertSuccess(added);
    else assertFailure(added, 7, `Sysctl ${SYSCTL} is not allowed`);
    assertEquals(scene.sysctl(), isAllowed ? "1" : "0");
    assertSuccess(hosts.exec(script, "DEL", scene.config));
  };
}

conformance("tuning allowlist", {
  "TU-15 a sysctl that no line matches is refused": withList(
    "^net\\.ipv4\\.conf\\.other\\.\n\n   (?i)TCP$\n",
    false,
  ),
  "TU-16 a sysctl that a line matches is allowed": withList(
    "tcp\n  ^net\\.ipv4\\.conf\\.[a-z]*\\.log_martians$ \n[unread\n",
    true,
  ),
}, allOf(needsRoot, needsBin));
