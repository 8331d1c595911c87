// Nodes, by their last heartbeat.
import { query } from "../lib/api.js";
import { html } from "../lib/dom.js";
import { may } from "../lib/me.js";
import { AsOf, Choice, Empty, Filter, Head, Shown, State, num, span } from "../lib/parts.js";
import { refine, to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";
import { Node } from "./node.js";
import { beat, cordon, drain, stateOf, undrain } from "./acts.js";

const LIMIT = 200;

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Nodes({ route }) {
  const id = route.path[1];
  return id ? html`<${Node} id=${id}/>` : html`<${List} route=${route}/>`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
function List({ route }) {
  const { state = "", q = "", cursor = "" } = route.query;
  const chosen = useChosen();
  const found = useData(`nodes${query({ detail: 1, limit: LIMIT, state, q, cursor })}`, ["node", "slot", "grant"], 3);
  const rows = found.data?.nodes ?? [];
  const columns = [
    { head: "Node", grow: true, cell: (/** @type {any} */ n) => html`<a href=${to(["nodes", n.nodeId])}>${n.nodeId}</a>` },
    { head: "State",
      cell: (/** @type {any} */ n) =>
        html`<${State} state=${stateOf(n)}/>${n.service && html` <${State} state=${n.service}/>`}
          ${n.kept && html` <span class="faint">kept</span>`}` },
    { head: "Last beat", num: true, time: true, cell: beat },
    { head: "Lent", num: true, cell: (/** @type {any} */ n) => num(n.lent) },
    { head: "Slots", num: true, less: true, cell: (/** @type {any} */ n) => num(n.slots) },
    { head: "Held", num: true, less: true,
      cell: (/** @type {any} */ n) => (n.held ? html`<${State} state="held" text=${num(n.held)}/>` : "0") },
    { head: "Pools", less: true,
      cell: (/** @type {any} */ n) => n.apps.slice(0, 3)
        .map((/** @type {string} */ a) => html`<a class="tag" key=${a} href=${to(["pools", a])}>${a}</a>`) },
    { head: "Drain ends in", num: true, time: true, less: true,
      cell: (/** @type {any} */ n) => (n.deadlineSecondsLeft === null ? "–" : span(n.deadlineSecondsLeft)) },
  ];
  return html`<${Head} title="Nodes" about="Ages are on the hub clock, which stands still while no hub hears the store.">
    <${AsOf} at=${found.at}/></${Head}>
    <div class="filters">
      <${Choice} name="state" value=${state} label="State"
        of=${[["", "All"], ["alive", "Alive"], ["suspect", "Suspect"], ["stale", "Silent"], ["draining", "Draining"],
          ["cordoned", "Cordoned"]]}/>
      <${Filter} name="q" value=${q} label="Id, label or pool contains"/></div>
    ${may("operate") && html`<${Bulk} chosen=${chosen} one="node">
      <button type="button" onClick=${() => drain(chosen.ids, chosen.none)}>Drain…</button>
      <button type="button" onClick=${() => cordon(chosen.ids, chosen.none)}>Cordon…</button>
      <button type="button" onClick=${() => undrain(chosen.ids, chosen.none)}>Undrain…</button></${Bulk}>`}
    <${Shown} from=${found}>
      <${Table} caption="Nodes" columns=${columns} rows=${rows} id=${(/** @type {any} */ n) => n.nodeId} chosen=${may("operate") ? chosen
        : null}
        empty=${state || q || cursor
          ? html`<${Empty} title="No node matches">
            ${found.data?.next ? "Among the first 20,000; there are more." : cursor
              ? "There are no more nodes." : "All nodes were searched."}</${Empty}>`
          : html`<${Empty} title="No node has come yet"
            command=${`hub agent --node my-machine --slots gpu:a100=4 --url ${location.origin}`}>
            A node appears with its first heartbeat.</${Empty}>`}/>
      ${found.data && html`<nav class="pager" aria-label="Pages">
        <span>${num(rows.length)} shown of ${num(found.data.total)}${q && !state ? " registered" : ""}</span>
        ${cursor && html`<button type="button" onClick=${() => refine({ cursor: "" })}>To the first</button>`}
        ${found.data.next && html`<button type="button" onClick=${() => refine({ cursor: found.data.next })}>
          ${rows.length || !q ? "Next" : "Search on"}</button>`}</nav>`}</${Shown}>`;
}
