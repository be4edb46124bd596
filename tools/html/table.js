"use strict";
// A table of any length. Only the rows that can be seen are in the page; for print, all of them are, up to kMostPrinted.

const kRowHeight = 30, kSpareRows = 12, kMostPrinted = 5000;

// columns: [{title, value(row) for sorting, show(row): text or element, number, width, path, short(text) of what is shown}]
// options: {label, sort: column, descending, link(row): what a click does, or null}
class VirtualTable {
  constructor(place, columns, rows, options) {
    Object.assign(this, { columns, all: rows, options, sorted: null, descending: options.descending ?? false });
    this.wanted = () => true;
    this.body = element("tbody");
    this.headers = columns.map((column, i) => element("th", { scope: "col", class: column.number ? "number" : null,
      style: column.width ? `width: ${column.width}` : null }, element("button", { type: "button", on: { click: () => this.sortBy(i) } }, column.title)));
    this.table = element("table", { "aria-label": options.label }, element("thead", {}, element("tr", {}, ...this.headers)), this.body);
    this.box = element("div", { class: "scroll" }, this.table);
    this.note = element("p", { class: "quiet", hidden: true });
    place.replaceChildren(this.box, this.note);
    this.active = 0;
    this.printing = printingNow;
    this.box.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
    this.sortBy(options.sort ?? 0, this.descending);
  }

  sortBy(index, descending) {
    this.descending = descending ?? (this.sorted === index ? !this.descending : this.columns[index].number === true);
    this.sorted = index;
    this.headers.forEach((header, i) => {
      const arrow = i !== index ? "" : this.descending ? " ▼" : " ▲";
      header.firstChild.textContent = this.columns[i].title + arrow;
      if (i === index) header.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
    this.refresh();
  }

  filter(wanted) {
    this.wanted = wanted;
    this.refresh();
  }

  refresh() {
    const { value } = this.columns[this.sorted], sign = this.descending ? -1 : 1;
    const keyed = this.all.filter(this.wanted).map((row, i) => [value(row), i, row]);
    keyed.sort((a, b) => (a[0] < b[0] ? -sign : a[0] > b[0] ? sign : a[1] - b[1]));
    this.rows = keyed.map((entry) => entry[2]);
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.active = 0;
    this.box.scrollTop = 0;
    this.draw();
  }

  drawSoon() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw() {
    const count = this.rows.length, height = this.box.clientHeight || 600;
    let first = 0, last = count;
    if (this.printing) {
      last = Math.min(count, kMostPrinted);
    } else {
      first = Math.max(0, Math.min(count, Math.floor(this.box.scrollTop / kRowHeight)) - kSpareRows);
      last = Math.min(count, first + Math.ceil(height / kRowHeight) + 2 * kSpareRows);
    }
    const focused = this.body.contains(document.activeElement) && document.activeElement.closest("tr");
    const space = (rows) => element("tr", { class: "space", "aria-hidden": "true" },
      element("td", { colspan: this.columns.length, style: `height: ${rows * kRowHeight}px` }));
    const shown = this.rows.slice(first, last).map((row, i) => this.rowOf(row, first + i));
    if (!this.printing) shown.unshift(space(first)), shown.push(space(count - last));
    this.body.replaceChildren(...shown);
    if (focused) this.focusRow(Number(focused.getAttribute("aria-rowindex")) - 2, false);
    this.note.hidden = !(this.printing && count > last);
    this.note.textContent = `The first ${last} of ${count} rows are printed.`;
  }

  rowOf(row, index) {
    const href = this.options.link?.(row);
    const cells = this.columns.map((column) => {
      const shown = column.show(row);
      const title = column.path ? shown : null;
      return element("td", { class: [column.number && "number", column.path && "path"].filter(Boolean).join(" ") || null, title }, column.short?.(shown) ?? shown);
    });
    return element("tr", { "aria-rowindex": index + 2, tabindex: index === this.active ? 0 : -1, class: href ? "link" : null,
      on: href ? { click: () => href() } : {} }, ...cells);
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / kRowHeight) - 2);
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      this.focusRow(Math.max(0, Math.min(this.rows.length - 1, this.active + move)), true);
    } else if (event.key === "Enter" || event.key === " ") {
      const go = this.options.link?.(this.rows[this.active]);
      if (go) event.preventDefault(), go();
    }
  }

  focusRow(index, scroll) {
    this.active = index;
    if (scroll) {
      const top = index * kRowHeight, room = this.box.clientHeight - this.headers[0].offsetHeight;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top + kRowHeight > this.box.scrollTop + room) this.box.scrollTop = top + kRowHeight - room;
      document.activeElement?.blur?.();
      this.draw();
    }
    const row = this.body.querySelector(`tr[aria-rowindex="${index + 2}"]`);
    for (const other of this.body.querySelectorAll("tr[tabindex='0']")) other.tabIndex = -1;
    if (row) row.tabIndex = 0, row.focus({ preventScroll: true });
  }

  print(now) {
    this.printing = now;
    this.draw();
  }
}
