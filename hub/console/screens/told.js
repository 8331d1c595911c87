// An explanation: state, next steps, and history with the rules.
import { html } from "../lib/dom.js";
import { Time, parted, short } from "../lib/format.js";
import { Facts, State, Tags, span } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { holderOf } from "./acts.js";

const LINKED = ["node", "slot", "ticket", "run", "task", "worker", "job", "schedule"];
const IDS = new Set(["ticket", "task", "worker"]);
const LEFT_OUT = new Set(["id", "at", "event", "rule"]);

/** The name of a thing: a narrow page shows the beginning of an id. @param {string} kind @param {string} name */
const named = (kind, name) => (IDS.has(kind) ? html`<span class="id" title=${name}>${name}</span>` : parted(name));

/** The subjects of an event, as links. @param {any} event */
export const about = (event) =>
  Object.entries(event)
    .filter(([name, value]) => !LEFT_OUT.has(name) && value !== "")
    .map(([name, value]) =>
      LINKED.includes(name)
        ? html`<a class="tag" key=${name} href=${to(["why", name, String(value)])}>${name} ${named(name, String(value))}</a>`
        : name === "pool" || name === "label"
          ? html`<a class="tag" key=${name} href=${to(["pools", String(value)])}>${name} ${parted(String(value))}</a>`
          : html`<span class="tag" key=${name}>${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}</span>`,
    );

/** @type {import("../lib/table.js").Column[]} */
export const columns = [
  { head: "When", cell: (event) => html`<${Time} at=${event.at}/>` },
  { head: "What", cell: (event) => html`<code class="word">${event.event}</code>` },
  { head: "About", grow: true, cell: (event) => html`<span class="tags">${about(event)}</span>` },
  { head: "By which rule", less: true, grow: true, cell: (event) => event.rule },
];

/** @param {{of: any}} props */
export function History({ of }) {
  return html`<${Table} caption="History, newest first" rows=${of.history} id=${(/** @type {any} */ e) => e.id} columns=${columns}
    empty=${html`<p class="faint">The history holds no event of it.</p>`}/>
    ${!of.complete && html`<p class="faint">There is more; older events may have been trimmed.</p>`}`;
}

/** @param {{of: any}} props */
export function Next({ of }) {
  if (!of.next.length) return html`<p class="faint">Nothing happens to it by itself.</p>`;
  return html`<ol class="next">
    ${of.next.map((/** @type {any} */ step, /** @type {number} */ at) =>
      html`<li key=${at}><code>${step.event}</code> ${step.inSeconds === null ? "" : html`<b>in ${span(step.inSeconds)}</b>`}
        <p>${step.rule}</p></li>`)}</ol>`;
}

/** Tasks with how each of them is. @param {{of: any[]}} props */
export function TasksWith({ of }) {
  return html`<ul class="several">
    ${of.map((task) =>
      html`<li key=${task.task}>
        <a href=${to(["why", "task", task.task])}><code>${short(task.task)}</code></a> ${task.job} <${State}
          state=${task.status}/></li>`)}</ul>`;
}

/** A fact as people read it: times, and durations by their names. @param {string} name @param {any} value */
function fact(name, value) {
  if (value?.client !== undefined) return holderOf({ holder: value, runId: value.name });
  if (typeof value === "number" && /seconds/i.test(name)) return span(value);
  if (Array.isArray(value) && !value.length) return null;
  if (typeof value === "string" && LINKED.includes(name)) return html`<a href=${to(["why", name, value])}>${value}</a>`;
  if (typeof value === "string" && name === "pool") return html`<a href=${to(["pools", value])}>${value}</a>`;
  if (typeof value === "string" && /^reserve/.test(name)) return html`<a href=${to(["why", "ticket", value])}>${value}</a>`;
  if (Array.isArray(value) && value[0].wanted) {
    return value.map((one) => html`<p key=${one.label + one.where}>
      ${one.wanted} ${one.label}${one.where && ` where ${one.where}`}: ${one.free} free, ${one.published} published</p>`);
  }
  if (Array.isArray(value) && value[0].task) return html`<${TasksWith} of=${value}/>`;
  if (typeof value === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return html`<${Time} at=${value}/>`;
  if (Array.isArray(value) && typeof value[0] === "string") return value.map((line) => html`<p key=${line}>${line}</p>`);
  if (Array.isArray(value)) return value.map((one, at) => html`<p key=${at}><${Tags} of=${one}/></p>`);
  return typeof value === "object" && value ? html`<${Tags} of=${value}/>` : String(value ?? "");
}

/** `borrowedAt` as people say it: `borrowed at`. @param {string} name */
const said = (name) => name.replace(/^secondsLeft$/, "timeLeft").replace(/Seconds$/, "")
  .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** A sentence, with the times in it as people read them. @param {string} text */
const sentence = (text) => text.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).map((part, at) => (at % 2 ? html`<${Time} at=${part}/>` : part));

/** @param {{of: any}} props */
export function Explained({ of }) {
  return html`<p class="because"><${State} state=${of.state}/> ${sentence(of.because)}</p>
    <${Facts} of=${Object.entries(of.facts).map(([name, value]) => [said(name), fact(name, value)])}/>
    <section><h2>What comes next</h2><${Next} of=${of}/></section><section><h2>What happened</h2><${History} of=${of}/></section>`;
}
