/** VitePress' own theme, with a few rules. */

import theme from "vitepress/theme";
import "./style.css";

export default theme;
