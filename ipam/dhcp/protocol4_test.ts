import { assertEquals } from "@std/assert";
import { keepMissing } from "./protocol4.ts";
import { Options } from "../../net/dhcp/options.ts";

Deno.test("keepMissing() keeps options that a renewal omits", () => {
  const lease = {
    ack: {
      "1": "ffffff00",
      "3": "0a090001",
      "51": "00000e10",
      "54": "0a090001",
      "58": "00000708",
      "59": "00000c4e",
    },
  };
  const kept = (values: Record<string, string>): unknown =>
    keepMissing(Options.fromJSON(values), lease).toJSON();
  assertEquals(kept({ "53": "05" }), { ...lease.ack, "53": "05" });
  assertEquals(kept({ "3": "0a0900fe", "51": "0000003c" }), {
    "1": "ffffff00",
    "3": "0a0900fe",
    "51": "0000003c",
    "54": "0a090001",
  });
});
