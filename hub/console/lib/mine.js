// Slots that this browser holds or waits for, as wishes in its storage: all tabs show the same, and a reload changes nothing. The leading
// tab keeps them: it attends their places in the queue, and renews their leases.
import { Refused, get, part, send } from "./api.js";
import { useEffect, useState } from "./dom.js";
import { isLeader, listen, onBeat } from "./live.js";
import { credential, may } from "./me.js";
import { span } from "./format.js";
import { refresh } from "./store.js";

export const TTL_S = 120; // longer than a browser lets the timers of a hidden tab rest
const LOOK_MS = 1_000;
const WAIT_MS = 60_000; // of one call in the queue; the hub keeps the place for a minute between two calls
const WAITING_MAX = 3; // each takes one of the six connections that a browser has to a hub
const REASON = "for the user of this page";
const AGAIN = new Set([0, 429, 500, 502, 503, 504]);

/**
 * A wish: the idempotency key of its borrow, its label, its `where`, whether the hub was asked, and what became of it. `tell`: its user
 * wants to be notified; `over`: why there is nothing of it any more.
 * @typedef {{key: string, label: string, where?: string,
 *   asked?: boolean, waits?: boolean, slot?: string, tell?: boolean, over?: string}} Wish
 */
/** What the leading tab knows of a wish. @typedef {{busy: boolean, due: number, known: boolean, lease: any, warned: boolean}} Care */
/** @type {Map<string, Care>} */
const cares = new Map();
/** @type {Set<() => void>} */
const views = new Set();

const place = () => `hub-mine ${location.pathname} ${credential()}`;

// Two tabs that wish for a label at the same moment make the same key: then the one that writes last takes nothing from the other.
const keyPlace = () => `${place()} key`;
const newKey = () => localStorage.setItem(keyPlace(), `console-${crypto.getRandomValues(new Uint32Array(4)).join("")}-`);

/** @returns {Wish[]} */
export function wishes() {
  try {
    if (!localStorage.getItem(keyPlace())) newKey();
    return JSON.parse(localStorage.getItem(place()) ?? "[]");
  } catch {
    return [];
  }
}

/** @param {Wish[]} now */
function store(now) {
  localStorage.setItem(place(), JSON.stringify(now));
  views.forEach((draw) => draw());
}

/** Change a wish, if there still is one. @param {string} key @param {Partial<Wish>} changes */
const change = (key, changes) => store(wishes().map((wish) => (wish.key === key ? { ...wish, ...changes } : wish)));

/** Forget a wish. The next one has another key. @param {string} key */
export function forget(key) {
  newKey();
  store(wishes().filter((wish) => wish.key !== key));
}

/** Ask for a slot of a label. A label is asked for once at a time, by however many tabs. @param {string} label @param {string} [where] */
export function want(label, where) {
  const now = wishes().filter((wish) => !(wish.label === label && wish.over));
  if (now.some((wish) => wish.label === label)) return;
  if (now.filter((wish) => !wish.slot && !wish.over).length >= WAITING_MAX) {
    throw new Error(`A browser keeps at most ${WAITING_MAX} places in the queue.`);
  }
  store([...now, { key: (localStorage.getItem(keyPlace()) + encodeURIComponent(label)).slice(0, 200), label, where, tell: canTell() }]);
  round();
}

/** @returns {Wish[]} */
export function useWishes() {
  const [, draw] = useState(0);
  useEffect(() => {
    const view = () => draw((n) => n + 1);
    views.add(view);
    return () => void views.delete(view);
  }, []);
  return wishes();
}

/** Give back what a wish has got, or its place in the queue. @param {Wish} wish @param {any} lease */
export async function giveBack(wish, lease) {
  const body = lease && { label: lease.label, slotId: lease.slotId, leaseToken: lease.lease.token };
  if (body) await send("POST", "session/return", body, REASON);
  else await send("DELETE", `queue/${part(wish.key)}`, undefined, REASON).catch(unlessUnknown);
  forget(wish.key);
  refresh();
}

/** @param {Refused} error */
function unlessUnknown(error) {
  if (error.status !== 404) throw error;
}

/** Renew the lease of a wish at once. @param {any} lease */
export async function renew(lease) {
  const found = await send("POST", "session/renew", { slotId: lease.slotId, leaseToken: lease.lease.token, ttlSeconds: TTL_S });
  refresh();
  return found;
}

