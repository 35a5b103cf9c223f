import { assertEquals } from "@std/assert";
import { findRequest } from "./requests.ts";

const CORE = "/api/v1/namespaces/ns/";
const NADS =
  "/apis/k8s.cni.cncf.io/v1/namespaces/ns/network-attachment-definitions";
const RESOURCES = "/apis/resource.k8s.io/v1";

function find(method: string, path: string): string | undefined {
  const request = findRequest(method, new URL(path, "http://h"));
  if (request === undefined) return undefined;
  const { kind, namespace, name } = request;
  return `${kind} ${namespace}/${name}`;
}

Deno.test("findRequest() knows what the plugin asks", async (t) => {
  const rows: [string, string, string][] = [
    ["GET", `${CORE}pods/p1`, "pod ns/p1"],
    ["GET", `${CORE}pods/a%20b`, "pod ns/a b"],
    ["PATCH", `${CORE}pods/p1/status`, "other ns/p1"],
    ["PUT", `${CORE}pods/p1/status`, "other ns/p1"],
    ["POST", `${CORE}events`, "event ns/"],
    ["GET", `${NADS}/net1`, "definition ns/net1"],
    ["GET", `${RESOURCES}/namespaces/ns/resourceclaims/c`, "other ns/c"],
    ["GET", `${RESOURCES}/resourceslices?fieldSelector=a`, "other /"],
  ];
  for (const [method, path, expected] of rows) {
    await t.step(`${method} ${path}`, () => {
      assertEquals(find(method, path), expected);
    });
  }
});

Deno.test("findRequest() knows nothing else", async (t) => {
  const rows: [string, string][] = [
    ["GET", `${CORE}secrets/s`],
    ["GET", `${CORE}secrets`],
    ["GET", `${CORE}pods`],
    ["GET", `${CORE}pods/`],
    ["GET", `${CORE}pods/p1/log`],
    ["GET", `${CORE}pods/p1/status`],
    ["GET", `${CORE}pods/p1/../../secrets/s`],
    ["GET", `${CORE}pods/%zz`],
    ["GET", `/prefix${CORE}pods/p1`],
    ["DELETE", `${CORE}pods/p1`],
    ["PUT", `${CORE}pods/p1`],
    ["PATCH", `${CORE}pods/p1`],
    ["POST", `${CORE}pods/p1/exec`],
    ["POST", `${CORE}serviceaccounts/multus/token`],
    ["GET", NADS],
    ["GET", `${RESOURCES}/resourceslices?watch=1`],
    ["GET", "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"],
    ["GET", "/"],
  ];
  for (const [method, path] of rows) {
    await t.step(`${method} ${path}`, () => {
      assertEquals(find(method, path), undefined);
    });
  }
});
