import { assert, assertEquals } from "@std/assert";
import { listTestFiles } from "../test/files.ts";
import {
  CORE_FILTER,
  findObstacle,
  isCore,
  selectKernelPart,
  shareOut,
} from "./select.ts";

const SOURCES: Readonly<Record<string, string>> = {
  "net/ip_test.ts": 'import { Ip } from "./ip.ts";',
  "plugins/ptp/direct_test.ts":
    'import {\n  requireRoot,\n} from "../../testing/capabilities.ts";',
  "tests/indirect_test.ts": 'import { scene } from "./_harness/scene.ts";',
  "tests/_harness/scene.ts": 'export { deep } from "./deep.ts";',
  "tests/_harness/deep.ts":
    'import { needsRoot } from "../../testing/capabilities.ts";',
  "tests/pure_test.ts":
    'import { hasCommand } from "../testing/capabilities.ts";',
  "testing/capabilities.ts": "export const needsRoot = 1;",
  "tests/bench_test.ts":
    'import { requireRoot } from "../testing/capabilities.ts";',
  "scripts/measure/bench/netns_test.ts":
    'import { requireRoot } from "../../../testing/capabilities.ts";',
};

Deno.test("selectKernelPart() finds what needs namespaces, also through modules of tests", () => {
  const files = Object.keys(SOURCES).filter((path) => path.endsWith("_test.ts"))
    .map((path) => ({ path, size: 1 }));
  const part = selectKernelPart(files, (path) => SOURCES[path] ?? "");
  assertEquals(part.map(({ path }) => path), [
    "plugins/ptp/direct_test.ts",
    "tests/indirect_test.ts",
  ]);
});

Deno.test("CORE_FILTER leaves out rows of older versions", () => {
  const filter = new RegExp(CORE_FILTER.slice(1, -1));
  const names: [name: string, isRun: boolean][] = [
    ["PTP-1 IPv4, 0.1.0", false],
    ["PTP-1 IPv4, 0.3.1", false],
    ["PTP-1 IPv4, 1.0.0", false],
    ["PTP-1 IPv4, 1.1.0", true],
    ["VLANs: a trunk", true],
    ["trunk of VLAN 100", true],
    ["PTP-1 IPv4, 0.1.0 (skipped: needs root)", true],
  ];
  assertEquals(names.map(([name]) => [name, filter.test(name)]), names);
});

Deno.test("the gate's part has the plugins that change the kernel", () => {
  const root = new URL("../../", import.meta.url);
  const part = selectKernelPart(
    listTestFiles(root),
    (path) => Deno.readTextFileSync(new URL(path, root)),
  ).map(({ path }) => path);
  const core = part.filter((path) =>
    isCore(path) && findObstacle(path) === undefined
  );
  for (
    const path of [
      "ffi/rtnl/bridge_vlan_test.ts",
      "tests/conformance/bandwidth_test.ts",
      "tests/conformance/bridge_test.ts",
      "tests/conformance/bridge_vlan_test.ts",
      "tests/conformance/dummy_test.ts",
      "tests/conformance/host_device_test.ts",
      "tests/conformance/ipvlan_test.ts",
      "tests/conformance/loopback_test.ts",
      "tests/conformance/macvlan_test.ts",
      "tests/conformance/ptp_test.ts",
      "tests/conformance/sbr_test.ts",
      "tests/conformance/tap_test.ts",
      "tests/conformance/tuning_test.ts",
      "tests/conformance/vlan_test.ts",
      "tests/conformance/vrf_test.ts",
    ]
  ) assert(core.includes(path), path);
  assertEquals(core.filter((path) => /multus|masquerade/.test(path)), []);
});

Deno.test("shareOut() gives all kernels about as much", () => {
  const files = [3, 9, 5, 4].map((size) => ({ path: `${size}`, size }));
  const share = (parts: number, given = files): string[] =>
    shareOut(given, parts).map((one) => one.map(({ path }) => path).join(" "));
  assertEquals(share(1), ["9 5 4 3"]);
  assertEquals(share(2), ["9 3", "5 4"]);
  assertEquals(share(5), ["9", "5", "4", "3"]);
  assertEquals(share(2, []), [""]);
});
