// The manual that this installation carries.
import { html, useEffect } from "../lib/dom.js";
import { Head, Shown } from "../lib/parts.js";
import { useData } from "../lib/store.js";
import { Markdown } from "../lib/text.js";

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Manual({ route }) {
  const page = route.path[1] ?? "README";
  const found = useData(`console/manual/${encodeURIComponent(page)}.md`, [], 0);
  const at = route.query.at;
  useEffect(() => {
    if (at && found.data) document.getElementById(at)?.scrollIntoView();
  }, [at, found.data]);
  const [, title = "Manual", rest = ""] = /^# (.+)\n([\s\S]*)$/.exec(found.data ?? "") ?? [];
  return html`<${Head} title=${title} crumbs=${page === "README" ? null : html`<a href="#/manual">Manual</a>`}/>
    <${Shown} from=${found}>${found.data && html`<${Markdown} text=${rest}/>`}</${Shown}>`;
}
