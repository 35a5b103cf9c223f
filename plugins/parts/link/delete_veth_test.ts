import { assertEquals, assertStringIncludes } from "@std/assert";
import type { LinkDeletion } from "../../../cni/call/link_deletion.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { hostIfNameOf } from "./veth.ts";

/** A kernel that does not delete the link of this name. */
function refusing(name: string): LinkDeletion {
  const now: LinkDeletion["now"] = async (links, deleteLinks) => {
    await deleteLinks(links.filter((link) => link.name !== name));
    throw new Error(`Cannot delete "${name}"`);
  };
  return { now, later: now };
}

rootTest(
  "GC of ptp and bridge keeps the addresses of a veth pair that stays, and no others",
  async (t) => {
    await eachRow(t, ["ptp", "bridge"], async (type) => {
      using hosts = TestHosts.create();
      const network = "net1", ifName = "eth0";
      const ipam = hosts.hostLocal("10.1.2.0/24");
      const config = { cniVersion: "1.1.0", name: network, type, ipam };
      for (const containerId of ["stuck", "valid", "stale"]) {
        const call = { containerId, sandbox: hosts.addNetns() };
        assertSuccess(await hosts.run(type, "ADD", config, call));
      }
      const valid = [{ containerID: "valid", ifname: ifName }];
      const gc = { ...config, "cni.dev/valid-attachments": valid };
      const stuck = hostIfNameOf({ network, containerId: "stuck", ifName });
      const owners = (): string[] =>
        hosts.leases().map((ip) =>
          Deno.readTextFileSync(`${ipam.dataDir}/${network}/${ip}`).split(
            "\r",
          )[0]
        ).sort() as string[];
      const failed = await hosts.run(type, "GC", gc, {
        linkDeletion: refusing(stuck),
      });
      assertEquals(failed.exitCode, 1);
      assertStringIncludes(failed.stdout, `Cannot delete \\"${stuck}\\"`);
      assertEquals(owners(), ["stuck", "valid"]);
      assertEquals(ipJson(hosts.host, "link", "show", stuck).length, 1);
      assertSuccess(await hosts.run(type, "GC", gc));
      assertEquals(owners(), ["valid"]);
    });
  },
);
