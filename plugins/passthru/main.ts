import { runMain } from "../../cni/skel.ts";
import { passthru } from "./plugin.ts";

runMain(passthru);
