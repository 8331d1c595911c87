// Permissions: logins to this console, and tokens.
import { part, query, send } from "../lib/api.js";
import { ask } from "../lib/dialog.js";
import { html } from "../lib/dom.js";
import { Time } from "../lib/format.js";
import { may } from "../lib/me.js";
import { AsOf, Empty, Facts, Head, Pager, Shown, State } from "../lib/parts.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";

const LIMIT = 100;

/** @param {any} token */
function revoke(token) {
  ask({
    title: `Revoke the token of ${token.user ?? token.node ?? token.join}?`,
    what: html`<p>
      Within a second every hub refuses it; its sockets are cut off, and logins that were made with it end.</p>`,
    list: [token.id], one: "token", verb: "Revoke",
    run: (reason) => send("DELETE", `admin/tokens/${part(token.id)}`, undefined, reason),
    done: (result) => (result.last ? "Revoked. It was the last one: without secrets this hub is open again." : "Revoked."),
  });
}

/** @param {any} login */
function end(login) {
  ask({
    title: login.own ? "End your own login?" : `End the login of ${login.name}?`,
    what: html`<p>Within a second its cookie is worth nothing; its user must log in again.</p>`,
    verb: "End it",
    run: (reason) => send("DELETE", `console/logins/${part(login.id)}`, undefined, reason),
    done: () => "The login is over.",
  });
}

/** @param {any} token */
const whose = (token) => token.user ?? token.node ?? token.join ?? token.name;

/** @param {{route: import("../lib/router.js").Route, me: import("../lib/me.js").Me}} props */
export default function Access({ route, me }) {
  const offset = Number(route.query.offset ?? 0);
  const logins = useData(me.may.audit ? "console/logins" : null, [], 5);
  const tokens = useData(`admin/tokens${query({ limit: LIMIT, offset })}`, [], 10);
  const acts = may("tokens");
  const rows = [...(tokens.data?.tokens ?? []), ...(tokens.data?.inFile ?? []).map((/** @type {any} */ t) => ({ ...t, file: true }))];
  return html`<${Head} title="Access" about="A login stands for the credential that it was made with, and ends with it.">
    <${AsOf} at=${tokens.at}/></${Head}>
    <section><h2>You</h2>
      <${Facts} of=${[["Role", html`<${State} state=${me.role === "viewer" ? "unknown" : "granted"} text=${me.role}/>`],
        ["By", me.login ? me.login.name : "this hub is open: no secret is set"],
        ["Logged in", me.login && html`<${Time} at=${me.login.since}/>`],
        ["Until", me.login && html`<${Time} at=${me.login.until}/>`]]}/></section>
    ${me.may.audit && html`<section><h2>Logins</h2>
      <${Shown} from=${logins}>
        ${logins.data && html`<${Table} caption="Logins to this console" rows=${logins.data.logins} id=${(/** @type {any} */ l) => l.id}
          columns=${[
      { head: "By", grow: true,
        cell: (/** @type {any} */ l) =>
          html`${l.name}${l.own && html` <span class="tag">you</span>`}<span class="under less">${l.agent}</span>` },
      { head: "Role", cell: (/** @type {any} */ l) => l.role }, { head: "From", less: true, cell: (/** @type {any} */ l) => l.remoteIp },
      { head: "Since", less: true, cell: (/** @type {any} */ l) => html`<${Time} at=${l.since}/>` },
        { head: "Last used", cell: (/** @type {any} */ l) => html`<${Time} at=${l.seenAt}/>` },
      ...(acts ? [{ head: html`<span class="hidden">Act</span>`,
        cell: (/** @type {any} */ l) =>
          html`<button type="button" class="quiet" aria-label=${`End login ${l.id}`} onClick=${() => end(l)}>End…</button>` }]
        : []),
    ]} empty=${html`<${Empty} title="No login is open" command="hub ui">
      Makes a link that logs in once.</${Empty}>`}/>`}</${Shown}></section>`}
    <section><h2>Tokens</h2>
      <${Shown} from=${tokens}>
        ${tokens.data && html`<${Table} caption="Tokens" rows=${rows} id=${(/** @type {any} */ t) => t.id} columns=${[
      { head: "Token", cell: (/** @type {any} */ t) => html`<code class="id" title=${t.id}>${t.id}</code>` },
        { head: "Whose", grow: true,
          cell: (/** @type {any} */ t) => html`${whose(t)}${t.superuser && html` <span class="tag">superuser</span>`}` },
      { head: "Kind", cell: (/** @type {any} */ t) => (t.node ? "node" : t.join ? "join" : t.kind ?? "user") },
      { head: "Scopes", less: true, cell: (/** @type {any} */ t) => (t.scopes?.length ? t.scopes.join(", ") : "all") },
        { head: "Rooms", less: true, cell: (/** @type {any} */ t) => (t.rooms?.length ? t.rooms.join(", ") : "all") },
      { head: "Made", less: true, cell: (/** @type {any} */ t) => (t.file ? "in HUB_TOKENS_FILE" : html`<${Time} at=${t.createdAt}/>`) },
      ...(acts ? [{ head: html`<span class="hidden">Act</span>`,
        cell: (/** @type {any} */ t) => (t.file ? ""
          : html`<button type="button" class="quiet" aria-label=${`Revoke token ${t.id}`} onClick=${() => revoke(t)}>Revoke…</button>`) }]
        : []),
    ]} empty=${html`<${Empty} title="There is no token" command="hub token create --user ann">
      Users of the jobs API, and nodes, can have tokens of their own.</${Empty}>`}/>
      <${Pager} offset=${offset} limit=${LIMIT} total=${tokens.data.total}/>`}</${Shown}></section>`;
}
