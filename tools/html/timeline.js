"use strict";
// Three charts over one axis of time: when datasets were last verified as a whole, damage, and what scrubs read.

const kTimelineWidth = 1100, kLeft = 64, kRight = 16;

function bucketsOf(from, to) {
  const days = (to - from) / 86400;
  const step = days <= 3 ? d3.utcHour : days <= 120 ? d3.utcDay : days <= 900 ? d3.utcWeek : d3.utcMonth;
  const begin = step.floor(new Date(from * 1000)), end = step.offset(step.floor(new Date(to * 1000)), 1);
  // A clock that was wrong must not make a million of them.
  let edges = step.range(begin, end);
  if (edges.length > 400) edges = d3.range(0, 100).map((i) => new Date(begin.getTime() + (i * (end - begin)) / 100));
  return { edges: [...edges, end], begin, end };
}

// How much damage lasted at each moment, back from what lasts now. [[seconds, count]], the last one is now.
function openDamage(events, openNow, now) {
  const changes = [];
  for (const event of events) {
    if (event.what !== "damage") continue;
    changes.push([event.time, 1]);
    if (event.ended !== 0) changes.push([event.ended, -1]);
  }
  changes.sort((a, b) => b[0] - a[0]);
  const out = [[now, openNow]];
  let open = openNow;
  for (const [time, change] of changes) {
    out.push([time, open]);
    open -= change;
    out.push([time, open]);
  }
  return out.reverse();
}

