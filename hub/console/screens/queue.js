// The queue: borrowers by label, with place, estimate and reason.
import { part, query, send } from "../lib/api.js";
import { ask, each, told } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Empty, Filter, Head, Pager, Shown, State, num, some, span } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData, useOverview } from "../lib/store.js";
import { Bulk, Table, useChosen } from "../lib/table.js";
import { Wants, holderOf } from "./acts.js";

const LABELS = 20;
const TICKETS = 50;

/** @param {string[]} ids @param {() => void} [after] */
function cancel(ids, after) {
  ask({
    title: ids.length === 1 ? "Cancel this place in the queue?" : "Cancel these places in the queue?",
    what: html`<p>The call that waits is answered 409 <code>withdrawn</code> at once. A slot that was lent meanwhile is left alone.</p>`,
    list: ids, one: "ticket", after, verb: "Cancel",
    run: (reason, list) => each(list, (id) => send("DELETE", `queue/${part(id)}`, undefined, reason)),
    done: (result) => told(result, "ticket", "cancelled"),
  });
}

/** Why a label waits. @param {any} line @param {any} overview */
function because(line, overview) {
  if (line.cap > 0 && line.inFlight >= line.cap) return ["wait", `at its cap: ${num(line.inFlight)} of ${num(line.cap)} leases are live`];
  if (overview?.queue.unserved.includes(line.label)) return ["bad", "no pool serves this label: a spelling mistake, or its nodes are gone"];
  if (overview && overview.nodes.registered && !overview.nodes.alive) {
    return ["bad", "no node is alive: none was heard for half of its timeout"];
  }
  if (overview?.queue.held.includes(line.label)) {
    return ["bad", "the slots that serve it are held back: their nodes drain, are cordoned or silent, or the pool is under maintenance"];
  }
  if (overview?.queue.full.includes(line.label)) return ["wait", `no slot that serves it is free; its turn is number ${num(line.turn)}`];
  return ["wait", `its turn is number ${num(line.turn)}`];
}

/** How many of its slots are set aside for a bundle. @param {any} t */
const aside = (t) => (t.reserving
  ? `${num(t.setAside)} of ${num(t.parts.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0))}` : "none");

/** Tickets of one line; in that of bundles nothing is known of the wait. @param {{of: any[], caption: string, chosen: any}} props */
const Tickets = ({ of, caption, chosen }) => html`<${Table} caption=${caption} rows=${of} id=${(/** @type {any} */ t) => t.ticket}
  chosen=${may("lease") ? chosen : null} columns=${[
    { head: "Position", num: true, cell: (/** @type {any} */ t) => num(t.position) },
    { head: "Ticket", grow: true,
      cell: (/** @type {any} */ t) => html`<a class="id" title=${t.ticket} href=${to(["why", "ticket", t.ticket])}>${t.ticket}</a>
        <${Wants} of=${t}/>` },
    { head: "Holder", less: true, cell: (/** @type {any} */ t) => html`<a class="id" title=${`${holderOf(t)}, run ${t.runId}`}
      href=${to(["why", "run", t.runId])}>${holderOf(t)}</a>` },
    { head: "Priority", num: true, less: true, cell: (/** @type {any} */ t) => num(t.priority) },
    { head: "Since", less: true, cell: (/** @type {any} */ t) => html`<${Time} at=${t.since}/>` },
    of[0]?.parts ? { head: "Set aside", num: true, cell: aside } : { head: "Estimate", num: true, time: true,
      cell: (/** @type {any} */ t) => (t.estimatedWaitSeconds === null ? "unknown" : span(t.estimatedWaitSeconds)) },
    { head: "Gives up in", num: true, time: true, less: true, cell: (/** @type {any} */ t) => span(t.secondsLeft) },
    ...(may("lease")
      ? [{ head: html`<span class="hidden">Act</span>`,
        cell: (/** @type {any} */ t) =>
          html`<button type="button" class="quiet" aria-label=${`Cancel ${t.ticket}`} onClick=${() => cancel([t.ticket])}>
            Cancel…</button>` }]
      : []),
  ]}/>`;

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Queue({ route }) {
  const { label = "" } = route.query;
  const offset = Number(route.query.offset ?? 0);
  const chosen = useChosen();
  const found = useData(`queue${query({ limit: LABELS, tickets: TICKETS, offset, label })}`, ["ticket", "grant", "cap"], 3);
  const seen = useOverview();
  const data = found.data;
  const bundles = offset ? [] : data?.bundles ?? [];
  return html`<${Head} title="Queue" about=${data && !label
    ? `${some(data.waiting, "borrower waits", "borrowers wait")} under ${some(data.total,
      "label")}${bundles.length > 0 ? ` and for ${some(bundles.length, "bundle")}` : ""}; ${num(data.away)} away: their calls have
      ended, and they keep their place for a minute.`
    : "The next borrower is at the top."}><${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Filter} name="label" value=${label} label="Exactly this label"/></div>
    ${may("lease") && html`<${Bulk} chosen=${chosen} one="ticket">
      <button type="button" class="danger" onClick=${() => cancel(chosen.ids, chosen.none)}>Cancel…</button></${Bulk}>`}
    <${Shown} from=${found}>
      ${bundles.length > 0 && html`<section class="line"><h2>Bundles <span class="faint">${num(bundles.length)} waiting</span></h2>
        <p class="why-line">All slots of a bundle are lent at once, or none. For the first that has waited for long, free ones are set
          aside.</p>
        <${Tickets} of=${bundles} caption="Bundles that wait" chosen=${chosen}/></section>`}
      ${data && !data.labels.length && !bundles.length
        ? html`<${Empty} title=${label ? `No borrower waits for ${label}`
          : "No borrower waits"} command="hub queue">
            A borrower that finds no free slot waits here: first come, first served within a label.</${Empty}>`
        : data?.labels.map((/** @type {any} */ line) => {
      const [tone, why] = because(line, seen.data);
      return html`<section key=${line.label} class="line">
        <h2><a href=${to(["pools", line.label])}>${line.label}</a> <span class="faint">${num(line.waiting)} waiting</span></h2>
        <p class=${`why-line ${tone}`}>
          <${State} state=${tone === "bad" ? "critical" : "waiting"} text="waits because"/> ${why}. ${line.estimatedWaitSeconds === null
            ? "The wait is unknown: this queue has not moved yet." : `A new borrower waits about ${span(line.estimatedWaitSeconds)}.`}</p>
        <${Tickets} of=${line.tickets} caption=${`Borrowers that wait for ${line.label}`} chosen=${chosen}/>
        ${line.waiting > line.tickets.length && html`<p class="faint">
          The first ${num(line.tickets.length)} of ${num(line.waiting)}.</p>`}</section>`;
    })}${data && !label && html`<${Pager} offset=${offset} limit=${LABELS} total=${data.total} one="label"/>`}</${Shown}>`;
}
