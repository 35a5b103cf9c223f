import { assert, assertEquals, assertMatch } from "@std/assert";
import * as z from "zod/mini";
import { decode } from "../base/json/json.ts";
import {
  getLanguageService,
  type JSONDocument,
  type LanguageService,
  TextDocument,
} from "vscode-json-languageservice";
import {
  describePlugin,
  isTuple,
  type JsonSchema,
  schemaOfKeys,
} from "../metadata/json_schema.ts";
import { typeOf } from "../cli/explain/explain.ts";
import { makeSchemas } from "../cli/explain/make.ts";
import { METADATA } from "../plugins/lists/metadata.ts";
import { runCni } from "../tests/_harness/tool_call.ts";
import { linkCodes } from "./schemas/site_pages.ts";
import { withLayerExceptions } from "./schemas/layer_exceptions.ts";
import { writeSchemas } from "./schemas/write.ts";

function itemsOf({ items = [] }: JsonSchema): readonly JsonSchema[] {
  return isTuple(items) ? items : [items];
}

Deno.test("schemas describe every key", async () => {
  const { definitions } = await makeSchemas();
  const visit = (schema: JsonSchema, name: string): void => {
    for (const [key, value] of Object.entries(schema.properties ?? {})) {
      const inner = value.description as string | undefined;
      assertMatch(inner ?? "", /^\S.+[.!]$/, `${name}.${key}`);
      visit(value, `${name}.${key}`);
    }
    for (const item of itemsOf(schema)) visit(item, `${name}[]`);
  };
  for (const [type, schema] of Object.entries(definitions)) {
    visit(schema as JsonSchema, type);
  }
});

/** Lists the paths of a schema's keys. */
function listPaths(schema: JsonSchema, path = ""): string[] {
  const inner = Object.entries(schema.properties ?? {})
    .flatMap(([key, value]) => listPaths(value, `${path}.${key}`));
  return [
    path.slice(1),
    ...inner,
    ...itemsOf(schema).flatMap((item) => listPaths(item, `${path}[]`)),
  ];
}

Deno.test("the metadata of a plugin have only keys that its schema has", async (t) => {
  const { definitions } = await makeSchemas();
  for (const [type, metadata] of METADATA) {
    await t.step(type, async () => {
      const { keys } = await metadata.keys();
      const known = listPaths(definitions[type] ?? {});
      const unknown = Object.keys(keys).filter((path) => !known.includes(path));
      assertEquals(unknown, []);
    });
  }
});

Deno.test("ARCHITECTURE.md lists the imports against its order of directories", async () => {
  const page = await Deno.readTextFile("ARCHITECTURE.md");
  const words = (text: string): string[] => text.split(/\s+/);
  const empty = page.replace(
    /(?<=<!-- exceptions -->\n)[^]*?(?=<!-- end -->)/,
    "",
  );
  assert(empty.length < page.length);
  assertEquals(words(page), words(withLayerExceptions(empty)));
});

Deno.test("a tuple of a plugin has a schema for each item", () => {
  const range = z.tuple([z.number(), z.string()]);
  const schema = describePlugin({
    metadata: { type: "a", kind: "chained" },
    keys: { text: "", keys: {} },
    schema: z.object({ range }) as never,
  }, []);
  const described = schema.properties?.["range"] ?? {};
  assertEquals(described.items, [{ type: "number" }, { type: "string" }]);
  assertEquals(typeOf(described), "list of number, string");
  assertEquals(decode(schemaOfKeys(schema), { range: [1, "x"] }, "it"), {
    range: [1, "x"],
  });
});

/** Opens a text as VS Code does with `json.schemas` in its settings. */
async function open(text: string): Promise<
  { service: LanguageService; document: TextDocument; json: JSONDocument }
> {
  const service = getLanguageService({});
  const schema = JSON.parse(JSON.stringify(await makeSchemas()));
  service.configure({
    validate: true,
    schemas: [{ uri: "cni://conflist", fileMatch: ["*.conflist"], schema }],
  });
  const uri = "file:///net.d/10-pods.conflist";
  const document = TextDocument.create(uri, "json", 1, text);
  return { service, document, json: service.parseJSONDocument(document) };
}

async function listProblems(text: string): Promise<string[]> {
  const { service, document, json } = await open(text);
  const found = await service.doValidation(document, json);
  return found.map(({ range, message }) =>
    `${document.getText(range)}: ${message}`
  );
}