function drawTimeline(place, data, datasets, events) {
  const verified = datasets.filter((d) => d.last_verified > 0).map((d) => d.last_verified);
  const found = events.filter((e) => e.what === "damage"), runs = events.filter((e) => e.what === "run");
  const moments = [...verified, ...found.map((e) => e.time), ...runs.map((e) => e.time)];
  if (moments.length === 0) {
    place.replaceChildren(element("p", {}, "Nothing was verified yet. To verify what was verified longest ago: lzy-scrub PATH"));
    return;
  }
  const now = data.made;
  const { edges, begin, end } = bucketsOf(d3.min(moments), Math.max(now, d3.max(moments)));
  const scale = d3.scaleUtc([begin, end], [kLeft, kTimelineWidth - kRight]);
  const sums = (items, time, amount) => {
    const out = new Array(edges.length - 1).fill(0);
    for (const item of items) {
      const at = Math.min(out.length - 1, Math.max(0, d3.bisectRight(edges, new Date(time(item) * 1000)) - 1));
      out[at] += amount(item);
    }
    return out;
  };
  const charts = [
    { title: "Datasets by their last verification as a whole", css: "bar-verified", unit: "datasets", sums: sums(verified, (t) => t, () => 1), text: (n) => plural(n, "dataset") },
    { title: data.events_left_out ? "Damage found" : "Damage: found (bars), and lasting (line)", css: "bar-found", unit: "found", sums: sums(found, (e) => e.time, () => 1), text: (n) => `${n} found` },
    { title: "Read by lzy-scrub", css: "bar-read", unit: "bytes", sums: sums(runs.filter((e) => e.tool === "lzy-scrub"), (e) => e.time, (e) => asNumber(e.length)), text: (n) => formatSize(Math.round(n)) },
  ];
  // Damage that was found before all known events may have ended since.
  const open = data.events_left_out ? [] : openDamage(events, data.damage_open, now);
  const each = 84, gap = 34, top = 20, height = top + charts.length * (each + gap) + 8;
  const svg = d3.create("svg").attr("viewBox", `0 0 ${kTimelineWidth} ${height}`).attr("role", "group")
    .attr("aria-label", "Timeline. Arrow keys move between bars; a table with the same numbers follows.");
  const spanText = (i) => `${formatTime(edges[i] / 1000)} to ${formatTime(edges[i + 1] / 1000)}`;
  charts.forEach((chart, c) => {
    const y0 = top + c * (each + gap), isDamage = chart.unit === "found";
    const most = Math.max(1, d3.max(chart.sums), isDamage ? d3.max(open, (o) => o[1]) ?? 0 : 0);
    // Bytes have ticks at powers of two.
    const step = 2 ** Math.ceil(Math.log2(most / 3)), isBytes = chart.unit === "bytes";
    const y = d3.scaleLinear([0, isBytes ? Math.ceil(most / step) * step : most], [y0 + each, y0]);
    if (!isBytes) y.nice(3);
    const group = svg.append("g");
    group.append("text").attr("class", "title").attr("x", kLeft).attr("y", y0 - 7).text(chart.title);
    const ticks = isBytes ? d3.range(0, y.domain()[1] + step / 2, step) : y.ticks(3).filter(Number.isInteger);
    for (const tick of ticks) {
      group.append("line").attr("class", "grid").attr("x1", kLeft).attr("x2", kTimelineWidth - kRight).attr("y1", y(tick)).attr("y2", y(tick));
      group.append("text").attr("x", kLeft - 6).attr("y", y(tick) + 4).attr("text-anchor", "end").text(isBytes ? formatSize(Math.round(tick)) : tick);
    }
    chart.sums.forEach((sum, i) => {
      if (sum === 0) return;
      const x = scale(edges[i]) + 0.5, width = Math.max(1.5, scale(edges[i + 1]) - scale(edges[i]) - 1);
      const text = `${chart.text(sum)}\n${spanText(i)}`;
      group.append("rect").attr("class", chart.css).attr("x", x).attr("width", width).attr("y", y(sum)).attr("height", y(0) - y(sum));
      group.append("rect").attr("class", "hit").attr("x", x).attr("width", width).attr("y", y0).attr("height", each)
        .attr("tabindex", -1).attr("role", "img").attr("aria-label", `${chart.title}: ${text.replace("\n", ", ")}`).attr("data-sum", sum).attr("data-chart", chart.unit)
        .on("mouseenter focus", function () { tip.show(text, this); }).on("mouseleave blur", () => tip.hide());
    });
    if (isDamage && open.length > 0) {
      const points = open.map(([time, count]) => [scale(new Date(Math.max(time * 1000, begin.getTime()))), y(count)]);
      points.unshift([kLeft, points[0][1]]);
      group.append("path").attr("class", "line-open").attr("d", `M${points.map((p) => p.map((v) => v.toFixed(1)).join(",")).join("L")}`);
    }
    const axis = d3.axisBottom(scale).ticks(8).tickSizeOuter(0);
    if (c < charts.length - 1) axis.tickFormat("");
    group.append("g").attr("transform", `translate(0,${y0 + each})`).call(axis);
  });
  const hits = svg.selectAll(".hit").nodes();
  if (hits.length > 0) hits[0].setAttribute("tabindex", 0);
  moveByArrows(svg.node(), ".hit");
  const rows = charts[0].sums.map((_, i) => i).filter((i) => charts.some((chart) => chart.sums[i] > 0));
  const never = datasets.length - verified.length;
  place.replaceChildren(
    svg.node(),
    element("p", { class: "quiet" }, never > 0 ? `${plural(never, "dataset")} never verified as a whole, so not in the first chart. ` : "", data.events_left_out ? `Of the newest ${plural(events.length, "event")} only. ` : "", "Times are UTC."),
    element("details", {}, element("summary", {}, "The same as numbers"), element("div", { class: "scroll wide" }, element("table", { "aria-label": "Timeline as numbers" },
      element("thead", {}, element("tr", {}, ...["From", "Datasets last verified", "Damages found", "Read by lzy-scrub"].map((title, i) =>
        element("th", { scope: "col", class: i > 0 ? "number" : null }, element("span", {}, title))))),
      element("tbody", {}, ...rows.map((i) => element("tr", {}, element("td", {}, formatTime(edges[i] / 1000)),
        ...charts.map((chart) => element("td", { class: "number" }, chart.unit === "bytes" ? formatSize(Math.round(chart.sums[i])) : String(chart.sums[i])))))))))
  );
}

// One stop of the tab key; arrows go on from there.
function moveByArrows(svg, selector) {
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const all = [...svg.querySelectorAll(selector)], at = all.indexOf(document.activeElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
    all[at].setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  });
}
