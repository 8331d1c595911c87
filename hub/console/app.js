// The frame of all views: navigation, login, connection to the hub, and keys.
import { cls, html, render, useEffect, useRef, useState } from "./lib/dom.js";
import { Dialogs } from "./lib/dialog.js";
import { start } from "./lib/live.js";
import { askMe, leave, over, useMe } from "./lib/me.js";
import { ConnectionMonitor } from "./lib/parts.js";
import { consoleOf, go, here, to, useRoute } from "./lib/router.js";
import { refresh, useData } from "./lib/store.js";
import { AGAIN_MS, send } from "./lib/api.js";
import { Login } from "./screens/login.js";

/**
 * Name -> title, group, key after `g`, and the module of the view.
 * @type {Record<string, [string, string, string, () => Promise<{default: any}>]>}
 */
const VIEWS = {
  overview: ["Overview", "Watch", "o", () => import("./screens/overview.js")],
  pools: ["Pools", "Watch", "p", () => import("./screens/pools.js")],
  nodes: ["Nodes", "Watch", "n", () => import("./screens/nodes.js")],
  leases: ["Leases", "Watch", "l", () => import("./screens/leases.js")],
  queue: ["Queue", "Watch", "q", () => import("./screens/queue.js")],
  usage: ["Usage", "Watch", "u", () => import("./screens/usage.js")],
  teams: ["Teams", "Watch", "h", () => import("./screens/teams.js")],
  jobs: ["Jobs and workers", "Work", "j", () => import("./screens/jobs.js")],
  tasks: ["Tasks", "Work", "t", () => import("./screens/tasks.js")],
  schedules: ["Schedules", "Work", "c", () => import("./screens/schedules.js")],
  stuck: ["Stuck records", "Work", "r", () => import("./screens/stuck.js")],
  events: ["Events and audit", "Explain", "e", () => import("./screens/events.js")],
  why: ["Why", "Explain", "w", () => import("./screens/why.js")],
  switches: ["Switches and caps", "Hub", "b", () => import("./screens/switches.js")],
  settings: ["Settings", "Hub", "s", () => import("./screens/settings.js")],
  realms: ["Realms", "Hub", "d", () => import("./screens/realms.js")],
  access: ["Access", "Hub", "a", () => import("./screens/access.js")],
  manual: ["Manual", "Hub", "m", () => import("./screens/manual.js")],
};
const LOCAL = ["localhost", "127.0.0.1", "[::1]"]; // not sent over a network
/** @type {Map<string, any>} */
const loaded = new Map();
/** Path of a view -> how far it was scrolled, in this tab; kept over a reload. */
const scrolled = new Map(JSON.parse(sessionStorage.getItem("hub-scrolled") ?? "[]"));
addEventListener("pagehide", () => sessionStorage.setItem("hub-scrolled", JSON.stringify([...scrolled].slice(-20))));
history.scrollRestoration = "manual"; // the browser would scroll before there is a page

/** Scroll there, as soon as the page is long enough. @param {number} y */
function scrollWhenLong(y) {
  const room = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight - innerHeight < y) return;
    room.disconnect();
    scrollTo(0, y);
  });
  if (y) room.observe(/** @type {HTMLElement} */ (document.getElementById("app")));
  else scrollTo(0, 0);
  return () => room.disconnect();
}

/** Load the modules of all views while the hub can send them: it sends none to a login while the store is away. */
async function loadOthers() {
  for (const [name, view] of Object.entries(VIEWS)) {
    if (loaded.has(name)) continue;
    const found = await view[3]().catch(() => null);
    if (found) loaded.set(name, found.default);
  }
}

/** @param {string} name */
function useScreen(name) {
  const [, draw] = useState(0);
  useEffect(() => {
    /** @type {() => any} */
    const load = () => VIEWS[name][3]().then((found) => (loaded.set(name, found.default), draw((n) => n + 1), loadOthers()),
      () => setTimeout(load, AGAIN_MS));
    if (!loaded.has(name)) load();
  }, [name]);
  return loaded.get(name);
}

