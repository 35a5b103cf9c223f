/**
 * Elements of sets and maps as the kernel lists them.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { splitAttributes } from "../netlink/attribute.ts";
import type { Element } from "./change.ts";
import { elementList } from "./message.ts";

/** Source: include/uapi/linux/netlink.h `struct nlattr`. */
const ATTRIBUTE_HEADER_BYTES = 4;
/** Source: `NFT_SET_ELEM_INTERVAL_END`. */
const INTERVAL_END = 1;

const latin1 = new TextDecoder("latin1");

/** Some elements of a list, undecoded: the bytes, and the same bytes as text. */
export interface Part {
  readonly bytes: Bytes;
  readonly text: string;
}

/** Some elements of a set. */
export interface FoundElements {
  /** The elements that exist. */
  readonly elements: readonly Element[];
  /** Whether the set also contains other elements. */
  readonly hasOthers: boolean;
}

/** The elements of a set or map, decoded on request. */
export class ElementList {
  readonly #parts: readonly Part[];

  /**
   * Wraps a list as the kernel sent it.
   *
   * @param parts The messages of the list
   */
  constructor(parts: readonly Part[]) {
    this.#parts = parts;
  }

  /** Returns all elements. */
  all(): Element[] {
    return this.#parts.flatMap(({ bytes }) => decodeElements(bytes));
  }

  /**
   * Finds the elements whose key, value, comment or label contains some bytes. Of
   * thousands of elements, this decodes only the few that match.
   *
   * @param wanted An element that contains any of them is returned
   */
  find(wanted: readonly Bytes[]): FoundElements {
    const texts = wanted.map((part) => latin1.decode(part));
    const isMeant = (text: string): boolean =>
      texts.some((part) => text.includes(part));
    const elements: Element[] = [];
    let hasOthers = false;
    for (const { bytes, text } of this.#parts) {
      if (!isMeant(text)) {
        hasOthers ||= bytes.length > 0;
        continue;
      }
      for (const { start, bytes: { length } } of splitAttributes(bytes)) {
        const end = start + ATTRIBUTE_HEADER_BYTES + length;
        if (isMeant(text.slice(start, end))) {
          elements.push(...decodeElements(bytes.subarray(start, end)));
        } else hasOthers = true;
      }
    }
    return { elements, hasOthers };
  }
}

/** Wraps elements as the kernel sent them. */
export function partOf(bytes: Bytes): Part {
  return { bytes, text: latin1.decode(bytes) };
}

/** Splits a part into its elements. */
export function splitElements({ bytes }: Part): [key: Bytes, part: Part][] {
  return splitAttributes(bytes).map(({ start, bytes: { length } }) => {
    const end = start + ATTRIBUTE_HEADER_BYTES + length;
    const part = partOf(bytes.slice(start, end));
    const [element] = decodeElements(part.bytes);
    return [element?.key ?? new Uint8Array(0), part];
  });
}

/** Decodes elements as the kernel sent them. */
function decodeElements(bytes: Bytes): Element[] {
  return elementList.decode(bytes).map(({ key, data, texts, flags = 0 }) => ({
    key: key?.value ?? new Uint8Array(0),
    verdict: data?.verdict?.code,
    ...data?.verdict?.chain && { chain: data.verdict.chain },
    ...(flags & INTERVAL_END) !== 0 && { isEnd: true },
    comment: texts?.comment ?? "",
    ...data?.value && { data: data.value },
    ...texts?.label && { label: texts.label },
  }));
}
