import { assert, assertEquals, assertRejects } from "@std/assert";
import { KubeError } from "../../../kube/kube_error.ts";
import { DefinitionStore } from "../../../tests/_harness/definition_store.ts";
import { AttachmentDefinitions } from "./attachment_definitions.ts";
import { MissingNetworkError } from "./missing_network.ts";

function keys(count: number): { namespace: string; name: string }[] {
  return Array.from({ length: count }, (_, index) => ({
    namespace: "ns",
    name: `net${index}`,
  }));
}

function storeOf(count: number): DefinitionStore {
  const definitions = keys(count).map(({ name }) =>
    [`ns/${name}`, { type: name }] as const
  );
  return new DefinitionStore(Object.fromEntries(definitions));
}

Deno.test("AttachmentDefinitions.get() fetches each definition once", async () => {
  const store = storeOf(2);
  using definitions = new AttachmentDefinitions(store);
  const [first, second] = keys(2);
  assert(first && second);
  definitions.prefetch([first, second, first]);
  const [one, other] = [
    await definitions.get(first),
    await definitions.get(first),
  ];
  assertEquals(one, other);
  assertEquals(one.spec?.config, '{"type":"net0"}');
  assertEquals(store.requests, ["ns/net0", "ns/net1"]);
});

Deno.test("AttachmentDefinitions.prefetch() fetches at the same time, and not too many", async (t) => {
  for (const [count, peak] of [[3, 3], [30, 8]] as const) {
    await t.step(`${count}`, async () => {
      const store = storeOf(count);
      const release = store.hold();
      using definitions = new AttachmentDefinitions(store);
      definitions.prefetch(keys(count));
      release();
      for (const key of keys(count)) await definitions.get(key);
      assertEquals([store.requests.length, store.peak], [count, peak]);
    });
  }
});

Deno.test("AttachmentDefinitions.get() says what is missing, and why", async (t) => {
  const rows: [string, KubeError, number][] = [
    ["not found", new KubeError("x", { status: 404 }), 7],
    ["forbidden", new KubeError("x", { status: 403 }), 7],
    ["no answer", new KubeError("x", { status: 0, isTimeout: true }), 11],
    ["an overloaded server", new KubeError("x", { status: 503 }), 11],
  ];
  for (const [name, failure, code] of rows) {
    await t.step(name, async () => {
      const store = new DefinitionStore();
      store.fail("ns/net0", failure);
      using definitions = new AttachmentDefinitions(store);
      const [key] = keys(1);
      assert(key);
      const error = await assertRejects(
        () => definitions.get(key),
        MissingNetworkError,
      );
      const event =
        "cannot find a network-attachment-definition (net0) in namespace (ns): x";
      assertEquals([error.code, error.eventMessage, error.message], [
        code,
        event,
        `getKubernetesDelegate: ${event}`,
      ]);
    });
  }
});

Deno.test("AttachmentDefinitions.get() asks nothing that would lead elsewhere", async (t) => {
  for (const name of ["", ".", "..", "a/b", "../../pods/p", "a%2fb"]) {
    for (
      const key of [{ namespace: "ns", name }, { namespace: name, name: "a" }]
    ) {
      await t.step(JSON.stringify(key), async () => {
        const store = new DefinitionStore();
        using definitions = new AttachmentDefinitions(store);
        const error = await assertRejects(
          () => definitions.get(key),
          MissingNetworkError,
          `invalid resource name ${JSON.stringify(name)}`,
        );
        assertEquals([error.code, store.requests], [7, []]);
      });
    }
  }
});

Deno.test("AttachmentDefinitions gives up what is under way when it is disposed of", async () => {
  const store = storeOf(20);
  const release = store.hold();
  {
    using definitions = new AttachmentDefinitions(store);
    definitions.prefetch(keys(20));
    await Promise.resolve();
  }
  assertEquals(store.aborted, 8);
  release();
  // What waited for its turn gets it, and does nothing.
  for (let turn = 0; turn < 100; turn++) await Promise.resolve();
  assertEquals(store.requests.length, 8);
});

Deno.test("AttachmentDefinitions gives up when it is told to", async () => {
  const store = storeOf(1);
  const controller = new AbortController();
  using definitions = new AttachmentDefinitions(store, controller.signal);
  controller.abort(new Error("time is up"));
  await assertRejects(
    () => definitions.get({ namespace: "ns", name: "net0" }),
    MissingNetworkError,
    "time is up",
  );
  assertEquals(store.requests, []);
});
