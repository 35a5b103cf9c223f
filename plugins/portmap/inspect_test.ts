import { assertEquals } from "@std/assert";
import { emptyResult } from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { isSameHostPort, listForwardedPorts, listMappings } from "./inspect.ts";

Deno.test("listMappings() reads the port mappings of each runtime", () => {
  const portMappings = [
    // go-cni, of containerd
    { HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: "" },
    { HostPort: 53, ContainerPort: 5, Protocol: "UDP", HostIP: "192.0.2.1" },
    // podman and CRI-O
    { hostPort: 443, containerPort: 8443, hostIP: "" },
    // nerdctl
    { HostPort: 9, ContainerPort: 8, Protocol: "tcp", HostIP: "0.0.0.0" },
    // ADD refuses these.
    { hostPort: 0, containerPort: 80 },
    { hostPort: 80, containerPort: 80, protocol: "icmp" },
    null,
  ];
  const found = listMappings({ portMappings }).map(
    ({ protocol, hostPort, containerPort, hostIp }) =>
      `${hostIp ?? "any"} ${hostPort}/${protocol} ${containerPort}`,
  );
  assertEquals(found, [
    "any 8080/tcp 80",
    "192.0.2.1 53/udp 5",
    "any 443/tcp 8443",
    "0.0.0.0 9/tcp 8",
  ]);
  assertEquals(listMappings({}), []);
});

/** The addresses of a container, and its mapping of port 8080. */
type Mapped = [addresses: string[], hostIP?: string, protocol?: string];

const V4 = "10.1.0.2/24", V6 = "fd00::2/64";

testRows<[one: Mapped, other: Mapped, isSame: boolean]>(
  "isSameHostPort() compares ports by family",
  [
    [[[V4]], [[V4]], true],
    [[[V4]], [[V4], "0.0.0.0"], true],
    [[[V4, V6]], [[V6], "::"], true],
    [[[V4, V6], "0.0.0.0"], [[V4, V6], "::"], false],
    [[[V4]], [[V6]], false],
    // The port of one address takes precedence.
    [[[V4]], [[V4], "192.0.2.1"], false],
    [[[V4], "192.0.2.1"], [[V4], "192.0.2.1"], true],
    [[[V4], "192.0.2.1"], [[V4], "192.0.2.2"], false],
    [[[V4], "", "tcp"], [[V4], "", "udp"], false],
  ],
  ([one, other, isSame]) => {
    const [ports, others] = [one, other].map((
      [addresses, hostIP = "", protocol = "tcp"],
    ) => {
      const mapping = { hostPort: 8080, containerPort: 80, hostIP, protocol };
      const ips = addresses.map((text) => ({ address: Cidr.parse(text) }));
      return listForwardedPorts(
        { capabilityArgs: { portMappings: [mapping] }, ifName: "eth0" },
        { ...emptyResult(), ips },
      );
    });
    const found = ports?.some((port) => others?.some(isSameHostPort(port)));
    assertEquals(found, isSame);
  },
  JSON.stringify,
);
