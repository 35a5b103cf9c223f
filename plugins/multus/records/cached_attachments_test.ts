import { assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import type { JsonObject } from "../../../base/json/json.ts";
import { AttachmentCache } from "../../../libcni/cache.ts";
import type { CniArgs } from "../../../libcni/operation.ts";
import type { LogFields } from "../../../base/log/log.ts";
import {
  findBesideOthers,
  joinAttachments,
  listCachedAttachments,
} from "./cached_attachments.ts";
import {
  listAttachments,
  type NetworkAttachment,
  networkOf,
} from "../model/attachment.ts";
import { loadDelegate } from "../model/delegate.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const ARGS = {
  containerId: "c1",
  netns: "/run/netns/now",
  ifName: "eth0",
  args: "K8S_POD_NAME=p",
  path: "",
  netnsOverride: false,
};

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** A cache in a directory of its own, and what was logged of it. */
class Fixture implements Disposable {
  readonly dir: string = Deno.makeTempDirSync({ prefix: "multus-cache-" });
  readonly cache: AttachmentCache = new AttachmentCache(this.dir);
  readonly warnings: LogFields[] = [];
  #seconds = 1_700_000_000;

  /** Remembers an attachment, a second after the last. */
  attach(
    network: string,
    ifName: string,
    { config = `{"name":"${network}","plugins":[{"type":"t"}]}`, ...more }: {
      readonly config?: string;
      readonly containerId?: string;
      readonly cniArgs?: CniArgs;
      readonly capabilityArgs?: JsonObject;
      readonly secondsLater?: number;
    } = {},
  ): void {
    const { containerId = "c1", secondsLater = 1 } = more;
    const key = { network, containerId, ifName };
    const { cniArgs = [], capabilityArgs = {} } = more;
    const given = { config: encode(config), cniArgs, capabilityArgs };
    const attachment = { ...key, ...given, netns: "/run/netns/then" };
    this.cache.writeAttachment(attachment, { cniVersion: "1.1.0" });
    this.#seconds += secondsLater;
    const path = this.cache.pathOf(key);
    Deno.utimeSync(path, this.#seconds, this.#seconds);
  }

  list(args: Partial<typeof ARGS> = {}): NetworkAttachment[] {
    return listCachedAttachments(this.cache, { ...ARGS, ...args }, {
      warn: (_, fields = {}): void => {
        this.warnings.push(fields);
      },
    });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.dir, { recursive: true });
  }
}

function names(known: readonly NetworkAttachment[]): string[] {
  return known.map(({ network, conf }) => `${network.name} ${conf.ifName}`);
}

Deno.test("listCachedAttachments() restores the input of ADD", () => {
  using fixture = new Fixture();
  const capabilityArgs = { portMappings: [{ hostPort: 80 }] };
  fixture.attach("n", "net1", {
    config: `{ "name": "n", "type": "t", "x": 1 }`,
    cniArgs: [["IgnoreUnknown", "true"], ["IP", "10.0.0.1"]],
    capabilityArgs,
  });
  const [found] = fixture.list();
  assertEquals(found?.conf, {
    containerId: "c1",
    netns: "/run/netns/now",
    ifName: "net1",
    args: [["IgnoreUnknown", "true"], ["IP", "10.0.0.1"]],
    capabilityArgs,
  });
  assertEquals(found?.name, "n");
  assertEquals(found?.network.plugins.map(({ document }) => document), [
    { name: "n", type: "t", x: 1 },
  ]);
});

Deno.test("listCachedAttachments() uses DEL's arguments if none are cached", () => {
  using fixture = new Fixture();
  fixture.attach("n", "eth0");
  assertEquals(fixture.list()[0]?.conf, {
    containerId: "c1",
    netns: "/run/netns/now",
    ifName: "eth0",
    rawArgs: "K8S_POD_NAME=p",
    capabilityArgs: {},
  });
});

Deno.test("listCachedAttachments() lists in the order of ADD, the master first", () => {
  using fixture = new Fixture();
  fixture.attach("z", "net1");
  fixture.attach("y", "ext0");
  // As after an edit of the cached result.
  fixture.attach("master", "eth0");
  fixture.attach("x", "net10", { secondsLater: 0 });
  fixture.attach("w", "net9", { secondsLater: 0 });
  fixture.attach("a", "net1", { containerId: "c1-x" });
  fixture.attach("a", "c1-net1", { containerId: "other" });
  const expected = ["master eth0", "z net1", "y ext0", "w net9", "x net10"];
  assertEquals(names(fixture.list()), expected);
});