/** Keys: `/` finds, `g` and a letter goes, `?` tells. @param {(on: boolean) => void} help */
function useKeys(help) {
  useEffect(() => {
    let leading = 0;
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      const on = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || on.closest("input, textarea, select, dialog")) return;
      if (event.key === "/") {
        event.preventDefault();
        /** @type {HTMLElement} */ (document.getElementById("find")).focus();
      } else if (event.key === "?") help(true);
      else if (event.key === "g") leading = Date.now();
      else if (Date.now() - leading < 1500) {
        const view = Object.entries(VIEWS).find(([, found]) => found[2] === event.key);
        leading = 0;
        if (view) go(to([view[0]]));
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Finder() {
  const find = (/** @type {any} */ event) => {
    event.preventDefault();
    const text = event.target.elements.find.value.trim();
    if (text) go(to(["why"], { id: text }));
  };
  return html`<form class="finder" role="search" onSubmit=${find}>
    <label for="find" class="hidden">Find any id and why it is as it is</label>
    <input id="find" name="find" type="search" placeholder="Why? Any id: node, slot, ticket, run, task…" spellcheck=${false}
      autocomplete="off"/><kbd aria-hidden="true">/</kbd></form>`;
}

function Theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const [now, set] = useState(document.documentElement.dataset.theme ?? (dark ? "dark" : "light"));
  const other = now === "dark" ? "light" : "dark";
  const change = () => {
    document.documentElement.dataset.theme = other;
    localStorage.setItem("hub-theme", other);
    set(other);
  };
  return html`<button type="button" class="quiet icon" id="theme" onClick=${change} aria-label=${`Use the ${other} theme`}>
    <span aria-hidden="true">${now === "dark" ? "☀" : "☾"}</span></button>`;
}

/** @param {{views: Record<string, any[]>, over: () => void}} props */
function Help({ views, over }) {
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

/** @param {{me: any}} props */
function Who({ me }) {
  if (!me) return null;
  if (!me.login) return me.open
    ? html`<span class="who" title="A hub without a secret serves this machine alone, and every user of it may do everything.">
      open${me.mode === "readonly" ? ", read-only" : ""}</span>`
    : null;
  const out = async () => {
    await send("DELETE", "console/session");
    leave();
    location.hash = "#/login";
    await askMe();
    refresh();
  };
  return html`<span class="who" title=${me.login.name}>${me.role}</span>
    <button type="button" class="quiet" onClick=${out}>Log out</button>`;
}

/** Which of the realms that this hub serves is looked at. @param {{me: any}} props */
function Realm({ me }) {
  if (!(me?.realms.length > 1)) return null;
  const go = (/** @type {Event} */ e) => location.assign(consoleOf(/** @type {HTMLSelectElement} */ (e.currentTarget).value));
  return html`<select class="realm" aria-label="Realm" value=${me.realm} onChange=${go}>${me.realms.map(
    (/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`,
  )}</select>`;
}

/** @param {{at: string, me: any}} props */
function Nav({ at, me }) {
  const open = at === "teams"; // which asks by itself, and more often
  const shared = useData(open || !me ? null : "teams", [], 30).data?.teams.length || open;
  useEffect(() => {
    const bar = document.querySelector(".nav");
    const link = /** @type {HTMLElement|null} */ (bar?.querySelector("[aria-current]") ?? null);
    if (bar && link && bar.scrollWidth > bar.clientWidth) bar.scrollLeft = link.offsetLeft - 16;
  }, [at]);
  const groups = Object.groupBy(Object.entries(VIEWS).filter(([name]) => shared || name !== "teams"), ([, view]) => view[1]);
  return html`<nav class="nav" aria-label="Views">${Object.entries(groups).map(
    ([group, views]) => html`<div key=${group}><h2>${group}</h2><ul>${(views ?? []).map(
      ([name, view]) => html`<li key=${name}><a href=${to([name])} aria-current=${name === at ? "page" : undefined}>${view[0]}</a></li>`,
    )}</ul></div>`,
  )}<div class="docs"><a href="docs">API reference</a></div></nav>`;
}

function App() {
  const route = useRoute();
  const me = useMe();
  const [help, setHelp] = useState(false);
  useKeys(setHelp);
  const name = route.path[0] ?? "overview";
  const logging = name === "login" || (me !== null && !me.login && !me.open && !me.may.look && !me.may.tokens);
  const shown = VIEWS[name] ? name : "overview";
  const Screen = useScreen(shown);
  const where = route.path.join("/");
  useEffect(() => {
    const stop = scrollWhenLong(scrolled.get(where) ?? 0);
    const keep = () => {
      scrolled.delete(where); // so that the view used last is the last one listed
      scrolled.set(where, scrollY);
    };
    addEventListener("scrollend", keep);
    for (const own of ["wheel", "touchmove", "keydown"]) addEventListener(own, stop, { passive: true, once: true });
    return () => {
      stop();
      removeEventListener("scrollend", keep);
      for (const own of ["wheel", "touchmove", "keydown"]) removeEventListener(own, stop);
    };
  }, [where, Screen]);
  if (logging) return html`<${Login} me=${me} link=${name === "login" ? route.path[1] : ""} over=${over}/><${Dialogs}/>`;
  return html`<a class="skip" href="#title"
    onClick=${(/** @type {Event} */ e) => (e.preventDefault(), document.getElementById("title")?.focus())}>To the content</a>
    <header class="top">
      <a class="brand" href="#/overview" aria-label="capacity-hub, overview">
        <img src="console/icon.svg" alt="" width="24" height="24"/><span>capacity-hub</span></a>
      <${Finder}/><div class="right"><${Realm} me=${me}/>${me && html`<${ConnectionMonitor}/>`}<${Who} me=${me}/>
        <button type="button" class="quiet icon" onClick=${() => setHelp(true)} aria-label="Keys and help">
          <span aria-hidden="true">?</span></button>
        <${Theme}/></div></header>
    <${Nav} at=${shown} me=${me}/>
    <main class=${cls("view", shown)} id="view">
      ${me?.mode === "readonly" && html`<p class="note">
        This console is read-only (<code>HUB_CONSOLE=readonly</code>): it shows everything and changes nothing.</p>`}
      ${me && me.login && !me.secure && !LOCAL.includes(location.hostname) && html`<p class="note">
        This connection is not encrypted: an eavesdropper can take over this login. Give the hub a certificate
        (<code>HUB_TLS_CERT</code>).</p>`}
      ${Screen && me ? html`<${Screen} key=${where} route=${route} me=${me}/>` : html`<p class="asking">Asking the hub…</p>`}</main>
    <${Dialogs}/>${help && html`<${Help} views=${VIEWS} over=${() => setHelp(false)}/>`}`;
}

if (!location.hash) history.replaceState(null, "", to(["overview"]));
document.documentElement.dataset.violations = "0";
document.addEventListener("securitypolicyviolation", () => {
  document.documentElement.dataset.violations = String(Number(document.documentElement.dataset.violations) + 1);
});
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App}/>`, root);
askMe();
start();
export { here };
