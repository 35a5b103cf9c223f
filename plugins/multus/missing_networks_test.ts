import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import type { Event, Pod } from "../../kube/types.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import {
  type DefinedAttachment,
  findMissingNetworks,
  MissingNetworksWatch,
} from "./missing_networks.ts";
import type { CachedObject } from "../../kube/resident/informer.ts";
import { cachedPod } from "./pod/cached_objects.ts";

const IP = "10.1.0.2";
const MASTER = { name: "pods", interface: "eth0", ips: [IP], default: true };

/** What differs from a running pod without networks. */
interface Parts {
  readonly networks?: string;
  readonly master?: string;
  readonly status?: readonly JsonObject[];
  readonly spec?: Partial<Pod["spec"]>;
  readonly podStatus?: Pod["status"];
  readonly metadata?: Pod["metadata"];
}

function podOf(
  { networks, master, status, spec, podStatus, metadata }: Parts,
): Pod {
  const annotations = {
    ...networks !== undefined && { "k8s.v1.cni.cncf.io/networks": networks },
    ...master !== undefined &&
      { "v1.multus-cni.io/default-network": master },
    ...status &&
      { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status) },
  };
  return {
    metadata: {
      namespace: "test",
      name: "web",
      uid: "u1",
      ...metadata,
      annotations,
    },
    ...spec && { spec: { containers: [], ...spec } },
    status: { phase: "Running", podIP: IP, ...podStatus },
  };
}

const ONE = [MASTER, { name: "test/a", interface: "net1" }];
const RECORD: DefinedAttachment = {
  pod: "test/web",
  ifName: "net1",
  isLive: true,
  definition: "test/a",
};

Deno.test("findMissingNetworks() compares requests with the status and records", async (t) => {
  const rows: Record<string, [Parts, string[], DefinedAttachment[]?]> = {
    "no request": [{}, []],
    "all attached": [{ networks: "a", status: ONE }, []],
    "one of two": [{ networks: "a, other/b", status: ONE }, ["other/b"]],
    "none, and no status": [{ networks: "a@net1" }, ["test/a"]],
    "none, and a malformed status": [
      { networks: "a", status: "x" as unknown as JsonObject[] },
      ["test/a"],
    ],
    "none, and a status with values that no program can print": [
      {
        networks: "a",
        status: [
          { ...MASTER, ips: [{ toString: 1 }, IP] },
          { name: { toString: 1 }, interface: "net1" },
        ],
      },
      ["test/a"],
    ],
    "the same network twice, attached once": [
      { networks: "a,a", status: ONE },
      ["test/a"],
    ],
    "the same network twice, the named interface second": [
      {
        networks: "a,a@x0",
        status: [...ONE, { name: "test/a", interface: "x0" }],
      },
      [],
    ],
    "another interface than the requested one": [
      { networks: "a@x0", status: ONE },
      ["test/a"],
    ],
    "the status of the sandbox before a reboot": [
      { networks: "a", status: ONE, podStatus: { podIP: "10.1.0.9" } },
      ["test/a"],
    ],
    "a second address": [
      {
        networks: "a",
        status: [{ ...MASTER, ips: ["fd00::2"] }, ...ONE.slice(1)],
        podStatus: { podIPs: [{ ip: IP }, { ip: "fd00::2" }] },
      },
      [],
    ],
    "a default network": [
      { master: "m", status: [{ ...MASTER, name: "kube-system/m" }] },
      [],
    ],
    "another default network": [{ master: "sys/m", status: [MASTER] }, ["m"]],
    "recorded without interfaces": [{ networks: "a" }, [], [RECORD]],
    "recorded for another pod, and for a deleted sandbox": [
      { networks: "a" },
      ["test/a"],
      [{ ...RECORD, pod: "test/x" }, { ...RECORD, isLive: false }],
    ],
    "host network": [
      { networks: "a", spec: { hostNetwork: true } } as Parts,
      [],
    ],
    "being created": [{ networks: "a", podStatus: { podIP: "" } }, []],
    "completed": [{ networks: "a", podStatus: { phase: "Succeeded" } }, []],
    "failed": [{ networks: "a", podStatus: { phase: "Failed" } }, []],
    "being deleted": [
      { networks: "a", metadata: { deletionTimestamp: "2026-01-01" } },
      [],
    ],
    "a malformed request": [
      { networks: "a/b/c" },
      [
        "parsePodNetworkAnnotation: parsePodNetworkObjectName: Invalid network " +
        "object (failed at '/')",
      ],
    ],
  };
  await eachRow(t, Object.entries(rows), async ([, row]) => {
    const [parts, expected, records = []] = row;
    const pod = podOf(parts);
    const find = (): Promise<DefinedAttachment[]> => Promise.resolve(records);
    assertEquals(await findMissingNetworks(pod, find), expected);
    // The cached part of the pod says the same.
    const cached: Pod = JSON.parse(
      cachedPod({
        ...pod,
        metadata: { uid: "u1", ...pod.metadata },
      })?.text ?? "",
    );
    assertEquals(await findMissingNetworks(cached, find), expected);
  });
});

