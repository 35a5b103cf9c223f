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
import { type Failure, failureOf } from "./rows.ts";

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

conformance("utils", {
  "an empty container ID is code 3": checks(checkContainerId, "", {
    code: 3,
    msg: "missing containerID",
  }),
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
  "an interface name of 15 characters is fine": checks(
    checkInterfaceName,
    "123456789012345",
  ),
  "an interface name is measured in bytes": checks(
    checkInterfaceName,
    "nätzwörkßßß12",
    {
      code: 4,
      msg: "interface name is too long",
      details: "interface name should be less than 16 characters",
    },
  ),
  "interface name testname is fine": checks(checkInterfaceName, "testname"),
});
