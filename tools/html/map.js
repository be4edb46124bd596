"use strict";
// The block map of a dataset: devices by block rows. Where there are more rows than columns, a column stands for several
// rows, and has the gravest state of them.

const kMapWidth = 1100, kMostColumns = 120, kWidestColumn = 28, kMostLanes = 64;

// Whether device `position` of n holds parity in a block row (docs/format.md, section 6).
const holdsParity = (position, unitRow, n, parity) => ((position - (unitRow % n) + n) % n) < parity;

// Text of one cell: what it is, where, what is wrong.
function cellText(lane, damages, first, last, rows, part) {
  const where = first === last ? `block row ${first}` : `block rows ${first} to ${last}`;
  const lines = [`${lane.name}, ${where} of ${rows}: ${part}`];
  for (const damage of damages.slice(0, 4)) {
    lines.push(`${kLooks[lookOf(damage)]}${damage.beyond_repair ? ` (${damage.cause_text})` : ""}: ${printable(damage.path)}, offset ${damage.offset}, length ${damage.length}`);
    if (damage.objects_text !== "") lines.push(`in ${objectsIn(damage)}`);
  }
  if (damages.length > 4) lines.push(`and ${damages.length - 4} more`);
  return lines.join("\n");
}

// lanes: [{name, title, spans: [{first, last, damage, part}], isParity(row) or null}], rows: number of them.
function drawLanes(place, lanes, rows, axisTitle, describe) {
  const label = Math.min(260, 16 + 6.4 * Math.max(...lanes.map((lane) => lane.name.length), 6)), right = 14;
  const lane = lanes.length > 24 ? 16 : 22, top = 34, height = top + lanes.length * lane + 8;
  let window_ = [0, rows - 1];
  const svg = d3.create("svg").attr("viewBox", `0 0 ${kMapWidth} ${height}`).attr("role", "group");
  const controls = element("div", { class: "bar" });
  const where = element("output", { class: "quiet" });

  function draw(focusFirst) {
    const [from, to] = window_, seen = to - from + 1;
    const columns = Math.min(kMostColumns, seen), width = Math.min(kWidestColumn, (kMapWidth - label - right) / columns);
    const end_ = label + columns * width;
    const columnOf = (row) => Math.floor(((row - from) * columns) / seen);
    svg.selectAll("*").remove();
    const x = d3.scaleLinear([from, to + 1], [label, end_]);
    const axis = d3.axisTop(x).ticks(Math.min(10, seen, Math.ceil((end_ - label) / 60))).tickFormat((v) => (Number.isInteger(v) ? d3.format(",")(v) : "")).tickSizeOuter(0);
    svg.append("g").attr("transform", `translate(0,${top - 4})`).call(axis);
    svg.append("text").attr("x", 0).attr("y", top - 8).text(axisTitle);
    let drawn = 0;
    lanes.forEach((one, i) => {
      const y = top + i * lane;
      svg.append("text").attr("x", 0).attr("y", y + lane / 2 + 4).text(one.name.length > 40 ? `…${one.name.slice(-39)}` : one.name).append("title").text(one.title);
      svg.append("rect").attr("class", "lane").attr("x", label).attr("y", y + 1).attr("width", end_ - label).attr("height", lane - 2);
      if (one.isParity && columns === seen) {
        for (let row = from; row <= to; ++row) {
          if (!one.isParity(row)) continue;
          svg.append("rect").attr("fill", "url(#p-parity)").attr("class", "parity-cell").attr("x", label + (row - from) * width).attr("y", y + 1).attr("width", Math.max(1, width - 1)).attr("height", lane - 2);
        }
      }
      // What each column has.
      const cells = new Array(columns).fill(null);
      for (const span of one.spans) {
        for (let column = Math.max(0, columnOf(Math.max(from, span.first))); column <= Math.min(columns - 1, columnOf(Math.min(to, span.last))); ++column) {
          const low = Math.max(span.first, from + Math.ceil((column * seen) / columns)), high = Math.min(span.last, from + Math.ceil(((column + 1) * seen) / columns) - 1);
          if (low > high || span.last < from || span.first > to) continue;
          // A span is of the rows in which the device holds data, or of those in which it holds parity.
          if (columns === seen && one.isParity && one.isParity(low) !== (span.part === "parity")) continue;
          const cell = (cells[column] ??= { first: low, last: high, spans: [] });
          cell.first = Math.min(cell.first, low), cell.last = Math.max(cell.last, high);
          cell.spans.push(span);
        }
      }
      for (let column = 0; column < columns; ++column) {
        const cell = cells[column];
        if (!cell) continue;
        let end = column;
        const same = (other) => other && other.spans.length === cell.spans.length && other.spans.every((span, k) => span === cell.spans[k]);
        while (columns < seen && end + 1 < columns && same(cells[end + 1])) cell.last = cells[++end].last;
        const damages = [...new Set(cell.spans.map((span) => span.damage))];
        const look = kLookOrder[Math.max(...damages.map((damage) => kLookOrder.indexOf(lookOf(damage))))];
        const parts = [...new Set(cell.spans.map((span) => span.part))].join(" and ");
        const text = describe(one, damages, cell.first, cell.last, parts);
        const made = svg.append("rect").attr("class", `cell cell-${look}`).attr("fill", `url(#p-${look})`)
          .attr("x", label + column * width).attr("y", y + 1).attr("width", Math.max(2, (end - column + 1) * width - 1)).attr("height", lane - 2)
          .attr("tabindex", drawn++ === 0 ? 0 : -1).attr("role", "button").attr("aria-label", text)
          .attr("data-device", one.device).attr("data-first", cell.first).attr("data-last", cell.last).attr("data-state", look).attr("data-part", parts)
          .on("mouseenter focus", function () { tip.show(text, this); }).on("mouseleave blur", () => tip.hide());
        const toCell = () => { const middle = Math.floor((cell.first + cell.last) / 2); zoom(middle, Math.max(cell.last - cell.first + 1, kMostColumns), true); };
        made.on("click", toCell).on("keydown", (event) => { if (event.key === "Enter" || event.key === " ") event.preventDefault(), toCell(); });
        column = end;
      }
    });
    svg.attr("aria-label", `Block map, ${plural(lanes.length, "device")}, ${axisTitle} ${from} to ${to}; ${plural(drawn, "damaged cell")}. Arrow keys move between them, + and - change the size.`);
    where.textContent = seen === rows ? `all ${rows.toLocaleString("en")}` : `${axisTitle} ${from.toLocaleString("en")} to ${to.toLocaleString("en")} of ${rows.toLocaleString("en")}`;
    if (focusFirst) svg.node().querySelector(".cell")?.focus();
    for (const button of controls.querySelectorAll("button")) button.disabled = seen === rows && button.dataset.needs === "part";
  }

  function zoom(middle, size, focusFirst) {
    const seen = Math.max(Math.min(8, rows), Math.min(rows, Math.round(size)));
    const from = Math.max(0, Math.min(rows - seen, Math.round(middle - seen / 2)));
    window_ = [from, from + seen - 1];
    draw(focusFirst);
  }
  const middle = () => (window_[0] + window_[1] + 1) / 2, seen = () => window_[1] - window_[0] + 1;
  const firsts = [...new Set(lanes.flatMap((one) => one.spans.map((span) => span.first)))].sort((a, b) => a - b);
  const next = (direction) => {
    const beyond = direction > 0 ? firsts.find((row) => row > window_[1]) : firsts.findLast((row) => row < window_[0]);
    if (beyond !== undefined) zoom(beyond, Math.min(seen(), kMostColumns));
  };
  if (rows > kMostColumns) {
    const button = (text, does, needs) => element("button", { type: "button", "data-needs": needs ?? null, on: { click: does } }, text);
    controls.append(button("Zoom in", () => zoom(middle(), seen() / 4)), button("Zoom out", () => zoom(middle(), seen() * 4), "part"), button("Whole", () => zoom(0, rows), "part"),
      button("◀ Previous damage", () => next(-1), "part"), button("Next damage ▶", () => next(1), "part"), where);
  }
  svg.node().addEventListener("keydown", (event) => {
    if (event.key === "+") zoom(middle(), seen() / 4, true);
    else if (event.key === "-") zoom(middle(), seen() * 4, true);
    else return;
    event.preventDefault();
  });
  moveByArrows(svg.node(), ".cell");
  place.append(element("div", { class: "map" }, controls, svg.node()));
  draw(false);
}

