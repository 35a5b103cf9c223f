import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import { deadlineWhen } from "../tests/_harness/eventually.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { parseNetworkConf } from "./conf.ts";
import { CheckNotSupportedError } from "./check.ts";
import { PluginFailure } from "./operation.ts";
import { testRows } from "../tests/_harness/table.ts";

const FAIL = 'echo \'{"code":11,"msg":"later"}\'; exit 1';

function bare(keys: Readonly<Record<string, unknown>> = {}): ReturnType<
  typeof parseNetworkConf
> {
  const document = { name: "net1", cniVersion: "1.1.0", type: "a", ...keys };
  return parseNetworkConf(new TextEncoder().encode(JSON.stringify(document)));
}

testRows(
  "NetworkRuntime starts no plugin after the signal",
  ["addNetworkList", "checkNetworkList", "delNetworkList"] as const,
  async (operation) => {
    using host = new RecordingPlugins();
    const sleeping = "exec sleep 60";
    const slow = { ADD: sleeping, CHECK: sleeping, DEL: sleeping };
    host.add("a", slow);
    host.add("b", slow);
    const signal = deadlineWhen(() => host.story.length > 0);
    await assertRejects(() =>
      host.runtime()[operation](host.list(["a", "b"]), host.conf(), { signal })
    );
    assertEquals(host.story.length, 1);
  },
);

Deno.test("NetworkRuntime runs nothing if the signal is already aborted", async () => {
  using host = new RecordingPlugins();
  host.add("a");
  const signal = AbortSignal.abort();
  const error = await assertRejects(() =>
    host.runtime().addNetworkList(host.list(["a"]), host.conf(), { signal })
  );
  assertStringIncludes(describeError(error), "context canceled");
  assertEquals([host.story, host.cached], [[], []]);
});

Deno.test("NetworkRuntime throws a bare plugin's error unchanged", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: FAIL, CHECK: FAIL, DEL: FAIL });
  const runtime = host.runtime();
  for (
    const run of [
      (): Promise<unknown> => runtime.addNetwork(bare(), host.conf()),
      (): Promise<unknown> => runtime.checkNetwork(bare(), host.conf()),
      (): Promise<unknown> => runtime.delNetwork(bare(), host.conf()),
    ]
  ) {
    const error = await assertRejects(run, CniError, "later");
    assertEquals(error instanceof PluginFailure, false);
  }
  await assertRejects(
    () => runtime.checkNetwork(bare({ cniVersion: "0.3.1" }), host.conf()),
    CheckNotSupportedError,
  );
});

Deno.test("NetworkRuntime collects what plugins write to stderr", async () => {
  using host = new RecordingPlugins();
  host.add("a", { ADD: "echo one >&2; echo {}" });
  host.add("b", { ADD: "echo two >&2; echo {}" });
  await host.runtime().addNetworkList(host.list(["a", "b"]), host.conf());
  assertEquals(host.logged, "one\ntwo\n");
});

Deno.test("NetworkRuntime attaches different containers at the same time", async () => {
  using host = new RecordingPlugins();
  // Each waits for the other's call, so they end only if they overlap.
  const fifo = `${host.directory.path}/meeting`;
  await new Deno.Command("mkfifo", { args: [fifo] }).output();
  host.add("a", { ADD: `cat "${fifo}" > /dev/null; echo {}` });
  host.add("b", { ADD: `echo here > "${fifo}"; echo {}` });
  const runtime = host.runtime();
  const signal = AbortSignal.timeout(20_000);
  await Promise.all(["a", "b"].map((type, index) =>
    runtime.addNetworkList(
      host.list([type]),
      host.conf({ containerId: `c${index}` }),
      { signal },
    )
  ));
  assertEquals(host.cached, ["net1-c0-eth0", "net1-c1-eth0"]);
});

Deno.test("NetworkRuntime returns the versions of a plugin", async () => {
  using host = new RecordingPlugins();
  host.add("a", {
    VERSION:
      `echo '{"cniVersion":"1.1.0","supportedVersions":["2.0.0","1.0.0"]}'`,
  });
  const { supportedVersions } = await host.runtime().getVersionInfo("a");
  assertEquals(supportedVersions, ["2.0.0", "1.0.0"]);
  assertEquals(
    await host.runtime().validateNetwork(
      bare({ cniVersion: "1.0.0", capabilities: { mac: true, ips: false } }),
    ),
    ["mac"],
  );
});
