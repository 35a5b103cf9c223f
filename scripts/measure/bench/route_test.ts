import { assertEquals } from "@std/assert";
import { type ChainName, describeNetwork } from "./chain.ts";
import { type Attachment, type Route, ROUTES, type Verb } from "./route.ts";
import { testRows } from "../../../tests/_harness/table.ts";

const PLACE = {
  bin: "/bin-of-plugins",
  multus: "/bin-of-plugins",
  directory: "/scratch",
  socket: "/scratch/daemon.sock",
  thickDir: "/scratch/thick",
};

function attachmentTo(chain: ChainName): Attachment {
  const list = describeNetwork({
    chain,
    masquerade: false,
    dataDir: "/leases",
    hostPort: 8080,
  });
  return { id: "c1", netns: "/netns/c1", list };
}

function routeNamed(name: string): Route {
  const route = ROUTES.find((route) => route.name === name);
  if (route === undefined) throw new Error(`Route "${name}" does not exist`);
  return route;
}

testRows("one by one, plugins run in order, for DEL in reverse", [
  ["ADD", ["ptp", "bandwidth", "sbr"]],
  ["CHECK", ["ptp", "bandwidth", "sbr"]],
  ["DEL", ["sbr", "bandwidth", "ptp"]],
], ([verb, plugins]: [Verb, string[]]) => {
  const attachment = attachmentTo("pod");
  const calls = routeNamed("").plan("pod", verb, PLACE);
  assertEquals(calls.map(({ plugin }) => plugin), plugins);
  const made = calls.map(({ make }) => make(attachment));
  const paths = plugins.map((plugin) => `/bin-of-plugins/${plugin}`);
  assertEquals(made.map(({ path }) => path), paths);
  for (const { env } of made) {
    assertEquals(env, {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: "c1",
      CNI_NETNS: "/netns/c1",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/bin-of-plugins",
    });
  }
});

Deno.test("one by one, a plugin is given its part with name, version and the result so far", () => {
  const attachment = attachmentTo("pod");
  const [ptp, bandwidth] = routeNamed("").plan("pod", "ADD", PLACE);
  const first = JSON.parse(ptp?.make(attachment).stdin ?? "");
  const { name, cniVersion, type } = first;
  assertEquals([name, cniVersion, type], ["bench", "1.0.0", "ptp"]);
  assertEquals("prevResult" in first, false);
  attachment.result = '{"ips":[]}';
  const second = JSON.parse(bandwidth?.make(attachment).stdin ?? "");
  assertEquals([second.type, second.prevResult], ["bandwidth", { ips: [] }]);
});

Deno.test("host-local alone is called with the configuration of the plugin that it serves", () => {
  const [call] = routeNamed("").plan("host-local", "ADD", PLACE);
  const { path, stdin } = call?.make(attachmentTo("host-local")) ?? {};
  assertEquals(path, "/bin-of-plugins/host-local");
  const { type, ipam } = JSON.parse(stdin ?? "");
  assertEquals([type, ipam.type], ["ptp", "host-local"]);
});

testRows("multus and chain are given the whole chain in one call", [
  "multus",
  "chain",
], (name) => {
  const attachment = attachmentTo("pod");
  attachment.result = '{"ips":[]}';
  const calls = routeNamed(name).plan("pod", "DEL", PLACE);
  assertEquals(calls.length, 1);
  const { path, stdin } = calls[0]?.make(attachment) ?? {};
  assertEquals(path, `/bin-of-plugins/${name}`);
  const conf = JSON.parse(stdin ?? "");
  assertEquals([conf.type, conf.prevResult], [name, { ips: [] }]);
  const { plugins } = conf.delegates?.[0] ?? conf;
  assertEquals(plugins, attachment.list.plugins);
});

Deno.test("multus may be in another directory", () => {
  const place = { ...PLACE, multus: "/elsewhere" };
  const [call] = routeNamed("multus").plan("pod", "ADD", place);
  const { path, env } = call?.make(attachmentTo("pod")) ?? {};
  assertEquals(path, "/elsewhere/multus");
  assertEquals(env?.["CNI_PATH"], "/bin-of-plugins");
});

testRows("a daemon is asked by each plugin, or by the chain", [
  ["daemon", ["ptp", "bandwidth", "sbr"]],
  ["daemon chain", ["chain"]],
], ([name, plugins]: [string, string[]]) => {
  const calls = routeNamed(name).plan("pod", "ADD", PLACE)
    .map(({ make }) => make(attachmentTo("pod")));
  const paths = plugins.map((plugin) => `/bin-of-plugins/${plugin}`);
  assertEquals(calls.map(({ path }) => path), paths);
  for (const [at, { stdin }] of calls.entries()) {
    const conf = JSON.parse(stdin);
    assertEquals(conf.daemonSocket, "/scratch/daemon.sock");
    assertEquals([conf.type, conf.name], [plugins[at], "bench"]);
  }
});

Deno.test("the tool is called by arguments, and its network is in a file", () => {
  const attachment = attachmentTo("pod");
  const [call] = routeNamed("cni").plan("pod", "CHECK", PLACE);
  const { args, files } = call?.make(attachment) ?? {};
  const file = "/scratch/c1.conflist";
  assertEquals(args?.slice(0, 3), ["check", file, "/netns/c1"]);
  assertEquals(files, { [file]: JSON.stringify(attachment.list) });
});
