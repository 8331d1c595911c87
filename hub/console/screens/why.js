// Why a thing is as it is: any id from one box.
import { part, query } from "../lib/api.js";
import { html } from "../lib/dom.js";
import { may } from "../lib/me.js";
import { AsOf, Empty, Head, Shown, State } from "../lib/parts.js";
import { to } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { endLease } from "./leases.js";
import { hold } from "./acts.js";
import { Explained } from "./told.js";

const EVENTS = ["node", "slot", "grant", "ticket", "task", "worker", "job", "pool"];

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Why({ route }) {
  const [, kind, id] = route.path;
  if (kind && id) return html`<${One} kind=${kind} id=${id}/>`;
  const asked = route.query.id ?? "";
  return asked ? html`<${Find} key=${asked} id=${asked}/>`
    : html`<${Head} title="Why" about="Why a thing waits, is gone or is lent: the rule, and the next step."/>
    <${Empty} title="Which one?" command="hub why ID">
      Type the id of a node, slot, ticket, run, task, worker, job or schedule (<code>room:name</code>) into the box at the top; the
        key <kbd>/</kbd> leads there.</${Empty}>`;
}

/** @param {{id: string}} props */
function Find({ id }) {
  const found = useData(`console/find${query({ id })}`, EVENTS, 10);
  const { kinds = [], pool = null } = found.data ?? {};
  if (kinds.length === 1 && !pool) return html`<${One} kind=${kinds[0].kind} id=${kinds[0].id}/>`;
  return html`<${Head} title=${`Why ${id}`}><${AsOf} at=${found.at}/></${Head}><${Shown} from=${found}>
    ${!kinds.length && !pool
      ? html`<${Empty} title=${`Nothing is known of ${id}`} command="hub events">
        It never was, or is longer ago than the history goes back. Is it spelled right? Ids are taken as they are.</${Empty}>`
      : html`<p>Several things are called so:</p>
      <ul class="several">${pool && html`<li><a href=${to(["pools", pool])}>the pool ${pool}</a></li>`}
        ${kinds.map((/** @type {any} */ each) =>
          html`<li key=${each.kind}>
            <a href=${to(["why", each.kind, each.id])}>the ${each.kind} ${each.id}</a> <${State}
              state=${each.state}/></li>`)}</ul>`}</${Shown}>`;
}

/** @param {{kind: string, id: string}} props */
function One({ kind, id }) {
  const found = useData(`why/${kind}/${part(id)}?limit=100`, EVENTS, 3);
  const lent = kind === "slot" && found.data?.state === "lent";
  return html`<${Head} title=${`${kind} ${id}`} crumbs=${html`<a href="#/why">Why</a>`}><${AsOf} at=${found.at}/>
      ${kind === "node" && html`<a class="button" href=${to(["nodes", id])}>The node</a>`}
        ${kind === "job" && html`<a class="button" href=${to(["jobs", id])}>The job</a>`}
        ${kind === "task" && html`<a class="button" href=${to(["tasks"], { q: id })}>The task</a>`}
        ${kind === "schedule" && html`<a class="button" href=${to(["schedules"], { q: id, open: id })}>The schedule</a>`}
      ${kind === "slot" && found.data && may("operate") && html`<button type="button" onClick=${() => hold([id], true)}>Hold…</button>
        ${found.data.facts.heldBy === "operator" && html`<button type="button" onClick=${() => hold([id], false)}>Release…</button>`}`}
      ${lent && may("lease") && html`<button type="button" class="danger" onClick=${() => endLease(id)}>End the lease…</button>`}</${Head}>
    <${Shown} from=${found}>${found.data && html`<${Explained} of=${found.data}/>`}</${Shown}>`;
}
