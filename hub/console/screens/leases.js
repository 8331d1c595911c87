// Leases: slot, holder and end.
import { get, part, query, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Choice, Empty, Facts, Filter, Head, Pager, Shown, span } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";
import { Mine } from "./mine.js";
import { Held, Holder, holderOf } from "./acts.js";

const LIMIT = 100;

/** @param {any} lease @param {boolean} [force] @param {string} [reason] */
const end = (lease, force, reason) =>
  send("POST", `console/leases/${part(lease.slot)}/end`, { lease: { token: lease.token }, label: lease.label, force }, reason);

/** End one lease: the one that is looked at now, and no later one. @param {string} slot */
export function endLease(slot) {
  ask({
    title: `End the lease of ${slot}?`,
    load: async () => {
      const lease = await get(`console/leases/${part(slot)}`);
      return {
        context: lease,
        what: html`<p>
          Its holder is told at once and has <b>${span(lease.graceSeconds)}</b> to stop; then the slot goes to the next borrower in the
            queue.</p>
          <${Facts} of=${[["Holder", holderOf(lease)], ["Run", lease.run], ["Asked for", lease.label], ["Node", lease.node],
            ["Since", html`<${Time} at=${lease.since}/>`], ["Would end in", span(lease.secondsLeft)],
            ["Token", html`<code>${lease.token}</code>`]]}/>
          <p class="faint">Only the lease with this token ends: if it is over before you go on, no other lease is touched.</p>`,
      };
    },
    verb: "End the lease",
    run: async (reason, lease) => {
      const result = await end(lease, false, reason);
      if (!result.ended) throw new Error(result.word === "stale token"
        ? "This lease is over already: the slot is in other hands now, and nothing was done."
        : "This lease is over already; nothing was done.");
      return result;
    },
    done: () => `The lease of ${slot} has ended.`,
  });
}

/** @param {string[]} slots @param {() => void} after */
function endAll(slots, after) {
  ask({
    title: "End these leases?",
    load: async () => {
      const found = (await Promise.allSettled(slots.map((slot) => get(`console/leases/${part(slot)}`))))
        .flatMap((r) => (r.status === "fulfilled" ? [r.value] : []));
      return { context: found, list: found.map((lease) => lease.slot),
        what: html`<p>
          Their holders are told at once and have a moment to stop; then the slots are lent on. Each lease is ended by its token: a later
            lease is not touched.</p>` };
    },
    one: "lease", after, verb: "End the leases",
    run: async (reason, leases) =>
      each(leases.map((/** @type {any} */ lease) => JSON.stringify(lease)), (text) => end(JSON.parse(text), false, reason)),
    done: (result) => told(result, "lease", "ended"),
  });
}

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Leases({ route }) {
  const { by = "", of = "" } = route.query;
  const offset = Number(route.query.offset ?? 0);
  const chosen = useChosen();
  const found = useData(`sessions${query({ limit: LIMIT, offset, [by || "x"]: by && of ? of : "" })}`, ["grant"], 3);
  const columns = [
    { head: "Slot", grow: true,
      cell: (/** @type {any} */ s) => html`<a href=${to(["why", "slot", s.slotId])}>${s.slotId}</a> <${Held} of=${s}/>
        ${s.bundle && html`<span class="under">bundle ${s.bundle}</span>`}` },
    { head: "Pool", less: true, cell: (/** @type {any} */ s) => html`<a href=${to(["pools", s.pool])}>${s.pool}</a>` },
    { head: "Holder", cell: (/** @type {any} */ s) => html`<${Holder} of=${s}/>` },
    { head: "Node", less: true, cell: (/** @type {any} */ s) => html`<a href=${to(["nodes", s.nodeId])}>${s.nodeId}</a>` },
    { head: "Since", less: true, cell: (/** @type {any} */ s) => html`<${Time} at=${s.borrowedAt}/>` },
    { head: "Ends in", num: true, time: true, cell: (/** @type {any} */ s) => span(s.secondsLeft) },
    ...(may("lease")
      ? [{ head: html`<span class="hidden">Act</span>`,
        cell: (/** @type {any} */ s) =>
          html`<button type="button" class="quiet" aria-label=${`End the lease of ${s.slotId}`} onClick=${() => endLease(s.slotId)}>
            End…</button>` }]
      : []),
  ];
  const rows = found.data?.leases ?? [];
  return html`<${Head} title="Leases" about="Those that end first at the top."><${AsOf} at=${found.at}/></${Head}>
    <${Mine}/>
    <div class="filters">
      <${Choice} name="by" value=${by} label="Filter by"
        of=${[["", "All"], ["pool", "Pool"], ["node", "Node"], ["run", "Run"], ["label", "Label"]]}/>
      ${by && html`<${Filter} name="of" value=${of} label=${`Exactly this ${by}`}/>`}</div>
    ${may("lease") && html`<${Bulk} chosen=${chosen} one="lease">
      <button type="button" class="danger" onClick=${() => endAll(chosen.ids, chosen.none)}>End…</button></${Bulk}>`}
    <${Shown} from=${found}>
      <${Table} caption="Leases" columns=${columns} rows=${rows} id=${(/** @type {any} */ s) => s.slotId} chosen=${may("lease") ? chosen
        : null}
      empty=${html`<${Empty} title=${by && of ? "Nothing is lent there" : "Nothing is lent"} command=${by && of ? ""
        : "hub borrow gpu:a100 -- env"}>${by && of ? "" : "A borrower takes a slot by its label:"}</${Empty}>`}/>
      ${found.data && html`<${Pager} offset=${offset} limit=${LIMIT} total=${found.data.total}/>`}</${Shown}>`;
}
