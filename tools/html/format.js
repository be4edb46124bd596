"use strict";
// Words and numbers, as the tools print them.

// Numbers above 2^53 come as text, so that they are shown as they are.
const asNumber = (value) => Number(value);

function formatSize(value) {
  if (!Number.isFinite(Number(value))) return "unknown";
  const names = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let bytes = BigInt(value), power = 0;
  while (power + 1 < names.length && bytes >> BigInt(10 * (power + 1)) !== 0n) ++power;
  if (power === 0) return bytes === 1n ? "1 byte" : `${bytes} bytes`;
  const number = (Number(bytes) / 2 ** (10 * power)).toFixed(1).replace(/\.0$/, "");
  return `${number} ${names[power]}`;
}

const plural = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

function formatAge(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return plural(whole, "second");
  if (whole < 7200) return plural(Math.floor(whole / 60), "minute");
  if (whole < 172800) return plural(Math.floor(whole / 3600), "hour");
  return plural(Math.floor(whole / 86400), "day");
}

const formatTime = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\..*/, " UTC");

// Control characters, and characters that cannot be seen or turn the direction of text, are escaped: names are data.
function printable(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => {
    const code = c.charCodeAt(0);
    const short = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
    return short ?? (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`);
  });
}

// A path without all but its last directory.
const endOf = (path) => path.replace(/^.*(?=\/[^/]*\/[^/]*$)/, "…");

// An element with text and attributes. All text of the page goes in as text, never as HTML.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, does] of Object.entries(value)) made.addEventListener(event, does);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// {columns, rows} as objects.
function objectsOf(listing) {
  return listing.rows.map((row) => Object.fromEntries(listing.columns.map((name, i) => [name, row[i]])));
}

// Of a damage: how its cells are drawn.
const kLooks = {
  hash: "differs from its hash", unreadable: "cannot be read", missing: "missing", beyond: "beyond repair",
};
// Those that must not be hidden by others come last.
const kLookOrder = ["hash", "unreadable", "missing", "beyond"];
function lookOf(damage) {
  if (damage.beyond_repair) return "beyond";
  return Object.hasOwn(kLooks, damage.cause) ? damage.cause : "hash";
}
// Names of what lies in it, such as datasets of HDF5; empty if they are not known.
const objectsIn = (damage) => printable(damage.objects_text);

// Whether the page is being printed. The first to be told, so that what others make for print knows it.
let printingNow = false;
window.addEventListener("beforeprint", () => { printingNow = true; });
window.addEventListener("afterprint", () => { printingNow = false; });

// Patterns of the looks, once for the page.
function definePatterns() {
  const svg = d3.select("body").append("svg").attr("width", 0).attr("height", 0).attr("aria-hidden", "true").style("position", "absolute");
  const pattern = (id, size) => {
    const made = svg.append("pattern").attr("id", id).attr("width", size).attr("height", size).attr("patternUnits", "userSpaceOnUse");
    made.append("rect").attr("class", `ground-${id.slice(2)}`).attr("width", size).attr("height", size);
    return made;
  };
  pattern("p-hash", 6).append("path").attr("class", "stroke").attr("stroke-width", 1.3).attr("d", "M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2");
  pattern("p-unreadable", 5).append("path").attr("class", "stroke-light").attr("stroke-width", 1.5).attr("d", "M0,2.5 h5");
  pattern("p-missing", 6).append("circle").attr("class", "dot").attr("cx", 3).attr("cy", 3).attr("r", 1.3);
  pattern("p-beyond", 6).append("path").attr("class", "stroke-light").attr("stroke-width", 1.2).attr("d", "M0,0 l6,6 M6,0 l-6,6");
  pattern("p-parity", 4).append("circle").attr("class", "dot-lane").attr("cx", 2).attr("cy", 2).attr("r", 1);
}

// One tooltip for the whole page, by mouse and by focus.
const tip = {
  show(text, target) {
    const box = document.getElementById("tip"), at = target.getBoundingClientRect();
    box.textContent = text;
    box.hidden = false;
    const left = Math.min(at.left, window.innerWidth - box.offsetWidth - 8);
    const below = at.bottom + 8 + box.offsetHeight < window.innerHeight;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${below ? at.bottom + 8 : Math.max(8, at.top - box.offsetHeight - 8)}px`;
  },
  hide() { document.getElementById("tip").hidden = true; },
};
