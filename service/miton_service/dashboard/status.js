// The status page: asks the service every second and draws what changed. No library, no build step.
"use strict";

const INTERVAL_MS = 1000;
const opened = new Set(); // ids of requests whose context is shown
let token = sessionStorage.getItem("miton-token") ?? "";
if (location.hash.startsWith("#token=")) {
  token = decodeURIComponent(location.hash.slice(7));
  sessionStorage.setItem("miton-token", token);
  history.replaceState(null, "", location.pathname);
}

const byId = (id) => document.getElementById(id);
const count = (value) => Math.round(value).toLocaleString("en-US");
const milliseconds = (value) => (value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`);

/** Text goes in as text nodes only: a file's name can never become markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return [bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1), units[unit]];
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

async function ask(path) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store" });
  if (answer.status === 401) throw new Error("token");
  return answer.json();
}

function figure(label, value, unit = "", note = "") {
  return element("div", { class: "figure" },
    element("div", { class: "label" }, label),
    element("div", { class: "value" }, String(value), unit ? element("small", {}, ` ${unit}`) : null),
    element("div", { class: "note" }, note));
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

function drawFigures(status, workspaces, requests) {
  const engine = status.engine ?? {};
  const store = engine.store ?? {};
  const finished = requests.filter((request) => request.timings.ttft_ms > 0);
  const first = median(finished.map((request) => request.timings.recall_ms + request.timings.ttft_ms));
  const fresh = finished.reduce((sum, request) => sum + request.timings.prefill_tokens, 0);
  const cached = finished.reduce((sum, request) => sum + request.timings.cached_tokens, 0);
  const held = workspaces.reduce((sum, workspace) => sum + workspace.indexed_tokens, 0);
  const chunks = workspaces.reduce((sum, workspace) => sum + workspace.chunks, 0);
  const [memory, memoryUnit] = size((store.memory?.bytes ?? 0) + (engine.contexts?.bytes ?? 0));
  const [disk, diskUnit] = size(store.disk?.bytes ?? 0);
  byId("figures").replaceChildren(
    figure("Repository in memory", count(held), "tokens", `${count(chunks)} chunks`),
    figure("First token, median", first === null ? "–" : Math.round(first), "ms", `of the last ${finished.length} requests`),
    figure("Read from memory", fresh + cached ? `${Math.round((100 * cached) / (fresh + cached))}` : "–", "%", `${count(fresh)} tokens were computed`),
    figure("KV held", memory, memoryUnit, `${disk} ${diskUnit} on disk`),
    figure("Running now", status.running, "", queueNote(engine.queue)),
  );
}

function queueNote(queue) {
  const waiting = Object.entries(queue ?? {}).filter(([, length]) => length > 0);
  return waiting.length ? waiting.map(([name, length]) => `${length} ${name}`).join(", ") : "nothing waits";
}

function drawWorkspaces(workspaces) {
  if (!workspaces.length) {
    byId("workspaces").replaceChildren(element("p", { class: "empty" }, "None is open. ", element("code", {}, "miton index DIR"), " opens one."));
    return;
  }
  const open = new Set([...document.querySelectorAll("details[open]")].map((item) => item.dataset.root));
  byId("workspaces").replaceChildren(...workspaces.map((workspace) => {
    const tone = { ready: "good", indexing: "warn", error: "bad" }[workspace.state] ?? "quiet";
    const bar = element("progress", { max: Math.max(1, workspace.tokens), value: workspace.indexed_tokens, "aria-label": `indexed tokens of ${workspace.root}` });
    bar.className = workspace.state === "ready" ? "done" : "";
    const left = workspace.state === "indexing" && workspace.seconds_left != null ? `, ${duration(workspace.seconds_left)} left` : "";
    const facts = `${count(workspace.files)} files, ${count(workspace.chunks)} chunks, ${count(workspace.indexed_tokens)} of ${count(workspace.tokens)} tokens${left}`;
    return element("div", { class: "workspace" },
      element("div", { class: "row" },
        element("span", { class: "path" }, workspace.root),
        element("span", { class: `pill ${tone}` }, workspace.state),
        element("span", { class: "quiet push" }, facts)),
      bar,
      workspace.skipped.length ? skipped(workspace, open) : null);
  }));
}

function skipped(workspace, open) {
  const shown = workspace.skipped.slice(0, 100).map((item) => element("li", {}, element("span", { class: "path" }, item.path), ` ${item.reason}`));
  const details = element("details", { "data-root": workspace.root },
    element("summary", {}, `${count(workspace.skipped.length)} files left out`), element("ul", {}, ...shown));
  details.open = open.has(workspace.root);
  return details;
}

const PARTS = ["recall", "queue", "attach", "prefill", "decode"];

function bar(timings, longest) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "bar");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  const words = [];
  let x = 0;
  for (const part of PARTS) {
    const value = timings[`${part}_ms`];
    words.push(`${part} ${milliseconds(value)}`);
    const width = (100 * value) / longest;
    const rectangle = document.createElementNS(svg.namespaceURI, "rect");
    for (const [name, number] of Object.entries({ x, y: 0, width, height: 10 })) rectangle.setAttribute(name, String(number));
    rectangle.setAttribute("class", part);
    svg.append(rectangle);
    x += width;
  }
  const title = document.createElementNS(svg.namespaceURI, "title");
  title.textContent = words.join(", ");
  svg.append(title);
  return svg;
}

function drawRequests(requests) {
  if (!requests.length) {
    byId("requests").replaceChildren(element("tr", {}, element("td", { colspan: "9", class: "quiet" }, "None yet.")));
    return;
  }
  const total = (timings) => PARTS.reduce((sum, part) => sum + timings[`${part}_ms`], 0);
  const longest = Math.max(1, ...requests.map((request) => total(request.timings)));
  const focused = document.activeElement?.dataset?.id;
  const rows = [];
  for (const request of requests) {
    const { timings } = request;
    const tone = { stop: "good", length: "good", running: "warn", error: "bad" }[request.outcome] ?? "quiet";
    const row = element("tr", { class: "request", tabindex: "0", "data-id": request.id, "aria-expanded": String(opened.has(request.id)), title: request.error },
      element("td", {}, new Date(request.time * 1000).toLocaleTimeString("en-GB")),
      element("td", {}, request.kind),
      element("td", { class: "file path", title: request.path }, request.path || (request.workspace ? request.workspace.split("/").pop() : "–")),
      element("td", { class: tone }, request.outcome),
      element("td", { class: "number" }, timings.ttft_ms ? milliseconds(timings.recall_ms + timings.ttft_ms) : "–"),
      element("td", {}, bar(timings, longest)),
      element("td", { class: "number" }, count(timings.prefill_tokens)),
      element("td", { class: "number" }, count(timings.cached_tokens)),
      element("td", { class: "number" }, count(timings.decode_tokens)));
    rows.push(row);
    if (opened.has(request.id)) rows.push(detail(request));
  }
  byId("requests").replaceChildren(...rows);
  if (focused) byId("requests").querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
}

function detail(request) {
  const rows = request.context.map((item) => element("tr", {},
    element("td", { class: "path" }, `${item.path}:${item.start_line + 1}`),
    element("td", { class: "path" }, item.symbol || "–"),
    element("td", { class: "number" }, count(item.tokens)),
    element("td", { class: "number" }, item.score.toFixed(3)),
    element("td", {}, ...item.reasons.map((reason) => element("span", { class: "tag" }, reason)))));
  const head = element("tr", {}, ...["chunk", "symbol", "tokens", "score", "why"].map((name, index) => element("th", { class: index === 2 || index === 3 ? "number" : "" }, name)));
  const inside = request.error ? element("p", { class: "bad" }, request.error)
    : rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))
      : element("p", { class: "empty" }, "Nothing was attached to this request.");
  return element("tr", { class: "detail" }, element("td", { colspan: "9" }, inside));
}

function toggle(target) {
  const row = target.closest("tr.request");
  if (!row) return;
  const { id } = row.dataset;
  if (!opened.delete(id)) opened.add(id);
  refresh();
}

function drawState(state, tone) {
  byId("state").textContent = state;
  byId("state").className = `pill ${tone}`;
}

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

async function refresh() {
  try {
    const health = await ask("/health");
    byId("version").textContent = `Miton ${health.version}`;
    if (health.status !== "ok") {
      const loading = health.loading;
      const share = loading?.total ? `, ${Math.round((100 * loading.done) / loading.total)}%` : "";
      drawState(health.status, health.status === "loading" ? "warn" : "bad");
      notice(loading ? `${loading.stage}${share}` : health.message ?? "");
      return;
    }
    const [status, workspaces, requests] = await Promise.all([ask("/v1/status"), ask("/v1/workspaces"), ask("/v1/requests?limit=30")]);
    byId("token-form").hidden = true;
    notice("");
    drawState("ready", "good");
    byId("model").textContent = status.engine.model;
    byId("uptime").textContent = `up ${duration(status.uptime_s)}`;
    drawFigures(status, workspaces.data, requests.data);
    drawWorkspaces(workspaces.data);
    drawRequests(requests.data);
  } catch (error) {
    if (error.message === "token") {
      drawState("token needed", "warn");
      byId("token-form").hidden = false;
      return;
    }
    drawState("offline", "bad");
    notice("The service does not answer. Start it with: miton serve");
  }
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("miton-token", token);
  refresh();
});
byId("requests").addEventListener("click", (event) => toggle(event.target));
byId("requests").addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    toggle(event.target);
  }
});

(async function loop() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
})();
