import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import { readPluginResult } from "../cni/invoke/plugin_result.ts";
import type { JsonObject } from "../base/json/json.ts";
import { createLog } from "../base/log/log.ts";
import { findCachedResult, toPrevResult } from "./attachment_result.ts";
import { AttachmentCache } from "./cache.ts";
import { describeAttachment, type RuntimeConf } from "./runtime_conf.ts";
import { eachRow } from "../tests/_harness/table.ts";

Deno.test("toPrevResult() converts only results that the next plugin cannot read", async (t) => {
  const old = '{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24"}}';
  const rows: [name: string, stdout: string, asked: string, version: string][] =
    [
      ["the same version", '{"cniVersion":"1.1.0"}', "1.1.0", "1.1.0"],
      ["the same shape", '{"cniVersion":"1.0.0"}', "1.1.0", "1.0.0"],
      ["an older shape", old, "1.1.0", "1.1.0"],
      ["a newer shape", '{"cniVersion":"1.1.0"}', "0.4.0", "0.4.0"],
      [
        "a result that cannot be converted",
        '{"cniVersion":"1.1.0"}',
        "",
        "1.1.0",
      ],
    ];
  await eachRow(t, rows, ([, stdout, asked, version]) => {
    let logged = "";
    const log = createLog({}, (line) => void (logged += line));
    const result = readPluginResult({ stdout, result: undefined }, asked);
    const prevResult = toPrevResult(result, asked, log);
    assertEquals(prevResult["cniVersion"], version);
    const isTold = version !== JSON.parse(stdout).cniVersion || asked === "";
    assertEquals(logged !== "", isTold);
  });
});

const CONF: RuntimeConf = { containerId: "c", netns: "/n", ifName: "eth0" };

async function withCached(
  result: JsonObject,
  test: (cache: AttachmentCache) => void,
): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const cache = new AttachmentCache(directory);
    const network = { name: "net1", bytes: new TextEncoder().encode("{}") };
    cache.writeAttachment(describeAttachment(network, CONF), result);
    test(cache);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("findCachedResult() converts to the configuration's version", async () => {
  const document = { cniVersion: "0.4.0", x: 1, ips: [{ address: "::1/128" }] };
  await withCached(document, (cache) => {
    const find = (cniVersion: string): JsonObject | undefined =>
      findCachedResult(cache, { name: "net1", cniVersion }, CONF)?.document;
    assertEquals(find("0.4.0"), document);
    assertEquals(find("1.1.0"), {
      cniVersion: "1.1.0",
      ips: [{ address: "::1/128" }],
      x: 1,
    });
    assertEquals(find("0.2.0")?.["ip6"], { ip: "::1/128" });
    const none = { name: "net2", cniVersion: "1.1.0" };
    assertEquals(findCachedResult(cache, none, CONF), undefined);
  });
});

Deno.test("findCachedResult() throws for a version that the result cannot be converted to", async () => {
  await withCached({ cniVersion: "1.1.0" }, (cache) => {
    const network = { name: "net1", cniVersion: "9.0.0" };
    const error = assertThrows(() => findCachedResult(cache, network, CONF));
    assertEquals(
      describeError(error),
      'failed to convert cached result to config version "9.0.0": ' +
        'unsupported CNI result version "9.0.0"',
    );
  });
});

Deno.test("findCachedResult() throws for a malformed result", async () => {
  await assertRejects(
    () =>
      withCached({ cniVersion: "1.1.0", ips: "junk" }, (cache) => {
        findCachedResult(cache, { name: "net1", cniVersion: "1.1.0" }, CONF);
      }),
    CniError,
    "Cannot decode result: ips: expected an array",
  );
});
