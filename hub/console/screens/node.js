// One node: its heartbeats, slots, orders and history.
import { part, send } from "../lib/api.js";
import { ask } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Empty, Facts, Head, Shown, State, Tags, num, span } from "../lib/parts.js";
import { go, to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";
import { History, Next } from "./told.js";
import { Has, Held, beat, cordon, drain, hold, stateOf, undrain } from "./acts.js";

/** @param {any} node */
function remove(node) {
  const lent = node.slotList.filter((/** @type {any} */ s) => s.state === "lent").map((/** @type {any} */ s) => s.slotId);
  ask({
    title: `Take ${node.nodeId} off the books?`,
    what: html`<p>
      Its <b>${num(node.slots)}</b> slots are withdrawn, and the <b>${num(node.lent)}</b> leases on them end at once. A node that is alive
        registers again with its next heartbeat.</p>`,
    list: lent.length ? lent : undefined, one: "lease", verb: "Remove the node", open: true,
    run: async (reason) => {
      const result = await send("DELETE", `admin/nodes/${part(node.nodeId)}`, undefined, reason);
      go("#/nodes");
      return result;
    },
    done: (result) => `${node.nodeId} is off the books; ${num(result.ended)} leases ended.`,
  });
}

/** @param {any} node */
function upgrade(node) {
  ask({
    title: `Have ${node.nodeId} rebuild its slots?`,
    what: html`<p>
      With its next heartbeat the node is asked to withdraw, drain and rebuild its slots. Leases stay with their holders
        meanwhile.</p>`,
    verb: "Ask the node", count: node.slots,
    run: (reason) => send("POST", `admin/nodes/${part(node.nodeId)}/sidecar/upgrade`, {}, reason),
    done: () => `${node.nodeId} is asked.`,
  });
}

/** Order -> its meaning for a node. @type {Record<string, string>} */
const MEANS = {
  drain: "Nothing more of it is lent", cordon: "Nothing more of it is lent", rebuild: "Withdraw, drain and rebuild all slots",
  recycle: "Replace these slots when they are free",
};
/** When it is over, where no time ends it. @type {Record<string, string>} */
const UNTIL = { drain: "until it is undrained", cordon: "until it is undrained", recycle: "until the node has done it" };

/** @param {{id: string}} props */
export function Node({ id }) {
  const found = useData(`nodes/${part(id)}`, ["node", "slot", "grant"], 3);
  const kill = useData(`nodes/${part(id)}/safe-to-kill`, ["node", "slot", "grant"], 5);
  const why = useData(`why/node/${part(id)}?limit=50`, ["node"], 5);
  const chosen = useChosen();
  const node = found.data;
  const gone = found.error?.status === 404;
  return html`<${Head} title=${id} crumbs=${html`<a href="#/nodes">Nodes</a>`}><${AsOf} at=${found.at}/>
      ${node && may("operate") && html`${node.service ? html`<button type="button" onClick=${() => undrain([id])}>Undrain…</button>`
        : html`<button type="button" onClick=${() => drain([id])}>Drain…</button>
          <button type="button" onClick=${() => cordon([id])}>Cordon…</button>`}
        <button type="button" onClick=${() => upgrade(node)}>Rebuild slots…</button>
          <button type="button" class="danger" onClick=${() => remove(node)}>Remove…</button>`}</${Head}>
    ${gone && html`<${Empty} title="This node is not registered">It has left, or was expired; its history is below.</${Empty}>`}
    ${!gone && html`<${Shown} from=${found}>${node && html`<${Facts} of=${[
      ["State", html`<${State} state=${stateOf(node)}/>${node.service && html` <${State} state=${node.service}/>`}`],
      ["Cordoned because", node.reason],
      ["Last beat", node.kept ? `${beat(node)}: silent since then, and kept because expiry is off` : beat(node)],
      ["Last seen at", html`<${Time} at=${node.lastSeen}/>`], ["Lent", `${num(node.lent)} of ${num(node.slots)} slots`],
      ["Drain ends leases in", node.deadlineSecondsLeft === null ? undefined : span(node.deadlineSecondsLeft)],
      ["Safe to switch off", kill.data && html`<${State} state=${kill.data.safe ? "ok" : "waiting"} text=${kill.data.reason}/>`],
      ["Labels", html`<${Tags} of=${node.labels}/>`],
      ["Address", node.baseUrl], ["Capacity it names", node.capacity === null ? undefined : num(node.capacity)],
    ]}/>
    ${node.orders.length > 0 && html`<section><h2>Orders</h2>
      <${Table} caption=${`Orders of ${id}`} rows=${node.orders} id=${(/** @type {any} */ o) => o.order} columns=${[
      { head: "Order", cell: (/** @type {any} */ o) => html`<${State} state="held" text=${o.order}/>` },
      { head: "Meaning", grow: true,
        cell: (/** @type {any} */ o) =>
          html`${MEANS[o.order]}${o.slots && html`: ${o.slots.map((/** @type {string} */ s) => html`<code key=${s}>${s}</code> `)}`}
            ${o.reason && html` <span class="under">${o.reason}</span>`}` },
      { head: "Until",
        cell: (/** @type {any} */ o) => (o.secondsLeft === null ? UNTIL[o.order]
          : html`${o.order === "rebuild" ? "dropped" : "leases end"} in ${span(o.secondsLeft)}`) },
    ]}/></section>`}
    <section><h2>Slots</h2>${may("operate") && html`<${Bulk} chosen=${chosen} one="slot">
      <button type="button" onClick=${() => hold(chosen.ids, true, chosen.none)}>Hold…</button>
      <button type="button" onClick=${() => hold(chosen.ids, false, chosen.none)}>Release…</button></${Bulk}>`}
    <${Table} caption=${`Slots of ${id}`} rows=${node.slotList} id=${(/** @type {any} */ s) => s.slotId} chosen=${may("operate") ? chosen
      : null} columns=${[
      { head: "Slot", grow: true, cell: (/** @type {any} */ s) => html`<a href=${to(["why", "slot", s.slotId])}>${s.slotId}</a>` },
      { head: "Pool", cell: (/** @type {any} */ s) => html`<a href=${to(["pools", s.label])}>${s.label}</a>` },
      { head: "State", grow: true,
        cell: (/** @type {any} */ s) => html`<${State} state=${s.state} text=${s.state === "held" ? "held back" : s.state}/>
          <${Held} of=${s}/>` },
      { head: "Attributes", grow: true, less: true, cell: (/** @type {any} */ s) => html`<${Has} of=${s}/>` },
    ]} empty=${html`<p class="faint">It offers no slots.</p>`}/></section>`}</${Shown}>`}
    ${why.data && html`<section><h2>What comes next</h2><${Next} of=${why.data}/></section>
      <section><h2>What happened</h2><${History} of=${why.data}/></section>`}`;
}
