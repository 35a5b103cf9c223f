import { assertEquals } from "@std/assert";
import { parseWritten } from "./chain_form.ts";
import { findHiddenFromPodman } from "./podman_network.ts";

const BRIDGE = { type: "bridge", bridge: "cni-podman1", isGateway: true };
const OTHER = { type: "bridge", bridge: "cni0" };
const CHAINED = [{ type: "chain", plugins: [OTHER, { type: "sbr" }] }];

Deno.test("findHiddenFromPodman() warns about podman's networks if a chain comes first", async (t) => {
  const labels = { podman_labels: { app: "web" } };
  const rows: [name: string, document: object, isHidden: boolean][] = [
    ["labels", { args: labels, plugins: CHAINED }, true],
    ["options", { args: { podman_options: {} }, plugins: CHAINED }, true],
    [
      "the bridge's name",
      { plugins: [{ type: "chain", plugins: [BRIDGE, OTHER] }] },
      true,
    ],
    ["no mark", { args: { cni: {} }, plugins: CHAINED }, false],
    [
      "a bridge that is only called alike",
      {
        plugins: [{
          type: "chain",
          plugins: [{ ...BRIDGE, bridge: "cni-podmanX" }],
        }],
      },
      false,
    ],
    ["a chain behind the first", {
      args: labels,
      plugins: [BRIDGE, ...CHAINED],
    }, false],
    ["no chain", { args: labels, plugins: [BRIDGE] }, false],
  ];
  for (const [name, document, isHidden] of rows) {
    await t.step(name, () => {
      const text = JSON.stringify({ name: "web", ...document });
      const network = parseWritten(new TextEncoder().encode(text));
      assertEquals(findHiddenFromPodman(network) !== undefined, isHidden);
    });
  }
});
