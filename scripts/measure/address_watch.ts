/**
 * Measures the CPU time in which the node daemon looks at the addresses of pods that
 * have them from a router.
 *
 * `deno task deno run -A scripts/measure/address_watch.ts [PODS] [SECONDS]`, as root.
 *
 * @module
 */

import process from "node:process";
import { pause } from "../../base/deadline.ts";
import {
  type AddressedAttachment,
  AddressWatch,
} from "../../plugins/multus/address_watch.ts";
import { cachedPod } from "../../plugins/multus/pod/cached_objects.ts";
import { NETWORK_STATUS } from "../../plugins/multus/report/network_status.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { advertiseRouter } from "../../tests/_harness/router_advertisement.ts";

/** How often the router advertises itself, in ms: radvd does so every 200 to 600 s. */
const ADVERTISE_MS = 200_000;

async function measure(pods: number, seconds: number): Promise<void> {
  using hosts = TestHosts.create();
  const router = hosts.addNetns();
  runIn(
    hosts.host,
    "sh",
    "-ec",
    `ip link add wires type bridge; ip link set wires up
     ip link add router master wires up type veth peer name wire netns ${router.path}`,
  );
  runIn(router, "ip", "link", "set", "wire", "up");
  const sandboxes = Array.from({ length: pods }, () => hosts.addNetns());
  sandboxes.forEach(({ path }, index) => {
    runIn(
      hosts.host,
      ...["ip", "link", "add", `pod${index}`, "master", "wires", "up"],
      ...["type", "veth", "peer", "name", "net1", "netns", path],
    );
  });
  for (const sandbox of sandboxes) {
    runIn(sandbox, "ip", "link", "set", "net1", "up");
  }
  const advertise = (): void => advertiseRouter(router, "wire");
  await pause(3000);
  advertise();
  await pause(3000);
  const addresses = sandboxes.map((sandbox) =>
    JSON.parse(
      runIn(sandbox, "ip", "-j", "-6", "a", "show", "net1", "scope", "global"),
    )[0].addr_info[0]
  );
  const list = addresses.flatMap(({ local }, index) =>
    cachedPod({
      metadata: {
        namespace: "test",
        name: `pod${index}`,
        uid: `pod${index}`,
        annotations: {
          [NETWORK_STATUS]: JSON.stringify([
            {
              name: "test/lan",
              interface: "net1",
              ips: [local],
              gateway: ["fe80::aa"],
            },
          ]),
        },
      },
    }) ?? []
  );
  let looks = 0;
  let writes = 0;
  const ipam = { type: "slaac" };
  const watch = new AddressWatch({
    pods: {
      isCurrent: true,
      list: () => {
        looks++;
        return list;
      },
    },
    definitions: { find: () => undefined },
    hostNetns: hosts.host.path,
    attachments: () =>
      Promise.resolve(sandboxes.map(({ path }, index): AddressedAttachment => ({
        pod: `test/pod${index}`,
        network: "lan",
        containerId: `pod${index}`,
        ifName: "net1",
        netns: path,
        isLive: true,
        via: "multus",
        since: new Date(),
        config: new TextEncoder().encode(
          JSON.stringify({ name: "lan", type: "bridge", ipam }),
        ),
        result: {
          cniVersion: "1.1.0",
          ips: [{
            address: `${addresses[index].local}/64`,
            "cni.dev/learned": true,
          }],
          routes: [{ dst: "::/0", gw: "fe80::aa", "cni.dev/learned": true }],
        },
      }))),
    replace: () => {
      writes++;
      return Promise.resolve(true);
    },
    log: { info(): void {}, warn: (...args) => console.log(args) },
  });
  const end = new AbortController();
  const running = watch.run(end.signal);
  const timer = setInterval(advertise, ADVERTISE_MS);
  // The first look, and what is compiled for it.
  await pause(12_000);
  const [before, looksBefore] = [process.cpuUsage(), looks];
  await pause(seconds * 1000);
  const { user, system } = process.cpuUsage(before);
  clearInterval(timer);
  end.abort();
  await running;
  const ms = (user + system) / 1000;
  console.log(
    `${pods} pods, ${seconds} s: ${looks - looksBefore} looks, ` +
      `${ms.toFixed(0)} ms (${(user / 1000).toFixed(0)} user), ` +
      `${(ms / seconds / 10).toFixed(2)} % of a core, ${writes} writes`,
  );
}

if (import.meta.main) {
  const [pods = "100", seconds = "200"] = Deno.args;
  await measure(Number(pods), Number(seconds));
}
