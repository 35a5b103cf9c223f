import { runMain } from "../../cni/skel.ts";
import { chain } from "./plugin.ts";

runMain(chain);
