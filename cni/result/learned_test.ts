import { assertEquals } from "@std/assert";
import { parseJson } from "../../base/json/json.ts";
import { Cidr } from "../../net/cidr.ts";
import { decodeResult } from "./decoding.ts";
import { formatResult } from "./encoding.ts";
import { markLearned, withoutLearned } from "./learned.ts";
import { emptyResult } from "./result.ts";

Deno.test("withoutLearned() keeps what the plugin of the interface configures", () => {
  const own = { address: Cidr.parse("10.1.0.2/24") };
  const route = { dst: Cidr.parse("::/0") };
  const result = {
    ...emptyResult(),
    ips: [own, markLearned({ address: Cidr.parse("2001:db8::2/64") })],
    routes: [markLearned(route)],
  };
  for (const version of ["0.3.0", "1.1.0"]) {
    const text = formatResult(result, version);
    const { ips, routes } = withoutLearned(decodeResult(parseJson(text)));
    assertEquals(ips.map(({ address }) => `${address}`), ["10.1.0.2/24"]);
    assertEquals(routes, []);
  }
});
