/** multus on a node that is full of pods, several of which come and go at once. */

import { assertEquals } from "@std/assert";
import { eachAtOnce, howOften } from "../../../tests/_harness/repetition.ts";
import { ipJson } from "../../../testing/ip_json.ts";
import { type HostPod, hostTest, MultusHost } from "../testing/host.ts";

const AT_ONCE = 10;
const PODS = howOften(3 * AT_ONCE);

/** Lists a pod's IPv4 addresses by interface, as the kernel has them. */
function addressesOf({ sandbox }: HostPod): Record<string, string> {
  const links = ipJson(sandbox, "-4", "address");
  return Object.fromEntries(
    links.map((
      { ifname, addr_info: [first] }: {
        ifname: string;
        addr_info: { local: string }[];
      },
    ) => [ifname, first?.local ?? ""]),
  );
}

hostTest(
  `multus attaches ${PODS} pods to three networks each, ${AT_ONCE} at a time`,
  async (t) => {
    await using host = await MultusHost.start();
    const pods = Array.from(
      { length: PODS },
      (_, index) =>
        host.addPod(`pod-${index}`, {
          networks: [
            { name: "blue", ips: [`192.168.10.${index + 1}/24`] },
            { name: "green", interface: "fast0" },
          ],
        }),
    );
    await t.step("ADD", async () => {
      await eachAtOnce(pods, AT_ONCE, (pod) => host.succeed("ADD", pod));
    });
    await t.step("each pod has its own addresses in its status", () => {
      const all = pods.flatMap((pod, index) => {
        const { lo: _, ...addresses } = addressesOf(pod);
        const names = ["eth0", "net1", "fast0"];
        const expected = names.map((name) => [name, [addresses[name]]]);
        const status: { interface: string; ips: string[] }[] = host.status(pod);
        assertEquals(
          status.map(({ interface: name, ips }) => [name, ips]),
          expected,
        );
        assertEquals(addresses["net1"], `192.168.10.${index + 1}`);
        return Object.values(addresses);
      });
      assertEquals([all.length, new Set(all).size], [3 * PODS, 3 * PODS]);
      assertEquals(host.remembered.length, 4 * PODS);
    });
    await t.step("DEL while other pods start", async () => {
      const late = Array.from(
        { length: AT_ONCE },
        (_, index) => host.addPod(`late-${index}`, { networks: "green" }),
      );
      const every = Math.ceil(PODS / AT_ONCE);
      const mixed = pods.flatMap((pod, index) => {
        const other = index % every === 0 ? late[index / every] : undefined;
        return other === undefined ? [pod] : [pod, other];
      });
      await eachAtOnce(
        mixed,
        AT_ONCE,
        (pod) => host.succeed(late.includes(pod) ? "ADD" : "DEL", pod),
      );
      await eachAtOnce(late, AT_ONCE, (pod) => host.succeed("DEL", pod));
      assertEquals(host.remains(), []);
    });
  },
);
