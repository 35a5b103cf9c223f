import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { testRows } from "../tests/_harness/table.ts";

const SERVES = (versions: string): string =>
  `echo '{"cniVersion":"1.1.0","supportedVersions":${versions}}'`;

Deno.test("validateNetworkList() collects all failures in one text", async () => {
  using host = new RecordingPlugins();
  host.add("a", { VERSION: SERVES('["1.0.0"]') });
  host.add("c", { VERSION: SERVES('["1.1.0"]') });
  const error = await assertRejects(
    () => host.runtime().validateNetworkList(host.list(["a", "b", "c"])),
    CniError,
  );
  assertEquals(
    error.message,
    '[plugin a does not support config version "1.1.0" ' +
      `failed to find plugin "b" in path [${host.directory.path}]]`,
  );
  assertEquals(error.code, 1);
});

testRows<[string, boolean]>("validateNetworkList() compares versions exactly", [
  ["", true],
  ["0.1.0", true],
  ["0.1", false],
  ["0.2.0", false],
], async ([cniVersion, isServed]) => {
  using host = new RecordingPlugins();
  host.add("a", { VERSION: SERVES('["0.1.0"]') });
  const list = host.list(["a"], { cniVersion });
  const run = (): Promise<string[]> => host.runtime().validateNetworkList(list);
  if (isServed) assertEquals(await run(), []);
  else await assertRejects(run, CniError, "does not support config version");
}, ([cniVersion]) => JSON.stringify(cniVersion));

Deno.test("validateNetworkList() runs VERSION through the invoker", async () => {
  using host = new RecordingPlugins();
  const asked: string[] = [];
  const runtime = host.runtime({
    invoker: {
      invoke({ type, env }): Promise<string> {
        asked.push(`${type} ${env["CNI_COMMAND"]} ${env["CNI_PATH"]}`);
        return Promise.resolve(
          '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}',
        );
      },
    },
  });
  await runtime.validateNetworkList(host.list(["a"]));
  assertEquals(asked, [`a VERSION ${host.directory.path}`]);
});
