// Numbers, durations and times as people read them.
import { html } from "./dom.js";
import { storeNow } from "./api.js";

const numbers = new Intl.NumberFormat("en");
const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const dayFormat = new Intl.DateTimeFormat(undefined,
  { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** @param {number|null|undefined} value */
export const num = (value) => (value === null || value === undefined ? "–" : numbers.format(value));

/** `1 node`, `3 nodes`. @param {number} count @param {string} one @param {string} [many] */
export const some = (count, one, many = `${one}s`) => `${num(count)} ${count === 1 ? one : many}`;

/** A duration. @param {number|null|undefined} seconds */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, seconds);
  if (whole < 10) return `${whole.toFixed(1).replace(/\.0$/, "")} s`;
  if (whole < 120) return `${Math.round(whole)} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min${whole < 600 ? ` ${String(Math.round(whole % 60)).padStart(2, "0")} s` : ""}`;
  if (whole < 172_800) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86_400)} d`;
}

/** A time in the zone of the browser; UTC stands behind it. @param {{at: string|number|null|undefined}} props */
export function Time({ at }) {
  const then = at === null || at === undefined || at === "" ? NaN : new Date(at).getTime();
  if (Number.isNaN(then)) return html`<span class="faint">–</span>`;
  const moment = new Date(then);
  const near = Math.abs(storeNow() - then) < 64_800_000 && moment.getDate() === new Date(storeNow()).getDate();
  const utc = moment.toISOString();
  return html`<time datetime=${utc} title="${utc.replace("T", " ").replace("Z", " UTC")}">
    ${(near ? clockFormat : dayFormat).format(moment)}</time>`;
}

/** A name that may go on in the next line behind each of its parts. @param {string} name */
export const parted = (name) => name.split(/(?<=[:_/,.])/).map((each, at) => [at > 0 && html`<wbr/>`, each]);

/** Half of an id that is too long to read. @param {string} id */
export const short = (id) => (id.length > 20 && /^[0-9a-f-]{32,36}$/.test(id) ? `${id.slice(0, 8)}…` : id);

/** JSON in lines. @param {any} value */
export function pretty(value) {
  try {
    return JSON.stringify(typeof value === "string" ? JSON.parse(value) : value, null, 2);
  } catch {
    return String(value);
  }
}
