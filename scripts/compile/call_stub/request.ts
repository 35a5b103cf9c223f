/**
 * Steps of the call stub: the request to the daemon, up to the configuration.
 *
 * @module
 */

import {
  HEADER_BYTES,
  lengthAt,
  MAGIC,
  type RequestPart,
  SENT_VARIABLES,
  WORD_BYTES,
} from "../../../daemon/protocol/call_format.ts";
import { Frame, MAX_PREFIX } from "./frame.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

/** Longest text of an environment. Source: linux/binfmts.h `MAX_ARG_STRLEN`. */
const MAX_VARIABLE = 128 * 1024;

/** Writes the header and the parts before stdin to the mapping, and finds where stdin begins. */
export function beginRequest(w: Writer, build: string): void {
  const { p } = w;
  const [from, request, byte, end] = ["a", "b", "c", "d"] as const;
  p.load(request, "frame", Frame.memory);
  p.labelAddress(from, w.text(MAGIC));
  p.load(from, from, 0);
  p.store(from, request, 0);
  p.move(end, request);
  p.addNumber(end, HEADER_BYTES);

  p.labelAddress(from, w.text(build));
  w.copyText(from, end, byte);
  p.number(byte, build.length);
  p.store(byte, request, lengthAt("build"));

  p.load(from, "frame", Frame.name);
  p.store(end, request, lengthAt("name"));
  w.copyText(from, end, byte);
  finishPart(w, "name");

  p.store(end, request, lengthAt("env"));
  copyEnvironment(w);
  finishPart(w, "env");
  p.store(end, "frame", Frame.stdin);
}

/** Stores the length of a part that ends at d, in place of where it begins; changes a and b. */
function finishPart({ p }: Writer, part: RequestPart): void {
  const [length, request, begin, end] = ["a", "b", "c", "d"] as const;
  p.load(request, "frame", Frame.memory);
  p.load(begin, request, lengthAt(part));
  p.move(length, end);
  p.subtract(length, begin);
  p.store(length, request, lengthAt(part));
}

/**
 * Copies the variables that are sent to d. What is too long for the mapping is
 * left to deno.
 */
function copyEnvironment(w: Writer): void {
  const { p } = w;
  const [next, variable, names, end, character, text] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
  ] as const;
  // A name ends in what must follow: "=", or anything.
  const list = SENT_VARIABLES.map((name) =>
    name.endsWith("*") ? name.slice(0, -1) : `${name}=`
  );
  // Behind argc, argv[0] and the NULL of argv.
  p.frameAddress(next, Frame.size + 3 * WORD_BYTES);
  p.label("next variable to send");
  p.load(variable, next, 0);
  p.addNumber(next, WORD_BYTES);
  p.jumpIf(variable, "==", 0, "variables sent");
  p.labelAddress(names, w.text(list.map((name) => `${name}\0`).join("")));

  p.label("next name to send");
  p.loadByte(character, names);
  p.jumpIf(character, "==", 0, "next variable to send"); // no name matches
  p.move(text, variable);
  p.label("next character to send");
  p.loadByte(character, names);
  p.addNumber(names, 1);
  p.jumpIf(character, "==", 0, "send variable");
  p.loadByte("result", text);
  p.addNumber(text, 1);
  p.jumpIf(character, "==", "result", "next character to send");
  p.label("rest of name to send");
  p.loadByte(character, names);
  p.addNumber(names, 1);
  p.jumpIf(character, "!=", 0, "rest of name to send");
  p.jump("next name to send");

  p.label("send variable");
  w.memory(text, MAX_PREFIX - 2 * MAX_VARIABLE, character);
  p.jumpIf(end, ">=", text, Step.freeMemory);
  w.copyText(variable, end, character);
  p.storeByte(character, end); // the NUL
  p.addNumber(end, 1);
  p.jump("next variable to send");
  p.label("variables sent");
}

/** Ends the request behind stdin; a = where it is, b = its length. */
export function endRequest({ p }: Writer): void {
  const [request, length, end] = ["a", "b", "c"] as const;
  p.load(request, "frame", Frame.memory);
  p.load(end, "frame", Frame.stdin);
  p.load(length, "frame", Frame.stdinLength);
  p.store(length, request, lengthAt("stdin"));
  p.add(end, length);
  p.number(length, codeOf("\n"));
  p.storeByte(length, end);
  p.addNumber(end, 1);
  p.move(length, end);
  p.subtract(length, request);
}
