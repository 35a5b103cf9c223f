/**
 * multus and an API server that does not answer, or not as it should: pods are
 * attached to all their networks or to none, in a known time, and DEL depends on
 * nobody.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type {
  FaultRule,
  KubeApi,
  KubeconfigKind,
} from "../../../kube/testing/kube_api.ts";
import { CertificateAuthority } from "../../../kube/testing/certificates.ts";
import {
  BIN,
  type HostCall,
  type HostOutput,
  type HostPod,
  hostTest,
  MultusHost,
} from "../testing/host.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** How long an ADD waits for one request, in seconds. */
const API_SECONDS = 15;
/** Longest time of such an ADD, however busy the machine is, in ms. */
const TIMEOUT_MS = 60_000;

/** How an API server does not answer as it should. */
interface Trouble {
  /** The expected code. */
  readonly code: 7 | 11;
  /** A part of the expected message. */
  readonly text: RegExp;
  /** Makes it so. */
  begin(api: KubeApi): unknown;
}

/** Creates the trouble that a fault is. */
function fault(rule: FaultRule, code: 7 | 11, text: RegExp): Trouble {
  return { code, text, begin: (api) => api.fault(rule) };
}

const TROUBLES: Readonly<Record<string, Trouble>> = {
  "is not there": {
    code: 11,
    text: /connection refused/,
    begin: (api) => api.stop(),
  },
  "accepts connections and says nothing": {
    code: 11,
    text: /context deadline exceeded/,
    begin: (api) => api.blackhole(),
  },
  "takes a minute for each answer": fault(
    { delayMs: 60_000 },
    11,
    /context deadline exceeded/,
  ),
  "closes the connection": fault(
    { drop: "before" },
    11,
    /EOF|context deadline exceeded/,
  ),
  "closes the connection in the middle of the answer": fault(
    { drop: "mid-body" },
    11,
    /EOF|context deadline exceeded/,
  ),
  "does not know us (401)": fault({ status: 401 }, 7, /Unauthorized/),
  "does not let us (403)": fault({ status: 403 }, 7, /forbidden/),
  "is in conflict (409)": fault({ status: 409 }, 11, /has been modified/),
  "has forgotten (410)": fault({ status: 410 }, 7, /410/),
  "is busy (429)": fault({ status: 429 }, 11, /Too many requests/),
  "is busy for long (429)": fault(
    { status: 429, retryAfter: 60 },
    11,
    /Too many requests/,
  ),
  "is broken (500)": fault({ status: 500 }, 11, /leader changed/),
  "is unavailable (503)": fault({ status: 503 }, 11, /currently unable/),
  "answers with a page of something else": fault(
    { body: "<html>Welcome</html>" },
    7,
    /the answer is not a JSON object/,
  ),
};

/** The steps for each trouble. */
type RowOf = (scene: Scene, trouble: Trouble) => Promise<void>;

/** A cluster of its own, on a node that others are on too. */
interface Scene {
  readonly host: MultusHost;
  readonly api: KubeApi;
  readonly name: string;
  addPod(name: string): HostPod;
  call(command: string, pod: HostPod): Promise<HostOutput>;
}

/**
 * Runs a row for each trouble, all at once, for most of their time is waiting. TLS
 * takes a third of a call's processor time, so one test has it.
 */
async function forEachTrouble(
  t: Deno.TestContext,
  troubles: Readonly<Record<string, Trouble>>,
  run: RowOf,
  transport: "http" | "https" = "http",
): Promise<void> {
  await using host = await MultusHost.start({ transport });
  const rows = Object.entries(troubles).map(([name, trouble], index) => {
    const ended = runInCluster(host, index, (scene) => run(scene, trouble));
    return {
      name,
      failed: ended.then(() => undefined, (error) => ({ error })),
    };
  });
  await eachRow(t, rows, async ({ failed }) => {
    const failure = await failed;
    if (failure !== undefined) throw failure.error;
  }, ({ name }) => `an API server that ${name}`);
  assertEquals(host.remains(), []);
}

async function runInCluster(
  host: MultusHost,
  index: number,
  run: (scene: Scene) => Promise<void>,
): Promise<void> {
  // None is the beginning of another.
  const name = `cluster${index}z`;
  const { api, kubeconfig } = await host.startCluster(name);
  await using _api = api;
  await run({
    host,
    api,
    name,
    addPod: (pod) => host.addPod(`${pod}-${name}`, { networks: "green" }, api),
    call: (command, pod) =>
      host.call(command, pod, {
        keys: { kubeconfig, apiTimeoutSeconds: API_SECONDS },
      }),
  });
}

function assertSuccess({ code, stdout }: HostOutput): void {
  assertEquals(code, 0, stdout);
}

