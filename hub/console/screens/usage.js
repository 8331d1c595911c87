// Who used what: leases, time held, waited and idle, and refusals, by user, team, label, slot or node.
import { query } from "../lib/api.js";
import { Chart } from "../lib/chart.js";
import { html, useMemo } from "../lib/dom.js";
import { AsOf, Empty, Figure, Head, Pager, Shown, num, span } from "../lib/parts.js";
import { refine } from "../lib/router.js";
import { useData } from "../lib/store.js";
import { Table } from "../lib/table.js";

const LIMIT = 50;
const KINDS = ["user", "team", "label", "slot", "node"];
const TIMES = { "0d": "today", "6d": "7 days", "29d": "30 days", "89d": "90 days", "399d": "400 days" };
const DAY_S = 86400;
/** @param {number} value */
const hours = (value) => `${num(Math.round(value * 10) / 10)} h`;

/** The figures of every day of the time as columns; a day without any has zeros. @param {any} found */
function columnsOf(found) {
  /** @type {Map<string, any>} */
  const days = new Map(found.days.map((/** @type {any} */ day) => [day.day, day]));
  const [first, last] = [found.since, found.until].map((day) => Date.parse(day) / 1000);
  const at = Array.from({ length: (last - first) / DAY_S + 1 }, (_, n) => first + n * DAY_S);
  const of = (/** @type {string} */ name, by = 1) =>
    at.map((s) => (days.get(new Date(s * 1000).toISOString().slice(0, 10))?.[name] ?? 0) / by);
  return { at, held: of("heldSeconds", 3600), waited: of("waitedSeconds", 3600), leases: of("leases"), refusals: of("refusals") };
}

/** A choice of this screen. @param {{name: string, label: string, value: string, of: [string, string][]}} props */
const Choice = ({ name, label, value, of }) => html`<label>${label} <select name=${name} value=${value}
  onChange=${(/** @type {any} */ event) => refine({ [name]: event.target.value, offset: "" })}>${of.map(([each, said]) =>
    html`<option key=${each} value=${each} selected=${each === value}>${said}</option>`)}</select></label>`;

/** @param {{route: import("../lib/router.js").Route}} props */
export default function Usage({ route }) {
  const { by = "user", since = "29d" } = route.query;
  const offset = Number(route.query.offset ?? 0);
  const found = useData(`usage${query({ by, since, limit: LIMIT, offset })}`, [], 30);
  const data = found.data;
  const columns = useMemo(() => data && columnsOf(data), [data]);
  const over = data && `${data.since} to ${data.until}`;
  return html`<${Head} title="Usage" about="Who used what, by UTC day. Leases that are not over count up to now.">
    <${AsOf} at=${found.at}/></${Head}>
    <div class="filters"><${Choice} name="by" label="By" value=${by} of=${KINDS.map((kind) => [kind, kind])}/>
      <${Choice} name="since" label="Time" value=${since} of=${Object.entries(TIMES)}/></div>
    <${Shown} from=${found}>${data && html`
      <section class="figures" aria-label="Figures">
        <${Figure} name="Held" value=${span(data.sum.heldSeconds)} more=${`${span(data.sum.idleSeconds)} of it idle`}/>
        <${Figure} name="Leases" value=${num(data.sum.leases)} more=${`waited ${span(data.sum.waitedSeconds)} in all`}/>
        <${Figure} name="Refused" value=${num(data.sum.refusals)} more="borrows without a slot"/></section>
      <section class="charts" aria-label="By day">
        <${Chart} key=${`held${over}`} title="Hours by day" over=${over} days at=${columns.at} unit=${hours} lines=${[
          { name: "held", tone: "busy", values: columns.held, fill: true }, { name: "waited", tone: "wait", values: columns.waited }]}/>
        <${Chart} key=${`count${over}`} title="Borrows by day" over=${over} days at=${columns.at} unit=${num} lines=${[
          { name: "leases", tone: "good", values: columns.leases, fill: true },
          { name: "refused", tone: "bad", values: columns.refusals, dash: [4, 3] }]}/></section>
      <${Table} caption="Usage" rows=${data.usage} id=${(/** @type {any} */ row) => row.name} columns=${[
        { head: by[0].toUpperCase() + by.slice(1), grow: true, cell: (/** @type {any} */ row) => row.name || "(none)" },
        { head: "Held", num: true, time: true, cell: (/** @type {any} */ row) => span(row.heldSeconds) },
        { head: "Leases", num: true, cell: (/** @type {any} */ row) => num(row.leases) },
        { head: "Waited", num: true, time: true, less: true, cell: (/** @type {any} */ row) => span(row.waitedSeconds) },
        { head: "Idle", num: true, time: true, less: true, cell: (/** @type {any} */ row) => span(row.idleSeconds) },
        { head: "Refused", num: true, less: true, cell: (/** @type {any} */ row) => num(row.refusals) },
      ]} empty=${html`<${Empty} title="Nothing was used in this time" command="">Leases appear here a second after they end.</${Empty}>`}/>
      <${Pager} offset=${offset} limit=${LIMIT} total=${data.total}/>`}</${Shown}>`;
}
