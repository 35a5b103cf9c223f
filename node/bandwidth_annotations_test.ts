import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { readBandwidth } from "./bandwidth_annotations.ts";
import { eachRow } from "../tests/_harness/table.ts";

const INGRESS = "kubernetes.io/ingress-bandwidth";
const EGRESS = "kubernetes.io/egress-bandwidth";
const BURST = 2 ** 31 - 1;

Deno.test("readBandwidth() reads rates, with a burst that is no limit", async (t) => {
  const rows: [string, Record<string, string> | undefined, unknown][] = [
    ["no annotations", undefined, undefined],
    ["other annotations", { a: "b" }, undefined],
    ["into the pod", { [INGRESS]: "10M" }, {
      ingressRate: 10_000_000,
      ingressBurst: BURST,
    }],
    ["out of it", { [EGRESS]: "1Gi" }, {
      egressRate: 1_073_741_824,
      egressBurst: BURST,
    }],
    ["both", { [INGRESS]: "1e6", [EGRESS]: "1.5k" }, {
      ingressRate: 1_000_000,
      ingressBurst: BURST,
      egressRate: 1_500,
      egressBurst: BURST,
    }],
    ["the least", { [INGRESS]: "1k" }, {
      ingressRate: 1_000,
      ingressBurst: BURST,
    }],
    ["the most", { [INGRESS]: "1P" }, {
      ingressRate: 10 ** 15,
      ingressBurst: BURST,
    }],
  ];
  await eachRow(
    t,
    rows,
    ([, annotations, bandwidth]) =>
      assertEquals<unknown>(readBandwidth(annotations), bandwidth),
  );
});

Deno.test("readBandwidth() refuses what Kubernetes does, in its words", async (t) => {
  const rows: [text: string, why: string][] = [
    ["999", "resource is unreasonably small (< 1kbit)"],
    ["0", "resource is unreasonably small (< 1kbit)"],
    ["-1M", "resource is unreasonably small (< 1kbit)"],
    ["1001T", "resource is unreasonably large (> 1Pbit)"],
    ["1e99999", "resource is unreasonably large (> 1Pbit)"],
    [
      "fast",
      "quantities must match the regular expression " +
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [
      "",
      "quantities must match the regular expression " +
      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
  ];
  for (const key of [INGRESS, EGRESS]) {
    await eachRow(t, rows, ([text, why]) => {
      const error = assertThrows(
        () => readBandwidth({ [key]: text }),
        CniError,
      );
      const { code, message, details } = error;
      assertEquals({ code, message, details }, {
        code: 7,
        message: "failed to get pod bandwidth from annotations",
        details: `${key}=${JSON.stringify(text)}: ${why}`,
      });
    }, ([text]) => `${key}=${text}`);
  }
});
