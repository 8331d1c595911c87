// The keys.
import { html, useEffect, useRef } from "../lib/dom.js";

/** @param {{views: Record<string, any[]>, over: () => void}} props */
export function Help({ views, over }) {
  const box = useRef(/** @type {HTMLDialogElement|null} */ (null));
  useEffect(() => box.current?.showModal(), []);
  return html`<dialog ref=${box} aria-labelledby="help" onClose=${over}><form method="dialog">
    <h2 id="help">Keys</h2>
    <dl class="keys"><div><dt><kbd>/</kbd></dt><dd>find any id, and why it is as it is</dd></div>
      <div><dt><kbd>?</kbd></dt><dd>this</dd></div>
      ${Object.values(views).map(([title, , key]) => html`<div key=${key}><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${title}</dd></div>`)}
      <div><dt><kbd>Tab</kbd>, <kbd>Enter</kbd>, <kbd>Esc</kbd></dt><dd>everything else</dd></div></dl>
    <p class="faint">The same is on the command line: <code>hub --help</code>. <a href="#/manual/console">About this console</a>.</p>
    <div class="acts"><button type="submit" class="main" autofocus>Close</button></div></form></dialog>`;
}
