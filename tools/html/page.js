"use strict";
// Puts the page together from the document in #data.

const kMostOpen = 3, kMostListed = 100, kMostOnPaper = 500;
const byId = (id) => document.getElementById(id);

// A symbol with each state: form and colour.
const kStates = {
  intact: ["var(--bar)", "M7,1 A6,6 0 1 0 7,13 A6,6 0 1 0 7,1Z"],
  damaged: ["var(--hash)", "M7,1 L13,13 L1,13Z"],
  unrepairable: ["var(--beyond)", "M2,2 L12,12 M12,2 L2,12"],
  stale: ["var(--quiet)", "M1,4 H13 V10 H1Z"],
  "at-risk": ["var(--missing)", "M7,1 L13,7 L7,13 L1,7Z"],
  unprotected: ["none", "M2,2 H12 V12 H2Z"],
  vanished: ["none", "M7,1 A6,6 0 1 0 7,13 A6,6 0 1 0 7,1Z"],
  gone: ["none", "M2,7 H12"],
};
function badge(state) {
  const [fill, path] = Object.hasOwn(kStates, state) ? kStates[state] : kStates.unprotected;
  const cross = state === "unrepairable";
  const svg = d3.create("svg").attr("viewBox", "0 0 14 14").attr("aria-hidden", "true");
  svg.append("path").attr("d", path).attr("fill", cross ? "none" : fill).attr("stroke", cross ? fill : "var(--ink)").attr("stroke-width", cross ? 3.5 : 1.2);
  return element("span", { class: "badge" }, svg.node(), printable(state));
}

// A time in the future is that of a clock that was set back, and says nothing.
const agoText = (time, now) => (time > now + 120 ? "in the future" : `${formatAge(Math.max(0, now - time))} ago`);
function verifiedText(dataset, now) {
  return dataset.last_verified === 0 ? "never" : agoText(dataset.last_verified, now);
}

function drawTotals(data) {
  const add = (title, value, more) => byId("totals").append(element("div", {}, element("dt", {}, title), element("dd", {}, value, more ? element("small", {}, more) : "")));
  add("Datasets", String(data.datasets), `${formatSize(data.bytes)} of data, ${formatSize(data.sidecar_bytes)} of sidecars`);
  for (const [state, count] of Object.entries(data.states)) if (count > 0) add(badge(state), String(count));
  if (data.never_verified > 0) add("Never verified as a whole", String(data.never_verified));
  if (data.oldest) {
    const never = data.oldest.last_verified === 0 || data.oldest.last_verified > data.made;
    add(never ? "Oldest: never verified, known for" : "Oldest verification", formatAge(data.oldest.age) + (never ? "" : " ago"), printable(data.oldest.path));
  }
  add("Damages", `${data.damage_open} lasting`, `${data.damage_found} found so far`);
  if (data.last_scrub) {
    const { time, length, seconds } = data.last_scrub;
    add("Last scrub", agoText(time, data.made), `${formatSize(length)} at ${formatSize(Math.floor(seconds > 0 ? asNumber(length) / seconds : 0))}/s`);
  }
  const bad = data.not_intact.length;
  byId("verdict").textContent = data.datasets === 0 ? "The catalogue knows no dataset." : bad === 0 ? `${data.datasets === 1 ? "The dataset is" : `All ${data.datasets} datasets are`} intact, as far as they were read.` : `${bad} of ${plural(data.datasets, "dataset")} ${bad === 1 ? "is" : "are"} not intact.`;
  byId("source").textContent = `From the catalogue ${printable(data.catalog)}, as of ${formatTime(data.made)}.`;
  byId("made").textContent = `Made by lzy-status ${data.version} at ${formatTime(data.made)}. No data were read for it: states are those of the last run of a tool.`;
  byId("suspect").textContent = printable(data.suspect);
  byId("suspect").hidden = data.suspect === "";
}

function drawLegend() {
  const item = (fill, text, css) => {
    const svg = d3.create("svg").attr("viewBox", "0 0 26 16").attr("aria-hidden", "true");
    svg.append("rect").attr("x", 1).attr("y", 1).attr("width", 24).attr("height", 14).attr("fill", fill).attr("class", css);
    return element("li", {}, svg.node(), text);
  };
  byId("legend").replaceChildren(element("ul", { "aria-label": "Legend of the block maps" }, ...Object.entries(kLooks).map(([look, text]) => item(`url(#p-${look})`, text, `cell cell-${look}`)),
    item(null, "no damage known", "lane"), item("url(#p-parity)", "parity, no damage known (if a column is one block row)", null)));
}