Deno.test("listCachedAttachments() ignores other containers", () => {
  using fixture = new Fixture();
  fixture.attach("a", "eth0", { containerId: "other" });
  assertEquals(fixture.list(), []);
  assertEquals(fixture.list({ containerId: "" }), []);
});

Deno.test("listCachedAttachments() leaves out unusable files, with a warning", () => {
  using fixture = new Fixture();
  fixture.attach("bad", "net1", { config: `{"plugins":[]}` });
  fixture.attach("good", "eth0");
  Deno.writeTextFileSync(join(fixture.dir, "results", "cut-c1-net2"), "{");
  assertEquals(names(fixture.list()), ["good eth0"]);
  assertEquals(fixture.warnings.length, 1);
  assertEquals(
    fixture.warnings[0]?.["file"],
    join(fixture.dir, "results", "bad-c1-net1"),
  );
});

function known(
  name: string,
  ifName: string,
  args: CniArgs = [],
): NetworkAttachment {
  const delegates = [loadDelegate(encode(`{"name":"${name}","type":"t"}`), {
    name: `ns/${name}`,
    request: { ifName },
  })];
  const k8s = {
    podNamespace: "",
    podName: "",
    infraContainerId: "",
    podUid: "",
  };
  const source = { delegates, args: ARGS, k8s, capabilityArgs: {} };
  const [attachment] = listAttachments(source);
  if (attachment === undefined) throw new Error("There is no attachment");
  return { ...attachment, conf: { ...attachment.conf, args } };
}

Deno.test("joinAttachments() keeps everything from both sources", async (t) => {
  const [a, b, c] = [
    known("a", "eth0"),
    known("b", "net1"),
    known("c", "net2"),
  ];
  const otherB = known("b", "net3");
  const rows: [
    string,
    NetworkAttachment[],
    NetworkAttachment[],
    NetworkAttachment[],
  ][] = [
    ["nothing", [], [], []],
    ["the scratch file alone", [a, b], [], [a, b]],
    ["the cache alone", [], [a, b], [a, b]],
    ["the same in both", [a, b], [b, a], [a, b]],
    ["one in the cache only", [a], [c, a], [a, c]],
    ["one in the scratch file only", [a, b], [a], [a, b]],
    ["one network twice", [a, b], [otherB], [a, b, otherB]],
  ];
  await eachRow(t, rows, ([, scratch, cache, expected]) => {
    assertEquals(joinAttachments(scratch, cache), expected);
  });
});

Deno.test("joinAttachments() prefers the cache, except for the name", () => {
  const scratch = known("a", "eth0");
  const cached = { ...known("a", "eth0", [["IP", "10.0.0.1"]]), name: "a" };
  const expected = [{ ...cached, name: "ns/a" }];
  assertEquals(joinAttachments([scratch], [cached]), expected);
});

Deno.test("findBesideOthers() distinguishes this attachment from another's", async (t) => {
  const known = (...texts: string[]): NetworkAttachment[] =>
    texts.map((text) => {
      const [name = "", ifName = ""] = text.split(" ");
      const conf = { containerId: "c1", netns: "", ifName };
      const bytes = encode(JSON.stringify({ name, type: "t" }));
      return { name, network: networkOf(loadDelegate(bytes)), conf };
    });
  const rows: [string, string[], string[], string[] | undefined][] = [
    ["nothing is cached", ["a eth0", "b net1"], [], undefined],
    ["all is cached", ["a eth0", "b net1"], ["a eth0", "b net1"], undefined],
    ["the master is undone", ["a eth0", "b net1"], ["b net1"], undefined],
    [
      "so it is, of the same network",
      ["a eth0", "a net1"],
      ["a net1"],
      undefined,
    ],
    ["never added", ["a eth1", "b net1"], ["a eth0", "b net1"], []],
    ["added before", ["c eth0"], ["a eth0", "b net1", "c eth1"], [
      "a eth0",
      "b net1",
    ]],
    ["the other's failed", ["c eth0"], ["a eth0", "b net1"], [
      "a eth0",
      "b net1",
    ]],
    ["no network is told of", [], ["a eth0"], undefined],
  ];
  await eachRow(t, rows, ([, scratch, cache, expected]) => {
    const found = findBesideOthers(known(...scratch), known(...cache));
    assertEquals(found && names(found), expected);
  });
});