function assertFailure(
  { code, json, ms }: HostOutput,
  trouble: Trouble,
): void {
  assertEquals([code, json?.code], [1, trouble.code], JSON.stringify(json));
  assertMatch(json.msg, trouble.text);
  assert(ms < TIMEOUT_MS, `it took ${ms} ms`);
}

hostTest("multus attaches nothing without the pod from the API", async (t) => {
  await forEachTrouble(t, TROUBLES, async (scene, trouble) => {
    const { host, api } = scene;
    const before = scene.addPod("before"), pod = scene.addPod("new");
    assertSuccess(await scene.call("ADD", before));
    await trouble.begin(api);
    api.clearRequests();

    // What is attached is on disk: nobody is asked.
    const deleted = await scene.call("DEL", before);
    assertEquals([deleted.code, deleted.stdout], [0, ""]);
    assertEquals([api.requests, host.remainsOf(before)], [[], []]);

    const added = await scene.call("ADD", pod);
    assertFailure(added, trouble);
    assertStringIncludes(added.json.msg, "error waiting for pod: ");
    assertEquals(host.remainsOf(pod), []);
    assertEquals((await scene.call("DEL", pod)).code, 0);
  }, "https");
});

/** Limits a fault to some requests. */
function only(
  trouble: Trouble,
  rule: Pick<FaultRule, "method" | "path">,
): Trouble {
  const begin = (api: KubeApi): unknown => {
    const limited: Pick<KubeApi, "fault"> = {
      fault: (given) => api.fault({ ...given, ...rule }),
    };
    return trouble.begin(limited as KubeApi);
  };
  return { ...trouble, begin };
}

/**
 * The troubles of one request among others, one of each kind: the client is the same
 * for every request, so the pod's has had them all.
 */
const OF_ONE = [
  "takes a minute for each answer",
  "closes the connection in the middle of the answer",
  "does not let us (403)",
  "is in conflict (409)",
  "is unavailable (503)",
  "answers with a page of something else",
];

/** The troubles of one request, of those that a rule selects. */
function onlyOf(
  rule: Pick<FaultRule, "method" | "path">,
): Record<string, Trouble> {
  return Object.fromEntries(
    OF_ONE.map((name) => [name, only(TROUBLES[name] as Trouble, rule)]),
  );
}

hostTest("multus attaches nothing without all networks", async (t) => {
  const troubles = onlyOf({ path: /network-attachment-definitions/ });
  await forEachTrouble(t, troubles, async (scene, trouble) => {
    await trouble.begin(scene.api);
    const pod = scene.addPod("new");
    const added = await scene.call("ADD", pod);
    assertFailure(added, trouble);
    assertStringIncludes(
      added.json.msg,
      "cannot find a network-attachment-definition (green) in namespace " +
        "(default): ",
    );
    assertEquals(scene.host.remainsOf(pod), []);
    assertEquals((await scene.call("DEL", pod)).code, 0);
    const events = scene.api.eventTexts
      .map((text) => text.slice(0, text.indexOf(" (")));
    // An API server that cannot tell would not take it either.
    assertEquals(
      events,
      trouble.code === 11 ? [] : [
        "Warning NoNetworkFound cannot find a network-attachment-definition",
      ],
    );
  });
});

hostTest("multus undoes all if the status cannot be written", async (t) => {
  const rule = { path: /\/status$/ };
  const troubles = {
    ...onlyOf(rule),
    "carries out each PATCH, and answers none": only(
      fault({ drop: "after" }, 11, /EOF/),
      rule,
    ),
  };
  await forEachTrouble(t, troubles, async (scene, trouble) => {
    const { host, api } = scene;
    await trouble.begin(scene.api);
    const pod = scene.addPod("new");
    const added = await scene.call("ADD", pod);
    assertFailure(added, trouble);
    assertStringIncludes(
      added.json.msg,
      `Multus: [default/${pod.name}/${pod.uid}]: error setting the networks status: `,
    );
    assertEquals(api.networkStatus("default", pod.name), undefined);
    // What the runtime's DEL begins with.
    assertEquals(host.remainsOf(pod), [pod.containerId]);
    const deleted = await scene.call("DEL", pod);
    assertEquals([deleted.code, deleted.stdout], [0, ""]);
    assertEquals(host.remainsOf(pod), []);
  });
});

