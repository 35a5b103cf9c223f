import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { waitUntilDead } from "../tests/_harness/process_group.ts";
import { FileCredentials } from "./credentials.ts";
import {
  decodeExecCredential,
  ExecCredentials,
  type ExecOptions,
} from "./exec_credential.ts";
import type { ExecEntry } from "./kubeconfig_schema.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const apiVersion = "client.authentication.k8s.io/v1";

/** A directory with the program `credentials`. */
class Scene extends PluginDirectory {
  constructor(script: string) {
    super();
    this.add("credentials", script);
  }

  open(
    exec: ExecEntry = {},
    options: Partial<ExecOptions> = {},
  ): ExecCredentials {
    const origin = { what: 'kubeconfig "/k"', directory: this.path };
    return new ExecCredentials(origin, {
      exec: { apiVersion, command: "./credentials", ...exec },
      cluster: {},
      env: { PATH: Deno.env.get("PATH") ?? "" },
      own: new FileCredentials(() => ({})),
      ...options,
    });
  }

  get runs(): number {
    return Deno.readTextFileSync(`${this.path}/runs`).length;
  }
}

/** Builds a script that counts its runs, and prints the count as the token. */
function counting(status = ""): string {
  return `cd "$(dirname "$0")"; printf x >> runs
printf '{"kind":"ExecCredential","apiVersion":"${apiVersion}",'
printf '"status":{"token":"t%s"${status}}}' "$(wc -c < runs)"`;
}

Deno.test("ExecCredentials runs the program once for concurrent callers", async () => {
  using scene = new Scene(counting());
  const credentials = scene.open();
  assertEquals(credentials.known, undefined);
  const all = await Promise.all([credentials.get(), credentials.get()]);
  assertEquals(all.map((one) => one.authorization), ["Bearer t1", "Bearer t1"]);
  assertEquals((await credentials.get()).authorization, "Bearer t1");
  assertEquals(scene.runs, 1);
});

Deno.test("ExecCredentials runs the program again", async (t) => {
  await t.step("after its credentials were refused", async () => {
    using scene = new Scene(counting());
    const credentials = scene.open();
    const refused = await credentials.get();
    credentials.renew(refused);
    assertEquals((await credentials.get()).authorization, "Bearer t2");
    credentials.renew(refused);
    assertEquals((await credentials.get()).authorization, "Bearer t2");
  });
  await t.step("after its credentials expired", async () => {
    using scene = new Scene(
      counting(',"expirationTimestamp":"2020-01-01T00:00:00Z"'),
    );
    const credentials = scene.open();
    await credentials.get();
    assertEquals((await credentials.get()).authorization, "Bearer t2");
  });
  await t.step("not before it expires", async () => {
    using scene = new Scene(
      counting(',"expirationTimestamp":"2199-01-01T00:00:00Z"'),
    );
    const credentials = scene.open();
    await credentials.get();
    assertEquals((await credentials.get()).authorization, "Bearer t1");
  });
  await t.step("after it failed", async () => {
    using scene = new Scene("exit 1");
    const credentials = scene.open();
    await assertRejects(() => credentials.get());
    scene.add("credentials", counting());
    assertEquals((await credentials.get()).authorization, "Bearer t1");
  });
});

Deno.test("ExecCredentials describes the request to the program", async () => {
  using scene = new Scene(`cd "$(dirname "$0")"
env > env; printf '%s,' "$@" > args
${counting()}`);
  const pem = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----";
  await scene.open({
    args: ["a b", ""],
    env: [{ name: "REGION", value: "x" }, { name: "HOME", value: "/new" }],
    provideClusterInfo: true,
  }, {
    env: { PATH: Deno.env.get("PATH") ?? "", HOME: "/old", KEPT: "1" },
    cluster: {
      server: "https://10.0.0.1",
      "certificate-authority-data": btoa(pem),
      extensions: [
        { name: "client.authentication.k8s.io/exec", extension: { a: 1 } },
      ],
    },
  }).get();
  const read = (name: string): string =>
    Deno.readTextFileSync(`${scene.path}/${name}`);
  const env = read("env").split("\n");
  for (const line of ["REGION=x", "HOME=/new", "KEPT=1"]) {
    assert(env.includes(line), line);
  }
  assertEquals(read("args"), "a b,,");
  const info = env.find((line) => line.startsWith("KUBERNETES_EXEC_INFO=")) ??
    "";
  assertEquals(JSON.parse(info.slice(info.indexOf("=") + 1)), {
    apiVersion,
    kind: "ExecCredential",
    spec: {
      interactive: false,
      cluster: {
        server: "https://10.0.0.1",
        "certificate-authority-data": btoa(pem),
        config: { a: 1 },
      },
    },
  });
});

