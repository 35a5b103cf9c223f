/** VitePress' own theme, with a few rules. */

import theme from "vitepress/theme";
import { onMounted } from "vue";
import "./style.css";

/** Opens a picture of a page in full, in a tab of its own. */
function openPicture({ target }) {
  if (target instanceof Element && target.matches(".vp-doc p > img")) {
    globalThis.open(target.src);
  }
}

export default {
  extends: theme,
  setup: () => onMounted(() => document.addEventListener("click", openPicture)),
};
