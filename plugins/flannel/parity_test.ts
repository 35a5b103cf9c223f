/**
 * flannel  compared with the Go plugin: what each passes on and leaves on disk,
 * and one releasing what the other has added.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "@std/path/posix";
import {
  goPlugin,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../../testing/capabilities.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { FlannelScene, SUBNET_ENV } from "./testing.ts";
import { NEWEST_DIRECTORY } from "../../tests/_harness/peers.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { RecordingPlugins } from "../../tests/_harness/recording_plugins.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const beside = join(NEWEST_DIRECTORY, "flannel");
const peer = goPlugin("flannel") ?? (isExecutable(beside) ? beside : undefined);
const needs = ignoreUnless(
  peer !== undefined,
  "needs flannel of flannel-io/cni-plugin",
);

function test(
  name: string,
  fn: (t: Deno.TestContext) => Promise<void>,
): void {
  rootTest(name, needs, fn);
}

type Who = "ours" | "Go's";

/** A node with plugins that record their calls, and flannel of both kinds. */
class Beside extends FlannelScene {
  readonly plugins = new RecordingPlugins();

  constructor(extras: Keys = {}, env?: readonly string[]) {
    super({ ipam: undefined, ...extras }, env);
    this.plugins.add("bridge");
    this.plugins.add("other");
    this.plugins.add("old", {
      ADD: `echo '{"cniVersion":"0.1.0","ip4":{"ip":"10.244.1.2/24"}}'`,
    });
  }

  async call(who: Who, command: string, keys: Keys = {}): Promise<CallOutput> {
    const options = { env: { CNI_PATH: this.plugins.directory.path } };
    if (who === "ours") return await this.run(command, keys, options);
    const config = { ...this.config, ...keys };
    return this.hosts.exec(peer ?? "", command, config, options);
  }

  /** The calls of the delegate, and the files. */
  observe(): unknown {
    const calls = this.plugins.calls.map(({ path: _, ...call }) => call);
    const saved = Object.entries(this.saved).map(([name, text]) => {
      const { flannelIfName: _, ...conf } = JSON.parse(text);
      // Go's is sorted, and so is ours.
      return [name, JSON.stringify(conf)];
    });
    return { calls, saved };
  }

