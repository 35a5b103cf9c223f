/**
 * libcni with a bare plugin: what runtimes that call the Go library see.
 *
 * Source: containernetworking/cni libcni/api_test.go.
 */

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { NetworkConf } from "../../libcni/conf.ts";
import type { RuntimeConf } from "../../libcni/operation.ts";
import { CniError } from "../../base/error.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import {
  assertFails,
  type Debug,
  failureOf,
  type Keys,
  NETWORK,
  NoopNetwork,
  PORTS,
  RESULT,
  row,
  RUNTIME_CONFIG,
} from "../../plugins/noop/testing.ts";

const MISSING = 'failed to find plugin "does-not-exist" in path [';

function missing(noop: NoopNetwork): NetworkConf {
  return noop.single({}, { type: "does-not-exist" });
}

/** The input of a plugin, without what the operation adds. */
function request(noop: NoopNetwork, keys: Keys = {}): Keys {
  return {
    name: NETWORK,
    type: "noop",
    cniVersion: "1.0.0",
    debugFile: noop.debugFile(),
    commandLog: noop.commandLog,
    capabilities: {
      portMappings: true,
      somethingElse: true,
      noCapability: false,
    },
    runtimeConfig: RUNTIME_CONFIG,
    ...keys,
  };
}

/** The environment of the plugin. */
function environment(noop: NoopNetwork): Keys {
  return {
    ContainerID: "some-container-id",
    Netns: "/some/netns/path",
    IfName: "eno0",
    Args: "FOO=BAR",
    Path: noop.directory.path,
    NetnsOverride: "",
  };
}

/** Asserts the plugin's last call: command, environment, and all of stdin. */
function assertCall(noop: NoopNetwork, command: string, stdin: Keys): void {
  const call = noop.call();
  assertEquals(call?.Command, command);
  const { StdinData: _, ...env } = call?.CmdArgs ?? {};
  assertEquals(env, environment(noop));
  assertEquals(call?.stdin, stdin);
}

conformance("libcni runtimeConfig", {
  "has the arguments of capabilities declared true": row(async (noop) => {
    await noop.add(noop.single());
    assertEquals(noop.call()?.stdin.runtimeConfig, RUNTIME_CONFIG);
  }),
  "is absent where nothing is both": row(async (noop) => {
    const conf = noop.conf({ capabilityArgs: { otherStuff: [1] } });
    await noop.add(noop.single(), conf);
    assertEquals("runtimeConfig" in noop.call()?.stdin, false);
  }),
  "capabilities are what Validate returns": row(async (noop) => {
    assertEquals(await noop.runtime.validateNetwork(noop.single()), [
      "portMappings",
      "somethingElse",
    ]);
  }),
});

conformance("libcni AddNetwork", {
  "runs ADD with command, arguments and runtimeConfig": row(async (noop) => {
    const { document, result } = await noop.add(noop.single());
    assertCall(noop, "ADD", request(noop));
    assertEquals(document, RESULT);
    assertEquals(result.ips.map(({ address }) => `${address}`), [
      "10.1.2.3/24",
    ]);
  }),
  "caches configuration, args and capabilityArgs": row(async (noop) => {
    const single = noop.single();
    await noop.add(single);
    const bare = noop.conf({ args: [], capabilityArgs: {} });
    const cached = noop.runtime.findCachedConfig(single, bare);
    assertEquals(cached?.config, single.bytes);
    assertEquals(cached?.conf.args, [["FOO", "BAR"]]);
    assertEquals(cached?.conf.capabilityArgs, PORTS);
  }),
  "lists the attachment for all and for its own": row(async (noop) => {
    const single = noop.single();
    await noop.add(single);
    for (const containerId of ["", "some-container-id"]) {
      const [attachment, ...others] = noop.runtime
        .listCachedAttachments(containerId);
      assertEquals(others, []);
      assertEquals(attachment?.network, NETWORK);
      assertEquals(attachment?.containerId, "some-container-id");
      assertEquals(attachment?.ifName, "eno0");
      assertEquals(attachment?.netns, "/some/netns/path");
      assertEquals(attachment?.cniArgs, [["FOO", "BAR"]]);
      assertEquals(attachment?.capabilityArgs, PORTS);
      assertEquals(attachment?.config, single.bytes);
    }
    assertEquals(noop.runtime.listCachedAttachments("other"), []);
  }),
  "fails with the plugin's error": row(async (noop) => {
    const single = noop.single({ ReportError: "plugin error: banana" });
    assertEquals(await failureOf(noop.add(single)), "plugin error: banana");
    assertEquals(noop.isCached, false);
  }),
});

