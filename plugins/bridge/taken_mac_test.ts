import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn, stockOf } from "../../testing/ip_json.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const MAC = "02:00:00:00:00:07";

/** A bridge, and calls for containers that ask for a MAC. */
class BridgeScene extends PluginScene {
  constructor() {
    super("bridge", () => ({
      cniVersion: "1.0.0",
      name: "net1",
      type: "bridge",
      bridge: "cni0",
    }));
  }
}

rootTest("bridge.add() refuses the MAC of another port", async (t) => {
  const sources: [name: string, keys: Keys, args?: string][] = [
    ["runtimeConfig", { runtimeConfig: { mac: MAC } }],
    ["args.cni", { args: { cni: { mac: MAC } } }],
    ["CNI_ARGS", {}, `MAC=${MAC}`],
    ["with macspoofchk", { runtimeConfig: { mac: MAC }, macspoofchk: true }],
  ];
  await eachRow(t, sources, async ([, keys, args = ""]) => {
    using scene = new BridgeScene();
    const env = { CNI_ARGS: args };
    const owner = await scene.succeed("ADD", keys, { env });
    const sandbox = scene.hosts.addNetns();
    const other = { sandbox, containerId: "other", env };
    const before = stockOf(scene.hosts);
    const refusal = [
      11,
      `Cannot give the container MAC ${MAC}: it is in use by port`,
    ] as const;
    await scene.fail("ADD", refusal, keys, other);
    await scene.fail("ADD", refusal, { ...keys, name: "net2" }, other);
    assertEquals(stockOf(scene.hosts), before);
    // Another bridge is another network.
    await scene.succeed("ADD", { ...keys, bridge: "cni1" }, other);
    await scene.succeed("DEL", { ...keys, bridge: "cni1" }, other);
    await scene.succeed("CHECK", { ...keys, prevResult: owner.json }, { env });
    scene.hosts.sandbox[Symbol.dispose]();
    // The kernel ends a namespace some time after its last user.
    await eventually(
      "the MAC is free",
      async () => (await scene.run("ADD", keys, other)).exitCode === 0,
    );
  }, ([name]) => name);
});

rootTest("bridge.add() refuses a MAC of the host", async (t) => {
  const rows: [name: string, change: string][] = [
    ["the bridge", `ip link set cni0 address ${MAC}`],
    [
      "a port",
      `ip link add p0 address ${MAC} type veth peer name p1; ip link set p0 master cni0`,
    ],
    [
      "the other end of a port",
      `ip link add p0 type veth peer name p1 address ${MAC}; ip link set p0 master cni0`,
    ],
    [
      "a static entry",
      `ip link add p0 type veth peer name p1; ip link set p0 master cni0; bridge fdb add ${MAC} dev p0 master static`,
    ],
  ];
  await eachRow(t, rows, async ([, change]) => {
    using scene = new BridgeScene();
    await scene.succeed("ADD");
    runIn(scene.hosts.host, "sh", "-ec", change);
    const sandbox = scene.hosts.addNetns();
    const other = { sandbox, containerId: "other" };
    const keys = { runtimeConfig: { mac: MAC } };
    await scene.fail("ADD", [11, `MAC ${MAC}: it is in use by`], keys, other);
  }, ([name]) => name);
});

rootTest("bridge.add() accepts the container's own MAC again", async () => {
  using scene = new BridgeScene();
  const keys = { runtimeConfig: { mac: MAC } };
  await scene.succeed("ADD", keys);
  // The container was restarted without a DEL.
  const sandbox = scene.hosts.addNetns();
  await scene.succeed("ADD", keys, { sandbox });
});

rootTest("tuning.add() refuses the MAC of another port", async () => {
  using scene = new BridgeScene();
  const keys = { runtimeConfig: { mac: MAC } };
  const owner = await scene.succeed("ADD", keys);
  const other = { sandbox: scene.hosts.addNetns(), containerId: "other" };
  const { json: prevResult } = await scene.succeed("ADD", {}, other);
  const tune = async (
    result: unknown,
    options: typeof other | Record<string, never>,
  ): Promise<[number, string]> => {
    const config = {
      ...scene.config,
      type: "tuning",
      prevResult: result,
      dataDir: scene.hosts.directory,
      ...keys,
    };
    const { exitCode, stdout } = await scene.hosts
      .run("tuning", "ADD", config, options);
    return [exitCode, stdout];
  };
  const [exitCode, stdout] = await tune(prevResult, other);
  assertEquals(
    [exitCode, stdout.includes(`MAC ${MAC}: it is in use by port`)],
    [1, true],
  );
  assertEquals((await tune(owner.json, {}))[0], 0);
});
