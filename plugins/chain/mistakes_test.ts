import { assertEquals } from "@std/assert";
import { decodePluginConfs } from "../../libcni/conf.ts";
import { listMistakes } from "./mistakes.ts";

const plugins = decodePluginConfs([
  { type: "a", capabilities: { mac: true, ips: true } },
  { type: "b", capabilities: { mac: true, dns: false } },
]);

Deno.test("listMistakes() accepts the chains that cni convert writes", () => {
  const capabilities = { mac: true, ips: true };
  assertEquals(listMistakes({ plugins: [], capabilities }, plugins), []);
});

Deno.test("listMistakes() accepts capabilities that no plugin declares", () => {
  const capabilities = { mac: true, ips: true, more: true };
  assertEquals(listMistakes({ plugins: [], capabilities }, plugins), []);
});

Deno.test("listMistakes() reports a capability once", () => {
  assertEquals(
    listMistakes({ plugins: [], capabilities: { ips: true } }, plugins),
    [
      'capabilities of the chain lack "mac", which one of its plugins declares: ' +
      "the runtime does not pass it on",
    ],
  );
});

Deno.test("listMistakes() reports keys that belong to a plugin", () => {
  const config = { plugins: [], capabilities: { mac: true, ips: true } };
  assertEquals(listMistakes({ ...config, ipMasq: false }, plugins), [
    '"ipMasq" of the chain has no effect: it belongs in a plugin',
  ]);
});
