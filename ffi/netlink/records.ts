/**
 * Records that begin with their own length: messages, attributes and next hops.
 *
 * @module
 */

import { alignUp, type Bytes, viewOf } from "../../net/bytes.ts";

/** A record: its header and its payload. */
export interface SplitRecord<T> {
  readonly header: T;
  /** The record's offset in the run. */
  readonly start: number;
  readonly payload: Bytes;
}

/** The boundary on which every record of netlink begins. Source: `NLMSG_ALIGNTO`, `NLA_ALIGNTO`, `RTNH_ALIGNTO`. */
const RECORD_ALIGNMENT = 4;

/** Rounds a length up to the start of the next record. */
export function alignRecord(length: number): number {
  return alignUp(length, RECORD_ALIGNMENT);
}

/**
 * Splits a run of records that begin with their own length, as messages and
 * attributes do. Trailing bytes that are shorter than a header are padding.
 *
 * @param what Names a record in errors, such as `a message`
 * @throws {RangeError} If a length exceeds the run
 */
export function splitRecords<T extends { readonly length: number }>(
  layout: { readonly size: number; read(view: DataView, offset: number): T },
  bytes: Bytes,
  what: string,
): SplitRecord<T>[] {
  const records: SplitRecord<T>[] = [];
  const view = viewOf(bytes);
  for (let start = 0; start + layout.size <= bytes.length;) {
    const header = layout.read(view, start);
    const left = bytes.length - start;
    if (header.length < layout.size || header.length > left) {
      throw new RangeError(
        `Cannot decode ${what} of ${header.length} bytes where ${left} are left`,
      );
    }
    const end = start + header.length;
    const payload = bytes.subarray(start + layout.size, end);
    records.push({ header, start, payload });
    start += alignRecord(header.length);
  }
  return records;
}