/** Troubles that pass. */
const PASSING: Readonly<Record<string, FaultRule>> = {
  "takes half a second for each answer": { delayMs: 500 },
  "takes two and a half seconds for each answer": { delayMs: 2500 },
  "closes a connection": { drop: "before", times: 1 },
  "closes connections for networks in the middle of the answer": {
    path: /definitions/,
    drop: "mid-body",
    times: 2,
  },
  "is broken for a moment": { method: "GET", status: 500, times: 3 },
  "is broken while the status is written": {
    method: "PATCH",
    status: 500,
    times: 1,
  },
  "does not answer the first PATCH": {
    method: "PATCH",
    delayMs: 60_000,
    times: 1,
  },
  "loses the answer to a PATCH": { method: "PATCH", drop: "after", times: 2 },
  "is unavailable for a moment": { method: "GET", status: 503, times: 3 },
  "is too busy for the pod": { status: 429, retryAfter: 1, times: 1 },
  "is too busy for the status": { path: /status$/, status: 429, times: 2 },
  "is in conflict about the status": { path: /status$/, status: 409, times: 3 },
  "does not know PATCH": { method: "PATCH", status: 405 },
  "does not know this PATCH": { method: "PATCH", status: 415 },
  "does not let us patch": { method: "PATCH", status: 403 },
  "loses all events": { path: /events$/, drop: "before" },
};

hostTest("multus attaches a pod if the API is slow at first", async (t) => {
  const troubles = Object.fromEntries(
    Object.entries(PASSING)
      .map(([name, rule]) => [name, fault(rule, 7, /nothing/)]),
  );
  await forEachTrouble(t, troubles, async (scene, trouble) => {
    await trouble.begin(scene.api);
    const pod = scene.addPod("new");
    assertSuccess(await scene.call("ADD", pod));
    const status = scene.api.networkStatus("default", pod.name);
    assertEquals(
      status.map(({ name }: { name: string }) => name),
      ["pods", "default/green"],
    );
    assertSuccess(await scene.call("DEL", pod));
    assertEquals(scene.host.remainsOf(pod), []);
  });
});

/** How kubeconfigs prove who multus is. */
const KINDS: readonly KubeconfigKind[] = [
  "token",
  "tokenFile",
  "clientCert",
  "clientCertBundle",
  "clientCertData",
  "basic",
  "insecure",
  "exec",
];

/** Lends multus the files of a service account. */
const IN_POD = `set -e
mount -t tmpfs tmpfs "$(readlink -f /var/run)"
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$ACCOUNT" /var/run/secrets/kubernetes.io/serviceaccount
exec "$@"`;

/** Lends multus a node whose authorities are the server's. */
const ON_TRUSTING_NODE = `set -e
mount -t tmpfs tmpfs /etc/ssl
mkdir -p /etc/ssl/certs
cp "$CA" /etc/ssl/certs/ca-certificates.crt
exec "$@"`;

hostTest("multus reaches the API by any kubeconfig, or as a pod", async (t) => {
  await using host = await MultusHost.start({ transport: "https" });
  const { api, hosts: { directory } } = host;
  const attach = async (name: string, call: HostCall): Promise<void> => {
    const pod = host.addPod(name.toLowerCase());
    await host.succeed("ADD", pod, call);
    assertEquals(host.status(pod).length, 1);
    await host.succeed("DEL", pod, call);
  };
  await eachRow(t, KINDS, async (kind) => {
    const kubeconfig = api.writeKubeconfig(directory, kind, { file: kind });
    await attach(kind, { keys: { kubeconfig } });
  });
  await t.step("a service account", async () => {
    api.writeServiceAccount(directory);
    await attach("account", {
      keys: { kubeconfig: "" },
      env: { ...api.inClusterEnvironment(), ACCOUNT: directory },
      command: ["unshare", "-m", "sh", "-c", IN_POD, "sh", `${BIN}/multus`],
    });
  });
  await t.step("the node's authorities", async () => {
    const cluster = {
      "certificate-authority": undefined,
      "certificate-authority-data": undefined,
    };
    const file = "without-ca";
    const kubeconfig = api.writeKubeconfig(directory, "token", {
      file,
      cluster,
    });
    const ca = `${directory}/server-ca.pem`;
    await Deno.writeTextFile(ca, api.caPem);
    const run = ["unshare", "-m", "sh", "-c", ON_TRUSTING_NODE, "sh"];
    await attach("trusting", {
      keys: { kubeconfig },
      env: { CA: ca },
      command: [...run, `${BIN}/multus`],
    });
  });
  await t.step("but trusts no other authority", async () => {
    const other = await CertificateAuthority.create("other");
    const cluster = {
      "certificate-authority": undefined,
      "certificate-authority-data": btoa(other.pem),
    };
    const file = "other-ca";
    const kubeconfig = api.writeKubeconfig(directory, "token", {
      file,
      cluster,
    });
    const pod = host.addPod("untrusted");
    const { code, json } = await host.call("ADD", pod, {
      keys: { kubeconfig },
      env: { DENO_CERT: `${directory}/server-ca.pem` },
    });
    assertEquals([code, json.code], [1, 7]);
    assertStringIncludes(json.msg, "certificate signed by unknown authority");
  });
  assertEquals(host.remains(), []);
});
