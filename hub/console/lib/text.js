// The manual's Markdown, as elements: nothing of it is ever parsed as HTML.
import { html } from "./dom.js";

const INLINE = /(`[^`]+`)|!\[([^\]]*)\]\(([^)\s]+)\)|\[([^\]]+)\]\(([^)\s]+)\)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*/g;

/** @param {string} text */
const anchor = (text) => text.toLowerCase().replace(/[`*]/g, "").replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");

/** @param {string} href */
function link(href) {
  if (/^https?:/.test(href)) return { href, rel: "noreferrer", target: "_blank" };
  const [page, at = ""] = href.split("#");
  const name = page?.split("/").pop()?.replace(/\.md$/, "") ?? "";
  if (page && !page.endsWith(".md")) return null;
  return { href: `#/manual/${name || location.hash.split("/")[2]?.split("?")[0] || ""}${at ? `?at=${at}` : ""}` };
}

/** Text with code, links and emphasis in it. @param {string} text @returns {any[]} */
function inline(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const [, code, alt, picture, said, href, strong, soft] = match;
    if (code) found.push(html`<code>${code.slice(1, -1)}</code>`);
    else if (picture) found.push(html`<img src=${`console/manual/${picture.split("/").pop()}`} alt=${alt} loading="lazy"/>`);
    else if (href) {
      const where = link(href);
      found.push(where ? html`<a ...${where}>${inline(said ?? "")}</a>` : html`<span>${said}</span>`);
    } else found.push(strong ? html`<strong>${inline(strong)}</strong>` : html`<em>${soft}</em>`);
  }
  return [...found, text.slice(from)];
}

/** @param {string} line */
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|(?=(?:[^`]*`[^`]*`)*[^`]*$)/)
  .map((cell) => cell.trim().replace(/\\\|/g, "|"));

/** A page of Markdown. @param {{text: string}} props */
export function Markdown({ text }) {
  const lines = text.replace(/<!--[\s\S]*?-->\n?/g, "").split("\n");
  const found = [];
  let at = 0;
  const take = (/** @type {(line: string) => boolean} */ which) => {
    const taken = [];
    while (at < lines.length && which(lines[at] ?? "")) taken.push(lines[at++] ?? "");
    return taken;
  };
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const heading = /^(#{1,5}) (.+)$/.exec(line);
    if (!line.trim()) at += 1;
    else if (heading) {
      at += 1;
      const level = Math.min(6, heading[1].length);
      found.push(html`<${`h${level}`} id=${anchor(heading[2])} tabindex="-1">${inline(heading[2])}</${`h${level}`}>`);
    } else if (line.startsWith("```")) {
      at += 1;
      const code = take((each) => !each.startsWith("```"));
      at += 1;
      found.push(html`<pre tabindex="0"><code>${code.join("\n")}</code></pre>`);
    } else if (line.startsWith("    ")) {
      found.push(html`<pre tabindex="0">
        <code>${take((each) => each.startsWith("    ") || (!each.trim() && (lines[at + 1] ?? "").startsWith("    ")))
          .map((each) => each.slice(4)).join("\n")}</code></pre>`);
    } else if (line.trim().startsWith("|")) {
      const [head, , ...rows] = take((each) => each.trim().startsWith("|"));
      found.push(html`<div class="rows" tabindex="0" role="region" aria-label="Table">
        <table><thead><tr>${cells(head ?? "").map((cell) => html`<th scope="col">${inline(cell)}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`);
    } else if (/^(- |\d+\. )/.test(line)) {
      const ordered = /^\d/.test(line);
      const items = take((each) => /^(- |\d+\. |  +\S)/.test(each)).reduce((/** @type {string[]} */ all, each) => {
        if (/^(- |\d+\. )/.test(each)) all.push(each.replace(/^(- |\d+\. )/, ""));
        else all[all.length - 1] += ` ${each.trim()}`;
        return all;
      }, []);
      found.push(html`<${ordered ? "ol" : "ul"}>${items.map((item) => html`<li>${inline(item)}</li>`)}</${ordered ? "ol" : "ul"}>`);
    } else {
      at += 1;
      found.push(html`<p>${inline([line, ...take((each) => each.trim() !== "" && !/^(#|```|\||- |\d+\. )/.test(each))].join(" "))}</p>`);
    }
  }
  return html`<article class="manual">${found}</article>`;
}