/** A list with a cursor, `|`. */
async function complete(text: string): Promise<string[]> {
  const { service, document, json } = await open(text.replace("|", ""));
  const position = document.positionAt(text.indexOf("|"));
  const found = await service.doComplete(document, position, json);
  return (found?.items ?? []).map(({ label }) => label);
}

const inList = (plugin: string): string =>
  `{"cniVersion": "1.0.0", "name": "pods", "plugins": [${plugin}]}`;

Deno.test("a language server checks lists with the schema", async () => {
  const ipam = '"ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}';
  assertEquals(
    await listProblems(inList(`{"type": "ptp", "mtu": 1450, ${ipam}}`)),
    [],
  );
  assertEquals(
    await listProblems(inList('{"type": "calico", "any": {"thing": 1}}')),
    [],
  );
  assertEquals(
    await listProblems(
      inList(`{"type": "ptp", "mtu": "abc", "ipMask": true, ${ipam}}`),
    ),
    [
      '"abc": Incorrect type. Expected "integer".',
      '"ipMask": Property ipMask is not allowed.',
    ],
  );
  assertEquals(
    (await listProblems(
      inList('{"type": "bridge", "ipam": {"type": "static", "addreses": []}}'),
    )).map((problem) => problem.split(":")[0]),
    ['"addreses"'],
  );
  const [missing] = await listProblems('{"name": "pods", "plugins": []}');
  assertMatch(missing ?? "", /Missing property "cniVersion"/);
});

Deno.test("a language server completes and explains keys", async () => {
  const keys = await complete(inList('{"type": "bridge", |}'));
  for (const key of ["vlanTrunk", "isGateway", "ipam"]) {
    assert(keys.includes(key), key);
  }
  assert((await complete(inList('{"type": |}'))).includes('"bridge"'));
  const text = inList('{"type": "bridge", "vlanTrunk": []}');
  const { service, document, json } = await open(text);
  const position = document.positionAt(text.indexOf("vlanTrunk"));
  const hover = await service.doHover(document, position, json);
  assertMatch(JSON.stringify(hover?.contents), /VLANs that the container tags/);
});

Deno.test("cni schema prints and writes schemas", async () => {
  const { stdout } = await runCni("schema", "bridge");
  assertEquals(JSON.parse(stdout).title, "bridge plugin");
  const directory = await Deno.makeTempDir();
  try {
    await runCni("schema", "--all", "--output", directory);
    const released = `${directory}/released`;
    await writeSchemas(released);
    for (const name of ["conflist", "conf", "bridge"]) {
      assertEquals(
        await Deno.readTextFile(`${directory}/${name}.json`),
        await Deno.readTextFile(`${released}/${name}.json`),
      );
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
  const { stderr, exitCode } = await runCni("schema", "brigde");
  assertMatch(stderr, /did you mean "bridge"/);
  assertEquals(exitCode, 1);
});

Deno.test("cni explain explains plugins and keys", async () => {
  const { stdout } = await runCni("explain", "bridge.vlanTrunk");
  assertEquals(
    stdout,
    `bridge.vlanTrunk
  VLANs that the container tags itself: {"id": 101}, {"minID": 200, "maxID":
  210}, from 1 to 4094.

  Type:     list of objects
  Since:    release 1.3.0 of the Go plugins

Keys:
  id     integer. A VLAN.
  minID  integer. First VLAN of a range.
  maxID  integer. Last VLAN of a range.

See docs/bridge.md
`,
  );
  const rows: [name: string, expected: RegExp][] = [
    ["bridge", /^bridge plugin\n.*Example:.*"type": "bridge"/s],
    ["host-local.ranges", /list of lists of objects.*rangeStart +string/s],
    ["BRIDGE.VLAN", /Range: +0 to 4094/],
    ["bridge.vlanTrunk[0].minID", /First VLAN of a range/],
    ["conflist.name", /Name of the network/],
  ];
  for (const [name, expected] of rows) {
    assertMatch((await runCni("explain", name)).stdout, expected);
  }
  const wrong = await runCni("explain", "bridge.vlanTrnk");
  assertMatch(wrong.stderr, /has no key "vlanTrnk"; did you mean "vlanTrunk"/);
  assertEquals(wrong.exitCode, 1);
  assertMatch((await runCni("explain")).stdout, /^bridge /m);
});

Deno.test("linkCodes() links codes of findings in prose, and in no code", () => {
  assertEquals(
    linkCodes("## CNI0101\n\nSee CNI0403, `CNI0404` and [CNI0405](x.md).\n"),
    "## CNI0101\n\nSee [CNI0403](findings.md#cni0403), `CNI0404` and " +
      "[CNI0405](x.md).\n",
  );
});
