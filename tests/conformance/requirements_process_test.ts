/** Requirements of the specification on executables. */

import { requirementsOnExecutable } from "../_harness/requirements.ts";

requirementsOnExecutable({ type: "ptp", makes: ["firewall"] });
requirementsOnExecutable({ type: "host-local", withoutProtocol: true });
