// Teams that share pools: what each holds, is due and waits for, and what is recalled.
import { html } from "../lib/dom.js";
import { AsOf, Empty, Head, Meter, Shown, num } from "../lib/parts.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";

/** @param {string} head @param {string} name */
const figure = (head, name, less = false) => ({ head, num: true, less, cell: (/** @type {any} */ t) => num(t[name]) });

/** The teams of a pattern, with bars of one scale. @param {{of: any[]}} props */
function Shares({ of }) {
  const most = Math.max(1, ...of.flatMap((t) => [t.held, t.due, t.guarantee]));
  return html`<section><h2>${of[0].label}</h2><${Table} caption=${`Teams of ${of[0].label}`} rows=${of}
    id=${(/** @type {any} */ t) => t.team} columns=${[
      { head: "Team", grow: true, cell: (/** @type {any} */ t) => html`${t.team || "(none)"} <${Meter} lent=${t.held - t.recalled}
        held=${t.recalled} free=${most - t.held} due=${t.due}/>` },
      figure("Held", "held"), figure("Due", "due"), figure("Waiting", "waiting"), figure("Recalled", "recalled"),
      figure("Guarantee", "guarantee", true), figure("Ceiling", "ceiling", true), figure("Weight", "weight", true)]}/></section>`;
}

export default function Teams() {
  const found = useData("teams", ["grant", "ticket"], 3);
  const rows = found.data?.teams ?? [];
  return html`<${Head} title="Teams"
      about="In the order of service. The mark in a bar is what a team is due; violet is recalled."><${AsOf}
      at=${found.at}/></${Head}>
    <${Shown} from=${found}>${found.data?.warnings.map((/** @type {string} */ said) => html`<p class="note" key=${said}>${said}</p>`)}
      ${rows.length ? Object.entries(Object.groupBy(rows, (/** @type {any} */ t) => t.label))
        .map(([label, of]) => html`<${Shares} key=${label} of=${of}/>`)
        : html`<${Empty} title="No team has a share" command="hub team set TEAM --label 'gpu:*' --guarantee 4"/>`}</${Shown}>`;
}
