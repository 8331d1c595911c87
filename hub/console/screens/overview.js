// How the hub is: one sentence, every trouble by name, and the last hour.
import { storeNow } from "../lib/api.js";
import { Chart } from "../lib/chart.js";
import { html, useEffect, useMemo } from "../lib/dom.js";
import { AsOf, Empty, Figure, Head, Shown, State, num, some, span } from "../lib/parts.js";
import { begin, columns, sample } from "../lib/series.js";
import { useOverview } from "../lib/store.js";

const SILENT = {
  name: "hub-silent", level: "critical", title: "The hub does not answer",
  text: "The figures below are its last ones. The hub may be stopped or overloaded, or the network is cut; the page goes on asking.",
    view: "",
};
const AWAY = {
  name: "store-away", level: "critical", title: "The store is away",
  text: "Redis does not answer this hub. Nothing expires meanwhile: the hub clock stands still, and each lease keeps the time that it "
    + "had left. The figures below are the last ones that the hub has read.",
  view: "",
};

/** @param {{troubles: any[]}} props */
function Troubles({ troubles }) {
  return html`<ul class="troubles" aria-label="Troubles" aria-live="polite">${troubles.map(
    (each) => html`<li key=${each.name} data-trouble=${each.name} class=${each.level}>
      <h2><span class="shape" aria-hidden="true">${each.level === "critical" ? "■" : "▲"}</span> ${each.title}</h2>
      <p>${each.text}</p>${each.view && html`<a href=${`#/${each.view}`}>Look at it</a>`}</li>`,
  )}</ul>`;
}

export default function Overview() {
  const seen = useOverview();
  useEffect(() => void begin(), []);
  const now = seen.at;
  const charts = useMemo(() => {
    if (seen.data) sample(seen.data);
    return columns(storeNow());
  }, [now]);
  const { data, error } = seen;
  const troubles = [...(error?.silent ? [SILENT] : error?.storeAway ? [AWAY] : []), ...(data?.troubles ?? [])];
  return html`<${Head} title="Overview"><${AsOf} at=${seen.at}/></${Head}>
    ${!data && troubles.length > 0 && html`<${Troubles} troubles=${troubles}/>`}
    <${Shown} from=${data === undefined && troubles.length ? { data: null, error: null }
      : { ...seen, error: error?.silent || error?.storeAway ? null : error }}>${data && html`
      <p class=${`health ${troubles.some((t) => t.level === "critical") ? "bad" : troubles.length ? "wait" : "good"}`} id="health">
        <span class="shape" aria-hidden="true">
          ${troubles.length ? (troubles.some((t) => t.level === "critical") ? "■" : "▲") : "●"}</span> ${error?.silent
          ? `${SILENT.title}. Before that: ` : error?.storeAway ? `${AWAY.title}. Before that: ` : ""}
        ${data.sentence}</p>
      <${Troubles} troubles=${troubles}/>
      ${data.nodes.registered === 0 && html`<${Empty} title="No node has come yet"
        command=${`hub agent --node my-machine --slots gpu:a100=4 --url ${location.origin}`}>
        Announce a machine with its slots; it appears here with its first heartbeat.</${Empty}>`}
      <section class="figures" aria-label="Figures">
        <${Figure} name="Nodes alive" value=${num(data.nodes.alive)} link="#/nodes" more=${`of ${num(data.nodes.registered)}; `
          + `${num(data.nodes.suspect)} suspect, ${num(data.nodes.silent)} silent, ${num(data.nodes.draining)} draining`}/>
        <${Figure} name="Lent" value=${num(data.slots.lent)}
          more=${`of ${num(data.slots.total)} slots in ${some(data.slots.pools, "pool")}`} link="#/leases"/>
        <${Figure} name="Free" value=${num(data.slots.free)} more=${`${num(data.slots.heldBack)} held back`} link="#/pools"/>
        <${Figure} name="Waiting" value=${num(data.queue.waiting)} more=${data.queue.oldestSeconds === null ? "queue empty"
          : `longest ${span(data.queue.oldestSeconds)}; ${num(data.queue.away)} away`} link="#/queue"/>
        <${Figure} name="Tasks pending" value=${num(data.tasks.pending)}
          more=${`${some(data.tasks.workers, "worker")}, ${num(data.tasks.dead)} dead letters`} link="#/tasks"/>
        <${Figure} name="Expiry" value=${html`<${State} state=${data.sweeper.expire ? "on" : "off"}/>`}
          more=${data.brakes.nodes.state === "engaged" ? "brake engaged" : `${some(data.hubs, "hub")} on this store`} link="#/switches"/>
      </section>
      <section class="charts" aria-label="The last hour">
        <${Chart} title="Slots" at=${charts.at} unit=${num}
          lines=${[{ name: "lent", tone: "busy", values: charts.lent, fill: true },
            { name: "free", tone: "good", values: charts.free, dash: [4, 3] }]}/>
        <${Chart} title="Waiting" at=${charts.at} unit=${num}
          lines=${[{ name: "borrowers", tone: "wait", values: charts.waiting, fill: true }]}/>
        <${Chart} title="Leases per second" at=${charts.at} unit=${(/** @type {number} */ v) => v.toFixed(v && v < 10 ? 1 : 0)}
          lines=${[{ name: "leases", tone: "busy", values: charts.grants }]}/>
        <${Chart} title="Wait for a slot" at=${charts.at} unit=${span}
          lines=${[{ name: "p50", tone: "good", values: charts.p50 }, { name: "p99", tone: "wait", values: charts.p99, dash: [4, 3] }]}/>
        <${Chart} title="Ended early" at=${charts.at} unit=${num}
          lines=${[{ name: "expiries, lapses", tone: "bad", values: charts.expiries }]}/>
      </section>
      <p class="faint">
        Slots and waiting as this hub has counted them every ten seconds since it began. Leases, waits and ends come from the latest
          events; a wait counts for as long as it has lasted, also of borrowers that wait still or gave up.</p>`}</${Shown}>`;
}
