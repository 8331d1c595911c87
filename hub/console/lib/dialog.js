// The dialog before a destructive act: its effect, its objects and the reason; above ten objects their number is typed.
import { html, useEffect, useRef, useState } from "./dom.js";
import { num, some } from "./format.js";
import { refresh } from "./store.js";

const MANY = 10;
const TOGETHER = 5; // calls at a time

/**
 * @typedef {{title: string, what?: any, list?: string[], one?: string, verb: string, danger?: boolean, count?: number, open?: boolean,
 *   load?: () => Promise<{what?: any, list?: string[], count?: number, context?: any}>,
 *   fields?: (set: (values: any) => void, values: any) => any,
 *   run: (reason: string, context: any, values: any) => Promise<any>, done?: (result: any) => string, after?: () => void}} Plan
 *   `list` is frozen when the dialog opens: later objects are not touched, unless the plan is `open`. `count`: how many things it is
 *   about, where the list does not hold all of them. `after`: once it is done.
 */
/** @type {((plan: Plan) => void)} */
let show = () => {};

/** @type {((text: string) => void)} */
let say = () => {};

/** Tell the outcome of an act. @param {string} text */
export const toast = (text) => say(text);

/** Ask before it is done. @param {Plan} plan */
export const ask = (plan) => show(plan);

/** Where dialogs appear; once per page. */
export function Dialogs() {
  const [plan, set] = useState(/** @type {Plan|null} */ (null));
  const [said, setSaid] = useState("");
  say = setSaid;
  show = (next) => {
    say("");
    set(next);
  };
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(""), 8000);
    return () => clearTimeout(timer);
  }, [said]);
  return html`<div class="toast" role="status" aria-live="polite">${said}</div>
    ${plan && html`<${Asking} plan=${plan} over=${(/** @type {string} */ text) => {
    set(null);
    say(text ?? "");
    if (text) refresh();
  }}/>`}`;
}

/** @param {{plan: Plan, over: (said: string) => void}} props */
function Asking({ plan, over }) {
  const box = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const [state, set] = useState({
    loaded: !plan.load, what: plan.what, list: plan.list ?? null, count: plan.count, context: /** @type {any} */ (null), wrong: "",
    busy: false,
  });
  const [reason, setReason] = useState("");
  const [count, setCount] = useState("");
  const [values, setValues] = useState({});
  useEffect(() => {
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    box.current?.showModal();
    plan.load?.().then(
      (found) => set((was) => ({ ...was, loaded: true, what: found.what ?? was.what, list: found.list ?? was.list,
        count: found.count ?? was.count, context: found.context ?? null })),
      (error) => set((was) => ({ ...was, wrong: error.message })),
    );
    return () => before?.focus?.();
  }, []);
  const things = state.count ?? state.list?.length ?? 1;
  const many = things > MANY;
  const right = !many || count.trim() === String(things);
  const ready = state.loaded && !state.busy && right && reason.trim() !== "" && state.list?.length !== 0;
  const act = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!ready) return;
    set((was) => ({ ...was, busy: true, wrong: "" }));
    try {
      const result = await plan.run(reason.trim(), state.context ?? state.list, values);
      over(plan.done ? plan.done(result) : "Done.");
      plan.after?.();
    } catch (error) {
      set((was) => ({ ...was, busy: false, wrong: /** @type {Error} */ (error).message }));
      refresh();
    }
  };
  return html`<dialog ref=${box} aria-labelledby="asking" onClose=${() => over("")}><form method="dialog" onSubmit=${act}>
    <h2 id="asking">${plan.title}</h2>
    <div class="what">${state.loaded ? state.what : state.wrong ? "" : "Checking the effect…"}</div>
    ${state.list && html`<ul class="frozen" tabindex="0" aria-label=${`Affected: ${some(state.list.length, plan.one ?? "thing")}`}>
      ${state.list.map((each) => html`<li key=${each}><code>${each}</code></li>`)}</ul>
      <p class="faint">${state.list.length < things ? `The first ${num(state.list.length)} of ` : ""}
        ${some(things, plan.one ?? "thing")}, as of now: ${plan.open ? "those that come until you go on are included"
          : "later ones are not touched"}.</p>`}
    ${plan.fields?.(setValues, values)}
    <label class="field"><span>Reason, for the audit log</span>
      <input type="text" required maxlength="300" value=${reason} onInput=${(/** @type {any} */ e) => setReason(e.target.value)}
        autofocus/></label>
    ${many && html`<label class="field"><span>Type <b>${things}</b> to go on</span>
      <input type="text" inputmode="numeric" autocomplete="off" value=${count} onInput=${(/** @type {any} */ e) =>
        setCount(e.target.value)}/></label>`}
    ${state.wrong && html`<p class="wrong" role="alert">${state.wrong}</p>`}
    <div class="acts"><button type="button" class="quiet" onClick=${() => over("")}>Leave it</button>
      <button type="submit" class=${plan.danger === false ? "main" : "danger"} disabled=${!ready}>
        ${state.busy ? "Working…" : plan.verb}</button></div>
  </form></dialog>`;
}

/** Do the same to each, some at a time. @param {string[]} list @param {(each: string) => Promise<any>} act */
export async function each(list, act) {
  /** @type {string[]} */
  const wrong = [];
  let done = 0;
  for (let at = 0; at < list.length; at += TOGETHER) {
    const found = await Promise.allSettled(list.slice(at, at + TOGETHER).map(act));
    found.forEach((result) => (result.status === "fulfilled" ? (done += 1) : wrong.push(result.reason.message)));
  }
  if (!done && wrong.length) throw new Error(wrong[0]);
  return { done, wrong };
}

/**
 * Return a sentence that tells the outcome of `each`.
 * @param {{done: number, wrong: string[]}} result @param {string} one @param {string} what
 */
export function told(result, one, what) {
  const more = result.wrong.length ? ` ${result.wrong.length} refused: ${result.wrong[0]}` : "";
  return `${some(result.done, one)} ${what}.${more}`;
}