conformance("libcni CheckNetwork", {
  "runs CHECK with the result of a legacy cache file": row(async (noop) => {
    noop.writeCacheFile(RESULT);
    await noop.check(noop.single());
    assertCall(noop, "CHECK", request(noop, { prevResult: RESULT }));
  }),
  "fails with the plugin's error": row(async (noop) => {
    const single = noop.single({ ReportError: "plugin error: banana" });
    assertEquals(await failureOf(noop.check(single)), "plugin error: banana");
  }),
  "shows nothing of the cache but the result": row(async (noop) => {
    const single = noop.single();
    await noop.add(single);
    await noop.check(single);
    assertCall(noop, "CHECK", request(noop, { prevResult: RESULT }));
  }),
  "works at 0.4.0": row(async (noop) => {
    const result = {
      cniVersion: "0.4.0",
      ips: [{ version: "4", address: "10.1.2.3/24" }],
      dns: {},
    };
    const single = noop.single(
      { ReportResult: JSON.stringify(result) },
      { cniVersion: "0.4.0" },
    );
    await noop.add(single);
    await noop.check(single);
    assertEquals(noop.call()?.Command, "CHECK");
    assertEquals(noop.call()?.stdin.prevResult, result);
  }),
  "converts a cached result of an older version": row(async (noop) => {
    noop.writeCacheFile({
      cniVersion: "0.3.1",
      ips: [{ version: "4", address: "10.1.2.3/24", gateway: "10.1.2.1" }],
      dns: {},
    });
    await noop.check(noop.single());
    assertEquals(noop.call()?.stdin.prevResult, RESULT);
  }),
  "fails for a cached result of an unknown version": row(async (noop) => {
    noop.writeCacheFile({ cniVersion: "a.b.c", ips: [] });
    await assertFails(
      noop.check(noop.single()),
      'unsupported CNI result version "a.b.c"',
    );
  }),
});

conformance("libcni DelNetwork", {
  "runs DEL with the cached result": row(async (noop) => {
    noop.writeCacheFile(RESULT);
    await noop.del(noop.single());
    assertCall(noop, "DEL", request(noop, { prevResult: RESULT }));
  }),
  "fails with the plugin's error": row(async (noop) => {
    const single = noop.single({ ReportError: "plugin error: banana" });
    assertEquals(await failureOf(noop.del(single)), "plugin error: banana");
  }),
  "ignores a corrupt cache file": row(async (noop) => {
    noop.writeCacheFile("adfadsfasdfasfdsafaf");
    await noop.del(noop.single());
    assertCall(noop, "DEL", request(noop));
    assertEquals(noop.isCached, false);
  }),
  "ignores a cached result that cannot be converted": row(async (noop) => {
    noop.writeCacheFile({ cniVersion: "0.4567.0", ips: [] });
    await noop.del(noop.single());
    assertCall(noop, "DEL", request(noop));
    assertEquals(noop.isCached, false);
  }),
});

conformance("libcni GetVersionInfo", {
  "keeps the plugin's order": row(async (noop) => {
    const { supportedVersions } = await noop.runtime.getVersionInfo("noop");
    assertEquals(supportedVersions, [
      "0.-42.0",
      "0.1.0",
      "0.2.0",
      "0.3.0",
      "0.3.1",
      "0.4.0",
      "1.0.0",
      "1.1.0",
    ]);
  }),
  "fails for a plugin that is missing": row(async (noop) => {
    await assertFails(noop.runtime.getVersionInfo("does-not-exist"), MISSING);
  }),
});

conformance("libcni ValidateNetwork", {
  "accepts what the plugin serves": row(async (noop) => {
    const capabilities = await noop.runtime.validateNetwork(noop.single());
    assertEquals(capabilities, ["portMappings", "somethingElse"]);
  }),
  "fails for a plugin that is missing": row(async (noop) => {
    await assertFails(noop.runtime.validateNetwork(missing(noop)), MISSING);
  }),
  "fails for a version that the plugin does not serve": row(async (noop) => {
    const single = noop.single({}, { cniVersion: "broken" });
    await assertRejects(
      () => noop.runtime.validateNetwork(single),
      CniError,
      'plugin noop does not support config version "broken"',
    );
  }),
  "takes no version for 0.1.0": row(async (noop) => {
    const single = noop.single({}, { cniVersion: "" });
    await noop.runtime.validateNetwork(single);
  }),
});

function needsAllNames(name: string, keys: Partial<RuntimeConf>): Row {
  return row((noop) => {
    const network = { name, cniVersion: "1.0.0" };
    assertThrows(
      () => noop.runtime.findCachedResult(network, noop.conf(keys)),
      CniError,
      "cache file path requires network name (",
    );
  });
}

