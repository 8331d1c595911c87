// Every setting as it is in force, and where it came from.
import { html } from "../lib/dom.js";
import { parted } from "../lib/format.js";
import { AsOf, Choice, Empty, Filter, Head, Shown, State } from "../lib/parts.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Settings({ route }) {
  const { q = "", from = "" } = route.query;
  const found = useData("console/settings", [], 30);
  const rows = (found.data?.settings ?? [])
    .filter((/** @type {any} */ s) => `${s.name} ${s.about} ${s.value}`.toLowerCase().includes(q.toLowerCase())
      && (!from || (s.source === "default") === (from === "default")));
  return html`<${Head} title="Settings"
    about=${`The settings in force in the process that answered${found.data?.envFile ? `; it has read ${found.data.envFile}`
      : ""}. Switches of operators are under Switches.`}>
    <${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Choice} name="from" value=${from} label="Source" of=${[["", "All"], ["set", "Set"], ["default", "Default"]]}/>
      <${Filter} name="q" value=${q} label="Name or text contains"/></div>
    <${Shown} from=${found}>${(found.data?.notes ?? []).map((/** @type {string} */ note) => html`<p class="note" key=${note}>${note}.</p>`)}
      <${Table} caption="Settings" rows=${rows} id=${(/** @type {any} */ s) => s.name} columns=${[
        { head: "Setting", cell: (/** @type {any} */ s) => html`<code>${parted(s.name)}</code>` },
        { head: "Value",
          cell: (/** @type {any} */ s) =>
            html`<code class="value">${s.value === "" ? "unset" : parted(String(s.value))}</code>
              ${s.value !== s.default && html`<span class="under">
                default ${s.default === "" ? "unset" : parted(String(s.default))}</span>`}` },
        { head: "From",
          cell: (/** @type {any} */ s) => html`<${State} state=${s.source === "default" ? "unknown" : "granted"} text=${s.source}/>` },
        { head: "Effect and cost", grow: true, less: true, cell: (/** @type {any} */ s) => s.about },
      ]} empty=${html`<${Empty} title="No setting is like that"/>`}/></${Shown}>`;
}
