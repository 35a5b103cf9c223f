import { assertEquals } from "@std/assert";
import { AttachmentCache } from "../../../libcni/cache.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { listLiving } from "./attached.ts";

rootTest(
  "listLiving() reads addresses and attachments from the runtime's cache",
  async () => {
    using hosts = TestHosts.create();
    const { host, sandbox, directory } = hosts;
    const other = hosts.addNetns();
    for (const container of [sandbox, other]) {
      for (const name of ["x", "c1"]) {
        runIn(container, "ip", "tuntap", "add", name, "mode", "tap");
        const alias = `cni/net1/${name}/eth0`;
        runIn(container, "ip", "link", "set", name, "alias", alias);
        runIn(container, "ip", "address", "add", "10.1.2.66/24", "dev", name);
      }
    }
    const search = {
      hostNetns: host.path,
      namespaces: [other.path, sandbox.path],
      caches: [directory],
    };
    const list = async (): Promise<string[]> =>
      (await listLiving("net1", search)).map(({ containerId, ips }) =>
        `${containerId} ${ips.join(" ")}`
      );
    assertEquals(await list(), ["x 10.1.2.66", "x 10.1.2.66"]);
    new AttachmentCache(directory).writeAttachment({
      network: "net1",
      containerId: "c1",
      ifName: "eth0",
      netns: sandbox.path,
      config: new Uint8Array(),
      cniArgs: [],
      capabilityArgs: {},
    }, { cniVersion: "1.1.0", ips: [{ address: "10.1.2.5/24" }] });
    assertEquals(await list(), ["c1 10.1.2.5", "x 10.1.2.66"]);
  },
);
