// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/** `serveCni()`, called by the plugin remote, and the example of it. */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { pause } from "../base/deadline.ts";
import { findFileId } from "../base/files/same_file.ts";
import { emptyResult, type Result } from "../cni/result/result.ts";
import { serve } from "../docs/examples/daemon/main.ts";
import { serveCni } from "../daemon/serve_cni.ts";
import { findPlugin } from "../plugins/registry.ts";
import { rootTest } from "../testing/capabilities.ts";
import { linkNames } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { current } from "./_harness/recorder.ts";
import { UnixServer } from "./_harness/unix_server.ts";

const NETWORK = { cniVersion: "1.1.0", name: "net1", type: "remote" };

/** Runs a command, which must succeed. */
async function succeed(
  hosts: TestHosts,
  command: string,
  config: object,
): Promise<CallOutput> {
  const output = await hosts.run("remote", command, config);
  assertEquals(output.exitCode, 0, output.stdout);
  return output;
}

rootTest("the example attaches a sandbox through remote", async () => {
  using hosts = TestHosts.create();
  const socket = `${hosts.directory}/daemon/cni.sock`;
  await using server = await serve("ptp", socket, {
    hostNetns: hosts.host.path,
    onStderr: () => {},
  });
  assertEquals(server.socket, socket);
  const ipam = hosts.hostLocal("10.1.2.0/24");
  const config = { ...NETWORK, socket, ipam };
  const { json: prevResult } = await succeed(hosts, "ADD", config);
  assertEquals(prevResult.ips[0].address, "10.1.2.2/24");
  assertEquals(linkNames(hosts.sandbox), ["lo", "eth0"]);
  await succeed(hosts, "CHECK", { ...config, prevResult });
  await succeed(hosts, "STATUS", config);
  await succeed(hosts, "GC", {
    ...config,
    "cni.dev/valid-attachments": [
      { containerID: "test-container", ifname: "eth0" },
    ],
  });
  assertEquals(hosts.leases(), ["10.1.2.2"]);

  const again = await hosts.run("remote", "ADD", config);
  assertEquals(again.json.code, 4, again.stdout);
  await succeed(hosts, "DEL", { ...config, prevResult });
  await succeed(hosts, "DEL", config);
  assertEquals(linkNames(hosts.sandbox), ["lo"]);
  assertEquals(hosts.leases(), []);

  await server[Symbol.asyncDispose]();
  assertEquals(findFileId(socket), undefined);
  const away = { ...config, readyTimeoutSeconds: 0 };
  const { json } = await hosts.run("remote", "ADD", away);
  assertEquals(json.code, 11);
  await assertRejects(() => serve("none", socket), Error, '"none"');
});

rootTest(
  "serveCni() runs a container's calls in order, and GC alone",
  async () => {
    using hosts = TestHosts.create();
    const socket = `${hosts.directory}/daemon/cni.sock`;
    const events: string[] = [];
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const gateOf = (name: string): PromiseWithResolvers<void> => {
      const gate = gates.get(name) ?? Promise.withResolvers<void>();
      gates.set(name, gate);
      return gate;
    };
    const note = async (name: string): Promise<void> => {
      events.push(`begin ${name}`);
      gateOf(`begun ${name}`).resolve();
      await gateOf(name).promise;
      events.push(`end ${name}`);
    };
    const { plugin } = current({
      async add({ args }): Promise<Result> {
        await note(`${args.containerId}/${args.ifName}`);
        return emptyResult();
      },
      gc: () => note("GC"),
    });
    await using _server = await serveCni(plugin, socket, {
      onStderr: () => {},
    });
    const config = { ...NETWORK, socket };
    const add = (containerId: string, ifName: string): Promise<CallOutput> =>
      hosts.run("remote", "ADD", config, { containerId, ifName });

    const first = add("a", "eth0");
    await gateOf("begun a/eth0").promise;
    const others = [add("a", "net1"), add("b", "eth0")];
    // Another container does not wait.
    await gateOf("begun b/eth0").promise;
    assertEquals(events, ["begin a/eth0", "begin b/eth0"]);
    const gc = hosts.run("remote", "GC", {
      ...config,
      "cni.dev/valid-attachments": [],
    });
    for (const name of ["a/eth0", "a/net1", "b/eth0"]) gateOf(name).resolve();
    await gateOf("begun GC").promise;
    const last = add("c", "eth0");
    gateOf("c/eth0").resolve();
    gateOf("GC").resolve();
    for (
      const { exitCode, stdout } of await Promise.all([
        first,
        ...others,
        gc,
        last,
      ])
    ) {
      assertEquals(exitCode, 0, stdout);
    }
    const at = (event: string): number => events.indexOf(event);
    assert(at("end a/eth0") < at("begin a/net1"), events.join());
    assert(at("end a/net1") < at("begin GC"), events.join());
    assert(at("end b/eth0") < at("begin GC"), events.join());
    assert(at("end GC") < at("begin c/eth0"), events.join());
  },
);

