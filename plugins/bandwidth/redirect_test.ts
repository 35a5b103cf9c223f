import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  assertSuccess,
  HOST_END,
  LimitedPair,
  tcJson,
  WIDE,
} from "./testing/limited_pair.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

rootTest("bandwidth shares another program's ingress qdisc", async (t) => {
  const kinds = { clsact: ["ingress"], ingress: ["parent", "ffff:"] };
  await eachRow(t, Object.entries(kinds), async ([kind, parent]) => {
    using hosts = TestHosts.create();
    const pair = new LimitedPair(hosts);
    const tc = (...args: string[]): string => runIn(hosts.host, "tc", ...args);
    tc("qdisc", "add", "dev", HOST_END, kind);
    tc(
      ...["filter", "add", "dev", HOST_END, ...parent, "protocol", "ip"],
      ...["prio", "1", "u32", "match", "ip", "dst", "192.0.2.1/32"],
    );
    const before = pair.limits();
    const keys = { ...WIDE, prevResult: await pair.add(WIDE) };
    const priorities = tcJson(
      hosts.host,
      "filter",
      "show",
      "dev",
      HOST_END,
      "ingress",
    )
      .filter(({ options }) => options?.flowid ?? options?.match)
      .map(({ pref }) => pref);
    assertEquals(priorities, [1, 65535]);
    assertSuccess(await pair.run("CHECK", keys));
    await pair.add(WIDE);
    assertSuccess(await pair.run("CHECK", keys));
    assertSuccess(await pair.run("DEL", keys));
    assertEquals(pair.limits(), before);
  });
});
