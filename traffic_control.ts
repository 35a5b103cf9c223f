/**
 * Traffic control for plugins: qdiscs, classes and filters of links, without
 * running `tc`.
 *
 * @module
 */

export * from "./ffi/rtnl/traffic_control.ts";
export * from "./ffi/rtnl/traffic_control_class.ts";
export * from "./ffi/rtnl/traffic_control_filter.ts";
export * from "./ffi/rtnl/traffic_control_qdisc.ts";
export type { AddressField } from "./ffi/socket/ip_header.ts";
