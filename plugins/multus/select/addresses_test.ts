import { assertEquals } from "@std/assert";
import { testRows } from "../../../tests/_harness/table.ts";
import { isHardwareAddress } from "./addresses.ts";

const GUID = "02:00:5e:10:00:00:00:01";
const LONG = "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01";

testRows("isHardwareAddress() accepts three forms and three lengths", [
  ["02:00:5e:10:00:01", true],
  ["02-00-5E-10-00-01", true],
  ["0200.5e10.0001", true],
  [GUID, true],
  [GUID.replaceAll(":", "-"), true],
  ["0200.5e10.0000.0001", true],
  [LONG, true],
  ["0000.0000.fe80.0000.0000.0000.0200.5e10.0000.0001", true],
  ["", false],
  ["02005e100001", false],
  ["02:00:5e:10:00", false],
  ["02:00:5e:10:00:01:", false],
  ["02:00:5e:10:00:01:02", false],
  ["02:00-5e:10:00:01", false],
  ["0200.5e10", false],
  ["0200:5e10:0001", false],
  ["02.00.5e.10.00.01", false],
  ["2:0:5e:10:0:1", false],
  ["02:00:5e:10:00:0g", false],
  [" 02:00:5e:10:00:01", false],
], ([text, expected]: [string, boolean]) => {
  assertEquals(isHardwareAddress(text), expected);
}, ([text]) => text || '""');
