// Nodes, by what they said last.
import { part, query, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { may } from "../lib/me.js";
import { AsOf, Choice, Empty, Filter, Head, Shown, State, num, span } from "../lib/parts.js";
import { refine, to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";
import { Node } from "./node.js";

const LIMIT = 200;

/** How a node is, in the words of the page. @param {any} node */
export const stateOf = (node) => (node.kept && node.state !== "stale" ? "silent" : node.state === "stale" ? "silent" : node.state);

/** Its last beat, also where only a sweep that may not expire keeps it. @param {any} node */
export const beat = (node) => (node.sinceBeatMs === null ? "never heard" : `${span(node.sinceBeatMs / 1000)} ago`);

/** @param {string[]} ids @param {() => void} [after] */
export function drain(ids, after) {
  ask({
    title: ids.length === 1 ? `Drain ${ids[0]}?` : "Drain these nodes?",
    what: html`<p>Nothing more of them is lent. What is lent stays with its holders; undrain takes it back.</p>`,
    list: ids, one: "node", after, verb: "Drain", danger: ids.length > 1,
    fields: (set, values) => html`<label class="field"><span>End what is still lent after (minutes; empty: never)</span><input type="number" min="0" max="10080" value=${values.minutes ?? ""} onInput=${(/** @type {any} */ e) => set({ minutes: e.target.value })}/></label>`,
    run: (reason, list, values) => each(list, (id) => send("POST", `admin/nodes/${part(id)}/drain`, values.minutes ? { deadlineSeconds: Number(values.minutes) * 60 } : {}, reason)),
    done: (result) => told(result, "node", "draining"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
export function cordon(ids, after) {
  ask({
    title: ids.length === 1 ? `Cordon ${ids[0]}?` : "Cordon these nodes?",
    what: html`<p>Nothing more of them is lent, and nothing that is lent ends. The reason is shown wherever the node is; undrain takes it back.</p>`,
    list: ids, one: "node", after, verb: "Cordon", danger: ids.length > 1,
    run: (reason, list) => each(list, (id) => send("POST", `admin/nodes/${part(id)}/cordon`, { reason: reason.slice(0, 200) }, reason)),
    done: (result) => told(result, "node", "cordoned"),
  });
}

/** @param {string[]} ids @param {() => void} [after] */
export function undrain(ids, after) {
  ask({
    title: ids.length === 1 ? `Lend of ${ids[0]} again?` : "Lend of these nodes again?",
    what: html`<p>Their slots are lent again, at once.</p>`,
    list: ids, one: "node", after, verb: "Undrain", danger: false,
    run: (reason, list) => each(list, (id) => send("POST", `admin/nodes/${part(id)}/undrain`, {}, reason)),
    done: (result) => told(result, "node", "lending again"),
  });
}

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
    { head: "State", cell: (/** @type {any} */ n) => html`<${State} state=${stateOf(n)}/>${n.service && html` <${State} state=${n.service}/>`}${n.kept && html` <span class="faint">kept</span>`}` },
    { head: "Last beat", num: true, time: true, cell: beat },
    { head: "Lent", num: true, cell: (/** @type {any} */ n) => num(n.lent) },
    { head: "Slots", num: true, less: true, cell: (/** @type {any} */ n) => num(n.slots) },
    { head: "Pools", less: true, cell: (/** @type {any} */ n) => n.apps.slice(0, 3).map((/** @type {string} */ a) => html`<a class="tag" key=${a} href=${to(["pools", a])}>${a}</a>`) },
    { head: "Drain ends in", num: true, time: true, less: true, cell: (/** @type {any} */ n) => (n.deadlineSecondsLeft === null ? "–" : span(n.deadlineSecondsLeft)) },
  ];
  return html`<${Head} title="Nodes" about="Ages are on the hub clock, which stands still while no hub hears the store."><${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Choice} name="state" value=${state} label="State" of=${[["", "All"], ["alive", "Alive"], ["suspect", "Suspect"], ["stale", "Silent"], ["draining", "Draining"], ["cordoned", "Cordoned"]]}/>
      <${Filter} name="q" value=${q} label="Id, label or pool contains"/></div>
    ${may("operate") && html`<${Bulk} chosen=${chosen} one="node"><button type="button" onClick=${() => drain(chosen.ids, chosen.none)}>Drain…</button><button type="button" onClick=${() => cordon(chosen.ids, chosen.none)}>Cordon…</button><button type="button" onClick=${() => undrain(chosen.ids, chosen.none)}>Undrain…</button></${Bulk}>`}
    <${Shown} from=${found}><${Table} caption="Nodes" columns=${columns} rows=${rows} id=${(/** @type {any} */ n) => n.nodeId} chosen=${may("operate") ? chosen : null}
        empty=${state || q || cursor ? html`<${Empty} title="No node is like that">${found.data?.next ? "Of the 20,000 that were looked through; there are more." : cursor ? "There is no other behind those that were shown." : "All of them were looked through."}</${Empty}>` : html`<${Empty} title="No node has come yet" command=${`hub agent --node my-machine --slots gpu:a100=4 --url ${location.origin}`}>A node appears with its first heartbeat.</${Empty}>`}/>
      ${found.data && html`<nav class="pager" aria-label="Pages"><span>${num(rows.length)} shown of ${num(found.data.total)}${q && !state ? " registered" : ""}</span>
        ${cursor && html`<button type="button" onClick=${() => refine({ cursor: "" })}>To the first</button>`}
        ${found.data.next && html`<button type="button" onClick=${() => refine({ cursor: found.data.next })}>${rows.length || !q ? "Next" : "Look further"}</button>`}</nav>`}</${Shown}>`;
}
