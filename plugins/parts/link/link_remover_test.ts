import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { describeError } from "../../../base/error.ts";
import { whenSuperseded } from "../../../tests/_harness/superseded.ts";
import { SyscallError } from "../../../ffi/errno.ts";
import { NetlinkSocket } from "../../../ffi/netlink/socket.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { linkNames } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { intercept } from "../../../testing/fault_injector.ts";
import type { LinkToDelete } from "../../../cni/call/link_deletion.ts";
import { LinkRemover } from "./link_remover.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** A temporary host with a remover. */
class Fixture implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly hosts = this.#stack.use(TestHosts.create());
  readonly rtnl = this.#stack.use(Rtnl.open(this.hosts.host.path));
  readonly remover = this.#stack.use(new LinkRemover(this.hosts.host.path));

  /** Adds a veth pair. */
  add(name: string): LinkToDelete {
    const { host, sandbox } = this.hosts;
    const peer = { netns: sandbox, name: `p-${name}` };
    const { index } = this.rtnl.link.addVeth({ name, peer });
    return { index, name, netns: host.path };
  }

  /** Adds many veth pairs. */
  addMany(count: number): LinkToDelete[] {
    return Array.from({ length: count }, (_, i) => this.add(`v${i}`));
  }

  get names(): string[] {
    return linkNames(this.hosts.host);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

rootTest("LinkRemover.now() returns after the link was deleted", async () => {
  await using fixture = new Fixture();
  const { rtnl, remover } = fixture;
  let early = 0;
  for (let i = 0; i < 20; i++) {
    // The name is free at once, for the same attachment or for another one.
    const link = fixture.add("veth0");
    await remover.now([link]);
    if (remover.unacknowledged > 0) early++;
    assertEquals(rtnl.link.find(link.index), undefined);
  }
  assert(early > 0, "it waited for the kernel each time");
});

rootTest("LinkRemover deletes links of many calls in few groups", async () => {
  await using fixture = new Fixture();
  const { remover } = fixture;
  const links = fixture.addMany(110);
  let groups = 0;
  using _count = countGroups(() => groups++);
  await Promise.all(links.map((link) => remover.now([link])));
  assertEquals(fixture.names, ["lo"]);
  assertEquals(groups, 2);
});

/** Counts what is sent on other threads. */
function countGroups(onGroup: () => void): Disposable {
  const stack = new DisposableStack();
  stack.defer(
    intercept(NetlinkSocket.prototype, "sendInBackground", (_, work) => {
      onGroup();
      return work();
    }),
  );
  return stack;
}

rootTest(
  "LinkRemover groups links that arrive one after the other",
  async () => {
    await using fixture = new Fixture();
    const { remover, rtnl } = fixture;
    const links = fixture.addMany(40);
    const turns = links.map(async (link, position) => {
      for (let i = 0; i < position; i++) await Promise.resolve();
      await remover.now([link]);
      assertEquals(rtnl.link.find(link.index), undefined);
    });
    await Promise.all(turns);
    assertEquals(fixture.names, ["lo"]);
  },
);

rootTest("LinkRemover.now() accepts deleted links", async () => {
  await using fixture = new Fixture();
  const { remover, rtnl } = fixture;
  const [gone, twice, other] = [
    fixture.add("a"),
    fixture.add("b"),
    fixture.add("c"),
  ];
  rtnl.link.del(gone.index);
  await remover.now([gone]);
  await Promise.all([
    remover.now([gone, twice]),
    remover.now([twice, other]),
    remover.now([]),
  ]);
  assertEquals(fixture.names, ["lo"]);
});

rootTest(
  "LinkRemover.now() names a link that cannot be deleted",
  async () => {
    await using fixture = new Fixture();
    const { remover, hosts } = fixture;
    const lo = { index: 1, name: "lo", netns: hosts.host.path };
    const [one, other] = [fixture.add("a"), fixture.add("b")];
    const failing = remover.now([lo]);
    const others = remover.now([one, other]);
    const error = await assertRejects(() => failing);
    assertEquals(
      describeError(error),
      'Cannot delete "lo": RTM_DELLINK link 1: EOPNOTSUPP',
    );
    await others;
    assertEquals(fixture.names, ["lo"]);
  },
);

rootTest(
  "LinkRemover deletes the other links of a group with a superseded call",
  async () => {
    await using fixture = new Fixture();
    const { remover, hosts } = fixture;
    const lo = { index: 1, name: "lo", netns: hosts.host.path };
    const failing = whenSuperseded(() => remover.now([lo]));
    const other = remover.now([fixture.add("a")]);
    await assertRejects(() => failing, Error, "superseded");
    await other;
    assertEquals(fixture.names, ["lo"]);
  },
);

rootTest(
  "LinkRemover deletes no link of a superseded call",
  async () => {
    await using fixture = new Fixture();
    const { remover } = fixture;
    const kept = fixture.add("a");
    const failing = whenSuperseded(() => remover.now([kept]));
    const other = remover.now([fixture.add("b")]);
    await assertRejects(() => failing, Error, "superseded");
    await other;
    assertEquals(fixture.names, ["lo", "a"]);
    await remover.now([kept]);
    assertEquals(fixture.names, ["lo"]);
  },
);

rootTest(
  "LinkRemover deletes links even if notifications and responses are lost",
  async (t) => {
    const rows: [name: string, prepare: (stack: DisposableStack) => void][] = [
      [
        "the kernel drops notifications",
        (stack) =>
          stack.defer(intercept(
            NetlinkSocket.prototype,
            "sendInBackground",
            (_, work) => {
              const requests = work() as {
                take: (onNotice: (notice: undefined) => void) => unknown;
              };
              const take = requests.take.bind(requests);
              requests.take = (onNotice): unknown => {
                onNotice(undefined);
                return take(() => onNotice(undefined));
              };
              return requests;
            },
          )),
      ],
      [
        "no notification at all",
        (stack) =>
          stack.defer(
            intercept(NetlinkSocket.prototype, "subscribe", () => {}),
          ),
      ],
      [
        "no socket",
        (stack) => {
          let isFirst = true;
          stack.defer(intercept(Rtnl, "open", (_, work) => {
            if (!isFirst) return work();
            isFirst = false;
            throw new SyscallError("socket", 24);
          }));
        },
      ],
    ];
    await eachRow(t, rows, async ([, prepare]) => {
      await using fixture = new Fixture();
      const links = fixture.addMany(5);
      using stack = new DisposableStack();
      prepare(stack);
      await fixture.remover.now(links);
      stack.dispose();
      assertEquals(fixture.names, ["lo"]);
    });
  },
);

rootTest(
  "LinkRemover deletes links one by one after it is closed",
  async () => {
    await using fixture = new Fixture();
    const { remover } = fixture;
    const early = remover.now([fixture.add("a")]);
    await remover[Symbol.asyncDispose]();
    assertEquals(remover.unacknowledged, 0);
    await early;
    await remover.now([fixture.add("b")]);
    assertEquals(fixture.names, ["lo"]);
  },
);

rootTest(
  "LinkRemover deletes links of sandboxes and of the host",
  async () => {
    await using fixture = new Fixture();
    const { hosts: { sandbox }, remover } = fixture;
    using rtnl = Rtnl.open(sandbox.path);
    const add = (name: string): LinkToDelete => {
      const options = { name, mtu: 1500, transmitQueueLength: 1 };
      const { index } = rtnl.link.addIfb(options);
      return { index, name, netns: sandbox.path };
    };
    const gone = { index: 999, name: "gone", netns: sandbox.path };
    const links = [add("a"), fixture.add("b"), add("c"), gone];
    await remover.now(links);
    assertEquals([linkNames(sandbox), fixture.names], [["lo"], ["lo"]]);
    const lo = { index: 1, name: "lo", netns: sandbox.path };
    const nowhere = { ...gone, netns: "/run/netns/none" };
    await assertRejects(
      () => remover.now([lo]),
      Error,
      'Cannot delete "lo"',
    );
    await remover.now([nowhere]);
  },
);

rootTest("LinkRemover.later() waits until the links are deleted", async () => {
  await using fixture = new Fixture();
  const { remover, hosts } = fixture;
  await remover.later([fixture.add("a"), fixture.add("b")]);
  assertEquals(linkNames(hosts.host), ["lo"]);
});

rootTest("DEL of many pods with one LinkRemover leaves no link", async () => {
  await using fixture = new Fixture();
  const { hosts, remover } = fixture;
  const config = {
    cniVersion: "1.1.0",
    name: "net1",
    type: "chain",
    plugins: [
      { type: "ptp", ipam: hosts.hostLocal("10.1.0.0/16") },
      { type: "bandwidth", egressRate: 1e9, egressBurst: 1e8 },
    ],
  };
  const pods = Array.from({ length: 20 }, (_, i) => ({
    containerId: `pod${i}`,
    sandbox: hosts.addNetns(),
    linkDeletion: remover,
  }));
  for (const pod of pods) {
    const { exitCode, stdout } = await hosts.run("chain", "ADD", config, pod);
    assertEquals(exitCode, 0, stdout);
  }
  assertStringIncludes(fixture.names.join(), "bwp");
  const outputs = await Promise.all(
    pods.map((pod) => hosts.run("chain", "DEL", config, pod)),
  );
  assertEquals(outputs.filter(({ exitCode }) => exitCode !== 0), []);
  assertEquals([fixture.names, hosts.leases()], [["lo"], []]);
});
