/**
 * Kills an ADD at each of its system calls.
 *
 * @module
 */

import { brief, Broken, expect, Untried } from "./verdict.ts";
import { describeReply, type Scene } from "./scene.ts";
import { differences } from "./state.ts";
import { hasEffect, type SystemCall, trace } from "./trace.ts";
import type { Executable } from "./call.ts";

/** At how many system calls an ADD is killed unless all are asked for. */
const SAMPLE = 16;

/**
 * Kills ADD at each system call that changes something, runs DEL once, and
 * expects what was there before.
 *
 * It is killed before the call is made. Between two of these calls nothing
 * changes, so these are all the states that a killed ADD can leave.
 */
export async function killAtEachCall(
  scene: Scene,
  way: Executable,
): Promise<void> {
  await scene.warmUp();
  const first = await scene.container();
  const { calls, exit } = await trace(scene, way, "ADD", first);
  if (exit !== "0") throw new Untried("ADD fails below strace");
  await scene.call("DEL", first);
  await scene.remove(first);
  const before = scene.state();
  const known = scene.transcript.length;
  for (const call of choose(calls, scene.isThorough ? Infinity : SAMPLE)) {
    scene.transcript.length = known;
    const what = `ADD killed at ${call.name} ${call.at} (${
      brief(call.text, 60)
    })`;
    const one = await scene.container();
    const request = scene.request("ADD", one);
    const tracer = [
      ...["strace", "-f", "-qq", "-o", "/dev/null"],
      ...["-e", `trace=${call.name}`],
      ...["-e", `inject=${call.name}:signal=KILL:when=${call.at}`],
    ];
    await scene.send(request, () => way.callBy(tracer, scene.place, request));
    const program = ` ${scene.executable} `;
    const last = scene.transcript.findLastIndex((line) =>
      line.includes(program)
    );
    scene.transcript[last] = scene.transcript[last]?.replace(
      program,
      ` ${tracer.join(" ")}${program}`,
    ) ?? "";
    const reply = await scene.call("DEL", one);
    expect(
      reply.exit === "0",
      `${what}: DEL failed: ${describeReply(reply)}`,
    );
    await scene.remove(one);
    try {
      const found = differences(before, scene.state());
      // What the next attachment removes or takes over does not add up.
      if (found.length > 0) await scene.warmUp();
      await scene.same(before, () => scene.state(), "after DEL");
    } catch (error) {
      if (error instanceof Broken) {
        throw new Broken(`${what}, ${error.message}`);
      }
      throw error;
    }
  }
}

/** Chooses calls with an effect: all, or as many, evenly. */
function choose(calls: readonly SystemCall[], most: number): SystemCall[] {
  const seen = new Set<string>();
  const all = calls.filter(hasEffect).filter(({ name, at }) => {
    const isNew = !seen.has(`${name} ${at}`);
    seen.add(`${name} ${at}`);
    return isNew;
  });
  const step = Math.max(all.length / most, 1);
  return all.filter((_, at) =>
    Math.floor(at / step) !== Math.floor((at - 1) / step)
  );
}
