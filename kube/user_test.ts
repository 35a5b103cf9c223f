import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import type { Credentials } from "./access.ts";
import type { UserEntry } from "./kubeconfig_schema.ts";
import { openCredentials, readImpersonation } from "./user.ts";
import { eachRow } from "../tests/_harness/table.ts";

function pem(label: string): string {
  return `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----`;
}

const CERT = pem("CERTIFICATE");
const KEY = pem("EC PRIVATE KEY");

Deno.test("openCredentials() reads the user's credentials", async (t) => {
  using directory = new PluginDirectory();
  const origin = { what: 'kubeconfig "/k"', directory: directory.path };
  directory.addFile("token", "t2\n");
  directory.addFile("both.pem", `${KEY}\n${CERT}`);
  directory.addFile("key.pem", KEY);
  const both = { cert: `${KEY}\n${CERT}`, key: `${KEY}\n${CERT}` };
  const rows: readonly [string, UserEntry, Credentials][] = [
    ["nothing", {}, {}],
    ["token", { token: "t1" }, { authorization: "Bearer t1" }],
    ["tokenFile, which wins", { token: "t1", tokenFile: "token" }, {
      authorization: "Bearer t2",
    }],
    ["name and password", { username: "a", password: "b" }, {
      authorization: `Basic ${btoa("a:b")}`,
    }],
    ["token rather than password", { token: "t1", username: "a" }, {
      authorization: "Bearer t1",
    }],
    ["certificate and key", {
      "client-certificate-data": btoa(CERT),
      "client-key": "key.pem",
    }, { certificate: { cert: CERT, key: KEY } }],
    ["one file for both", {
      "client-certificate": "both.pem",
      "client-key": "both.pem",
    }, { certificate: both }],
    ["one file for both, named once", { "client-certificate": "both.pem" }, {
      certificate: both,
    }],
    ["certificate and token", {
      token: "t1",
      "client-certificate": "both.pem",
    }, { authorization: "Bearer t1", certificate: both }],
  ];
  await eachRow(t, rows, async ([, user, expected]) => {
    const source = await openCredentials(origin, {
      user,
      cluster: {},
      env: {},
    });
    assertEquals(await source.get(), expected);
  });
});

Deno.test("openCredentials() refuses unusable credentials", async (t) => {
  const origin = { what: 'kubeconfig "/k"', directory: "/nowhere" };
  const exec = { apiVersion: "client.authentication.k8s.io/v1", command: "x" };
  const rows: readonly [UserEntry, string][] = [
    [
      { "auth-provider": { name: "gcp" } },
      "auth-provider: no longer supported; use exec or tokenFile",
    ],
    [{ tokenFile: "t" }, 'tokenFile: "/nowhere/t" cannot be read'],
    [{ token: "a\nb" }, "token: it has invalid characters"],
    [{ "client-certificate-data": btoa(CERT) }, "client-key: missing"],
    [{ "client-key-data": btoa(KEY) }, "client-certificate: missing"],
    [
      { "client-certificate-data": btoa(KEY) },
      "client-certificate-data: it has no PEM block of a CERTIFICATE",
    ],
    [{ exec: { ...exec, command: "" } }, "exec.command: missing"],
    [
      { exec: { ...exec, apiVersion: "x/v1alpha1" } },
      "exec.apiVersion: it must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1",
    ],
    [
      { exec: { ...exec, interactiveMode: "Always" } },
      "exec.interactiveMode: Always is not supported",
    ],
  ];
  await eachRow(t, rows, async ([user, why]) => {
    const opened = openCredentials(origin, { user, cluster: {}, env: {} });
    const error = await assertRejects(() => opened, CniError);
    assertEquals([error.code, error.message], [
      7,
      `Cannot use kubeconfig "/k": ${why}`,
    ]);
  }, ([, why]) => why);
});

Deno.test("readImpersonation() builds a header for each value", () => {
  const headers = readImpersonation({ what: "x", directory: "/" }, {
    as: "jané",
    "as-uid": "u1",
    "as-groups": ["a, b", "c"],
    "as-user-extra": { "acme.com/project": ["p", "q"] },
  });
  assertEquals(headers, [
    ["Impersonate-User", "jan\u00c3\u00a9"],
    ["Impersonate-Uid", "u1"],
    ["Impersonate-Group", "a, b"],
    ["Impersonate-Group", "c"],
    ["Impersonate-Extra-acme.com%2Fproject", "p"],
    ["Impersonate-Extra-acme.com%2Fproject", "q"],
  ]);
});

Deno.test("readImpersonation() needs a user", async (t) => {
  const origin = { what: "x", directory: "/" };
  await t.step("none", () => assertEquals(readImpersonation(origin, {}), []));
  const rows = [{ "as-uid": "u" }, { "as-groups": ["g"] }, {
    "as-user-extra": { a: ["b"] },
  }];
  await eachRow(t, rows, (user) => {
    const error = assertThrows(
      () => readImpersonation(origin, user),
      CniError,
    );
    assert(error.message.startsWith("Cannot use x: as: missing"));
  }, (user) => JSON.stringify(user));
});