conformance("libcni cache", {
  "has a file for each interface of a container": row(async (noop) => {
    const { runtime } = noop;
    const results = ["10.1.2.3/24", "10.1.2.4/24"].map((address) => ({
      cniVersion: "1.0.0",
      ips: [{ address }],
    }));
    for (const [index, result] of results.entries()) {
      const single = noop.single({ ReportResult: JSON.stringify(result) });
      await runtime.addNetwork(single, noop.conf({ ifName: `eth${index}` }));
    }
    for (const [index, result] of results.entries()) {
      const conf = noop.conf({ ifName: `eth${index}` });
      const single = noop.single();
      assertEquals(runtime.findCachedResult(single, conf)?.document, result);
    }
    assertEquals(noop.cachedNames, [
      "apitest-some-container-id-eth0",
      "apitest-some-container-id-eth1",
    ]);
  }),
  "fills in args and capabilityArgs, no namespace": row(async (noop) => {
    const single = noop.single();
    await noop.add(single);
    const asked = { ...noop.conf(), netns: "", args: [], capabilityArgs: {} };
    const cached = noop.runtime.findCachedConfig(single, asked);
    assertEquals(cached?.conf, { ...noop.conf(), netns: "" });
  }),
  "needs the network name": needsAllNames("", {}),
  "needs the container ID": needsAllNames(NETWORK, { containerId: "" }),
  "needs the interface name": needsAllNames(NETWORK, { ifName: "" }),
  "fails to find in junk": row((noop) => {
    const single = noop.single();
    noop.writeCacheFile("adfadsfasdfasfdsafaf");
    assertThrows(
      () => noop.runtime.findCachedResult(single, noop.conf()),
      CniError,
      "decoding version from network config",
    );
    assertThrows(
      () => noop.runtime.findCachedConfig(single, noop.conf()),
      CniError,
      `failed to unmarshal cached network "${NETWORK}" config`,
    );
  }),
  "finds nothing where nothing is": row((noop) => {
    const single = noop.single();
    assertEquals(noop.cachedResult(single), undefined);
    assertEquals(noop.runtime.findCachedConfig(single, noop.conf()), undefined);
    assertEquals(noop.runtime.listCachedAttachments(), []);
  }),
});

const LEGACY: Debug = {
  ReportResult: JSON.stringify({
    dns: { nameservers: ["1.2.3.4"] },
    ip4: { ip: "10.1.2.3/24" },
  }),
};

function servesLegacyRuntime(version: Keys): Row {
  return row(async (noop) => {
    const keys = noop.plugin(LEGACY);
    const stdin = JSON.stringify({ name: NETWORK, ...keys, ...version });
    assertEquals(await runLegacy(noop, "ADD", stdin), LEGACY.ReportResult);
    await runLegacy(noop, "DEL", stdin);
    assertEquals(noop.commands, ["ADD", "DEL"]);
  });
}

conformance("libcni legacy", {
  "attaches by a plugin of 0.1.0, which names no version": row(async (noop) => {
    const single = noop.single(LEGACY, { cniVersion: "0.1.0" });
    const { document, result } = await noop.add(single);
    assertEquals(document, {
      cniVersion: "0.1.0",
      dns: { nameservers: ["1.2.3.4"] },
      ip4: { ip: "10.1.2.3/24" },
    });
    assertEquals(result.dns.nameservers, ["1.2.3.4"]);
  }),
  "detaches by it": row(async (noop) => {
    const single = noop.single(LEGACY, { cniVersion: "0.1.0" });
    await noop.add(single);
    await noop.del(single);
    assertEquals(noop.commands, ["ADD", "DEL"]);
    assertEquals("prevResult" in noop.call()?.stdin, false);
    assertEquals(noop.isCached, false);
  }),
  "noop supports a runtime of 0.1.0 with a configuration without a version":
    servesLegacyRuntime({}),
  "noop supports a runtime of 0.1.0 with a configuration of 0.1.0":
    servesLegacyRuntime({ cniVersion: "0.1.0" }),
});

/** Runs noop as the first runtimes did: they set what they needed, no more. */
async function runLegacy(
  noop: NoopNetwork,
  command: string,
  stdin: string,
): Promise<string> {
  const child = new Deno.Command(`${noop.directory.path}/noop`, {
    clearEnv: true,
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: "some-container-id",
      CNI_NETNS: "/some/netns/path",
      CNI_IFNAME: "eno0",
      CNI_PATH: noop.directory.path,
    },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(stdin));
  await writer.close();
  const { success, stdout } = await child.output();
  assertEquals(success, true);
  return new TextDecoder().decode(stdout);
}