function damageTable(place, dataset) {
  const number = (title, key, width) => ({ title, number: true, width, value: (d) => asNumber(d[key]), show: (d) => String(d[key]) });
  const columns = [
    { title: "File", path: true, value: (d) => d.path, show: (d) => printable(d.path), short: endOf },
    { title: "Part", width: "6rem", value: (d) => d.part, show: (d) => d.part },
    number("Device", "device", "5.5rem"), number("Offset", "offset", "8.5rem"), number("Length", "length", "7rem"),
    { title: "Cause", width: "12rem", value: (d) => d.cause_text, show: (d) => d.cause_text + (d.beyond_repair ? "; beyond repair" : "") },
    { title: "Found", width: "13.5rem", value: (d) => d.time, show: (d) => formatTime(d.time) },
  ];
  if (dataset.damage.some((d) => d.objects_text !== "")) {
    columns.splice(1, 0, { title: "Objects", value: (d) => d.objects_text, show: (d) => element("span", { title: objectsIn(d) }, objectsIn(d)) });
  }
  // Mostly it is the directory of the file.
  if (dataset.damage.some((d) => !d.path.startsWith(`${d.place}/`))) {
    columns.push({ title: "At", path: true, width: "9rem", value: (d) => d.place, show: (d) => printable(d.place) });
  }
  const holder = element("div", {});
  place.append(element("h4", {}, plural(dataset.damage.length, "damage")), holder);
  return new VirtualTable(holder, columns, dataset.damage, { label: `Damage of ${printable(dataset.path)}`, sort: 0 });
}

// One dataset that is not intact. What is in it is drawn when it is opened.
function datasetEntry(dataset, index, now) {
  const entry = element("details", { class: "dataset", id: `dataset-${index}` }, element("summary", {}, element("h3", { class: "path" }, printable(dataset.path)), badge(dataset.state),
    element("span", { class: "quiet" }, `${dataset.state_text}, as of ${agoText(dataset.last_seen, now)}`)));
  entry.draw = () => {
    if (entry.drawn) return;
    entry.drawn = true;
    const inside = element("div", {});
    entry.append(inside);
    if (dataset.next.trim() !== "") inside.append(element("pre", { "aria-label": "What to type next" }, dataset.next.split("\n").map((line) => line.trim()).filter(Boolean).join("\n")));
    if (dataset.damage.length === 0) return;
    if (dataset.map) drawGroups(inside, dataset);
    else drawFiles(inside, dataset);
    damageTable(inside, dataset);
  };
  entry.addEventListener("toggle", () => { if (entry.open) entry.draw(); });
  return entry;
}

function drawDamaged(data) {
  byId("damaged").hidden = data.not_intact.length === 0;
  if (data.not_intact.length === 0) return () => {};
  byId("damaged-title").textContent = `Not intact: ${data.not_intact.length}`;
  drawLegend();
  const list = byId("damaged-list"), entries = [];
  const listUpTo = (count) => {
    while (entries.length < Math.min(count, data.not_intact.length)) {
      entries.push(datasetEntry(data.not_intact[entries.length], entries.length, data.made));
      list.insertBefore(entries.at(-1), more);
    }
    more.hidden = entries.length === data.not_intact.length;
    more.textContent = `Show ${Math.min(kMostListed, data.not_intact.length - entries.length)} more of ${data.not_intact.length}`;
  };
  const more = element("button", { type: "button", on: { click: () => listUpTo(entries.length + kMostListed) } });
  list.append(more);
  listUpTo(kMostListed);
  for (const entry of entries.slice(0, kMostOpen)) entry.open = true, entry.draw();
  // On paper, nothing can be opened.
  let closed = [];
  const rest = element("p", { hidden: true });
  list.append(rest);
  window.addEventListener("beforeprint", () => {
    listUpTo(kMostOnPaper);
    closed = entries.filter((entry) => !entry.open);
    for (const entry of closed) entry.open = true, entry.draw();
    rest.hidden = entries.length === data.not_intact.length;
    rest.textContent = `The first ${entries.length} of ${data.not_intact.length} are printed.`;
  });
  window.addEventListener("afterprint", () => {
    for (const entry of closed) entry.open = false;
    rest.hidden = true;
  });
  return (index) => {
    listUpTo(index + 1);
    entries[index].open = true;
    entries[index].draw();
    entries[index].scrollIntoView({ block: "start" });
    entries[index].querySelector("summary").focus({ preventScroll: true });
  };
}

