import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ListDeletion, unbatched } from "../../../cni/call/link_deletion.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson, linkNames } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { LinkRemover } from "./link_remover.ts";
import { deleteLater, deleteLinks, deleteNow } from "./delete_links.ts";

rootTest(
  "deleteLater() hands links to the network list, if one runs",
  async () => {
    using hosts = TestHosts.create();
    using host = Rtnl.open(hosts.host.path);
    const hostNetns = hosts.host.path;
    const add = (name: string): { index: number; name: string } =>
      host.link.addIfb({ name, mtu: 1500, transmitQueueLength: 1 });
    await deleteLater([add("a")], { linkDeletion: unbatched, hostNetns });
    assertEquals(linkNames(hosts.host), ["lo"]);
    const linkDeletion = new ListDeletion();
    await deleteLater([add("b"), add("c")], { linkDeletion, hostNetns });
    assertEquals(linkNames(hosts.host), ["lo", "b", "c"]);
    await deleteNow([add("d")], { linkDeletion, hostNetns });
    assertEquals(linkNames(hosts.host), ["lo"]);
    await deleteLater([add("e")], { linkDeletion, hostNetns });
    await linkDeletion.finish();
    assertEquals(linkNames(hosts.host), ["lo"]);
  },
);

for (const kind of ["as a process does", "by a remover"] as const) {
  rootTest(
    `deleteLinks() prepares a link unless its peer is deleted with it, ${kind}`,
    async () => {
      using hosts = TestHosts.create();
      using host = Rtnl.open(hosts.host.path);
      const hostNetns = hosts.host.path;
      await using remover = new LinkRemover(hostNetns);
      const outer = kind === "by a remover" ? remover : unbatched;
      const add = (name: string): { index: number; name: string } =>
        host.link.addIfb({ name, mtu: 1500, transmitQueueLength: 1 });
      const prepared: string[][] = [];
      const linkDeletion = new ListDeletion(outer);
      const call = { linkDeletion, hostNetns };
      const deleteQueue = async (
        name: string,
        pair: number,
      ): Promise<void> => {
        await deleteLater([add(name)], call, {
          run: () => void prepared.push(linkNames(hosts.host)),
          unlessDeleted: [{ index: pair, netns: hostNetns }],
        });
      };
      const pair = add("a");
      await deleteQueue("a-queue", pair.index);
      await deleteNow([pair], call);
      assertEquals([linkNames(hosts.host), prepared], [["lo"], []]);

      const kept = add("b");
      await deleteQueue("b-queue", kept.index);
      await linkDeletion.finish();
      assertEquals(prepared, [["lo", "b", "b-queue"]]);
      assertEquals(linkNames(hosts.host), ["lo", "b"]);
    },
  );

  rootTest(`deleteLinks() deletes an unprepared link, ${kind}`, async () => {
    using hosts = TestHosts.create();
    using host = Rtnl.open(hosts.host.path);
    const hostNetns = hosts.host.path;
    await using remover = new LinkRemover(hostNetns);
    const linkDeletion = kind === "by a remover" ? remover : unbatched;
    const link = host.link.addIfb({
      name: "a",
      mtu: 1500,
      transmitQueueLength: 1,
    });
    const deletion = deleteLater([link], { linkDeletion, hostNetns }, {
      run: () => {
        throw new Error("not prepared");
      },
      unlessDeleted: [],
    });
    await assertRejects(() => deletion, Error, "not prepared");
    assertEquals(linkNames(hosts.host), ["lo"]);
  });
}

rootTest("deleteLinks() deletes the others if one cannot be deleted", () => {
  using hosts = TestHosts.create();
  using host = Rtnl.open(hosts.host.path);
  const add = (name: string): { index: number; name: string } =>
    host.link.addIfb({ name, mtu: 1500, transmitQueueLength: 1 });
  const links = [add("a"), host.link.get("lo"), add("b")]
    .map((link) => ({ ...link, netns: hosts.host.path }));
  const error = assertThrows(
    () => deleteLinks(links),
    Error,
    'Cannot delete "lo"',
  );
  assertThrows(
    () => {
      throw error.cause;
    },
    Error,
    "RTM_DELLINK link 1: EOPNOTSUPP",
  );
  const left = ipJson(hosts.host, "link");
  assertEquals(
    left.map((
      link: Record<string, unknown>,
    ) => [link["ifname"], link["group"]]),
    [["lo", "default"]],
  );
});

rootTest(
  "LinkRemover prepares a link once",
  async () => {
    // No socket can be opened there.
    const netns = "/proc/4194304/ns/net";
    await using remover = new LinkRemover(netns);
    let count = 0;
    const preparation = { run: () => void count++, unlessDeleted: [] };
    await remover.now([{ index: 2, name: "a", netns, preparation }]);
    assertEquals(count, 1);
  },
);
