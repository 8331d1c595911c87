// Pools, and one pool with its borrowers in the queue.
import { part, query, send } from "../lib/api.js";
import { ask } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time, parted } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Empty, Facts, Filter, Head, Meter, Pager, Shown, State, num, some, span } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";
import { Mine, Take } from "./mine.js";
import { Held, Holder, Wants, because } from "./acts.js";

const LIMIT = 100;

/** @param {string} label @param {any} pool */
function restart(label, pool) {
  ask({
    title: `Replace every slot of ${label}?`,
    what: html`<p>
      The pool goes under maintenance: none of its slots is lent until its nodes have replaced all <b>${num(pool.total)}</b> slots, at
        most 30
        minutes. <b>${num(pool.borrowed)}</b> leases stay with their holders; <b>${num(pool.available)}</b> free slots are
        withdrawn.</p>`,
    verb: "Replace all slots", count: pool.total,
    run: (reason) => send("POST", `admin/pools/${part(label)}/restart`, {}, reason),
    done: (result) => `${some(result.scheduled, "slot")} of ${label} will be replaced.`,
  });
}

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Pools({ route }) {
  const label = route.path[1];
  return label ? html`<${Pool} label=${label}/>` : html`<${List} route=${route}/>`;
}

/** @param {{route: import("../lib/router.js").Route}} props */
function List({ route }) {
  const offset = Number(route.query.offset ?? 0);
  const { q = "" } = route.query;
  const found = useData(`pools${query({ limit: LIMIT, offset, q })}`, ["pool", "slot", "grant", "node"], 3);
  const rows = found.data?.pools ?? [];
  const columns = [
    { head: "Pool", grow: true, cell: (/** @type {any} */ p) => html`<a href=${to(["pools", p.label])}>${parted(p.label)}</a>` },
    { head: "Use", less: true,
      cell: (/** @type {any} */ p) => html`<${Meter} lent=${p.borrowed} free=${p.available} held=${p.heldBack}/>` },
    { head: "Lent", num: true, cell: (/** @type {any} */ p) => num(p.borrowed) },
    { head: "Free", num: true, cell: (/** @type {any} */ p) => num(p.available) },
    { head: "Held back", num: true, less: true,
      cell: (/** @type {any} */ p) => html`<span title=${because(p)}>${num(p.heldBack)}</span>` },
    { head: "Slots", num: true, less: true, cell: (/** @type {any} */ p) => num(p.total) },
    { head: "State",
      cell: (/** @type {any} */ p) =>
        html`<${State} state=${p.maintenanceActive ? "maintenance" : p.available ? "free" : "waiting"} text=${p.maintenanceActive
          ? "maintenance" : p.available ? "has room" : p.borrowed ? "all lent" : "held back"}/>` },
  ];
  return html`<${Head} title="Pools" about="All slots, by label."><${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Filter} name="q" value=${q} label="Label contains"/></div>
    <${Shown} from=${found}><${Table} caption="Pools" columns=${columns} rows=${rows} id=${(/** @type {any} */ p) => p.label}
      empty=${html`<${Empty} title=${q ? "No pool matches" : "No pool has slots"} command=${q ? ""
        : `hub agent --node my-machine --slots gpu:a100=4 --url ${location.origin}`}>
        ${q ? "All pools were searched." : "A node publishes slots under a label; that makes the pool."}</${Empty}>`}/>
      ${found.data && html`<${Pager} offset=${offset} limit=${LIMIT} total=${found.data.total}/>`}</${Shown}>`;
}

