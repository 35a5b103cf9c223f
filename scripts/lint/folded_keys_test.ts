import { foldedKeys } from "./folded_keys.ts";
import { testRows } from "./testing.ts";

const PATH = "plugins/ptp/a.ts";

Deno.test("cni/folded-keys accepts keys in any spelling, and those of lists", async (t) => {
  await testRows(t, foldedKeys, [
    [PATH, 'const a = findValue(document, "ipam");'],
    [PATH, 'const a = document["plugins"];'],
    [PATH, "const { name, plugins } = document;"],
    [PATH, "const a = document[key];"],
    [PATH, 'const a = config["ipam"];'],
    ["kube/a.ts", 'const a = document["spec"];'],
    ["plugins/ptp/a_test.ts", 'const a = document["ipam"];'],
  ]);
});

Deno.test("cni/folded-keys refuses keys in one spelling", async (t) => {
  const message = '"ipam" may be spelt in another case';
  await testRows(t, foldedKeys, [
    [PATH, 'const a = document["ipam"];', message],
    [PATH, 'const a = conf.document["ipam"];', message],
    [PATH, "const { ipam, ...others } = document;", message],
    [PATH, "const { ipam } = conf.document;", message],
    [PATH, "const { ipam } = document as JsonObject;", message],
    [PATH, "const { document: { ipam } } = conf;", message],
    [PATH, "function a({ document: { ipam } }: PluginConf) {}", message],
  ]);
});
