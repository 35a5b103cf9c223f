/**
 * Versions of the specification: how they are read and compared, which a plugin
 * is said to serve, and in which a prevResult is read.
 *
 * Source: containernetworking/cni pkg/version/*_test.go.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { decodeVersionInfo } from "../../cni/invoke/version_probe.ts";
import { checkVersion, decodeConfigVersion } from "../../cni/call/request.ts";
import { parsePrevResult } from "../../cni/result/decoding.ts";
import {
  compareVersions,
  isAtLeast,
  listVersionsFrom,
  parseVersion,
} from "../../cni/version.ts";
import { Cidr } from "../../net/cidr.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { recorder } from "../_harness/recorder.ts";
import { expand, failureOf } from "./rows.ts";

conformance("version", {
  "the configuration's version is read": () => {
    assertEquals(decodeConfigVersion('{"cniVersion":"4.3.2"}'), "4.3.2");
  },
  ...expand(["{}", '{"cniVersion":""}'], (config) => [
    `the version of ${config} is 0.1.0`,
    () => assertEquals(decodeConfigVersion(config), "0.1.0"),
  ]),
  "a configuration that is not JSON has no version": () => {
    const { code, msg = "" } = failureOf(() => decodeConfigVersion("{{{"));
    assertEquals(code, 6);
    assert(msg.startsWith("decoding version from network config: "), msg);
  },
});

/** Builds a row: what a plugin printed on VERSION cannot be read. */
function isNoAnswer(stdout: string, problem: string): Row {
  return () => {
    const { code, msg = "" } = failureOf(() => decodeVersionInfo(stdout));
    assertEquals(code, 6);
    assert(msg.startsWith(`decoding version info: ${problem}`), msg);
  };
}

conformance("version", {
  "a plugin's list keeps its order": () => {
    const supportedVersions = ["some-future", "0.4.0", "0.1.0"];
    const answer = { cniVersion: "some-future", supportedVersions };
    assertEquals(decodeVersionInfo(JSON.stringify(answer)), answer);
  },
  "a reply to VERSION that is not JSON is refused": isNoAnswer("{{{", ""),
  "an answer to VERSION without cniVersion is refused": isNoAnswer(
    '{"supportedVersions":["foo"]}',
    "missing field cniVersion",
  ),
  "an answer of 0.2.0 without a list means 0.1.0 and 0.2.0": () => {
    assertEquals(decodeVersionInfo('{"cniVersion":"0.2.0"}'), {
      cniVersion: "0.2.0",
      supportedVersions: ["0.1.0", "0.2.0"],
    });
  },
  "an answer of any other version without a list is refused": isNoAnswer(
    '{"cniVersion":"0.3.0"}',
    "missing field supportedVersions",
  ),
});

conformance("version", {
  "1.2.3 is read": () => assertEquals(parseVersion("1.2.3"), [1, 2, 3]),
  "no version is 0.1.0": () => assertEquals(parseVersion(""), [0, 1, 0]),
  "parts that are missing are 0": () => {
    assertEquals(parseVersion("1"), [1, 0, 0]);
    assertEquals(parseVersion("1.1"), [1, 1, 0]);
  },
  "parts may have a sign": () => {
    assertEquals(parseVersion("0.-42.0"), [0, -42, 0]);
    assertEquals(parseVersion("+1.2"), [1, 2, 0]);
  },
  ...expand(
    ["asdfasdf", "asdf.", ".asdfas", "asdf.adsf.", "0.", "..", "1.2.3.4.5"]
      .concat("1.2.3.4", "v1", " 1", "1.0.0-rc1"),
    (text) => [
      `"${text}" is not a version`,
      () => void assertThrows(() => parseVersion(text), RangeError),
    ],
  ),
});

