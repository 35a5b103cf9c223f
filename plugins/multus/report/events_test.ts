import { assert, assertEquals, assertMatch } from "@std/assert";
import { Cidr } from "../../../net/cidr.ts";
import type { Event } from "../../../kube/types.ts";
import {
  addedInterface,
  type EventSubject,
  networkFailed,
  postEvents,
} from "./events.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const POD: EventSubject = {
  namespace: "test",
  name: "pod1",
  uid: "u1",
  object: { metadata: { resourceVersion: "42" } },
};
const IPS = ["10.1.1.2/24", "2001:db8::2/64"]
  .map((text) => ({ address: Cidr.parse(text) }));

Deno.test("addedInterface() and networkFailed() describe what kubectl shows", async (t) => {
  const rows: Readonly<Record<string, readonly [Event, Partial<Event>]>> = {
    "two addresses": [
      addedInterface(POD, "eth0", IPS, "test/net1"),
      {
        type: "Normal",
        reason: "AddedInterface",
        message: "Add eth0 [10.1.1.2/24 2001:db8::2/64] from test/net1",
      },
    ],
    "no address, no name": [
      addedInterface(POD, "net1", [], ""),
      { type: "Normal", reason: "AddedInterface", message: "Add net1 []" },
    ],
    "no network": [
      networkFailed(POD, {
        reason: "NoNetworkFound",
        message: "cannot find it",
      }),
      { type: "Warning", reason: "NoNetworkFound", message: "cannot find it" },
    ],
  };
  await eachRow(t, Object.entries(rows), ([, [event, expected]]) => {
    const { metadata, firstTimestamp, lastTimestamp, ...others } = event;
    assertEquals(others, {
      apiVersion: "v1",
      kind: "Event",
      involvedObject: {
        kind: "Pod",
        namespace: "test",
        name: "pod1",
        uid: "u1",
        apiVersion: "v1",
        resourceVersion: "42",
      },
      ...expected,
      source: { component: "multus" },
      count: 1,
      reportingComponent: "multus",
      reportingInstance: "",
    });
    assertEquals(metadata.namespace, "test");
    assertEquals(lastTimestamp, firstTimestamp);
    assertMatch(String(firstTimestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const age = Date.now() - Date.parse(String(firstTimestamp));
    assert(age >= 0 && age < 60_000, String(age));
  });
});

Deno.test("addedInterface() leaves out unknown fields of the pod", () => {
  const pod = { namespace: "test", name: "pod1", uid: "" };
  const { involvedObject } = addedInterface(pod, "eth0", IPS, "net1");
  assertEquals(involvedObject, {
    kind: "Pod",
    namespace: "test",
    name: "pod1",
    apiVersion: "v1",
  });
});

Deno.test("addedInterface() names events after the pod and the time", async (t) => {
  const nameOf = (name: string): string =>
    addedInterface({ ...POD, name }, "eth0", IPS, "n").metadata.name ?? "";

  await t.step("in nanoseconds, hexadecimal", () => {
    const [, hex = ""] = /^pod1\.([\da-f]+)$/.exec(nameOf("pod1")) ?? [];
    const age = Date.now() - Number(BigInt(`0x${hex}`) / 1_000_000n);
    assert(age >= 0 && age < 60_000, String(age));
  });

  await t.step("differently even at the same time", () => {
    const names = Array.from({ length: 20 }, () => nameOf("pod1"));
    assertEquals(new Set(names).size, names.length);
  });

  await t.step("with a name that the API allows", () => {
    const long = `${"a".repeat(235)}-.${"b".repeat(16)}`;
    const name = nameOf(long);
    assert(name.length <= 253, name);
    assertMatch(name, /^a{235}\.[\da-f]{16}$/);
  });
});

/** Formats the messages of a test's log. */
function recordLog(): {
  readonly lines: Record<string, unknown>[];
  readonly info: (msg: string, fields?: object) => void;
} {
  const lines: Record<string, unknown>[] = [];
  const info = (msg: string, fields?: object): void => {
    lines.push({ msg, ...fields });
  };
  return { lines, info };
}

const EVENTS = ["net1", "net2", "net3"]
  .map((ifName) => addedInterface(POD, ifName, IPS, "test/n"));

Deno.test("postEvents() posts one after the other, on one connection", async () => {
  const log = recordLog();
  const posted: unknown[] = [];
  let underWay = 0;
  await postEvents(
    {
      async createEvent(...posting): Promise<void> {
        assertEquals(underWay++, 0);
        await Promise.resolve();
        underWay--;
        posted.push(posting.slice(0, 2));
      },
    },
    EVENTS,
    { withinMs: 30_000, log },
  );
  assertEquals(posted, EVENTS.map((event) => ["test", event]));
  assertEquals(log.lines, []);
});

Deno.test("postEvents() logs refused events, and never fails", async () => {
  const log = recordLog();
  await postEvents(
    {
      createEvent(_namespace, { message }): Promise<void> {
        if (message?.includes("net2")) {
          return Promise.reject(new Error("forbidden"));
        }
        if (message?.includes("net3")) throw new Error("no client");
        return Promise.resolve();
      },
    },
    EVENTS,
    { withinMs: 30_000, log },
  );
  assertEquals(
    log.lines,
    [
      { event: EVENTS[1]?.message, problem: "forbidden" },
      { event: EVENTS[2]?.message, problem: "no client" },
    ].map((line) => ({
      msg: "Cannot post an event",
      reason: "AddedInterface",
      ...line,
    })),
  );
});

Deno.test("postEvents() waits until its time limit, whatever the client does", async () => {
  const log = recordLog();
  const signals: (AbortSignal | undefined)[] = [];
  const started = performance.now();
  await postEvents(
    {
      createEvent(_namespace, { message }, options): Promise<void> {
        signals.push(options?.signal);
        const { promise, reject } = Promise.withResolvers<void>();
        // One request obeys the signal, the others never return.
        if (message?.includes("net1")) {
          options?.signal?.addEventListener(
            "abort",
            () => reject(new Error("gone")),
          );
        }
        return promise;
      },
    },
    EVENTS,
    { withinMs: 50, log },
  );
  const took = performance.now() - started;
  assert(took >= 45 && took < 30_000, `${took} ms`);
  assertEquals(signals.map((signal) => signal?.aborted), [true, true, true]);
  assertEquals(log.lines.length, 3);
  assertEquals(log.lines[2]?.["problem"], "no answer within 50 ms");
});
