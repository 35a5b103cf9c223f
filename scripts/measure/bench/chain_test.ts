import { assertEquals } from "@std/assert";
import { describeNetwork, listExecutables } from "./chain.ts";

const NETWORK = { masquerade: true, dataDir: "/leases", hostPort: 8080 };

Deno.test("describeNetwork() lists the plugins of the chain in its order", () => {
  const { plugins } = describeNetwork({ ...NETWORK, chain: "ports" });
  const types = plugins.map(({ type }) => type);
  assertEquals(types, ["ptp", "portmap", "bandwidth", "sbr"]);
});

Deno.test("describeNetwork() hands masquerade, directory and port to whom they concern", () => {
  const [ptp, portmap] =
    describeNetwork({ ...NETWORK, chain: "ports" }).plugins;
  assertEquals([ptp?.ipMasq, portmap?.ipMasq], [true, undefined]);
  assertEquals((ptp?.ipam as { dataDir: string }).dataDir, "/leases");
  const portMappings = [
    { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  ];
  assertEquals(portmap?.runtimeConfig, { portMappings });
});

Deno.test("describeNetwork() gives host-local alone what a main plugin would pass on", () => {
  const { plugins } = describeNetwork({ ...NETWORK, chain: "host-local" });
  assertEquals(plugins.map(({ type }) => type), ["ptp"]);
});

Deno.test("listExecutables() names each once, the IPAM plugin too", () => {
  assertEquals(listExecutables("host-local"), ["host-local"]);
  assertEquals(listExecutables("pod"), [
    "ptp",
    "bandwidth",
    "sbr",
    "host-local",
  ]);
});
