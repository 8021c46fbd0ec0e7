"use strict";
// Draws the pictures, switches allocators off and on in all of them, sorts tables.
const chosen = () => new Set([...document.querySelectorAll("#allocators input:checked")].map((box) => box.value));
const known = new Set([...document.querySelectorAll("#allocators input")].map((box) => box.value));

function show(picture, names) {
  const visible = picture.data.map((trace) => !known.has(trace.name) || names.has(trace.name));
  Plotly.restyle(picture, { visible: visible });
}

function switchAllocators() {
  const names = chosen();
  for (const picture of document.querySelectorAll(".picture")) show(picture, names);
  for (const row of document.querySelectorAll("tr[data-allocator]")) {
    row.classList.toggle("off", !names.has(row.dataset.allocator));
  }
}

function compare(a, b) {
  const x = parseFloat(a), y = parseFloat(b);
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) === Number.isNaN(y) ? a.localeCompare(b) : Number.isNaN(x) ? 1 : -1;
  return x - y;
}

function sortBy(head) {
  const body = head.closest("table").tBodies[0];
  const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const value = (row) => row.cells[head.cellIndex].dataset.value;
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  for (const row of [...body.rows].sort((a, b) => direction * compare(value(a), value(b)))) body.append(row);
}

for (const [name, figure] of Object.entries(pictures)) {
  Plotly.newPlot(`picture-${name}`, figure.data, figure.layout, { responsive: true, displaylogo: false });
}
document.getElementById("allocators").addEventListener("change", switchAllocators);
for (const head of document.querySelectorAll(".sortable th")) head.addEventListener("click", () => sortBy(head));
document.body.dataset.ready = "yes";