conformance("version", {
  ...expand([
    ["1.2.34", "1.2.14"],
    ["2.5.4", "2.4.4"],
    ["1.2.3", "0.2.3"],
    ["0.4.0", "0.3.1"],
  ], ([newer, older]) => [
    `${newer} is newer than ${older}`,
    () => {
      assert(isAtLeast(newer, older) && !isAtLeast(older, newer));
      assert(compareVersions(newer, older) > 0);
      assert(compareVersions(older, newer) < 0);
    },
  ]),
  "a version is at least itself, and not newer": () => {
    assert(isAtLeast("1.2.3", "1.2.3"));
    assertEquals(compareVersions("1.2.3", "1.2.3"), 0);
  },
  "a malformed version cannot be compared, on either side": () => {
    assertThrows(() => isAtLeast("1.2.34", "asdadf"), RangeError);
    assertThrows(() => isAtLeast("adsfad", "2.5.4"), RangeError);
  },
  "a plugin is called in a version of its list": () => {
    const { plugin } = recorder({ versions: ["1.2.3", "4.3.2"] });
    checkVersion(plugin, "ADD", "4.3.2");
  },
  "what is said of any other version lists both sides": () => {
    const { plugin } = recorder({ versions: ["1.2.3", "4.3.2"] });
    assertEquals(failureOf(() => checkVersion(plugin, "ADD", "0.1.0")), {
      code: 1,
      msg: "incompatible CNI versions",
      details: 'config is "0.1.0", plugin supports ["1.2.3" "4.3.2"]',
    });
  },
  "the versions from 0.3.1 on are 0.3.1, 0.4.0, 1.0.0, 1.1.0": () => {
    assertEquals(listVersionsFrom("0.3.1"), [
      "0.3.1",
      "0.4.0",
      "1.0.0",
      "1.1.0",
    ]);
  },
});

const ATTACHMENT = {
  interfaces: [{ name: "eth0", pciID: "8086:9a01", socketPath: "/path/to/v" }],
  ips: [{ interface: 0, address: "1.2.3.30/24" }],
};

/** ATTACHMENT, read. */
const READ = {
  interfaces: [{ name: "eth0", pciId: "8086:9a01", socketPath: "/path/to/v" }],
  ips: [{ interface: 0, address: Cidr.parse("1.2.3.30/24") }],
  routes: [],
  dns: { nameservers: [], domain: "", search: [], options: [] },
};

conformance("version", {
  "a prevResult of 1.0.0 is read, with pciID, socketPath and index 0": () => {
    const prevResult = { cniVersion: "1.0.0", ...ATTACHMENT };
    const config = { cniVersion: "1.0.0", prevResult };
    assertEquals(parsePrevResult(config), READ);
  },
  "a stray version in ips of 1.0.0 is ignored": () => {
    const ips = [{ ...ATTACHMENT.ips[0], version: "4" }];
    const prevResult = { cniVersion: "1.0.0", ...ATTACHMENT, ips };
    const config = { cniVersion: "1.0.0", prevResult };
    assertEquals(parsePrevResult(config), READ);
  },
  "a prevResult of the same family is read": () => {
    const prevResult = { cniVersion: "1.0.0", ...ATTACHMENT };
    assertEquals(parsePrevResult({ cniVersion: "1.1.0", prevResult }), READ);
  },
  "a prevResult of 5678.456 is refused": () => {
    const prevResult = { cniVersion: "5678.456", ...ATTACHMENT };
    const config = { cniVersion: "1.0.0", prevResult };
    assertEquals(
      failureOf(() => parsePrevResult(config)).msg,
      "could not parse prevResult: result type supports [1.0.0 1.1.0] but " +
        'unmarshalled CNIVersion is "5678.456"',
    );
  },
  "prevResult of an unknown version is unreadable": () => {
    const config = { cniVersion: "5678.456", prevResult: ATTACHMENT };
    assertEquals(failureOf(() => parsePrevResult(config)), {
      code: 1,
      msg: 'unsupported CNI result version "5678.456"',
    });
  },
  ...expand(["0.2.0", "0.4.0"], (cniVersion) => [
    `a prevResult of ${cniVersion} is refused in a configuration of 1.1.0`,
    () => {
      const prevResult = { cniVersion, ip4: { ip: "1.2.3.30/24" } };
      const config = { cniVersion: "1.1.0", prevResult };
      assertEquals(failureOf(() => parsePrevResult(config)).code, 1);
    },
  ]),
  "a configuration without prevResult has none": () => {
    assertEquals(parsePrevResult({ cniVersion: "1.0.0" }), undefined);
  },
  ...expand([{}, { cniVersion: "" }], (none) => [
    `a prevResult with ${
      JSON.stringify(none)
    } is in the configuration's version`,
    () => {
      const prevResult = { ...none, ...ATTACHMENT };
      assertEquals(parsePrevResult({ cniVersion: "1.1.0", prevResult }), READ);
    },
  ]),
});
