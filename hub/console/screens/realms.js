// The realms of this hub side by side: address and state of the store, and the rules that put a call into each.
import { html } from "../lib/dom.js";
import { Time, parted } from "../lib/format.js";
import { AsOf, Command, Head, Shown, State, span } from "../lib/parts.js";
import { consoleOf } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";

/** @type {["labels" | "rooms" | "nodes", string][]} */
const KINDS = [["labels", "label"], ["rooms", "room"], ["nodes", "node"]];

/** The rules of a realm. @param {any} realm */
function rules(realm) {
  const said = KINDS.filter(([kind]) => realm[kind].length)
    .map(([kind, word]) =>
      html`<div key=${kind}>${word} ${realm[kind].map((/** @type {string} */ p) => html`<code key=${p}>${p}</code> `)}</div>`);
  return said.length ? said : realm.name === "default" ? "everything without a realm" : "only by its name";
}

/** @param {{me: import("../lib/me.js").Me}} props */
export default function Realms({ me }) {
  const found = useData("realms", [], 5);
  return html`<${Head} title="Realms"
    about="Separate worlds that this hub serves. When the store of one is away, the others go on.">
    <${AsOf} at=${found.at}/></${Head}>
    <${Shown} from=${found}>
      ${found.data && html`<${Table} caption="Realms" rows=${found.data.realms} id=${(/** @type {any} */ r) => r.name} columns=${[
      { head: "Realm",
        cell: (/** @type {any} */ r) => (r.name === me.realm ? html`${r.name} <span class="tag">this one</span>`
          : html`<a href=${consoleOf(r.name)}>${r.name}</a>`) },
      { head: "Store", grow: true,
        cell: (/** @type {any} */ r) =>
          html`<${State} state=${r.state === "open" ? "ok" : r.state === "away" ? "critical" : "waiting"} text=${r.state}/> <code>
            ${parted(r.url)}</code>
            ${r.error && html`<span class="under">${r.error}</span>`}` },
      { head: "Answered", less: true, cell: (/** @type {any} */ r) => (r.asOf ? html`<${Time} at=${r.asOf}/>` : "never") },
      { head: "Is given", cell: rules },
      { head: "Spills over to", less: true,
        cell: (/** @type {any} */ r) => (r.spillTo.length ? `${r.spillTo.join(", ")} after ${span(r.spillAfterSeconds)}` : "–") },
    ]}/>`}</${Shown}>
    <section><h2>Changing them</h2>
      <p>They stand in the file that <code>HUB_REALMS_FILE</code> names, on the machine of each hub; hubs read it again on SIGHUP. No page
        writes it. <a href="#/manual/realms">How realms work.</a></p>
      <${Command} text="hub realm add NAME URL --label PATTERN"/><${Command} text="hub realm move NAME --to URL"/>
        <${Command} text="hub realm rm NAME"/></section>`;
}
