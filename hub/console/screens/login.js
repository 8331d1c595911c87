// Showing a credential once; from then on a cookie that no script can read stands for it.
import { send } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/dom.js";
import { again } from "../lib/live.js";
import { askMe } from "../lib/me.js";
import { go } from "../lib/router.js";
import { forget } from "../lib/store.js";

/** @param {{me: any, link: string, over: boolean}} props */
export function Login({ me, link, over }) {
  const [state, set] = useState({ wrong: "", busy: Boolean(link) });
  const enter = async (/** @type {any} */ body) => {
    set({ wrong: "", busy: true });
    try {
      await send("POST", "console/session", body);
      again();
      await askMe();
      forget();
      go("#/overview");
    } catch (error) {
      const { status, message } = /** @type {any} */ (error);
      set({ wrong: status === 401 ? "No secret or token of this hub is called that." : message, busy: false });
    }
  };
  useEffect(() => {
    document.title = "Log in · capacity-hub";
    if (link) {
      history.replaceState(null, "", "#/login"); // it is valid once, and need not stay readable
      enter({ link });
    }
  }, []);
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const { secret, look } = event.target.elements;
    enter({ secret: secret.value, role: look.checked ? "viewer" : "admin" });
  };
  return html`<main class="login"><form onSubmit=${submit}>
    <img src="console/icon.svg" alt="" width="40" height="40"/><h1>capacity-hub</h1>
    ${over && html`<p class="note" role="status">
      Your login is over: its time was up, it was ended, or its credential is not valid any more.</p>`}
    <p>Show a secret of this hub (<code>HUB_ADMIN_SECRET</code>, <code>HUB_RUNNER_SECRET</code>) or the token of a user. You have
      its permissions here.</p>
    <label class="field"><span>Secret or token</span>
      <input name="secret" type="password" autocomplete="current-password" required autofocus/></label>
    <label class="check"><input name="look" type="checkbox"/> Only look, change nothing</label>
    ${state.wrong && html`<p class="wrong" role="alert">${state.wrong}</p>`}
    <button type="submit" class="main" disabled=${state.busy}>${state.busy ? "Logging in…" : "Log in"}</button>
    ${me?.oidc && html`<p><a href="console/oidc/login">Log in with your organisation's account</a></p>`}
    <p class="faint">Or have a link made that logs in once: <code>hub ui</code>.</p>
    ${me?.open && html`<p class="faint">This hub is open: <a href="#/overview">go on without</a>.</p>`}
  </form></main>`;
}
