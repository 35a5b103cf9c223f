import { runMain } from "../../cni/skel.ts";
import { hostLocal } from "./plugin.ts";

runMain(hostLocal);
