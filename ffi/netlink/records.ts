/**
 * Records that begin with their own length: messages, attributes and next hops.
 *
 * @module
 */

import { alignUp } from "../../net/bytes.ts";

/** A record: its header, and its bounds in the view. */
export interface SplitRecord<T> {
  readonly header: T;
  /** Where the header begins. */
  readonly start: number;
  /** Where the payload begins. */
  readonly payloadStart: number;
  /** Where the payload ends. */
  readonly end: number;
}

/**
 * The boundary on which every netlink record begins. Source: `NLMSG_ALIGNTO`,
 * `NLA_ALIGNTO`, `RTNH_ALIGNTO`.
 */
const RECORD_ALIGNMENT = 4;

/** Rounds a length up to the start of the next record. */
export function alignRecord(length: number): number {
  return alignUp(length, RECORD_ALIGNMENT);
}

/**
 * Splits a run of records that begin with their own length, as messages and
 * attributes do. Trailing bytes that are shorter than a header are padding.
 *
 * @param run Where the run begins and ends in the view
 * @param what Names a record in errors, such as `a message`
 * @throws {RangeError} If a length exceeds the run
 */
export function splitRecords<T extends { readonly length: number }>(
  { size, read }: {
    readonly size: number;
    readonly read: (view: DataView<ArrayBuffer>, offset: number) => T;
  },
  view: DataView<ArrayBuffer>,
  [from, to]: readonly [from: number, to: number],
  what: string,
): SplitRecord<T>[] {
  const records: SplitRecord<T>[] = [];
  for (let start = from; start + size <= to;) {
    const header = read(view, start);
    const { length } = header;
    const left = to - start;
    if (length < size || length > left) {
      throw new RangeError(
        `Cannot decode ${what} of ${length} bytes where only ${left} remain`,
      );
    }
    const end = start + length;
    records.push({ header, start, payloadStart: start + size, end });
    start += alignRecord(length);
  }
  return records;
}
