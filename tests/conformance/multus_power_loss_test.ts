/**
 * What a loss of power, or anything else, may leave of what multus remembers,
 * and that DEL undoes what ADD did all the same: row 39 of the list, and more.
 */

import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "@std/path/posix";
import type { JsonObject } from "../../base/json/json.ts";
import { AttachmentCache } from "../../libcni/cache.ts";
import { describeAttachment } from "../../libcni/operation.ts";
import {
  joinAttachments,
  listCachedAttachments,
} from "../../plugins/multus/records/cached_attachments.ts";
import { ScratchCache } from "../../plugins/multus/records/scratch_cache.ts";
import { encodeScratch } from "../../plugins/multus/records/scratch_document.ts";
import {
  listAttachments,
  type NetworkAttachment,
} from "../../plugins/multus/model/attachment.ts";
import { parseK8sArgs } from "../../plugins/multus/model/k8s_args.ts";
import {
  type AttachmentRequest,
  type Delegate,
  loadDelegate,
} from "../../plugins/multus/model/delegate.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { conformance } from "../_harness/conformance.ts";
import { createRandom } from "../_harness/repetition.ts";
import {
  type PluginCall,
  RecordingPlugins,
} from "../_harness/recording_plugins.ts";

function delegate(
  config: JsonObject,
  request: AttachmentRequest = {},
): Delegate {
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  return loadDelegate(bytes, { request });
}

/** A directory of multus' own, which is removed in the end. */
class Directory implements Disposable {
  readonly path: string = Deno.makeTempDirSync({ prefix: "multus-state-" });
  readonly scratch: ScratchCache = new ScratchCache(this.path);

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

const CONTAINER = "c1";
/** A pod of three networks; one is a list. */
const DELEGATES = [
  delegate({ cniVersion: "1.0.0", name: "master", plugins: [{ type: "a" }] }),
  delegate({ cniVersion: "1.0.0", name: "blue", type: "b" }, {
    ips: ["10.0.0.2/24"],
  }),
  delegate({ cniVersion: "1.0.0", name: "blue", type: "b" }, {
    ifName: "ext0",
    mac: "c2:11:22:33:44:77",
  }),
];
const SCRATCH = encodeScratch(DELEGATES);
const SOURCE = {
  delegates: DELEGATES,
  args: {
    containerId: CONTAINER,
    netns: "/run/netns/a",
    ifName: "eth0",
    args: "",
    path: "",
    netnsOverride: false,
  },
  k8s: parseK8sArgs(""),
  capabilityArgs: {},
};

/** Remembers in libcni's cache what ADD of the pod would have. */
function fillCache(directory: string): AttachmentCache {
  const cache = new AttachmentCache(directory);
  for (const { network, conf } of listAttachments(SOURCE)) {
    cache.writeAttachment(describeAttachment(network, conf), {});
  }
  return cache;
}

function describeKnown(known: readonly NetworkAttachment[]): string[] {
  return known.map(({ network, conf }) => `${network.name} ${conf.ifName}`)
    .sort();
}

const ALL = ["blue ext0", "blue net1", "master eth0"];

/** Finds what DEL would undo. */
function findAttachments(
  scratch: ScratchCache,
  cache: AttachmentCache,
): NetworkAttachment[] {
  const { delegates } = scratch.readUsable(CONTAINER);
  const known = listAttachments({ ...SOURCE, delegates });
  const log = { warn: (): void => {} };
  return joinAttachments(known, listCachedAttachments(cache, SOURCE.args, log));
}

/** Asserts that an incomplete scratch file is ignored, and that DEL misses nothing. */
function checkBroken(
  directory: Directory,
  cache: AttachmentCache,
  bytes: Uint8Array,
): void {
  Deno.writeFileSync(join(directory.path, CONTAINER), bytes);
  assertEquals(directory.scratch.read(CONTAINER), undefined);
  assertEquals(describeKnown(findAttachments(directory.scratch, cache)), ALL);
}

conformance("multus power loss", {
  "a whole scratch file is read": () => {
    using directory = new Directory();
    Deno.writeFileSync(join(directory.path, CONTAINER), SCRATCH);
    assertEquals(directory.scratch.read(CONTAINER), DELEGATES);
  },
  "a scratch file that was cut off at any length is ignored": () => {
    using directory = new Directory();
    const cache = fillCache(directory.path);
    for (let length = 0; length < SCRATCH.length; length++) {
      checkBroken(directory, cache, SCRATCH.subarray(0, length));
    }
  },
  "a scratch file with zeros from any byte on is ignored": () => {
    using directory = new Directory();
    const cache = fillCache(directory.path);
    for (let length = 0; length < SCRATCH.length; length++) {
      checkBroken(directory, cache, SCRATCH.slice().fill(0, length));
    }
  },
  "a scratch file that ends with the bytes of another is ignored": () => {
    using directory = new Directory();
    const cache = fillCache(directory.path);
    const longer = encodeScratch([...DELEGATES, ...DELEGATES]);
    const bytes = longer.slice();
    bytes.set(SCRATCH);
    checkBroken(directory, cache, bytes);
  },
  "garbage in a scratch file stops nothing": () => {
    using directory = new Directory();
    const cache = fillCache(directory.path);
    const random = createRandom(1);
    for (let round = 0; round < 500; round++) {
      const bytes = SCRATCH.slice();
      for (let edit = 0; edit < 3; edit++) {
        bytes[random.below(bytes.length)] = random.below(256);
      }
      Deno.writeFileSync(join(directory.path, CONTAINER), bytes);
      const found = describeKnown(findAttachments(directory.scratch, cache));
      // A changed name may make one network more, but never one less.
      for (const one of ALL) assert(found.includes(one), `round ${round}`);
    }
  },
  "random bytes for a scratch file stop nothing": () => {
    using directory = new Directory();
    const cache = fillCache(directory.path);
    const random = createRandom(2);
    for (let length = 0; length < 300; length++) {
      const bytes = new Uint8Array(length).map(() => random.below(256));
      checkBroken(directory, cache, bytes);
    }
  },
});

const PORT_MAPPINGS: JsonObject = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
};

