import { runMain } from "../../cni/skel.ts";
import { staticIpam } from "./plugin.ts";

runMain(staticIpam);