Deno.test("ExecCredentials finds the program", async (t) => {
  using scene = new Scene(counting());
  const rows = [
    ["beside the kubeconfig", "./credentials", ""],
    ["by its path", `${scene.path}/credentials`, ""],
    ["in PATH", "credentials", `${scene.path}:`],
  ] as const;
  await eachRow(t, rows, async ([, command, directory]) => {
    const env = { PATH: `${directory}${Deno.env.get("PATH")}` };
    const found = await scene.open({ command }, { env }).get();
    assert(found.authorization?.startsWith("Bearer t"));
  });
});

testRows("ExecCredentials reports why the program failed", [
  [
    "it fails",
    "echo out; echo why >&2; exit 3",
    {},
    /^exec: executable \.\/credentials failed: exit status 3: why$/,
  ],
  [
    "it is killed",
    "kill -9 $$",
    {},
    /^exec: executable \.\/credentials failed: signal: killed$/,
  ],
  [
    "it is not there",
    "",
    { command: "nowhere-to-be-found", installHint: "Install it\n" },
    /^exec: executable nowhere-to-be-found cannot be started: .+; Install it$/,
  ],
  [
    "it prints garbage",
    "echo secret",
    {},
    /^exec: executable \.\/credentials did not print JSON$/,
  ],
], async ([, script, exec, message]: [string, string, ExecEntry, RegExp]) => {
  using scene = new Scene(script);
  const credentials = scene.open(exec);
  const error = await assertRejects(() => credentials.get());
  assert(error instanceof Error && message.test(error.message), String(error));
});

Deno.test("ExecCredentials kills a program that takes too long, and its children", async () => {
  using scene = new Scene(
    `cd "$(dirname "$0")"; echo $$ > pid; sleep 60 & wait`,
  );
  const startMs = performance.now();
  const error = await assertRejects(
    () => scene.open({}, { timeoutMs: 2000 }).get(),
  );
  assert(performance.now() - startMs < 30_000);
  assert(error instanceof Error);
  assertEquals(
    error.message,
    "exec: executable ./credentials took more than 2000 ms",
  );
  await waitUntilDead(Number(await Deno.readTextFile(`${scene.path}/pid`)));
});

const EXEC = { command: "aws", apiVersion };

function print(status: unknown, head: object = {}): string {
  return JSON.stringify({
    kind: "ExecCredential",
    apiVersion,
    status,
    ...head,
  });
}

Deno.test("decodeExecCredential() reads a program's output", async (t) => {
  await t.step("a token", () => {
    assertEquals(decodeExecCredential(print({ token: "t1" }), EXEC), {
      credentials: { authorization: "Bearer t1" },
      expiresAtMs: Infinity,
    });
  });
  await t.step("a certificate, until it expires", () => {
    const text = print({
      clientCertificateData: "c",
      clientKeyData: "k",
      expirationTimestamp: "2030-01-02T03:04:05Z",
    });
    assertEquals(decodeExecCredential(text, EXEC), {
      credentials: { certificate: { cert: "c", key: "k" } },
      expiresAtMs: Date.UTC(2030, 0, 2, 3, 4, 5),
    });
  });
});

testRows("decodeExecCredential() reports problems without the output", [
  ["secret", "exec: executable aws did not print JSON"],
  ["", "exec: executable aws did not print JSON"],
  [print({}), "exec: executable aws didn't return a token or cert/key pair"],
  [
    print({ clientKeyData: "secret" }),
    "exec: executable aws returned only certificate or key, not both",
  ],
  [
    print({ token: "secret\nx" }),
    "exec: executable aws printed a token with invalid characters",
  ],
  [
    print({ token: "secret" }, { apiVersion: "x/v1beta1" }),
    `exec: executable aws is configured to use API version ${apiVersion}, and returned version x/v1beta1`,
  ],
  [
    print(undefined),
    "Cannot decode what exec: executable aws printed: status: missing",
  ],
  [
    print({ token: 5 }),
    "Cannot decode what exec: executable aws printed: status.token: expected a string, got a number",
  ],
], ([text, message]: [string, string]) => {
  const error = assertThrows(() => decodeExecCredential(text, EXEC));
  assert(error instanceof Error);
  assertEquals(error.message, message);
}, ([, message]) => message);
