import { assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { type Delegate, loadDelegate } from "../model/delegate.ts";
import {
  checkInterfaceNames,
  InterfaceNameError,
  listInterfaceNames,
} from "./interface_names.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

function delegate(type: string, ifName?: string): Delegate {
  const config = JSON.stringify({ name: `${type}-network`, type });
  return loadDelegate(new TextEncoder().encode(config), {
    request: ifName === undefined ? {} : { ifName },
  });
}

function list(name: string): Delegate {
  const config = JSON.stringify({ name, plugins: [{ type: "a" }] });
  return loadDelegate(new TextEncoder().encode(config));
}

const ARGS = { ifName: "eth0", netns: "/run/netns/a" };

Deno.test("checkInterfaceNames() accepts unused names", () => {
  const delegates = [delegate("a"), delegate("b", "a.b_C"), delegate("c")];
  checkInterfaceNames(delegates, ARGS, () => ["lo", "net1"]);
});

Deno.test("checkInterfaceNames() names the delegate with the unusable name", async (t) => {
  const exists = "already exists";
  const rows: [string, Delegate[], number, string][] = [
    [
      "the master's in the sandbox",
      [delegate("a")],
      0,
      `"a" interface name to "eth0": validateIfName: interface name eth0 ${exists}`,
    ],
    [
      "a list's",
      [list("l")],
      0,
      `"l" interface name to "eth0": validateIfName: interface name eth0 ${exists}`,
    ],
    [
      "one of two that ask for it",
      [delegate("a", "x0"), delegate("b", "x1"), delegate("c", "x0")],
      2,
      `"c" interface name to "x0": validateIfName: interface name x0 ${exists}`,
    ],
    [
      "one by place that another asks for",
      [delegate("a", "net1"), delegate("b")],
      1,
      `"b" interface name to "net1": validateIfName: interface name net1 ${exists}`,
    ],
    [
      "too long",
      [delegate("a", "x0"), delegate("b", "x".repeat(16))],
      1,
      `"b" interface name to "${"x".repeat(16)}": interface name is too long`,
    ],
    [
      "invalid",
      [delegate("a", "x/0")],
      0,
      `"a" interface name to "x/0": ` +
      "interface name contains / or : or whitespace characters",
    ],
  ];
  await eachRow(t, rows, ([, delegates, index, problem]) => {
    const error = assertThrows(
      () => checkInterfaceNames(delegates, ARGS, () => ["lo", "eth0"]),
      InterfaceNameError,
    );
    assertEquals(error.message, `DelegateAdd: cannot set ${problem}`);
    assertEquals([error.index, error.code], [index, 4]);
  });
});

Deno.test("checkInterfaceNames() lists the sandbox's names once", () => {
  let asked = 0;
  const listNames = (): string[] => {
    asked++;
    return [];
  };
  const delegates = Array.from(
    { length: 9 },
    (_, index) => delegate(`d${index}`),
  );
  checkInterfaceNames(delegates, ARGS, listNames);
  assertEquals(asked, 1);
});

Deno.test("checkInterfaceNames() reports a missing namespace", () => {
  const netns = "/nonexistent/netns";
  const error = assertThrows(
    () => checkInterfaceNames([delegate("weave-net")], { ...ARGS, netns }),
    InterfaceNameError,
    'DelegateAdd: cannot set "weave-net" interface name to "eth0": ' +
      `validateIfName: no net namespace ${netns} found: `,
  );
  assertEquals([error.index, error.code], [0, 8]);
});

rootTest("listInterfaceNames() lists the names in the sandbox", () => {
  using hosts = TestHosts.create();
  const { sandbox } = hosts;
  const pair = ["net1", "type", "veth", "peer", "name", "a.b_C-d"];
  runIn(sandbox, "ip", "link", "add", ...pair);
  const links = ipJson(sandbox, "link", "show") as { ifname: string }[];
  assertEquals(
    listInterfaceNames(sandbox.path).sort(),
    links.map(({ ifname }) => ifname).sort(),
  );
  const delegates = [delegate("a"), delegate("b", "a.b_C-d")];
  const args = { ...ARGS, netns: sandbox.path };
  const error = assertThrows(
    () => checkInterfaceNames(delegates, args),
    InterfaceNameError,
  );
  assertEquals(error.index, 1);
});
