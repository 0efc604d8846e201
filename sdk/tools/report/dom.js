// Elements and texts. Everything from a model goes through textContent; nothing is parsed as HTML.

function el(tag, options, ...children) {
  const svg = ["svg", "g", "rect", "path", "text", "line", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(options ?? {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (name === "style") made.style.cssText = value;
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((c) => c !== null && c !== undefined).map((c) => typeof c === "number" ? String(c) : c));
  return made;
}

function timeText(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 2) + " ms";
  return us >= 10 ? us.toFixed(1) + " µs" : us.toFixed(2) + " µs";
}
function bytesText(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= size) return (bytes / size).toFixed(bytes >= 100 * size ? 0 : 1) + " " + unit;
  }
  return bytes + " B";
}
const percent = (part) => (100 * part).toFixed(part >= 0.0995 ? 0 : 1) + " %";
const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
const nodeTitle = (node) => node.name ? node.name.split("/").pop() : node.op;
// "net.py:12"; empty where a model has no lines.
const nodeLine = (node) => node.line ? `${(node.source ?? "").split("/").pop()}:${node.line}` : "";
const dot = (device) => el("span", {class: "dot", style: `--c: ${deviceColour(device)}`});
const card = (...children) => el("section", {class: "card"}, ...children);

function table(head, rows) {
  const numeric = head.map((h) => h.startsWith(">"));
  return el("table", {},
    el("thead", {}, el("tr", {}, head.map((h, i) => el("th", {class: numeric[i] ? "n" : undefined}, h.replace(/^>/, ""))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", {class: numeric[i] ? "n" : undefined}, cell))))));
}

// Rows that are made as they are asked for: a model may have thousands.
function paged(rows, make, most = 150) {
  const box = el("div");
  let shown = 0;
  const more = el("button", {class: "more", onclick: () => grow()});
  function grow() {
    more.remove();
    for (const row of rows.slice(shown, shown + most)) box.append(make(row));
    shown = Math.min(shown + most, rows.length);
    more.textContent = `Show more (${rows.length - shown} left)`;
    if (shown < rows.length) box.append(more);
  }
  grow();
  return box;
}