function drawDatasets(data, datasets, goTo) {
  const place = new Map(data.not_intact.map((dataset, i) => [dataset.path, i]));
  const table = new VirtualTable(byId("datasets-table"), [
    { title: "Path", path: true, value: (d) => d.path, show: (d) => printable(d.path) },
    { title: "State", width: "9.5rem", value: (d) => d.state, show: (d) => badge(d.state) },
    { title: "Size", number: true, width: "7.5rem", value: (d) => asNumber(d.bytes), show: (d) => formatSize(d.bytes) },
    { title: "Verified", width: "9rem", value: (d) => d.last_verified, show: (d) => verifiedText(d, data.made) },
    { title: "Committed", width: "13.5rem", value: (d) => d.last_commit, show: (d) => (d.last_commit === 0 ? "" : formatTime(d.last_commit)) },
    { title: "Damages", number: true, width: "7rem", value: (d) => d.damage, show: (d) => (d.damage === 0 ? "" : String(d.damage)) },
  ], datasets, { label: "Datasets", sort: 0, link: (d) => (place.has(d.path) ? () => goTo(place.get(d.path)) : null) });
  const choice = byId("state");
  choice.append(element("option", { value: "" }, "any"), ...Object.entries(data.states).filter(([, count]) => count > 0).map(([state, count]) => element("option", { value: state }, `${state} (${count})`)));
  for (const dataset of datasets) dataset.searched = printable(dataset.path).toLowerCase();
  const search = () => {
    const words = byId("search").value.toLowerCase().split(" ").filter(Boolean), state = choice.value;
    table.filter((dataset) => (state === "" || dataset.state === state) && words.every((word) => dataset.searched.includes(word)));
    byId("count").textContent = table.rows.length === datasets.length ? plural(datasets.length, "dataset") : `${table.rows.length} of ${plural(datasets.length, "dataset")}`;
  };
  byId("search").addEventListener("input", search);
  choice.addEventListener("change", search);
  search();
}

function drawPlaces(data) {
  byId("places").hidden = data.places.length === 0;
  if (data.places.length === 0) return;
  const number = (title, key) => ({ title, number: true, width: "11rem", value: (p) => p[key], show: (p) => String(p[key]) });
  new VirtualTable(byId("places-table"), [{ title: "Failure domain or directory", path: true, value: (p) => p.place, show: (p) => printable(p.place) },
    number("Last 30 days", "lately"), number("Ever", "ever"), number("Lasting", "open")], data.places, { label: "Where damage was found", sort: 1, descending: true });
}

function drawHistory(data, events) {
  byId("history").hidden = events.length === 0;
  if (events.length === 0) return;
  byId("history-note").hidden = data.events_left_out !== true;
  byId("history-note").textContent = `The newest ${events.length} events. Older ones are only in the catalogue.`;
  new VirtualTable(byId("history-table"), [
    { title: "Time", width: "13.5rem", value: (e) => e.time, show: (e) => formatTime(e.time) },
    { title: "Tool", width: "9rem", value: (e) => e.tool, show: (e) => printable(e.tool) },
    { title: "What", value: (e) => e.text, show: (e) => element("span", { title: printable(e.text) }, printable(e.text)) },
  ], events, { label: "History", sort: 0, descending: true });
}

const data = JSON.parse(byId("data").textContent);
const datasets = objectsOf(data.table), events = objectsOf(data.history);
definePatterns();
drawTotals(data);
const goTo = drawDamaged(data);
drawTimeline(byId("timeline"), data, datasets, events);
drawDatasets(data, datasets, goTo);
drawPlaces(data);
drawHistory(data, events);
document.body.dataset.ready = "yes";
