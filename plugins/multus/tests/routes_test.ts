/**
 * Pods that request routes over their networks: by multus alone, its daemon, the
 * shim of thick multus, and plugged into a running pod.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import { MultusDaemon } from "../testing/daemon.ts";
import {
  BIN,
  type HostCall,
  type HostPod,
  hostTest,
  MultusHost,
} from "../testing/host.ts";
import { type Reply, ThickDaemon } from "../testing/thick_daemon.ts";

const ROUTES = "dev.cni.routes";

/** Destinations that the node lets pods route. */
const KEYS: JsonObject = { podRoutes: ["10.50.0.0/16", "fd50::/16"] };

/** A network of both families, whose gateway the routes without one use. */
function network({ hosts }: MultusHost, cniVersion = "1.0.0"): JsonObject {
  return {
    cniVersion,
    name: "storage",
    type: "bridge",
    bridge: "br-storage",
    isGateway: true,
    ipam: hosts.hostLocal("10.30.0.0/24", "fd30::/64"),
  };
}

const ASKED: readonly JsonObject[] = [
  { dst: "10.50.0.0/16" },
  { dst: "10.50.9.0/24", gw: "10.30.0.9", mtu: 1400, priority: 7 },
  { dst: "fd50::/16" },
];

/** What `ip` shows of them, with the interface left out. */
const IN_KERNEL = [
  "10.50.0.0/16 10.30.0.1",
  "10.50.9.0/24 10.30.0.9 7",
  "fd50::/16 fd30::1 1024",
];

/** Lists the routes of an interface that the test is about. */
function routesOf({ sandbox }: HostPod, ifName: string): string[] {
  return ["-4", "-6"].flatMap((family) =>
    ipJson(sandbox, family, "route", "show", "dev", ifName)
      .filter(({ dst }: { dst: string }) => /^(10\.50\.|fd50:)/.test(dst))
      .map(({ dst, gateway, metric }: Record<string, unknown>) =>
        [dst, gateway, metric].filter((part) => part !== undefined).join(" ")
      ).sort()
  );
}

async function start(): Promise<MultusHost> {
  const host = await MultusHost.start();
  host.api.putNad("default", "storage", network(host));
  return host;
}

function addPod(
  host: MultusHost,
  name: string,
  routes: readonly JsonObject[] = ASKED,
): HostPod {
  return host.addPod(name, {
    networks: [{ name: "storage", interface: "sto0", [ROUTES]: [...routes] }],
  });
}

/** The result of the pod's second network, as CHECK passes it on. */
function cachedResult(host: MultusHost, pod: HostPod): JsonObject {
  const name = `storage-${pod.containerId}-sto0`;
  const text = Deno.readTextFileSync(`${host.cniDir}/results/${name}`);
  return JSON.parse(text).result;
}

/** Attaches a pod, checks it, removes a route, and detaches the pod. */
async function live(host: MultusHost, call: HostCall): Promise<void> {
  const pod = addPod(host, "web");
  await host.succeed("ADD", pod, call);
  assertEquals(routesOf(pod, "sto0"), IN_KERNEL);
  assertEquals(cachedResult(host, pod)["routes"], [
    { dst: "10.50.0.0/16", gw: "10.30.0.1" },
    { dst: "10.50.9.0/24", gw: "10.30.0.9", mtu: 1400, priority: 7 },
    { dst: "fd50::/16", gw: "fd30::1" },
  ]);
  // Routes are of no use outside the pod.
  assertEquals(Object.keys(host.status(pod)[1]), [
    "name",
    "interface",
    "ips",
    "mac",
    "dns",
  ]);
  await host.succeed("CHECK", pod, call);
  runIn(pod.sandbox, "ip", "route", "del", "10.50.9.0/24");
  const { code, json } = await host.call("CHECK", pod, call);
  assertEquals(code, 1);
  assertMatch(json.msg, /10\.50\.9\.0\/24/);
  await host.succeed("DEL", pod, call);
  assertEquals(host.remainsOf(pod), []);
}

hostTest("multus: a pod gets the routes that it requests", async () => {
  await using host = await start();
  await live(host, { keys: KEYS });
});

hostTest("multus: a pod gets its routes with the daemon", async () => {
  await using host = await start();
  await using daemon = await MultusDaemon.start(host);
  await live(host, { keys: { ...KEYS, daemonSocketDir: daemon.socketDir } });
});

hostTest("multus: a pod gets its routes with the shim", async () => {
  await using host = await start();
  await using daemon = await ThickDaemon.start(host);
  await live(host, {
    command: [`${BIN}/multus-shim`],
    keys: { ...KEYS, daemonSocketDir: daemon.socketDir },
  });
});