rootTest(
  "serveCni(): a DEL cancels an ADD that hangs, although GC waits for it",
  async () => {
    using hosts = TestHosts.create();
    const socket = `${hosts.directory}/daemon/cni.sock`;
    const begun = Promise.withResolvers<void>();
    const { plugin } = current({
      async add({ signal }): Promise<Result> {
        begun.resolve();
        await new Promise<void>((resolve) =>
          signal?.addEventListener("abort", () => resolve())
        );
        return emptyResult();
      },
      gc: () => Promise.resolve(),
    });
    await using _server = await serveCni(plugin, socket, {
      onStderr: () => {},
      gateMs: 50,
    });
    const config = { ...NETWORK, socket };
    const added = hosts.run("remote", "ADD", config);
    await begun.promise;
    const collected = hosts.run("remote", "GC", {
      ...config,
      "cni.dev/valid-attachments": [],
    });
    // By now GC waits.
    await pause(20);
    await succeed(hosts, "DEL", config);
    const { json: { code } } = await added;
    assertEquals(code, 11);
    const { exitCode, stdout } = await collected;
    assertEquals(exitCode, 0, stdout);
  },
);

rootTest(
  "serveCni() returns code 11 for calls that it does not start",
  async () => {
    using hosts = TestHosts.create();
    const socket = `${hosts.directory}/daemon/cni.sock`;
    const [begun, end] = [0, 1].map(() => Promise.withResolvers<void>());
    const { plugin } = current({
      async add(): Promise<Result> {
        begun?.resolve();
        await end?.promise;
        return emptyResult();
      },
    });
    const server = await serveCni(plugin, socket, { onStderr: () => {} });
    const config = { ...NETWORK, socket };
    const first = hosts.run("remote", "ADD", config);
    await begun?.promise;
    const second = hosts.run("remote", "ADD", config, { ifName: "net1" });
    // By now it waits for the first.
    await hosts.run("remote", "STATUS", config);
    const ended = server[Symbol.asyncDispose]();
    // Its caller must not try again before the first has ended.
    end?.resolve();
    const { exitCode: code, stdout } = await first;
    assertEquals(code, 0, stdout);
    const { exitCode, json } = await second;
    assertEquals([exitCode, json.code, json.msg], [1, 11, "the daemon ends"]);
    await ended;
  },
);

Deno.test("serveCni() takes over from a daemon, which then does not remove the socket", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  const socket = `${directory}/cni.sock`;
  const passthru = await findPlugin("passthru");
  assert(passthru);
  const options = { onStderr: (): void => {} };
  const before = await serveCni(passthru, socket, options);
  const id = findFileId(socket);
  const after = await serveCni(passthru, socket, options);
  await before[Symbol.asyncDispose]();
  assert(findFileId(socket) !== id && findFileId(socket) !== undefined);
  const mode = (path: string): number =>
    (Deno.statSync(path).mode ?? 0) & 0o777;
  assertEquals(mode(socket), 0o600);
  using client = Deno.createHttpClient({
    proxy: { transport: "unix", path: socket },
  });
  const answers = await Promise.all(
    ["/readyz", "/cni", "/delegate", "/other"].map(async (path) => {
      const response = await fetch(`http://daemon${path}`, { client });
      await response.body?.cancel();
      return response.status;
    }),
  );
  assertEquals(answers, [200, 405, 404, 404]);
  await after[Symbol.asyncDispose]();
  await after[Symbol.asyncDispose]();
  assertEquals(findFileId(socket), undefined);
  Deno.removeSync(directory, { recursive: true });
});

rootTest(
  "contivk8s passes a namespace as the namespace of a process",
  async () => {
    using hosts = TestHosts.create();
    let path = "", id: string | undefined;
    await using daemon = new UnixServer(({ request, say }) => {
      path = JSON.parse(request.split("\r\n\r\n")[1] ?? "{}")["CNI_NETNS"];
      id = findFileId(path);
      const body = '{"ipaddress":"10.1.2.3/24"}';
      return say(
        `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
    const config = {
      cniVersion: "0.3.1",
      name: "contiv-net",
      type: "contivk8s",
      socket: daemon.path,
    };
    const output = await hosts.run("contivk8s", "ADD", config);
    assertEquals(output.exitCode, 0, output.stdout);
    assertMatch(path, /^\/proc\/\d+\/ns\/net$/);
    assertEquals(id, findFileId(hosts.sandbox.path));

    const byPath = { ...config, netnsMode: "path" };
    await hosts.run("contivk8s", "ADD", byPath);
    assertEquals(path, hosts.sandbox.path);

    const env = { CNI_NETNS: "/run/netns/gone" };
    const gone = await hosts.run("contivk8s", "ADD", config, { env });
    assertEquals(gone.json.code, 8);
    await hosts.run("contivk8s", "DEL", config, { env });
    assertEquals(path, undefined);
    assertEquals(daemon.requests.length, 3);
  },
);
