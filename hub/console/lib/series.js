// Figures over time: what happened comes from the events, also from those before the page was opened.
import { get } from "./api.js";
import { listen } from "./live.js";

export const STEP_S = 5;
const KEPT = 180; // steps: a quarter of an hour
/** @typedef {{grants: number, expiries: number, waits: number[], lent: number|null, free: number|null, waiting: number|null}} Step */
/** @type {Map<number, Step>} */
const steps = new Map();
/** @type {Map<string, number>} */
const waiting = new Map();
let seeded = false;

/** @param {number} ms @returns {Step} */
function stepAt(ms) {
  const at = Math.floor(ms / 1000 / STEP_S);
  let step = steps.get(at);
  if (!step) {
    step = { grants: 0, expiries: 0, waits: [], lent: null, free: null, waiting: null };
    steps.set(at, step);
  }
  return step;
}

/** @param {any} event */
function count(event) {
  if (!event.id) return;
  const at = Number(event.id.split("-")[0]);
  if (event.event === "ticket.waiting") {
    if (!waiting.has(event.ticket)) waiting.set(event.ticket, at);
    if (waiting.size > 5000) waiting.delete(/** @type {string} */ (waiting.keys().next().value));
  } else if (event.event === "grant.lent" || event.event === "grant.handed") {
    const step = stepAt(at);
    step.grants += 1;
    const since = waiting.get(event.ticket);
    waiting.delete(event.ticket);
    if (event.event === "grant.lent") step.waits.push(0);
    else if (since !== undefined) step.waits.push((at - since) / 1000);
  } else if (event.event === "ticket.left" || event.event === "ticket.elsewhere") waiting.delete(event.ticket);
  else if (event.event === "node.expired" || event.event === "grant.lapsed" || event.event === "grant.ended") stepAt(at).expiries += 1;
}

/** Begin to count; what is known of the past is read once. */
export async function begin() {
  if (seeded) return;
  seeded = true;
  /** @type {any[]} */
  const early = [];
  const stop = listen((event) => early.push(event));
  try {
    const past = await get("history?kind=grant,ticket,node&limit=1000");
    past.events.reverse().forEach(count);
    const last = past.events.at(-1)?.id ?? "";
    early.filter((event) => newer(event.id, last)).forEach(count);
  } catch {
    seeded = false;
  }
  stop();
  if (seeded) listen(count);
}

/** @param {string} id @param {string} than */
function newer(id, than) {
  const [a = 0, b = 0] = id.split("-").map(Number);
  const [c = 0, d = 0] = than.split("-").map(Number);
  return a > c || (a === c && b > d);
}

/** Keep what the overview says of this moment. @param {any} seen */
export function sample(seen) {
  const step = stepAt(Date.parse(seen.now));
  Object.assign(step, { lent: seen.slots.lent, free: seen.slots.free, waiting: seen.queue.waiting });
  const oldest = Math.floor(Date.parse(seen.now) / 1000 / STEP_S) - KEPT;
  for (const at of steps.keys()) if (at < oldest) steps.delete(at);
}

/** @param {number[]} sorted @param {number} share */
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

/** The last quarter of an hour, up to a moment, as columns. @param {number} nowMs */
export function columns(nowMs) {
  const upto = Math.floor(nowMs / 1000 / STEP_S);
  /** @type {Record<"at"|"grants"|"expiries", number[]> & Record<"lent"|"free"|"waiting"|"p50"|"p99", (number|null)[]>} */
  const found = { at: [], lent: [], free: [], waiting: [], grants: [], p50: [], p99: [], expiries: [] };
  for (let at = upto - KEPT + 1; at <= upto; at += 1) {
    const step = steps.get(at);
    const waits = step?.waits.length ? [...step.waits].sort((a, b) => a - b) : null;
    found.at.push(at * STEP_S);
    found.lent.push(step?.lent ?? null);
    found.free.push(step?.free ?? null);
    found.waiting.push(step?.waiting ?? null);
    found.grants.push((step?.grants ?? 0) / STEP_S);
    found.p50.push(waits && quantile(waits, 0.5));
    found.p99.push(waits && quantile(waits, 0.99));
    found.expiries.push(step?.expiries ?? 0);
  }
  return found;
}
