// The parts that screens are made of.
import { cls, html, useEffect, useRef, useState } from "./dom.js";
import { num, some, span } from "./format.js";
import { stream, watch } from "./live.js";
import { refine, to } from "./router.js";
import { newest, trouble } from "./store.js";

// A state has one colour and one shape, wherever it is shown.
const SHAPES = { good: "●", busy: "◆", wait: "▲", bad: "■", held: "◐", rest: "○" };
/** @type {Record<string, keyof typeof SHAPES>} */
const STATES = {
  alive: "good", ok: "good", active: "good", paused: "held", over: "rest", free: "good", completed: "good", live: "good", granted: "good",
  off: "rest", on: "good",
  lent: "busy", running: "busy", claimed: "busy", waiting: "wait", pending: "wait", away: "held", suspect: "held",
  draining: "held", cordoned: "held", held: "held", later: "held", maintenance: "held", warning: "wait", released: "wait", cut: "wait",
  stale: "bad", silent: "bad", failed: "bad", dead: "bad", critical: "bad", engaged: "bad", gone: "rest",
  cancelled: "rest", unknown: "rest", Info: "rest", Warning: "wait", Error: "bad", refused: "bad",
};

/** A state: colour, shape and word. @param {{state: string, text?: any}} props */
export function State({ state, text }) {
  const tone = STATES[state] ?? "rest";
  return html`<span class=${`state ${tone}`}><span class="shape" aria-hidden="true">${SHAPES[tone]}</span>${text ?? state}</span>`;
}

/** The head of a screen: title, sentence and acts. @param {{title: any, about?: any, children?: any, crumbs?: any}} props */
export function Head({ title, about, crumbs, children }) {
  const said = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => {
    if (typeof title === "string") document.title = `${title} · capacity-hub`;
  }, [title]);
  return html`<header class="head"><div>
    ${crumbs && html`<p class="crumbs">${crumbs}</p>`}
    <h1 ref=${said} tabindex="-1" id="title">${title}</h1>
    ${about && html`<p class="about">${about}</p>`}
  </div><div class="acts">${children}</div></header>`;
}

/** @param {number} ms */
export function useTick(ms) {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => draw((n) => n + 1), ms);
    const stop = watch(() => draw((n) => n + 1));
    return () => {
      clearInterval(timer);
      stop();
    };
  }, [ms]);
}

/** The age of the shown data. @param {{at: number}} props */
export function AsOf({ at }) {
  useTick(1000);
  if (!at) return html`<span class="asof">asking…</span>`;
  const old = Math.round((Date.now() - at) / 1000);
  return html`<span class=${cls("asof", old > 10 && "old")}>as of ${old < 1 ? "now" : `${span(old)} ago`}</span>`;
}

/**
 * How well the page hears the hub: tone and word.
 * @param {import("./live.js").Stream["state"]} state @param {import("./api.js").Refused|null} error
 */
function hearing(state, error) {
  if (error?.silent) return ["bad", "The hub does not answer"];
  if (error) return ["bad", error.storeAway ? "The store is away" : `The hub answers ${error.status}`];
  return { live: ["good", "Live"], starting: ["rest", "Connecting"], cut: ["bad", "Cut off, trying again"],
    refused: ["bad", "No live events: not allowed"] }[state];
}

/** Show whether the page hears the hub, or else how old its numbers are. */
export function ConnectionMonitor() {
  useTick(1000);
  const at = newest();
  const old = at ? Math.round((Date.now() - at) / 1000) : 0;
  const error = trouble();
  const [tone, word] = hearing(stream.state, error);
  return html`<span class=${cls("pulse", tone)} data-state=${error ? "trouble" : stream.state}>
    <span class="shape" aria-hidden="true">${SHAPES[/** @type {keyof typeof SHAPES} */ (tone)]}</span>
    <span class="word">${word}</span><span class="asof">${at ? ` as of ${old < 2 ? "now" : `${span(old)} ago`}` : ""}</span></span>`;
}

/** A place without data: the next step, and its command. @param {{title: string, children?: any, command?: string}} props */
export function Empty({ title, children, command }) {
  return html`<div class="empty"><h2>${title}</h2>${children && html`<p>${children}</p>`}
    ${command && html`<${Command} text=${command}/>`}</div>`;
}

/** A text to paste, a command unless named otherwise. @param {{text: string, name?: string}} props */
export function Command({ text, name = "Command" }) {
  const [done, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      set(true);
      setTimeout(() => set(false), 2000);
    } catch {
      set(false);
    }
  };
  return html`<div class="command"><pre tabindex="0" aria-label=${name}><code>${text}</code></pre>
    <button type="button" class="quiet" onClick=${copy}>${done ? "Copied" : "Copy"}</button></div>`;
}

