import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import {
  type ConfFiles,
  ConfFolder,
} from "../../../tests/_harness/conf_folder.ts";
import { loadAuxiliaryChain } from "./auxiliary_chain.ts";
import type { Delegate } from "../model/delegate.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

/** Loads a chain of the files, and collects what is logged. */
function load(
  files: ConfFiles,
  name = "vendor",
  root = "",
): [Delegate | undefined, string[]] {
  using folder = new ConfFolder(files);
  const warnings: string[] = [];
  const chain = loadAuxiliaryChain(name, {
    config: { clusterNetwork: `${root}${folder.path}/10-master.conf` },
    cniVersion: "1.0.0",
    log: { warn: (_, fields) => void warnings.push(String(fields?.["error"])) },
  });
  return [chain, warnings];
}

Deno.test("loadAuxiliaryChain() chains the files of the folder after passthru", () => {
  const [chain, warnings] = load({
    "vendor/20.conf": { type: "b", x: 1 },
    "vendor/10.conf": { type: "a" },
    "vendor/30.json": { type: "c" },
    "vendor/40.conflist": { name: "d", plugins: [{ type: "d" }] },
    "other/10.conf": { type: "e" },
  });
  assertEquals([chain?.name, warnings], ["vendor", []]);
  assertEquals(JSON.parse(new TextDecoder().decode(chain?.conf.bytes)), {
    cniVersion: "1.0.0",
    loadOnlyInlinedPlugins: true,
    name: "vendor",
    plugins: [{ type: "passthru" }, { type: "a" }, { type: "b", x: 1 }],
  });
});

Deno.test("loadAuxiliaryChain() finds the folder next to a container's path", () => {
  const files = {
    "10-master.conf": { name: "a", type: "a" },
    "vendor/10.conf": { type: "a" },
  };
  const [chain, warnings] = load(files, "vendor", "/host");
  assertEquals([chain?.name, warnings], ["vendor", []]);
});

testRows<[string, ConfFiles]>("loadAuxiliaryChain() finds nothing to chain", [
  ["no folder", {}],
  ["no files", { "vendor/x.txt": "" }],
], ([, files]) => assertEquals(load(files), [undefined, []]));

Deno.test("loadAuxiliaryChain() skips a malformed chain, with a warning", async (t) => {
  const good = { "vendor/10.conf": { type: "a" } };
  const rows: [string, ConfFiles, string, string][] = [
    ["a broken file", { ...good, "vendor/2.conf": "{" }, "vendor", "2.conf"],
    [
      "multus",
      { ...good, "vendor/2.conf": { type: "multus" } },
      "vendor",
      "multus would call itself",
    ],
    ["a path", good, "../vendor", "invalid characters"],
  ];
  await eachRow(t, rows, ([, files, chainName, reason]) => {
    const [chain, [warning = "", ...others]] = load(files, chainName);
    assertEquals([chain, others], [undefined, []]);
    assertEquals(warning.includes(reason), true, warning);
  });
});

testRows("loadAuxiliaryChain() needs a clusterNetwork that is a path", [{}, {
  clusterNetwork: "net",
}], (config) => {
  const context = {
    config,
    cniVersion: "1.0.0",
    log: { warn: (): void => {} },
  };
  const error = assertThrows(
    () => loadAuxiliaryChain("vendor", context),
    CniError,
    "is not a path",
  );
  assertEquals(error.code, 7);
}, (config) => JSON.stringify(config));