// By the geometry of the sidecar.
function drawGroups(place, dataset) {
  const { map, damage } = dataset;
  const slices = map.unit / map.block_size;
  map.groups.forEach((group, g) => {
    const n = group.devices.length;
    const lanes = group.devices.map((device, position) => ({
      device: device.device,
      name: `device ${device.device}${device.path ? `: ${endOf(printable(device.path))}` : ""}`,
      title: [device.path && printable(device.path), device.domain && `domain ${printable(device.domain)}`].filter(Boolean).join(", "),
      isParity: (row) => holdsParity(position, Math.floor(row / slices), n, map.parity),
      spans: map.cells.filter((cell) => cell.group === g && cell.position === position)
        .map((cell) => ({ first: asNumber(cell.first), last: asNumber(cell.last), damage: damage[cell.damage], part: cell.part })),
    }));
    const shown = lanes.length <= kMostLanes ? lanes : lanes.filter((lane) => lane.spans.length > 0);
    const rows = asNumber(group.rows);
    place.append(element("h4", {}, `Group ${group.group}: ${plural(n, "device")}, of which ${map.parity} may be lost; ${plural(rows, "block row")} of blocks of ${formatSize(map.block_size)}`
      + (shown.length < lanes.length ? `; the ${plural(shown.length, "device")} with damage` : "")));
    drawLanes(place, shown, rows, "block row", (lane, damages, first, last, part) => cellText(lane, damages, first, last, rows, part));
  });
  if (map.elsewhere.length > 0) {
    place.append(element("p", { class: "quiet" }, `Not on the map, since it is in no block of data or parity: ${plural(map.elsewhere.length, "damage")} of the table below.`));
  }
}

// Without the geometry: by the place in each file, in blocks.
function drawFiles(place, dataset) {
  place.append(element("p", { class: "notice" }, `This map shows places in files instead of block rows, because the geometry could not be read: ${printable(dataset.map_missing)}`));
  const block = Math.max(1, dataset.block_size), lanes = new Map();
  let rows = 1;
  for (const damage of dataset.damage) {
    const key = `${damage.device} ${damage.part} ${damage.path}`;
    if (!lanes.has(key)) {
      lanes.set(key, { device: damage.device, name: `device ${damage.device}, ${damage.part}`, title: printable(damage.path), isParity: null, spans: [] });
    }
    const first = Math.floor(asNumber(damage.offset) / block), last = Math.floor((asNumber(damage.offset) + Math.max(1, asNumber(damage.length)) - 1) / block);
    lanes.get(key).spans.push({ first, last, damage, part: damage.part });
    rows = Math.max(rows, last + 1, damage.part === "data" && dataset.kind === "shared" ? Math.ceil(asNumber(dataset.bytes) / block) : 1);
  }
  drawLanes(place, [...lanes.values()].slice(0, kMostLanes), rows, "block of the file", (lane, damages, first, last, part) =>
    cellText(lane, damages, first, last, rows, part).replace(/block rows?/, (word) => word.replace("row", "")).replace("block s", "blocks"));
}
