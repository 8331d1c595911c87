// Slots of the user: to take one or wait for one on the page, to renew and return it, and to be told.
import { part, storeNow } from "../lib/api.js";
import { toast } from "../lib/dialog.js";
import { html, useState } from "../lib/dom.js";
import { credential, may } from "../lib/me.js";
import { TTL_S, askToTell, canTell, forget, giveBack, renew, useWishes, want } from "../lib/mine.js";
import { Command, State, num, span, useTick } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { holderOf } from "./acts.js";

/** Try it, and say why not. @param {() => any} act @param {string} [done] */
async function attempt(act, done) {
  try {
    await act();
    if (done) toast(done);
  } catch (error) {
    toast(/** @type {Error} */ (error).message);
  }
}

/** Take a slot of a pool, or wait for one. @param {{label: string, free: number}} props */
export function Take({ label, free }) {
  const mine = useWishes().some((wish) => wish.label === label && !wish.over);
  const [where, set] = useState("");
  if (!may("borrow") || mine) return null;
  return html`<input aria-label="Where" placeholder="where: vram >= 40" maxlength="1024" value=${where}
      onInput=${(/** @type {any} */ e) => set(e.target.value)}/>
    <button type="button" class="main" onClick=${() =>
      attempt(() => want(label, where.trim()))}>${free ? "Take" : "Queue for it"}</button>`;
}

/** All wishes of this browser, or those for a label. @param {{label?: string}} props */
export function Mine({ label }) {
  const found = useWishes().filter((wish) => !label || wish.label === label);
  if (!found.length || !may("borrow")) return null;
  return html`<section><h2>${label ? "Yours" : "My leases"}</h2><ul class="mine">
    ${found.map((wish) => html`<${One} key=${wish.key} wish=${wish}/>`)}</ul></section>`;
}

/** @param {{wish: import("../lib/mine.js").Wish}} props */
function One({ wish }) {
  const found = useData(wish.over || !wish.asked ? null : `queue/${part(wish.key)}`, ["ticket", "grant"], 3).data;
  const lease = !wish.over && found?.state === "granted" ? found : null;
  const name = lease ? lease.slotId : wish.label;
  if (wish.over) {
    return html`<li data-wish=${wish.label}><p><${State} state="gone" text="over"/> <b>${wish.slot ?? wish.label}</b>: ${wish.over}</p>
      <div class="acts"><button type="button" onClick=${() => forget(wish.key)}>Dismiss</button></div></li>`;
  }
  return html`<li data-wish=${wish.label}>${lease ? html`<${Held} lease=${lease}/>` : html`<${Waits} wish=${wish} place=${found}/>`}
    <div class="acts">
      ${lease && html`<button type="button" onClick=${() => attempt(() => renew(lease), `${name} is renewed.`)}>Renew</button>`}
      <button type="button" onClick=${() => attempt(() => giveBack(wish, lease), lease ? `${name} is given back.` : "Given up.")}>
        ${lease ? "Return mine" : "Give up"}</button>
      <${Tell} wish=${wish}/></div></li>`;
}

/** @param {{lease: any}} props */
function Held({ lease }) {
  useTick(1000);
  const left = (Date.parse(lease.lease.expiresAt) - storeNow()) / 1000;
  return html`<p><${State} state="lent" text="yours"/> <a href=${to(["why", "slot", lease.slotId])}><b>${lease.slotId}</b></a> of
      ${" "}<a href=${to(["pools", lease.pool])}>${lease.pool}</a>, held by
      ${" "}${lease.holder ? holderOf(lease) : credential()}; ends in <b>${span(left)}</b></p>
    <p class="faint">Renewed while a page of this hub is open in this browser. When the last is closed, the lease lapses within
      ${" "}${TTL_S / 60} minutes.</p>
    ${lease.address && html`<${Command} text=${lease.address} name="Endpoint"/>`}`;
}

/** @param {{wish: import("../lib/mine.js").Wish, place: any}} props */
const Waits = ({ wish: { label, where }, place }) => html`<p><${State} state="waiting" text="you wait"/> <a
    href=${to(["queue"], { label })}><b>${label}</b></a>${where && ` where ${where}`}
    ${" "}${place?.position ? html`position <b>${num(place.position)}</b>, ${place.estimatedWaitSeconds === null ? "wait unknown"
      : `about ${span(place.estimatedWaitSeconds)}`}` : "asking…"}</p>
  <p class="faint">The slot is yours when it is your turn. When the last page of this hub is closed, the place is kept for a minute.</p>`;

/** @param {{wish: import("../lib/mine.js").Wish}} props */
function Tell({ wish }) {
  const [refused, refuse] = useState(false);
  if (wish.tell && canTell()) return html`<span class="faint">This page notifies you.</span>`;
  if (!refused && globalThis.Notification && Notification.permission !== "denied") {
    return html`<button type="button" onClick=${async () => refuse(!(await askToTell(wish.key)))}>Tell me</button>`;
  }
  return html`<span class="faint">This browser does not notify here. A hook tells a chat or a program:</span>
    <${Command} text=${`hub hook add URL --on ticket.turn,lease.ending --label '${wish.label}'`}/>`;
}