/** Whether this page can notify now. */
export const canTell = () => globalThis.Notification?.permission === "granted";

/** Ask the user whether the page may notify of this wish. @param {string} key */
export async function askToTell(key) {
  const granted = (await globalThis.Notification?.requestPermission()) === "granted";
  if (granted) change(key, { tell: true });
  return granted;
}

/** @param {string} key @param {string} title @param {string} body */
function tell(key, title, body) {
  if (canTell() && wishes().some((wish) => wish.key === key && wish.tell)) new Notification(title, { body, tag: key });
}

/** Care for all wishes, in the leading tab. */
function round() {
  if (!isLeader() || !may("borrow")) return;
  for (const wish of wishes()) if (!wish.over) care(wish);
}

/** @param {Wish} wish */
async function care(wish) {
  const own = cares.get(wish.key) ?? { busy: false, due: 0, known: !wish.asked, lease: null, warned: false };
  cares.set(wish.key, own);
  if (own.busy || Date.now() < own.due) return;
  own.busy = true;
  try {
    await (own.lease ? prolong(wish, own) : acquire(wish, own));
  } catch (error) {
    const refused = error instanceof Refused ? error : new Refused(0, "silent", String(error));
    if (refused.code === "timeout") change(wish.key, { waits: true }); // its call is over, and the next one keeps its place
    else if (AGAIN.has(refused.status) || refused.status === 401) own.due = Date.now() + 2 * LOOK_MS;
    else end(wish, refused);
  }
  own.busy = false;
  views.forEach((draw) => draw());
}

/** @param {Wish} wish @param {Refused} refused */
function end(wish, refused) {
  const over = refused.status === 404 && wish.asked ? "No page was open for a minute, so the place in the queue is lost."
    : refused.message;
  newKey();
  change(wish.key, { over });
  tell(wish.key, wish.slot ? `Your lease of ${wish.slot} has ended` : `Nothing of ${wish.label} for you`, over);
  refresh();
}

/** Get the lease of a wish, waiting in the queue. @param {Wish} wish @param {Care} own */
async function acquire(wish, own) {
  let found = own.known ? null : await get(`queue/${part(wish.key)}`); // asked for by a page that is gone
  own.known = true;
  if (found?.state !== "granted") {
    change(wish.key, found ? { waits: true } : { asked: true });
    const soon = setTimeout(() => (change(wish.key, { waits: true }), refresh()), LOOK_MS);
    const body = { label: wish.label, where: wish.where || undefined, ttlSeconds: TTL_S, runName: "console" };
    found = await send("POST", "session/borrow", body, REASON, { key: wish.key, ms: WAIT_MS }).finally(() => clearTimeout(soon));
  }
  const now = wishes().find((each) => each.key === wish.key);
  if (!now) return giveBack(wish, found); // given up meanwhile
  own.lease = found;
  own.due = Date.now() + (1000 * found.lease.ttlSeconds) / 3;
  change(wish.key, { slot: found.slotId, waits: false });
  if (now.waits) tell(wish.key, `It is your turn: ${found.slotId}`, `You hold ${found.slotId} of ${wish.label} now.`);
  refresh();
  return undefined;
}

/** Renew the lease of a wish; say so when it will last no longer. @param {Wish} wish @param {Care} own */
async function prolong(wish, own) {
  const { lease } = await renew(own.lease);
  own.due = Date.now() + (1000 * lease.ttlSeconds) / 3;
  if (lease.ttlSeconds < 0.6 * Math.min(TTL_S, own.lease.lease.ttlSeconds)) warn(wish, own, lease.ttlSeconds);
}

/** @param {Wish} wish @param {Care} own @param {number} seconds */
function warn(wish, own, seconds) {
  if (!own.warned) tell(wish.key, `Your lease of ${wish.slot} ends soon`, `It ends in ${span(seconds)}, and cannot be renewed for longer.`);
  own.warned = true;
}

listen((event) => {
  const wish = event.event === "grant.ending" && isLeader() && wishes().find((each) => each.slot === event.slot);
  const own = wish && cares.get(wish.key);
  if (wish && own) warn(wish, own, Number(event.ends_in_ms) / 1000);
});
addEventListener("storage", () => (round(), views.forEach((draw) => draw())));
setInterval(round, LOOK_MS);
onBeat(round);
