/**
 * Mistakes in a configuration of portmap, and keys without effect.
 *
 * @module
 */

import { Ip, type IpFamily } from "../../net/ip.ts";
import type { Linted } from "../../metadata/plugin_metadata.ts";
import type { JsonValue } from "../../base/json/json.ts";
import { ifPossible } from "../../base/files/io.ts";
import { errorAt, type Problem, warningAt } from "../../metadata/problem.ts";

/** See {@linkcode Lint}. */
export function lint({ conf, capabilities }: Linted): Problem[] {
  const marks = ["externalSetMarkChain", "markMasqBit"]
    .filter((key) => conf[key] !== undefined);
  const problem = "Cannot specify externalSetMarkChain and markMasqBit";
  const idle = 'portmap maps nothing: the capability "portMappings" is missing';
  return [
    ...capabilities["portMappings"] ? [] : [warningAt([], idle, "no-effect")],
    ...marks.length < 2 ? [] : [errorAt(["externalSetMarkChain"], problem)],
    ...checkConditions("conditionsV4", conf["conditionsV4"], 6),
    ...checkConditions("conditionsV6", conf["conditionsV6"], 4),
  ];
}

/** Words of nft that begin the name of a field, by family. */
const HEADERS = { 4: "ip", 6: "ip6" } as const;
const FIELDS = ["saddr", "daddr", "protocol", "nexthdr", "ttl", "hoplimit"];

/** Finds a condition of the other family, which nft and iptables refuse. */
function checkConditions(
  key: string,
  conditions: JsonValue | undefined,
  other: IpFamily,
): Problem[] {
  if (!Array.isArray(conditions)) return [];
  const words = conditions.flatMap((item, index) =>
    typeof item !== "string"
      ? []
      : item.split(/[\s,{}]+/).map((word) => ({ word, index }))
  );
  // What follows is a text.
  const end = words.findIndex(({ word }) => /^(--)?comment$/.test(word));
  const wrong = words.slice(0, end < 0 ? words.length : end)
    .find(({ word }, at) =>
      word === HEADERS[other] && FIELDS.includes(words[at + 1]?.word ?? "") ||
      familyOf(word) === other
    );
  return wrong === undefined ? [] : [errorAt(
    [key, wrong.index],
    `"${wrong.word}" is for IPv${other} packets: ADD of a container with ports ` +
      `fails; move the condition to conditionsV${other}`,
  )];
}

/** Tells the family of an address, a prefix or an interval of addresses. */
function familyOf(word: string): IpFamily | undefined {
  const [address = ""] = word.split(/[/-]/);
  return ifPossible(() => Ip.parse(address).family);
}
