import { errorMessage } from "./error_message.ts";
import { testRows } from "./testing.ts";

Deno.test("cni/error-message refuses periods and prefixes", async (t) => {
  const period = "An error message ends without a period";
  const prefix = 'An error message begins without "Error:"';
  await testRows(t, errorMessage, [
    ["net/ip.ts", "new RangeError(`Cannot parse 10.0.0.${text}`);"],
    ["net/ip.ts", "new Error(text, { cause });"],
    ["net/ip.ts", 'new URL("https://example.com.");'],
    ["net/ip_test.ts", 'new Error("Error: as others write it.");'],
    ["net/ip.ts", 'new Error("Cannot parse it.");', period],
    ["net/ip.ts", "throw new Error(`Cannot parse ${text}.`);", period],
    ["net/ip.ts", 'new Error("Cannot parse " + text + ".");', period],
    ["net/ip.ts", "new TypeError(`error: ${text}`);", prefix],
    ["cni/skel.ts", 'new CniError(7, "Error: cannot read it");', prefix],
    ["cni/skel.ts", 'new AggregateError(errors, "Cannot delete.");', period],
  ]);
});
