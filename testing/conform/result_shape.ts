/**
 * The shape of results, as each version of the specification has it. Written
 * apart from the code that plugins of this project use.
 *
 * Source: SPEC.md of spec-v0.1.0 to spec-v1.1.0, "Result".
 *
 * @module
 */

import { isAtLeast } from "../../cni/version.ts";

type Check = (value: unknown, path: string) => string[];

/** Lists what is wrong with a result; empty if nothing is. */
export function checkResult(value: unknown, version: string): string[] {
  return isAtLeast(version, "0.3.0")
    ? checkLists(version)(value, "result")
    : PAIR(value, "result");
}

const say = (path: string, value: unknown, expected: string): string[] => [
  `${path} is ${JSON.stringify(value)?.slice(0, 60)}, not ${expected}`,
];
const of =
  (expected: string, is: (value: unknown) => boolean): Check => (value, path) =>
    is(value) ? [] : say(path, value, expected);

const text = of("a string", (value) => typeof value === "string");
const count = of(
  "a number from 0",
  (value) => Number.isSafeInteger(value) && Number(value) >= 0,
);
const ADDRESS = /^(\d{1,3}(\.\d{1,3}){3}|[\da-fA-F:]*:[\da-fA-F:.]*)$/;
const ip = of(
  "an IP address",
  (value) => typeof value === "string" && ADDRESS.test(value),
);
const cidr = of("an address with a prefix length", (value) => {
  const [address = "", length = "", ...more] = String(value).split("/");
  return typeof value === "string" && ADDRESS.test(address) &&
    /^\d+$/.test(length) && more.length === 0 &&
    Number(length) <= (address.includes(":") ? 128 : 32);
});
const mac = of(
  "a hardware address",
  (value) =>
    typeof value === "string" &&
    (value === "" || /^[\da-f]{2}(:[\da-f]{2})+$/i.test(value)),
);

const list = (item: Check): Check => (value, path) =>
  Array.isArray(value)
    ? value.flatMap((one, at) => item(one, `${path}[${at}]`))
    : say(path, value, "a list");

function object(
  required: Readonly<Record<string, Check>>,
  optional: Readonly<Record<string, Check>>,
): Check {
  return (value, path) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return say(path, value, "an object");
    }
    const keys = value as Record<string, unknown>;
    const missing = Object.keys(required).filter((key) => !(key in keys))
      .map((key) => `${path} has no ${key}`);
    const wrong = Object.entries({ ...required, ...optional })
      .flatMap(([key, check]) =>
        key in keys ? check(keys[key], `${path}.${key}`) : []
      );
    return [...missing, ...wrong];
  };
}

const dns = object({}, {
  nameservers: list(ip),
  domain: text,
  search: list(text),
  options: list(text),
});
const route = object({ dst: cidr }, { gw: ip });
const family = object({ ip: cidr }, { gateway: ip, routes: list(route) });
const PAIR = object({ cniVersion: text }, { ip4: family, ip6: family, dns });

function checkLists(version: string): Check {
  const isPlain = isAtLeast(version, "1.0.0");
  const isNew = isAtLeast(version, "1.1.0");
  const link = object({ name: text }, {
    mac,
    sandbox: text,
    ...isNew && { mtu: count, socketPath: text, pciID: text },
  });
  const ipVersion = of(
    '"4" or "6"',
    (value) => value === "4" || value === "6",
  );
  const address = object(
    { address: cidr, ...!isPlain && { version: ipVersion } },
    { gateway: ip, interface: count },
  );
  const way = object({ dst: cidr }, {
    gw: ip,
    ...isNew && {
      mtu: count,
      advmss: count,
      priority: count,
      table: count,
      scope: count,
    },
  });
  return object({ cniVersion: text }, {
    interfaces: list(link),
    ips: list(address),
    routes: list(way),
    dns,
  });
}
