import { assert, assertEquals } from "@std/assert";
import { kubeErrorOf, KubeScene } from "./testing/kube_scene.ts";
import { testRows } from "../tests/_harness/table.ts";

Deno.test("Connection renews refused credentials", async (t) => {
  await t.step("a replaced token file", async () => {
    await using scene = await KubeScene.start();
    using client = await scene.open("tokenFile");
    await client.getPod("test", "p1");
    const token = scene.api.addToken();
    scene.api.revokeToken(scene.api.token);
    await Deno.writeTextFile(`${scene.directory.path}/token`, token);
    scene.api.clearRequests();
    await client.getPod("test", "p1");
    assertEquals(scene.api.requests.map(({ status }) => status), [401, 200]);
    await client.getPod("test", "p1");
    assertEquals(scene.api.requests.length, 3);
  });
  await t.step("a program that prints another token", async () => {
    await using scene = await KubeScene.start();
    using client = await scene.open("exec");
    await client.getPod("test", "p1");
    const token = scene.api.addToken();
    await Deno.writeTextFile(`${scene.directory.path}/exec-token`, token);
    scene.api.revokeToken(scene.api.token);
    const names = ["p1", "p1", "p1", "p1"];
    await Promise.all(names.map((name) => client.getPod("test", name)));
    // Once for all that are refused at the same time.
    const calls = await Deno.readTextFile(`${scene.directory.path}/exec-calls`);
    assertEquals(calls, "called\n".repeat(2));
  });
  await t.step("including for requests that write", async () => {
    await using scene = await KubeScene.start();
    using client = await scene.open("tokenFile");
    const token = scene.api.addToken();
    scene.api.revokeToken(scene.api.token);
    await Deno.writeTextFile(`${scene.directory.path}/token`, token);
    await client.setPodAnnotations({ namespace: "test", name: "p1" }, {
      a: "b",
    });
    assertEquals(scene.api.pod("test", "p1")?.metadata.annotations, { a: "b" });
  });
});

testRows(
  "Connection returns 401 without new credentials",
  [["token", 1], ["tokenFile", 1], ["exec", 2]] as const,
  async ([kind, requests]) => {
    await using scene = await KubeScene.start();
    using client = await scene.open(kind);
    scene.api.revokeToken(scene.api.token);
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals([error.status, error.message], [401, "Unauthorized"]);
    assertEquals(scene.api.requests.length, requests);
  },
);

Deno.test("Connection uses the current certificate in the file", async () => {
  await using scene = await KubeScene.start();
  const { api, directory } = scene;
  const first = await api.issueClientCert("first");
  const second = await api.issueClientCert("second");
  using client = await scene.open("clientCertBundle", { clientCert: first });
  await client.getPod("test", "p1");
  const path = `${directory.path}/client.pem`;
  await Deno.writeTextFile(path, second.cert + second.key);
  api.fault({ status: 401, times: 1 });
  await client.getPod("test", "p1");
  // The 401 makes the client read the files again.
  assertEquals(api.requests.map(({ user }) => user), [
    "first",
    "first",
    "second",
  ]);
});

Deno.test("Connection keeps a certificate while the next one is half written", async () => {
  await using scene = await KubeScene.start();
  const { api, directory } = scene;
  const next = await api.issueClientCert("next");
  using client = await scene.open("clientCert");
  await Deno.writeTextFile(`${directory.path}/client.crt`, next.cert);
  api.fault({ status: 401, times: 1 });
  await client.getPod("test", "p1");
  assertEquals(api.requests.at(-1)?.user, "multus");
});

Deno.test("Connection sends its user agent and the impersonated user", async () => {
  await using scene = await KubeScene.start();
  const user = { as: "jane", "as-groups": ["a", "b"] };
  using client = await scene.open("token", { user });
  await client.getPod("test", "p1").catch(() => {});
  const { headers } = scene.api.requests.at(-1) ?? {};
  assertEquals(headers?.["user-agent"], "cni-plugins");
  assertEquals(headers?.["accept"], "application/json");
  assertEquals(headers?.["impersonate-user"], "jane");
  assertEquals(headers?.["impersonate-group"], "a, b");
});

Deno.test("Connection's time limit excludes the credential program", async () => {
  await using scene = await KubeScene.start();
  using client = await scene.open("exec");
  const path = `${scene.directory.path}/credentials.sh`;
  const slow = (await Deno.readTextFile(path)).replace("\n", "\nsleep 1.2\n");
  await Deno.writeTextFile(path, slow);
  const times = { perTryMs: 1000, overallMs: 1000 };
  const pod = await client.getPod("test", "p1", times);
  assertEquals(pod.metadata?.uid, "u1");
});

Deno.test("Connection fails without credentials", async (t) => {
  await using scene = await KubeScene.start();
  await t.step("the program fails", async () => {
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: "nowhere-to-be-found",
    };
    using client = await scene.open("none", { user: { exec } });
    const error = await kubeErrorOf(client.getPod("test", "p1"));
    assertEquals(error.status, 0);
    const start = `Get "${scene.api.url}/api/v1/namespaces/test/pods/p1": ` +
      "getting credentials: exec: executable nowhere-to-be-found cannot be started";
    assertEquals(error.message.slice(0, start.length), start);
  });
  await t.step("the signal comes before the program ends", async () => {
    using client = await scene.open("exec");
    const signal = AbortSignal.abort();
    const error = await kubeErrorOf(client.getPod("test", "p1", { signal }));
    assert(error.message.endsWith(": context canceled"), error.message);
  });
  assertEquals(scene.api.requests.length, 0);
});

Deno.test("Connection keeps secrets out of errors", async () => {
  await using scene = await KubeScene.start();
  const { api } = scene;
  using client = await scene.open("token");
  for (
    const rule of [{ status: 500 }, { body: "x" }, { drop: "after" }] as const
  ) {
    api.fault({ ...rule, times: 1 });
    const error = await kubeErrorOf(
      client.request({ method: "PUT", path: "/x" }),
    );
    const shown = Deno.inspect(error, { showHidden: true });
    assert(!shown.includes(api.token), shown);
  }
});
