/**
 * Valid container IDs, network names and interface names.
 *
 * Source: containernetworking/cni pkg/utils/utils_test.go.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import {
  checkContainerId,
  checkInterfaceName,
  checkNetworkName,
} from "../../cni/call/args.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { expand, type Failure, failureOf } from "./rows.ts";

/** Builds a row: the check lets the text pass, or fails so. */
function checks(
  check: (text: string) => void,
  text: string,
  failure?: Failure,
): Row {
  return () => {
    if (failure === undefined) check(text);
    else assertEquals(failureOf(() => check(text)), failure);
  };
}

const CHARACTERS = {
  code: 4,
  msg: "interface name contains / or : or whitespace characters",
};
const TOO_LONG = {
  code: 4,
  msg: "interface name is too long",
  details: "interface name should be less than 16 characters",
};

conformance("utils", {
  "an empty container ID is code 3": checks(checkContainerId, "", {
    code: 3,
    msg: "missing containerID",
  }),
  "container ID 1234%%% is code 4, which shows it": checks(
    checkContainerId,
    "1234%%%",
    {
      code: 4,
      msg: "invalid characters in containerID",
      details: "1234%%%",
    },
  ),
  "container ID a51debf7e1eb is fine": checks(checkContainerId, "a51debf7e1eb"),
  "a container ID may be of any length": checks(
    checkContainerId,
    "a".repeat(4096),
  ),
  "a container ID does not end with a line feed": checks(
    checkContainerId,
    "a51debf7e1eb\n",
    {
      code: 4,
      msg: "invalid characters in containerID",
      details: "a51debf7e1eb\n",
    },
  ),
  "an empty network name is code 7": checks(checkNetworkName, "", {
    code: 7,
    msg: "missing network name",
  }),
  "network name 1234%%% is code 7, which shows it": checks(
    checkNetworkName,
    "1234%%%",
    {
      code: 7,
      msg: "invalid characters found in network name",
      details: "1234%%%",
    },
  ),
  "network name eth0 is fine": checks(checkNetworkName, "eth0"),
  "an empty interface name is code 4": checks(checkInterfaceName, "", {
    code: 4,
    msg: "interface name is empty",
  }),
  "an interface name of 16 characters is code 4": checks(
    checkInterfaceName,
    "1234567890123456",
    TOO_LONG,
  ),
  "an interface name of 15 characters is fine": checks(
    checkInterfaceName,
    "123456789012345",
  ),
  "an interface name is measured in bytes": checks(
    checkInterfaceName,
    "nätzwörkßßß12",
    TOO_LONG,
  ),
  ...expand([".", ".."], (name) => [
    `interface name ${name} is code 4`,
    checks(checkInterfaceName, name, {
      code: 4,
      msg: "interface name is . or ..",
    }),
  ]),
  ...expand(["/testname", "test name", "test:name", "test\tname"], (name) => [
    `interface name ${JSON.stringify(name)} is code 4`,
    checks(checkInterfaceName, name, CHARACTERS),
  ]),
  ...expand(["\u0085", "\u00a0", "\u3000"], (space) => [
    `U+${space.charCodeAt(0).toString(16)} is white space, as to Go`,
    checks(checkInterfaceName, `a${space}b`, CHARACTERS),
  ]),
  "U+feff is not white space, as in Go": checks(checkInterfaceName, "a\ufeffb"),
  "interface name testname is fine": checks(checkInterfaceName, "testname"),
});