/** The error of a failed read. @param {{error: any}} props */
export function Wrong({ error }) {
  if (!error) return null;
  const hint = error.status === 401 || error.status === 403 ? html` <a href="#/login">Log in with another credential</a>.` : null;
  return html`<p class="wrong" role="alert"><span class="shape" aria-hidden="true">■</span> ${error.message}${hint}</p>`;
}

/** A view as a whole: error, waiting, or its content. @param {{from: any, children: any}} props */
export function Shown({ from, children }) {
  if (from.data === undefined) return from.error ? html`<${Wrong} error=${from.error}/>` : html`<p class="asking">Asking the hub…</p>`;
  return html`${from.error && html`<${Wrong} error=${from.error}/>`}${from.earlier && html`<i class="asking" hidden></i>`}${children}`;
}

/** A filter that stands in the link. @param {{name: string, value: string, label: string, placeholder?: string}} props */
export function Filter({ name, value, label, placeholder = "" }) {
  const [text, set] = useState(value);
  const timer = useRef(0);
  useEffect(() => set(value), [value]);
  const typed = (/** @type {any} */ event) => {
    set(event.target.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => refine({ [name]: event.target.value, offset: "", cursor: "" }), 200);
  };
  return html`<label class="filter"><span>${label}</span>
    <input type="search" value=${text} placeholder=${placeholder} onInput=${typed} spellcheck=${false} autocomplete="off"/></label>`;
}

/** One of a few, which stands in the link. @param {{name: string, value: string, label: string, of: [string, any][]}} props */
export function Choice({ name, value, label, of }) {
  return html`<div class="choice" role="group" aria-label=${label}>${of.map(
    ([key, text]) =>
      html`<button type="button" key=${key} aria-pressed=${value === key} onClick=${() => refine({ [name]: key, offset: "", cursor: "" })}>
        ${text}</button>`,
  )}</div>`;
}

/** Steps through a list. @param {{offset: number, limit: number, total: number, one?: string}} props */
export function Pager({ offset, limit, total, one = "" }) {
  if (total <= limit && !offset) return html`<p class="pager">${one ? some(total, one) : num(total)} in all</p>`;
  const last = Math.min(total, offset + limit);
  return html`<nav class="pager" aria-label="Pages">
    <button type="button" disabled=${!offset} onClick=${() => refine({ offset: Math.max(0, offset - limit) || "" })}>Previous</button>
    <span>${num(Math.min(offset + 1, total))}–${num(last)} of ${num(total)}</span>
    <button type="button" disabled=${last >= total} onClick=${() => refine({ offset: offset + limit })}>Next</button></nav>`;
}

/** A bar of how much is used; of a team, `held` is recalled. @param {{lent: number, free: number, held: number, due?: number}} props */
export function Meter({ lent, free, held, due }) {
  const all = Math.max(1, lent + free + held);
  const part = (/** @type {number} */ n) => Math.round((1000 * n) / all) / 10;
  const share = due !== undefined;
  const said = share ? `${num(lent + held)} held of ${num(due)} due, ${num(held)} recalled`
    : `${num(lent)} lent, ${num(free)} free, ${num(held)} held back`;
  return html`<svg class=${cls("meter", share && "share")} viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${said}>
    <rect class="rail" width="100" height="6"/><rect class="lent" width=${part(lent)} height="6"/>
    <rect class="held" x=${part(lent)} width=${part(held)} height="6"/>
    ${share && html`<rect class="due" x=${part(due) * 0.99} width="1" height="6"/>`}</svg>`;
}

/** A figure with its name. @param {{name: string, value: any, more?: any, link?: string, tone?: string}} props */
export function Figure({ name, value, more, link, tone }) {
  const inside = html`<span class="name">${name}</span><strong class=${tone ?? ""}>${value}</strong>
    <span class="more">${more ?? ""}</span>`;
  return link ? html`<a class="figure" href=${link}>${inside}</a>` : html`<div class="figure">${inside}</div>`;
}

/** Facts of one thing. @param {{of: [string, any][]}} props */
export function Facts({ of }) {
  return html`<dl class="facts">
    ${of.filter(([, value]) => value || value === 0)
      .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** What unfolds below a list. @param {{kind: string, id: string, children: any}} props */
export function Detail({ kind, id, children }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => box.current?.scrollIntoView({ block: "nearest" }), []);
  return html`<div class="detail" ref=${box} id=${`detail-${id}`}>${children}
    <p><a href=${to(["why", kind, id])}>Why is it as it is?</a></p></div>`;
}

/** A text under its name, as it is. @param {{name: string, text: any, level?: string}} props */
export const Block = ({ name, text, level = "h3" }) => html`<${level}>${name}</${level}>
  <pre class="json" tabindex="0" aria-label=${name}><code>${text}</code></pre>`;

/** Names with their values, one tag each. @param {{of: Object<string, any>}} props */
export const Tags = ({ of }) => Object.entries(of).filter(([, value]) => value !== null).map(([name, value]) =>
  html`<span class="tag" key=${name}>${name}=${String(value)}</span>`);

export { num, some, span };
