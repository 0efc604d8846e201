// The drawing of one module: its parts as boxes in layers, with the edges between them.

const BOX_WIDTH = 190, BOX_HEIGHT = 44, GAP_X = 22, GAP_Y = 34;

// The part of `module` that holds the node; null outside.
function partOf(node, module) {
  let part = node;
  for (let m = node.module; m; m = m.parent) {
    if (m === module) return part;
    part = m;
  }
  return null;
}

function edgesOf(run, module) {
  const edges = new Map(module.items.map((item) => [item, new Set()]));
  let outside = 0;
  const visit = (item) => {
    if (item.op === undefined) return item.items.forEach(visit);
    const to = partOf(item, module);
    for (const v of item.operands) {
      const value = run.values.get(v);
      if (!value?.node) continue;
      const from = partOf(value.node, module);
      if (from === null) ++outside;
      else if (from !== to) edges.get(from).add(to);
    }
  };
  module.items.forEach(visit);
  return {edges, outside};
}

// Layers by longest path in the order of the program; an edge against it, which a folded module can
// cause, is drawn but moves nothing.
function layersOf(items, edges) {
  const order = new Map(items.map((item, i) => [item, i])), layer = new Map(items.map((item) => [item, 0]));
  for (const item of items) {
    for (const to of edges.get(item)) {
      if (order.get(to) > order.get(item)) layer.set(to, Math.max(layer.get(to), layer.get(item) + 1));
    }
  }
  const layers = [];
  for (const item of items) (layers[layer.get(item)] ??= []).push(item);
  return layers;
}

// Orders each layer by the mean place of what its boxes read, which removes most crossings.
function untangle(layers, edges) {
  const place = new Map();
  layers.forEach((boxes) => boxes.forEach((box, i) => place.set(box, i)));
  for (let round = 0; round < 3; ++round) {
    for (const boxes of layers.slice(1)) {
      const mean = new Map();
      for (const box of boxes) mean.set(box, []);
      for (const [from, tos] of edges) for (const to of tos) mean.get(to)?.push(place.get(from));
      const key = (box) => mean.get(box).length ? mean.get(box).reduce((a, b) => a + b) / mean.get(box).length : place.get(box);
      boxes.sort((a, b) => key(a) - key(b));
      boxes.forEach((box, i) => place.set(box, i));
    }
  }
}

