// Figures over time: what the hub has counted, and what the events tell, also from before the page was opened.
import { AGAIN_MS, Refused, get } from "./api.js";
import { listen } from "./live.js";

const STEP_S = 10; // as the hub counts
const KEPT = 360; // steps: an hour
const WAITERS = 2000; // borrowers whose waits are drawn: the first that came
/** @typedef {{grants: number, expiries: number, atOnce: number, lent: number|null, free: number|null, waiting: number|null}} Step */
/** @type {Map<number, Step>} */
const steps = new Map();
/** Ticket -> start of its wait, of the borrowers in the queue now. @type {Map<string, number>} */
const waiting = new Map();
/** Waits that are over, from when to when. @type {[number, number][]} */
let waited = [];
let seeded = false;

/** @param {number} ms @returns {Step} */
function stepAt(ms) {
  const at = Math.floor(ms / 1000 / STEP_S);
  let step = steps.get(at);
  if (!step) {
    step = { grants: 0, expiries: 0, atOnce: 0, lent: null, free: null, waiting: null };
    steps.set(at, step);
  }
  return step;
}

/** @param {any} event */
function count(event) {
  if (!event.id) return waiting.clear(); // events are missing: ends of waits may be among them
  const at = Number(event.id.split("-")[0]);
  if (event.event === "ticket.waiting") {
    if (!waiting.has(event.ticket) && waiting.size < WAITERS) waiting.set(event.ticket, at);
  } else if (event.event === "grant.lent" || event.event === "grant.handed") {
    const step = stepAt(at);
    step.grants += 1;
    if (event.event === "grant.lent") step.atOnce += 1;
    over(event.ticket, at);
  } else if (event.event === "ticket.left" || event.event === "ticket.elsewhere") over(event.ticket, at);
  else if (event.event === "node.expired" || event.event === "grant.lapsed" || event.event === "grant.ended") stepAt(at).expiries += 1;
}

/** End the wait of a ticket that was served or given up. @param {string} ticket @param {number} at */
function over(ticket, at) {
  const since = waiting.get(ticket);
  if (since === undefined) return;
  waiting.delete(ticket);
  waited.push([since, at]);
  if (waited.length > WAITERS) waited.shift();
}

/** Begin to count; the history is read once. */
export async function begin() {
  if (seeded) return;
  seeded = true;
  /** @type {any[]} */
  const early = [];
  const stop = listen((event) => early.push(event));
  try {
    const [past, { samples }] = await Promise.all([get("history?kind=grant,ticket,node&limit=1000"), get("console/trend")]);
    for (const [at, lent, free, waiting] of samples) {
      const step = stepAt(at);
      if (step.lent === null) Object.assign(step, { lent, free, waiting });
    }
    past.events.reverse().forEach(count);
    const last = past.events.at(-1)?.id ?? "";
    early.filter((event) => newer(event.id, last)).forEach(count);
  } catch (error) {
    seeded = false;
    if (error instanceof Refused && error.troubled) setTimeout(begin, AGAIN_MS);
  }
  stop();
  if (seeded) listen(count);
}

/** Whether an event came after another one. @param {string} id @param {string} than */
export function newer(id, than) {
  const [a = 0, b = 0] = id.split("-").map(Number);
  const [c = 0, d = 0] = than.split("-").map(Number);
  return a > c || (a === c && b > d);
}

/** Keep the figures of the overview at this moment. @param {any} seen */
export function sample(seen) {
  const step = stepAt(Date.parse(seen.now));
  Object.assign(step, { lent: seen.slots.lent, free: seen.slots.free, waiting: seen.queue.waiting });
  const oldest = Math.floor(Date.parse(seen.now) / 1000 / STEP_S) - KEPT;
  for (const at of steps.keys()) if (at < oldest) steps.delete(at);
  if (!seen.queue.waiting) waiting.clear(); // nobody waits: forget those whose end was missed
  waited = waited.filter(([, until]) => until >= oldest * STEP_S * 1000);
}

/** @param {number[]} sorted @param {number} share */
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

/** Per step, the waits up to its end of all borrowers that waited in it, also of those that wait still or gave up.
 * @param {number} first @param {number} last @param {number} nowMs */
function waitsOf(first, last, nowMs) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  const open = [...waiting.values()].map((since) => /** @type {[number, number]} */ ([since, nowMs]));
  for (const [since, until] of [...waited, ...open]) {
    const from = Math.max(first, Math.floor(since / 1000 / STEP_S));
    const to = Math.min(last, Math.floor(until / 1000 / STEP_S));
    for (let at = from; at <= to; at += 1) {
      const waits = found.get(at) ?? [];
      if (!waits.length) found.set(at, waits);
      waits.push(Math.max(0, Math.min(until, (at + 1) * STEP_S * 1000) - since) / 1000);
    }
  }
  return found;
}

/** The last hour, up to a moment, as columns. @param {number} nowMs */
export function columns(nowMs) {
  const upto = Math.floor(nowMs / 1000 / STEP_S);
  /** @type {Record<"at"|"grants"|"expiries", number[]> & Record<"lent"|"free"|"waiting"|"p50"|"p99", (number|null)[]>} */
  const found = { at: [], lent: [], free: [], waiting: [], grants: [], p50: [], p99: [], expiries: [] };
  const waits = waitsOf(upto - KEPT + 1, upto, nowMs);
  for (let at = upto - KEPT + 1; at <= upto; at += 1) {
    const step = steps.get(at);
    const sorted = [...Array(step?.atOnce ?? 0).fill(0), ...(waits.get(at) ?? []).sort((a, b) => a - b)];
    found.at.push(at * STEP_S);
    found.lent.push(step?.lent ?? null);
    found.free.push(step?.free ?? null);
    found.waiting.push(step?.waiting ?? null);
    found.grants.push((step?.grants ?? 0) / STEP_S);
    found.p50.push(sorted.length ? quantile(sorted, 0.5) : null);
    found.p99.push(sorted.length ? quantile(sorted, 0.99) : null);
    found.expiries.push(step?.expiries ?? 0);
  }
  return found;
}
