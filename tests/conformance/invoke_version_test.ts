import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertThrows,
} from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import { CniError } from "../../base/error.ts";
import {
  decodeVersionInfo,
  getVersionInfo,
} from "../../cni/invoke/version_probe.ts";
import { conformance } from "../_harness/conformance.ts";
import { PluginDirectory } from "../_harness/plugin_directory.ts";
import { callerEnv, parseEnv, PATH, print, TRACE } from "./script_plugins.ts";

/** Asks a script for its versions. */
async function probe(
  script: string,
  env: Environment = { PATH },
): Promise<readonly string[]> {
  using directory = new PluginDirectory();
  const path = directory.add("plugin", script);
  return (await getVersionInfo(path, { env })).supportedVersions;
}

conformance("invoke VERSION", {
  "the command is VERSION": async () => {
    const script =
      `echo '{"cniVersion":"1.0.0","supportedVersions":["'$CNI_COMMAND'"]}'`;
    assertEquals(await probe(script), ["VERSION"]);
  },
  "stdin is the current version alone": async () => {
    using directory = new PluginDirectory();
    const seen = `${directory.path}/stdin`;
    await probe(`cat > ${seen}; echo '{"cniVersion":"0.2.0"}'`);
    assertEquals(await Deno.readTextFile(seen), '{"cniVersion":"1.1.0"}');
  },
  "the other variables are dummies, or empty": async () => {
    using directory = new PluginDirectory();
    const seen = `${directory.path}/env`;
    await probe(
      `cat /proc/$$/environ > ${seen}; echo '{"cniVersion":"0.2.0"}'`,
      callerEnv("/own/path"),
    );
    assertEquals(parseEnv(await Deno.readTextFile(seen)), {
      CNI_COMMAND: "VERSION",
      CNI_CONTAINERID: "",
      CNI_NETNS: "dummy",
      CNI_IFNAME: "dummy",
      CNI_ARGS: "",
      CNI_PATH: "dummy",
      PATH,
      ...TRACE,
    });
  },
  "the list is kept in its order": async () => {
    const supportedVersions = ["1.0.0", "0.1.0", "0.-42.0"];
    assertEquals(
      await probe(print({ cniVersion: "1.1.0", supportedVersions })),
      supportedVersions,
    );
  },
  "an error is relayed": async () => {
    const error = await assertRejects(
      () => probe(`echo '{"code":7,"msg":"banana"}'; exit 1`),
      CniError,
    );
    assertEquals([error.code, error.message], [7, "banana"]);
  },
  "the error of old plugins means 0.1.0": async () => {
    const script =
      `echo '{"code":4,"msg":"unknown CNI_COMMAND: VERSION"}'; exit 1`;
    assertEquals(await probe(script), ["0.1.0"]);
  },
  "output that is not JSON is an error": () => {
    const error = assertThrows(() => decodeVersionInfo("{{{"), CniError);
    assertMatch(error.message, /^decoding version info: /);
  },
  "an answer without cniVersion is an error": () => {
    const error = assertThrows(
      () => decodeVersionInfo('{"supportedVersions":["1.0.0"]}'),
      CniError,
    );
    assertEquals(
      error.message,
      "decoding version info: missing field cniVersion",
    );
  },
  "an answer of 0.2.0 needs no list": () => {
    const { supportedVersions } = decodeVersionInfo('{"cniVersion":"0.2.0"}');
    assertEquals(supportedVersions, ["0.1.0", "0.2.0"]);
  },
  "any other answer needs one": () => {
    const error = assertThrows(
      () => decodeVersionInfo('{"cniVersion":"0.3.0"}'),
      CniError,
    );
    assertEquals(
      error.message,
      "decoding version info: missing field supportedVersions",
    );
  },
});

/** The check of the first library, for any command. */
const FIRST_CHECKS = `
for name in COMMAND NETNS IFNAME PATH; do
  eval value=\\"\\$CNI_$name\\"
  if [ -z "$value" ]; then
    echo '{"code":100,"msg":"required env variables missing"}'; exit 1
  fi
done
cat > /dev/null
`;

/** How a plugin answers to a command that it does not know. */
const UNKNOWN_COMMAND = `
printf '{\\n    "code": 4,\\n    "msg": "unknown CNI_COMMAND: %s"\\n}\\n' "$CNI_COMMAND"
exit 1
`;

conformance("invoke VERSION of plugins of each era", {
  "before VERSION": async () => {
    const script = `${FIRST_CHECKS}
      case $CNI_COMMAND in ADD|DEL) echo {}; exit;; esac ${UNKNOWN_COMMAND}`;
    assertEquals(await probe(script), ["0.1.0"]);
  },
  "with the fixed list": async () => {
    const script = `${FIRST_CHECKS}
      case $CNI_COMMAND in
      ADD|DEL) echo {}; exit;;
      VERSION) echo '{"cniVersion":"0.2.0","supportedVersions":["0.1.0","0.2.0"]}'
        exit;;
      esac ${UNKNOWN_COMMAND}`;
    assertEquals(await probe(script), ["0.1.0", "0.2.0"]);
  },
  "with a list of its own": async () => {
    const script = `cat > /dev/null
      case $CNI_COMMAND in
      ADD|DEL) echo {}; exit;;
      VERSION)
        echo '{"cniVersion":"0.3.1","supportedVersions":["0.2.0","0.999.0"]}'
        exit;;
      esac ${UNKNOWN_COMMAND}`;
    assertEquals(await probe(script), ["0.2.0", "0.999.0"]);
  },
});