Deno.test("MissingNetworksWatch reports a network that is missing in two checks, once", async () => {
  const end = new AbortController();
  const posted: Event[] = [], logged: unknown[] = [];
  let look = 0, reads = 0;
  const watch = new MissingNetworksWatch({
    pods: {
      isCurrent: true,
      // Each look sees what is there at its time.
      list(): CachedObject[] {
        look++;
        const of = (uid: string, parts: Parts): Pod => {
          const pod = podOf(parts);
          return { ...pod, metadata: { ...pod.metadata, uid, name: uid } };
        };
        return [
          of("plain", {}),
          of("complete", { networks: "a", status: ONE }),
          // A network that is attached to the running pod.
          of("soon", { networks: "a", status: look === 1 ? [] : ONE }),
          of("late", {
            networks: look < 6 ? "a,b" : "a,b,c",
            status: ONE,
          }),
          ...look < 9 ? [of("gone", { networks: "a" })] : [],
        ].flatMap((pod) => cachedPod(pod) ?? []);
      },
    },
    attachments(): Promise<DefinedAttachment[]> {
      reads++;
      return Promise.resolve([]);
    },
    post: (event) => posted.push(event),
    log: { warn: (text, fields) => logged.push([text, fields]) },
    lookMs: 1,
  });
  const running = watch.run(end.signal);
  await eventually("ten looks are done", () => look > 10);
  end.abort();
  await running;
  assertEquals(
    posted.map(({ type, reason, message, involvedObject }) => [
      type,
      reason,
      involvedObject.name,
      /without (.*)\. /.exec(message ?? "")?.[1],
    ]),
    [
      ["Warning", "NetworkMissing", "late", "test/b"],
      ["Warning", "NetworkMissing", "gone", "test/a"],
      ["Warning", "NetworkMissing", "late", "test/b, test/c"],
    ],
  );
  assertEquals(logged.length, 3);
  assertEquals(watch.pods, [
    { pod: "test/late", networks: ["test/b", "test/c"] },
  ]);
  assertEquals(watch.count, 1);
  // Once for each look.
  assertEquals(reads, look);
});

Deno.test("MissingNetworksWatch continues after an error, and waits for the list of pods", async () => {
  const end = new AbortController();
  const logged: string[] = [];
  let looks = 0, asked = 0;
  const pod = cachedPod(podOf({ networks: "a" }));
  const watch = new MissingNetworksWatch({
    pods: {
      get isCurrent(): boolean {
        return ++asked > 2;
      },
      list: () => pod === undefined ? [] : [pod],
    },
    attachments: () =>
      ++looks < 3 ? Promise.reject(new Error("no cache")) : Promise.resolve([]),
    post(): void {},
    log: { warn: (text) => logged.push(text) },
    lookMs: 1,
  });
  const running = watch.run(end.signal);
  await eventually("it reports the pod", () => watch.count === 1);
  end.abort();
  await running;
  assertEquals(logged, [
    "Cannot look for missing networks",
    "A pod runs without networks that it requests",
  ]);
});