hostTest(
  "multus: a pod gets routes and a default route over the same network",
  async () => {
    await using host = await start();
    const pod = host.addPod("web", {
      networks: [{
        name: "storage",
        interface: "sto0",
        "default-route": ["10.30.0.1"],
        [ROUTES]: [...ASKED],
      }],
    });
    await host.succeed("ADD", pod, { keys: KEYS });
    const defaults = ipJson(pod.sandbox, "route", "show", "default")
      .map(({ dev, gateway }: Record<string, string>) => `${gateway} ${dev}`);
    assertEquals(defaults, ["10.30.0.1 sto0"]);
    assertEquals(routesOf(pod, "sto0"), IN_KERNEL);
    assertEquals(cachedResult(host, pod)["routes"], [
      { dst: "0.0.0.0/0", gw: "10.30.0.1" },
      { dst: "10.50.0.0/16", gw: "10.30.0.1" },
      { dst: "10.50.9.0/24", gw: "10.30.0.9", mtu: 1400, priority: 7 },
      { dst: "fd50::/16", gw: "fd30::1" },
    ]);
    assertEquals(host.status(pod)[1].gateway, ["10.30.0.1"]);
    await host.succeed("CHECK", pod, { keys: KEYS });
    await host.succeed("DEL", pod, { keys: KEYS });
    assertEquals(host.remainsOf(pod), []);
  },
);

hostTest("multus: two networks of a pod cannot have one route", async () => {
  await using host = await start();
  const route = { dst: "10.50.0.0/16" };
  const other = { ...route, priority: 9 };
  const networks = (second: JsonObject): JsonObject[] => [
    { name: "storage", interface: "sto0", [ROUTES]: [route] },
    { name: "storage", interface: "sto1", [ROUTES]: [second] },
  ];
  const both = host.addPod("both", { networks: networks(route) });
  const { code, json } = await host.call("ADD", both, { keys: KEYS });
  assertEquals([code, json.code], [1, 7]);
  assertMatch(
    json.msg,
    /"sto1": the route to 10\.50\.0\.0\/16 over "sto0" conflicts with it$/,
  );
  await host.succeed("DEL", both, { keys: KEYS });
  assertEquals(host.remainsOf(both), []);
  // With another metric, the second is for when the first is gone.
  const spare = host.addPod("spare", { networks: networks(other) });
  await host.succeed("ADD", spare, { keys: KEYS });
  assertEquals(routesOf(spare, "sto0"), ["10.50.0.0/16 10.30.0.1"]);
  assertEquals(routesOf(spare, "sto1"), ["10.50.0.0/16 10.30.0.1 9"]);
  await host.succeed("CHECK", spare, { keys: KEYS });
  await host.succeed("DEL", spare, { keys: KEYS });
});

