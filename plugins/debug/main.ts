import { runMain } from "../../cni/skel.ts";
import { debug } from "./plugin.ts";

runMain(debug);
