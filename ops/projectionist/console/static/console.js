// What an open page does by itself: it refreshes its live regions, and leaves alone whoever reads, points or types.
// All of the console works without it. Keys move and open; none acts.
"use strict";

const main = () => document.getElementById("content");
const show = (id, shown) => { document.getElementById(id).hidden = !shown; };
const links = (root) => [...root.querySelectorAll("a[href]")].map((link) => link.getAttribute("href")).join("\n");

function isTyped(field) {
  return field === document.activeElement || field.value !== field.defaultValue || field.checked !== field.defaultChecked;
}

// Figures change in place. Rows that would move wait until nobody points at one, or has one in focus.
function isHeld(fresh) {
  const selected = getSelection();
  if (!selected.isCollapsed && main().contains(selected.anchorNode)) return true;
  if ([...main().querySelectorAll("input:not([type=hidden]), textarea")].some(isTyped)) return true;
  return main().querySelector("tr:hover, li:hover, a:focus") !== null && links(fresh) !== links(main());
}

document.addEventListener("htmx:before:request", (event) => {
  if (document.hidden) event.preventDefault();
});

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx: { response }, tasks } = event.detail;
  show("silent", false);
  show("over", response.status === 401);
  if (response.status === 401) event.preventDefault();
  const content = tasks.find((task) => task.target === main());
  if (content && response.status === 200 && !isHeld(content.fragment)) return;
  for (const stays of [main(), document.getElementById("fresh")]) {  // figures, and the moment that they are of
    const place = tasks.findIndex((task) => task.target === stays);
    if (place >= 0) tasks.splice(place, 1);
  }
});

document.addEventListener("htmx:error", () => show("silent", true));

const PAGES = { o: "overview", w: "waiting", i: "incidents" };
let going = false;

function step(by) {
  const rows = [...document.querySelectorAll("main .open, main .next")];
  const next = rows[rows.indexOf(document.activeElement) + by] ?? (by > 0 ? rows.at(-1) : rows[0]);
  next?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  const page = going && PAGES[event.key];
  going = event.key === "g";
  if (page) document.querySelector(`.nav [data-page=${page}]`).click();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/") document.getElementById("q").focus();
  else if (event.key === "?") document.getElementById("keys").togglePopover();
  else return;
  event.preventDefault();
});