/** Has a controller change a running pod's networks. */
async function plug(
  host: MultusHost,
  daemon: ThickDaemon,
  pod: HostPod,
  command: string,
): Promise<Reply> {
  const config = new TextEncoder().encode(JSON.stringify(network(host)));
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: pod.containerId,
    CNI_NETNS: pod.sandbox.path,
    CNI_IFNAME: "sto0",
    CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name};` +
      `K8S_POD_UID=${pod.uid}`,
  };
  const body = { env, config: config.toBase64() };
  return await daemon.ask("/delegate", body);
}

hostTest("multus: a network attached later gets its routes", async () => {
  await using host = await start();
  await using daemon = await ThickDaemon.start(host, {
    ...KEYS,
    definitionKeys: ["host-local.dataDir"],
  });
  // The annotation is of later than the pod's ADD.
  const pod = host.addPod("web");
  await host.succeed("ADD", pod);
  const late = { name: "storage", interface: "sto0", [ROUTES]: ASKED };
  host.api.putPod({
    metadata: {
      namespace: "default",
      name: pod.name,
      uid: pod.uid,
      annotations: { "k8s.v1.cni.cncf.io/networks": JSON.stringify([late]) },
    },
  });
  const added = await plug(host, daemon, pod, "ADD");
  assertEquals(added.status, 200, added.text);
  assertEquals(routesOf(pod, "sto0"), IN_KERNEL);
  assertEquals(JSON.parse(added.text).Result.routes.length, 3);
  assertEquals((await plug(host, daemon, pod, "CHECK")).status, 200);
  // That of the pod looks at it, too.
  await host.succeed("CHECK", pod);
  runIn(pod.sandbox, "ip", "-6", "route", "del", "fd50::/16");
  const checked = await plug(host, daemon, pod, "CHECK");
  assertEquals(checked.status, 400);
  assertMatch(checked.text, /fd50::\/16/);
  assertEquals((await host.call("CHECK", pod)).code, 1);
  const removed = await plug(host, daemon, pod, "DEL");
  assertEquals(removed.status, 200, removed.text);
  await host.succeed("DEL", pod);
  assertEquals(host.remains(), []);
});

hostTest("multus: a daemon without podRoutes adds no routes", async () => {
  await using host = await start();
  await using daemon = await ThickDaemon.start(host, {
    definitionKeys: ["host-local.dataDir"],
  });
  const pod = addPod(host, "web");
  const { status, text } = await plug(host, daemon, pod, "ADD");
  assertEquals(status, 400);
  assertMatch(text, /Refused route 10\.50\.0\.0\/16.*podRoutes/);
  assertEquals(host.remains(), []);
});

/** Attaches a pod, which must fail, and leave nothing. */
async function refuse(
  host: MultusHost,
  name: string,
  routes: readonly JsonObject[],
  keys: JsonObject = KEYS,
): Promise<string> {
  const pod = addPod(host, name, routes);
  const { code, json, stderr } = await host.call("ADD", pod, { keys });
  assertEquals([code, json.code], [1, 7], stderr);
  assertMatch(json.msg, new RegExp(`\\[default/${name}/uid-of-${name}`));
  assertEquals(
    host.remainsOf(pod).filter((one) => one !== pod.containerId),
    [],
  );
  await host.succeed("DEL", pod, { keys });
  assertEquals(host.remainsOf(pod), []);
  return json.msg;
}

hostTest(
  "multus: a pod gets only routes that the node allows",
  async () => {
    await using host = await start();
    const other = [{ dst: "10.50.0.0/16" }, { dst: "10.96.0.0/12" }];
    const message =
      'Refused route 10.96.0.0/12 of "dev.cni.routes" over network ' +
      '"default/storage": "podRoutes" of the node\'s multus configuration does ' +
      "not contain the destination";
    assertEquals(
      await refuse(host, "service", other),
      `Multus: [default/service/uid-of-service]: ${message}`,
    );
    await refuse(host, "anything", ASKED, {});
    const events = host.api.eventTexts.filter((text) => text.includes("10.96"));
    assertEquals(events, [`Warning NetworkRefused ${message}`]);
  },
);

hostTest(
  "multus: a route that cannot be added undoes the pod's networks",
  async () => {
    await using host = await start();
    assertMatch(
      await refuse(host, "elsewhere", [
        { dst: "10.50.0.0/16" },
        { dst: "10.50.1.0/24", gw: "10.10.0.1" },
      ]),
      /:storage\]: error adding container to network "storage": Cannot add route 10\.50\.1\.0\/24 via 10\.10\.0\.1 of "dev\.cni\.routes" to "sto0": the gateway is not in 10\.30\.0\.0\/24$/,
    );
    assertMatch(
      await refuse(host, "typo", [{ dst: "10.50.0.0/16", via: "10.30.0.9" }]),
      /parsePodNetworkAnnotation: network "storage": dev\.cni\.routes\[0\]: unknown key "via"$/,
    );
  },
);

hostTest(
  "multus: a pod is detached after the node stopped allowing routes",
  async () => {
    await using host = await start();
    const pod = addPod(host, "web");
    await host.succeed("ADD", pod, { keys: KEYS });
    // Neither record tells what there was.
    await Deno.writeTextFile(`${host.cniDir}/${pod.containerId}`, "");
    await Deno.remove(`${host.cniDir}/results`, { recursive: true });
    const { code, stderr } = await host.call("DEL", pod);
    assertEquals(code, 0);
    assertMatch(stderr, /Cannot use a scratch file/);
    assertEquals(host.remainsOf(pod), []);
  },
);

hostTest(
  "multus: a default network's routes are in the printed result",
  async () => {
    await using host = await start();
    const pod = host.addPod("web", {
      annotations: {
        "v1.multus-cni.io/default-network": JSON.stringify([
          { name: "storage", namespace: "default", [ROUTES]: ASKED },
        ]),
      },
    });
    for (const cniVersion of ["0.2.0", "0.4.0", "1.0.0", "1.1.0"]) {
      host.api.putNad("default", "storage", network(host, cniVersion));
      const keys = { ...KEYS, cniVersion };
      const { json } = await host.succeed("ADD", pod, { keys });
      const routes = cniVersion === "0.2.0"
        ? [...json.ip4.routes, ...json.ip6.routes]
        : json.routes;
      assertEquals(routes, [
        { dst: "10.50.0.0/16", gw: "10.30.0.1" },
        cniVersion === "0.2.0"
          ? { dst: "10.50.9.0/24", gw: "10.30.0.9" }
          : { dst: "10.50.9.0/24", gw: "10.30.0.9", mtu: 1400, priority: 7 },
        { dst: "fd50::/16", gw: "fd30::1" },
      ]);
      assertEquals(routesOf(pod, "eth0"), IN_KERNEL);
      await host.succeed("DEL", pod, { keys });
    }
  },
);
