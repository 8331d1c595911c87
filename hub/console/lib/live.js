// Live events: one stream per browser. The tab that holds the lock listens, and passes the events on to the others.
import { Refused } from "./api.js";

const CHANNEL = `hub-live ${location.pathname}`; // each realm of a hub has events of its own
const SILENT_MS = 25_000; // the hub sends something every 15 s
const AGAIN_MS = 1_000;

/** @typedef {{id: string, event: string, at: string, rule: string, [fact: string]: any}} HubEvent */
/** How the hub was so many ms ago. @typedef {{seen: any, ageMs: number}} Overview */
/** @typedef {{state: "starting"|"live"|"cut"|"refused", since: number, cuts: number}} Stream */

/** @type {Stream} */
export let stream = { state: "starting", since: Date.now(), cuts: 0 };
let last = "";
let wake = () => {};
let leads = false;
let leaving = false; // the page is about to be left, and its stream ends with it
addEventListener("beforeunload", () => {
  leaving = true;
  setTimeout(() => (leaving = false), 5 * AGAIN_MS);
});
/** @type {Set<(event: HubEvent) => void>} */
const listeners = new Set();
/** @type {Set<(overview: Overview) => void>} */
const viewers = new Set();
/** @type {Set<() => void>} */
const watchers = new Set();
/** @type {Set<() => void>} */
const beats = new Set();
const others = "BroadcastChannel" in globalThis ? new BroadcastChannel(CHANNEL) : null;

/** Hear every event. @param {(event: HubEvent) => void} listener */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Hear how the hub is, every few seconds while the stream is live. @param {(overview: Overview) => void} viewer */
export function onOverview(viewer) {
  viewers.add(viewer);
}

/** Whether this tab acts for all tabs of the browser. */
export const isLeader = () => leads;

/**
 * Call this whenever the hub has sent something to the leading tab, at least every 15 s: in a hidden tab timers may rest for longer.
 * @param {() => void} once
 */
export const onBeat = (once) => void beats.add(once);

/** Hear when the stream is cut or back. @param {() => void} watcher */
export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** @param {Stream["state"]} state */
function become(state) {
  if (state === stream.state) return;
  const cuts = stream.cuts + (stream.state === "live" && state === "cut" ? 1 : 0);
  stream = { state, since: Date.now(), cuts };
  document.documentElement.dataset.stream = state;
  document.documentElement.dataset.cuts = String(cuts);
  watchers.forEach((watcher) => watcher());
}

/** @param {HubEvent} event */
function hear(event) {
  last = event.id || last;
  listeners.forEach((listener) => listener(event));
}

/** @param {any} said */
function tell(said) {
  others?.postMessage(said);
}

if (others) {
  others.onmessage = ({ data }) => {
    if (data.again) wake();
    if (data.ask && leads) tell({ state: stream.state, last });
    if (leads) return;
    if (data.event) hear(data.event);
    if (data.overview) viewers.forEach((viewer) => viewer(data.overview));
    if (data.last) last = data.last;
    if (data.state) become(data.state);
  };
}

/** Listen, as soon as no other tab of this browser does. */
export async function start() {
  if (!("locks" in navigator)) return lead(); // none over plain HTTP from elsewhere: then each tab has a stream
  tell({ ask: true });
  return navigator.locks.request(CHANNEL, lead);
}

async function lead() {
  leads = true;
  for (;;) {
    try {
      await follow();
    } catch (error) {
      if (error instanceof Refused) {
        become("refused");
        tell({ state: "refused" });
        await Promise.race([pause(10 * AGAIN_MS), new Promise((go) => (wake = () => go(undefined)))]);
        become("starting");
        tell({ state: "starting" });
        continue;
      }
    }
    if (!leaving) {
      become("cut");
      tell({ state: "cut" });
    }
    await pause(AGAIN_MS);
  }
}

/** Try at once, after a login. */
export function again() {
  wake();
  tell({ again: true });
}

/** @param {number} ms */
const pause = (ms) => new Promise((go) => setTimeout(go, ms));

async function follow() {
  const stop = new AbortController();
  let heard = Date.now();
  const watchdog = setInterval(() => Date.now() - heard > SILENT_MS && stop.abort(), 1_000);
  try {
    const answer = await fetch("console/events",
      { headers: last ? { "last-event-id": last } : {}, signal: stop.signal, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) throw new Refused(answer.status, "", "");
    if (!answer.ok || !answer.body) throw new Error(String(answer.status));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard = Date.now();
      beats.forEach((once) => once());
      if (stream.state !== "live") {
        become("live");
        tell({ state: "live" });
      }
      const frames = (rest + value).split("\n\n");
      rest = frames.pop() ?? "";
      frames.forEach(read);
    }
  } finally {
    clearInterval(watchdog);
    stop.abort();
  }
}

/** @param {string} frame */
function read(frame) {
  /** @type {Record<string,string>} */
  const fields = {};
  for (const line of frame.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
  }
  if (fields.id) last = fields.id;
  if (!fields.data) return;
  if (fields.event === "overview") {
    const overview = JSON.parse(fields.data);
    viewers.forEach((viewer) => viewer(overview));
    tell({ overview });
    return;
  }
  const { atUtc: at, ...facts } = JSON.parse(fields.data); // streams keep the old name of the time
  const event = { event: fields.event, at, ...facts };
  if (fields.event === "gap" || fields.event === "slow") event.id = "";
  hear(event);
  tell({ event, last });
}