  override [Symbol.dispose](): void {
    this.plugins[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

const { ipv4, ipv6, dual } = SUBNET_ENV;

/** Configurations, and flanneld's file. */
const ROWS: Readonly<Record<string, [keys: Keys, env: readonly string[]]>> = {
  "IPv4": [{}, ipv4],
  "IPv6": [{}, ipv6],
  "both": [{}, dual],
  "an old version": [{ cniVersion: "0.3.1" }, ipv4],
  "no version": [{ cniVersion: "", delegate: { type: "old" } }, ipv4],
  "keys of the delegate": [
    { delegate: { mtu: 1400, hairpinMode: true, ipMasq: null, x: "<&>" } },
    ipv4,
  ],
  "another delegate": [
    { Delegate: { type: "other", master: "eth0" } },
    ipv4,
  ],
  "the runtime's values": [
    { runtimeConfig: { portMappings: [{ hostPort: 1, containerPort: 2 }] } },
    ipv4,
  ],
  "an ipam": [
    {
      ipam: {
        type: "host-local",
        dataDir: "/x",
        ranges: [],
        routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }],
      },
    },
    ipv4,
  ],
  "a later line": [{}, [...ipv4, "FLANNEL_MTU=1300", "OTHER=1", "FLANNEL"]],
};

test("flannel delegates and saves the same configuration as the Go plugin", async (t) => {
  await eachRow(t, Object.entries(ROWS), async ([, [keys, env]]) => {
    const observed = [];
    for (const who of ["ours", "Go's"] as const) {
      using scene = new Beside(keys, env);
      const added = await scene.call(who, "ADD");
      assertEquals(added.exitCode, 0, added.stdout);
      const story = [added.json, scene.observe()];
      assertEquals((await scene.call(who, "DEL")).exitCode, 0);
      observed.push([...story, scene.observe()]);
    }
    assertEquals(observed[0], observed[1]);
  });
});

test("flannel detaches the Go plugin's attachments, and the reverse", async (t) => {
  const orders: readonly [Who, Who][] = [["ours", "Go's"], ["Go's", "ours"]];
  await eachRow(t, orders, async ([adder, other]) => {
    using scene = new Beside({ delegate: { type: "other" } }, dual);
    const { json: prevResult } = await scene.call(adder, "ADD");
    // It is no longer needed.
    scene.writeEnv([]);
    const checked = await scene.call(other, "CHECK", { prevResult });
    assertEquals(checked.stdout, "");
    const deleted = await scene.call(other, "DEL", { delegate: {} });
    assertEquals(deleted.exitCode, 0, deleted.stdout);
    assertEquals(scene.saved, {});
    const [add, ...others] = scene.plugins.calls;
    const { command, stdin } = others.at(-1) ?? {};
    assertEquals(command, "DEL");
    const { flannelIfName: _, ...conf } = stdin;
    assertEquals(conf, add?.stdin);
  });
});

test("flannel with bridge deletes the Go plugins' link, and the reverse", async (t) => {
  const orders: readonly [Who, Who][] = [["ours", "Go's"], ["Go's", "ours"]];
  const versions = ["0.3.1", "0.4.0", "1.0.0"];
  const rows = versions.flatMap((cniVersion) =>
    orders.map(([adder, other]) => ({ cniVersion, adder, other }))
  );
  await eachRow(t, rows, async ({ cniVersion, adder, other }) => {
    using scene = new FlannelScene({ cniVersion }, dual);
    const before = scene.state;
    const call = async (
      who: Who,
      command: string,
      keys: Keys = {},
    ): Promise<CallOutput> => {
      const { hosts, config } = scene;
      const keysOfAll = { ...config, ...keys };
      const env = { CNI_PATH: dirname(goPlugin("bridge") ?? "") };
      const output = who === "ours"
        ? await scene.run(command, keys)
        : hosts.exec(peer ?? "", command, keysOfAll, { env });
      assertEquals(output.exitCode, 0, output.stdout + output.stderr);
      return output;
    };
    const { json: prevResult } = await call(adder, "ADD");
    await call(other, "DEL", { prevResult });
    assertEquals(scene.state, before);
  }, ({ adder, cniVersion }) => `${adder} adds, ${cniVersion}`);
});

/** Configurations that both refuse, by the text of the error. */
const REFUSED: readonly [text: string, keys: Keys, env: readonly string[]][] = [
  ["must have (string) 'type' field", { delegate: { type: 7 } }, ipv4],
  ["must not have 'name' field, it'll be", { delegate: { name: "x" } }, ipv4],
  ["must not have 'ipam' field, it'll be", { delegate: { ipam: {} } }, ipv4],
  ["is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK", {}, ipv4.slice(1)],
  ["is missing FLANNEL_MTU, FLANNEL_IPMASQ", {}, ipv4.slice(0, 2)],
  ["invalid CIDR address: x", {}, ["FLANNEL_SUBNET=x"]],
  ["open /no/such", {}, ipv4],
];

test("flannel refuses the same input as the Go plugin", async (t) => {
  await eachRow(t, REFUSED, async ([text, keys, env]) => {
    using scene = new Beside(keys, env);
    for (const who of ["ours", "Go's"] as const) {
      const extras = text.startsWith("open ") ? { subnetFile: "/no/such" } : {};
      const { exitCode, json } = await scene.call(who, "ADD", extras);
      assertEquals(exitCode, 1);
      assertStringIncludes(json.msg, text);
      assertEquals([scene.saved, scene.plugins.calls], [{}, []]);
    }
  });
});
