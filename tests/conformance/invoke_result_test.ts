import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { toCniError } from "../../base/error.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { dispatch } from "../../cni/skel.ts";
import { conformance } from "../_harness/conformance.ts";
import { CONFIG, Delegation, print, TELL } from "./script_plugins.ts";

/** A result with an address, in the words of each family. */
const ADDRESS = {
  "0.2.0": { ip4: { ip: "10.1.2.3/24" } },
  "0.4.0": { ips: [{ version: "4", address: "10.1.2.3/24" }] },
  "1.1.0": { ips: [{ address: "10.1.2.3/24" }] },
} as const;

const ADDRESS_NOW: unknown = { cniVersion: "1.1.0", ...ADDRESS["1.1.0"] };

/** Checks the version that a result is read in. */
async function checkVersion(
  answer: unknown,
  configVersion: string,
): Promise<void> {
  using delegation = new Delegation(print(answer)).withVersion(configVersion);
  assertEquals(await delegation.add(), ADDRESS_NOW);
}

/** Asserts that a plugin's output is not a result. */
async function checkNoResult(printed: string): Promise<void> {
  using delegation = new Delegation(`${TELL}; printf '${printed}'`);
  const error = await assertRejects(() => delegation.to("noop").add());
  assertMatch(toCniError(error).message, /^failed to unmarshal raw result: /);
  // What it did is undone; that it says nothing of use then is no matter.
  assertEquals(delegation.log, ["ADD eth7\n", "DEL eth7\n"]);
}

conformance("invoke result", {
  "a result is read": () =>
    checkVersion({ cniVersion: "1.1.0", ...ADDRESS["1.1.0"] }, "1.1.0"),
  "the configuration arrives byte for byte": async () => {
    using delegation = new Delegation("cat >&2; echo {}");
    await delegation.to("noop").add();
    assertEquals(delegation.log, [CONFIG]);
  },
  "the plugin is run by the path that was found": async () => {
    using delegation = new Delegation('echo "$0 $#" >&2; echo {}');
    await delegation.to("noop").add();
    assertEquals(delegation.log, [`${delegation.directory.path}/noop 0\n`]);
  },
  "the plugin's error is relayed": async () => {
    using delegation = new Delegation(
      `echo '{"code":11,"msg":"later","details":"d"}'; exit 1`,
    );
    const error = toCniError(
      await assertRejects(() => delegation.to("noop").add()),
    );
    assertEquals([error.code, error.message], [11, "later"]);
    assertStringIncludes(error.details, "d");
  },
  "a missing version is the configuration's": async () => {
    await checkVersion(ADDRESS["1.1.0"], "1.0.0");
    await checkVersion(ADDRESS["0.4.0"], "0.3.1");
    await checkVersion(ADDRESS["0.2.0"], "0.2.0");
  },
  "an empty version is the configuration's": () =>
    checkVersion({ cniVersion: "", ...ADDRESS["0.4.0"] }, "0.4.0"),
  "a version that is not a string counts as the configuration's": async () => {
    await checkVersion({ cniVersion: 1.1, ...ADDRESS["1.1.0"] }, "1.1.0");
    await checkVersion({ cniVersion: null, ...ADDRESS["1.1.0"] }, "1.1.0");
  },
  "without any version it is 0.1.0": async () => {
    await checkVersion(ADDRESS["0.2.0"], "0.1.0");
    await checkVersion(ADDRESS["0.2.0"], "");
  },
  "a version of its own is believed": () =>
    checkVersion({ cniVersion: "1.0.0", ...ADDRESS["1.1.0"] }, "1.1.0"),
  "a result of another family is converted, and that is logged": async () => {
    using delegation = new Delegation(
      print({ cniVersion: "0.2.0", ...ADDRESS["0.2.0"] }),
    );
    assertEquals(await delegation.add(), ADDRESS_NOW);
    assertMatch(delegation.log.join(""), /level=warn .*from=0.2.0 to=1.1.0/);
  },
  "null is an empty result": async () => {
    using delegation = new Delegation("echo null");
    assertEquals(await delegation.add(), { cniVersion: "1.1.0" });
  },
  "an array is not a result": () => checkNoResult("[]"),
  "empty output is not a result": () => checkNoResult(""),
  "a log line before a result makes it none": () => checkNoResult("log\\n{}"),
  "two documents are not a result": () => checkNoResult("{}{}"),
  "what other commands print is not looked at": async () => {
    using delegation = new Delegation("echo '{{{'");
    for (const command of ["check", "del", "gc", "status"] as const) {
      await delegation.to("noop")[command]();
    }
  },
  "their errors are relayed, too": async () => {
    using delegation = new Delegation(`echo '{"code":50,"msg":"m"}'; exit 1`);
    for (const command of ["check", "del", "gc", "status"] as const) {
      const error = await assertRejects(() => delegation.to("noop")[command]());
      assertEquals(toCniError(error).code, 50);
    }
  },
  "without plugins of its own an invoker runs processes": async () => {
    using delegation = new Delegation(print(ADDRESS["1.1.0"]));
    const invoker = createInvoker(dispatch, () => undefined);
    const result = await delegation.to("noop", invoker).add();
    const encoded: unknown = encodeResult(result, "1.1.0");
    assertEquals(encoded, ADDRESS_NOW);
  },
});