/** @param {{label: string}} props */
function Pool({ label }) {
  const pool = useData(`pools/${part(label)}`, ["pool", "slot", "grant", "node"], 3);
  const wanted = useData(`autoscale/${part(label)}`, ["ticket", "grant", "slot"], 3);
  const line = useData(`queue${query({ label, tickets: 100 })}`, ["ticket", "grant"], 3);
  const leases = useData(`sessions${query({ pool: label, limit: 100 })}`, ["grant"], 3);
  const found = pool.data;
  const mine = line.data?.labels?.[0];
  return html`<${Head} title=${label} crumbs=${html`<a href="#/pools">Pools</a>`}><${AsOf} at=${pool.at}/>
      ${found && html`<${Take} label=${label} free=${found.available}/>`}
      ${found && may("operate") && html`<button type="button" onClick=${() => restart(label, found)}>Replace all slots…</button>`}</${Head}>
    <${Mine} label=${label}/>
    <${Shown} from=${pool}>${found && html`<${Meter} lent=${found.borrowed} free=${found.available} held=${found.heldBack}/>
      <${Facts} of=${[
        ["State", html`<${State} state=${found.maintenanceActive ? "maintenance" : found.available ? "free"
          : "waiting"} text=${found.maintenanceActive ? "under maintenance" : found.available ? "has room" : "nothing free"}/>`],
        ["Lent", num(found.borrowed)], ["Free", num(found.available)], ["Held back", num(found.heldBack)],
        ["Held back because", because(found) || undefined], ["Slots", num(found.total)],
        ["Waiters it may serve", wanted.data
          ? `${num(wanted.data.waiting)}${wanted.data.truncated ? " or more" : ""} under ${some(wanted.data.waitingLabels, "label")}`
          : undefined],
        ["Version", found.version],
      ]}/>`}</${Shown}>
    ${(found || pool.error) && html`<${Shown} from=${line}><${Shown} from=${leases}>
    <section><h2>Waiting for ${label}</h2>
      <${Table} caption=${`Borrowers that wait for ${label}`} rows=${mine?.tickets ?? []} id=${(/** @type {any} */ t) => t.ticket}
        columns=${tickets}
        empty=${html`<p class="faint">No borrower waits under exactly this label. <a href="#/queue">The whole queue</a>.</p>`}/></section>
    <section><h2>Lent</h2>
      <${Table} caption=${`Leases of ${label}`} rows=${leases.data?.leases ?? []} id=${(/** @type {any} */ s) => s.slotId}
        columns=${lent}
        empty=${html`<p class="faint">Nothing of it is lent.</p>`}/>
      ${leases.data?.total > 100 && html`<p>
        <a href=${to(["leases"], { by: "pool", of: label })}>All ${num(leases.data.total)} leases of this pool</a></p>`}</section>
    </${Shown}></${Shown}>`}`;
}

const tickets = [
  { head: "Position", num: true, cell: (/** @type {any} */ t) => num(t.position) },
  { head: "Ticket", grow: true,
    cell: (/** @type {any} */ t) => html`<a class="id" title=${t.ticket} href=${to(["why", "ticket", t.ticket])}>${t.ticket}</a>
      <${Wants} of=${t}/>` },
  { head: "Holder", less: true, cell: (/** @type {any} */ t) => html`<${Holder} of=${t}/>` },
  { head: "Since", less: true, cell: (/** @type {any} */ t) => html`<${Time} at=${t.since}/>` },
  { head: "Estimate", num: true, time: true,
    cell: (/** @type {any} */ t) => (t.estimatedWaitSeconds === null ? "unknown" : span(t.estimatedWaitSeconds)) },
];
const lent = [
  { head: "Slot", grow: true,
    cell: (/** @type {any} */ s) => html`<a href=${to(["why", "slot", s.slotId])}>${s.slotId}</a> <${Held} of=${s}/>` },
  { head: "Holder", cell: (/** @type {any} */ s) => html`<${Holder} of=${s}/>` },
  { head: "Node", less: true, cell: (/** @type {any} */ s) => html`<a href=${to(["nodes", s.nodeId])}>${s.nodeId}</a>` },
  { head: "Since", less: true, cell: (/** @type {any} */ s) => html`<${Time} at=${s.borrowedAt}/>` },
  { head: "Ends in", num: true, time: true, cell: (/** @type {any} */ s) => span(s.secondsLeft) },
];
