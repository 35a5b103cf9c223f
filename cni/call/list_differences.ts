/**
 * What tools read from the error of a failed CHECK. Plugins do not load this.
 *
 * @module
 */

import * as z from "zod/mini";
import { optional } from "../config/types.ts";
import { once } from "../../base/json/json.ts";
import { type Difference, splitDifferences } from "./differences.ts";

const kernelObjectSchema = once(() =>
  z.discriminatedUnion("kind", [
    z.object({
      kind: z.literal("link"),
      netns: z.string(),
      link: z.string(),
      isUp: optional(z.boolean()),
      mac: optional(z.string()),
      mtu: optional(z.number()),
      master: optional(z.string()),
      hairpin: optional(z.boolean()),
      isolated: optional(z.boolean()),
    }),
    z.object({
      kind: z.literal("address"),
      netns: z.string(),
      link: z.string(),
      address: z.string(),
    }),
    z.object({
      kind: z.literal("route"),
      netns: z.string(),
      link: z.string(),
      destination: z.string(),
      gateway: optional(z.string()),
    }),
    z.object({
      kind: z.literal("vlan"),
      netns: z.string(),
      link: z.string(),
      first: z.number(),
      last: z.number(),
      isUntagged: z.boolean(),
    }),
    z.object({
      kind: z.literal("sysctl"),
      netns: z.string(),
      key: z.string(),
      value: z.string(),
    }),
  ])
);

/**
 * Lists the differences in an error of CHECK. Any other error counts as one
 * difference. Objects of an unknown shape, as of third-party plugins, are left
 * out.
 */
export function listDifferences(error: unknown): Difference[] {
  return splitDifferences(error).map(({ msg, expected }) => {
    const { data } = kernelObjectSchema().safeParse(expected);
    return data === undefined ? { msg } : { msg, expected: data };
  });
}