function drawModule(run, module, chosen, choose) {
  const {edges, outside} = edgesOf(run, module);
  const layers = layersOf(module.items, edges);
  untangle(layers, edges);
  const widest = Math.max(1, ...layers.map((l) => l.length));
  const width = widest * (BOX_WIDTH + GAP_X) + GAP_X, height = layers.length * (BOX_HEIGHT + GAP_Y) + GAP_Y;
  const at = new Map();
  layers.forEach((boxes, row) => boxes.forEach((box, i) => {
    const indent = (width - boxes.length * (BOX_WIDTH + GAP_X) + GAP_X) / 2;
    at.set(box, {x: indent + i * (BOX_WIDTH + GAP_X), y: GAP_Y / 2 + row * (BOX_HEIGHT + GAP_Y)});
  }));
  const svg = el("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `The parts of ${module.label}`});
  for (const [from, tos] of edges) for (const to of tos) svg.append(edge(at.get(from), at.get(to)));
  for (const [item, place] of at) svg.append(box(run, item, place, item === chosen, choose));
  return {svg, outside};
}

function edge(from, to) {
  const x1 = from.x + BOX_WIDTH / 2, y1 = from.y + BOX_HEIGHT, x2 = to.x + BOX_WIDTH / 2, y2 = to.y;
  const bend = Math.max(14, Math.abs(y2 - y1) / 2);
  return el("path", {class: "edge", d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`});
}

function box(run, item, {x, y}, on, choose) {
  const isModule = item.op === undefined;
  const us = isModule ? item.us : 0;
  const label = isModule ? item.label : item.op, sub = isModule
    ? `${item.count} nodes${us > 0 ? ", " + timeText(us) : ""}` : (run.values.get(item.results[0])?.type ?? "");
  const group = el("g", {class: `box${isModule ? " module" : ""}${on ? " on" : ""}`, transform: `translate(${x} ${y})`, tabindex: 0,
                         onclick: () => choose(item)},
    el("title", {}, isModule ? `${item.path || item.label}: click to open` : [item.op, item.name, nodeLine(item)].filter((t) => t).join("  ")),
    el("rect", {class: "frame", width: BOX_WIDTH, height: BOX_HEIGHT, rx: 7}));
  group.addEventListener("keydown", (event) => event.key === "Enter" && choose(item));
  if (!isModule && item.device) {
    const mark = el("rect", {x: 0, y: 8, width: 3, height: BOX_HEIGHT - 16, rx: 1.5});
    mark.style.cssText = `fill: ${deviceColour(item.device)}; stroke: none`;
    group.append(mark);
  }
  if (isModule && run.totalUs > 0) {
    const share = el("rect", {x: 1, y: BOX_HEIGHT - 4, width: Math.max(0, (BOX_WIDTH - 2) * us / run.totalUs), height: 3, rx: 1.5});
    share.style.cssText = "fill: var(--bound); stroke: none";
    group.append(share);
  }
  group.append(el("text", {x: 12, y: 19}, short(label, 25)), el("text", {x: 12, y: 34, class: "sub"}, short(sub, 29)));
  return group;
}

// What is known of one node.
function nodeFacts(run, node, choose) {
  const link = (other) => el("button", {class: "link", onclick: () => choose(other)}, `${other.op} ${nodeTitle(other) === other.op ? "" : nodeTitle(other)}`);
  const operand = (v) => {
    const value = run.values.get(v);
    if (!value) return el("div", {class: "faint"}, "none");
    return el("div", {}, value.node ? link(value.node) : value.constant ? "constant" : value.name || "input", " ", el("span", {class: "soft mono"}, value.type));
  };
  const users = node.results.flatMap((v) => run.users.get(v) ?? []);
  const facts = [["place", node.source ? `${node.source}${node.line ? ":" + node.line : ""}` : "unknown"]];
  if (node.name) facts.push(["name", node.name]);
  if (node.attributes) facts.push(["attributes", el("code", {}, node.attributes)]);
  if (node.body) facts.push(["inside", `${node.body} nodes in its regions`]);
  facts.push(["reads", el("div", {}, node.operands.map(operand))]);
  facts.push(["makes", el("div", {}, node.results.map((v) => el("div", {class: "mono"}, run.values.get(v)?.type ?? "")))]);
  facts.push(["read by", users.length ? el("div", {}, users.slice(0, 20).map((u) => el("div", {}, link(u)))) : el("span", {class: "soft"}, "an output")]);
  if (node.device) facts.push(["device", el("span", {}, dot(node.device), node.device)]);
  for (const refusal of node.refusals ?? []) facts.push([`not ${refusal.device}`, refusal.reason || "the cost was higher"]);
  const parts = [el("h2", {}, node.op), el("dl", {class: "facts"}, facts.flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]))];
  for (const launch of new Set(node.launches)) parts.push(launchFacts(run, launch, choose, node));
  return parts;
}

// A kernel: what was fused into it, and its code.
function launchFacts(run, launch, choose, except) {
  const others = launch.nodes.map((n) => run.nodeByNumber.get(n)).filter((n) => n && n !== except);
  const code = codeOf(run, launch);
  const title = launch.atLoad ? "runs once, at load" : launch.calls ? `kernel, ${timeText(launch.us)}` : "kernel";
  return el("div", {style: "margin-top: 12px"},
    el("h2", {}, title), el("p", {class: "note mono"}, short(launch.name, 200)),
    launch.opaque ? el("p", {class: "note"}, `${launch.by}: ${launch.opaque}`) : null,
    others.length ? el("p", {class: "note"}, except ? "Fused with " : "Made of ", others.slice(0, 60).flatMap((n, i) =>
      [i ? ", " : "", el("button", {class: "link", title: nodeLine(n), onclick: () => choose(n)}, nodeTitle(n))])) : null,
    code ? el("pre", {}, code) : null);
}
