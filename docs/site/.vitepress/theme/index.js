/** VitePress' own theme, with a few rules. */

import theme from "vitepress/theme";
import { onMounted } from "vue";
import MOVED from "../moved.json";
import "./style.css";

/** Opens a picture of a page in full, in a tab of its own. */
function openPicture({ target }) {
  if (target instanceof Element && target.matches(".vp-doc p > img")) {
    globalThis.open(target.src);
  }
}

/** Opens the new address of a section that moved.json names. */
function followMoved() {
  const page = location.pathname.split("/").at(-1).replace(/\.html$/, "");
  const to = MOVED[page + location.hash];
  if (to !== undefined) location.replace(to.replace(/(?=#)|$/, ".html"));
}

export default {
  extends: theme,
  setup: () =>
    onMounted(() => {
      document.addEventListener("click", openPicture);
      followMoved();
    }),
};
