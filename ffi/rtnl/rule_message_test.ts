import { assertEquals } from "@std/assert";
import {
  assertLayout,
  maybe,
  randomBelow,
  randomIp,
  testMessages,
} from "../../tests/_harness/codecs.ts";
import { delRule, getRule, newRule } from "./rule_message.ts";

function randomRule(): Parameters<typeof newRule.encode>[0] {
  const byte = (): number => randomBelow(2 ** 8);
  const word = (): number => randomBelow(2 ** 32);
  return {
    header: {
      family: byte(),
      destinationLength: byte(),
      sourceLength: byte(),
      tos: byte(),
      table: byte(),
      reserved1: 0,
      reserved2: 0,
      action: byte(),
      flags: word(),
    },
    attributes: {
      ...maybe("destination", randomIp),
      ...maybe("source", randomIp),
      ...maybe("priority", word),
      ...maybe("suppressPrefixLength", word),
      ...maybe("table", word),
      ...maybe("protocol", byte),
    },
  };
}

// Offsets and sizes as gcc reports them.
Deno.test("the header of rule messages is laid out as struct fib_rule_hdr", () => {
  assertEquals(newRule.encode({ header: {} }).length, 12);
  assertLayout((header) => newRule.encode({ header }), {
    family: [0, 1],
    destinationLength: [1, 1],
    sourceLength: [2, 1],
    tos: [3, 1],
    table: [4, 1],
    reserved1: [5, 1],
    reserved2: [6, 1],
    action: [7, 1],
    flags: [8, 4],
  });
});

testMessages("rule", {
  numbers: [
    [newRule, "RTM_NEWRULE", 32],
    [delRule, "RTM_DELRULE", 33],
    [getRule, "RTM_GETRULE", 34],
  ],
  codec: newRule,
  draw: randomRule,
});