/** multus with plugins that record, in namespaces of its own. */
class Node implements Disposable {
  readonly hosts: TestHosts = TestHosts.create();
  readonly plugins: RecordingPlugins = new RecordingPlugins();
  readonly scratchFile: string = join(
    this.hosts.directory,
    "multus",
    CONTAINER,
  );

  constructor() {
    for (const type of ["a", "b", "c"]) this.plugins.add(type);
  }

  /** Calls multus with networks m, of the plugins a and b, and n, of c. */
  async run(
    command: string,
    keys: JsonObject = {},
    args = "IgnoreUnknown=1;K8S_POD_NAME=p",
  ): Promise<CallOutput> {
    const capabilities = { portMappings: true };
    const m = {
      cniVersion: "1.0.0",
      name: "m",
      plugins: [{ type: "a", capabilities }, { type: "b" }],
    };
    const n = { cniVersion: "1.0.0", name: "n", type: "c" };
    const { path } = this.plugins.directory;
    return await this.hosts.run("multus", command, {
      cniVersion: "1.0.0",
      name: "multus-cni-network",
      type: "multus",
      cniDir: join(this.hosts.directory, "multus"),
      binDir: path,
      delegates: [m, n],
      ...keys,
    }, { containerId: CONTAINER, env: { CNI_PATH: path, CNI_ARGS: args } });
  }

  /** Runs ADD with port mappings; answers what was recorded. */
  async add(): Promise<readonly PluginCall[]> {
    const { exitCode, stdout } = await this.run("ADD", {
      runtimeConfig: PORT_MAPPINGS,
    });
    assertEquals(exitCode, 0, stdout);
    return this.plugins.calls;
  }

  /** Runs DEL without them; answers what it added to what was recorded. */
  async del(args?: string): Promise<readonly PluginCall[]> {
    const before = this.plugins.calls.length;
    const { exitCode, stdout } = await this.run("DEL", {}, args);
    assertEquals([exitCode, stdout], [0, ""]);
    return this.plugins.calls.slice(before);
  }

  hasScratchFile(): boolean {
    return listNames(dirname(this.scratchFile)).includes(CONTAINER);
  }

  cut(length: number): void {
    Deno.truncateSync(this.scratchFile, length);
  }

  removeScratchFile(): void {
    Deno.removeSync(this.scratchFile);
  }

  removeResults(): void {
    const directory = join(dirname(this.scratchFile), "results");
    Deno.removeSync(directory, { recursive: true });
  }

  [Symbol.dispose](): void {
    this.plugins[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

function listNames(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name);
}

function describeCalls(calls: readonly PluginCall[]): string[] {
  return calls.map(({ type, command, ifName }) =>
    `${type} ${command} ${ifName}`
  );
}

const UNDONE = ["c DEL net1", "b DEL eth0", "a DEL eth0"];

/** Builds a row: DEL undoes ADD with ADD's arguments, whatever became of the files. */
function undoes(damage: (node: Node) => void): () => Promise<void> {
  return async () => {
    using node = new Node();
    const added = await node.add();
    damage(node);
    const deleted = await node.del("");
    assertEquals(describeCalls(deleted), UNDONE);
    const [args] = added.map(({ args }) => args);
    assertEquals(deleted.map((call) => call.args), [args, args, args]);
    assertEquals(deleted[2]?.stdin.runtimeConfig, PORT_MAPPINGS);
    assertEquals(node.hasScratchFile(), false);
  };
}

conformance("multus state", {
  "39 a scratch file is there from ADD to DEL": async () => {
    using node = new Node();
    await node.add();
    assertEquals(node.hasScratchFile(), true);
    await node.del();
    assertEquals(node.hasScratchFile(), false);
  },
  "39 DEL undoes ADD with its arguments": undoes(() => {}),
  "39 DEL does so without the scratch file": undoes((node) =>
    node.removeScratchFile()
  ),
  "39 DEL does so with an empty scratch file": undoes((node) => node.cut(0)),
  "39 DEL does so with a part of the scratch file": undoes((node) =>
    node.cut(200)
  ),
  "39 DEL does so with the scratch file alone": async () => {
    using node = new Node();
    await node.add();
    node.removeResults();
    assertEquals(describeCalls(await node.del()), UNDONE);
  },
  "39 DEL once more is a quiet success": async () => {
    using node = new Node();
    await node.add();
    await node.del();
    const { exitCode, stdout, stderr } = await node.run("DEL");
    assertEquals([exitCode, stdout, stderr], [0, "", ""]);
  },
}, needsRoot);
