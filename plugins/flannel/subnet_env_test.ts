import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { readSubnetEnv } from "./subnet_env.ts";

const ENV = {
  NETWORK: "10.244.0.0/16",
  SUBNET: "10.244.1.1/24",
  MTU: "1450",
  IPMASQ: "true",
};

function read(keys: Readonly<Record<string, string>>, end = "\n"): unknown {
  const path = Deno.makeTempFileSync();
  try {
    const lines = Object.entries({ ...ENV, ...keys })
      .map(([key, value]) => `FLANNEL_${key}=${value}${end}`);
    Deno.writeTextFileSync(path, `# by flanneld\n\n${lines.join("")}`);
    return JSON.parse(JSON.stringify(readSubnetEnv(path)));
  } finally {
    Deno.removeSync(path);
  }
}

const EXPECTED = {
  networks: ["10.244.0.0/16"],
  subnets: ["10.244.1.0/24"],
  mtu: 1450,
  ipMasq: true,
};

Deno.test("readSubnetEnv() reads flanneld's file", () => {
  assertEquals(read({}), EXPECTED);
  assertEquals(read({}, "\r\n"), EXPECTED);
  assertEquals(read({ IPMASQ: "yes" }), { ...EXPECTED, ipMasq: false });
});

Deno.test("readSubnetEnv() names an invalid line", () => {
  for (
    const [key, value, text] of [
      ["NETWORK", "", "FLANNEL_NETWORK: invalid CIDR address: "],
      ["NETWORK", "10.0.0.0/8,x", "FLANNEL_NETWORK: invalid CIDR address: x"],
      ["SUBNET", "10.1.2.3", "FLANNEL_SUBNET: invalid CIDR address: 10.1.2.3"],
      ["IPV6_SUBNET", "fe80::/129", "invalid CIDR address: fe80::/129"],
      ["MTU", "1e3", 'FLANNEL_MTU: expected an integer below 2^32, got "1e3"'],
      ["MTU", "-1", "FLANNEL_MTU: expected"],
      ["MTU", "4294967296", "FLANNEL_MTU: expected"],
    ] as const
  ) {
    const { code, message } = assertThrows(
      () => read({ [key]: value }),
      CniError,
    );
    assertEquals(code, 7);
    assertStringIncludes(message, text);
  }
});

Deno.test("readSubnetEnv() names an unreadable file", () => {
  const codeOf = (path: string): number =>
    assertThrows(() => readSubnetEnv(path), CniError).code;
  assertEquals(codeOf("/no/such/file"), 11);
  assertEquals(codeOf("/proc"), 5);
});
