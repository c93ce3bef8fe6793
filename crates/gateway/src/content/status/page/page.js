"use strict";
// The page is complete without this: it fetches itself every two seconds, replaces the figures, and draws their last five minutes.
const every = 2000, kept = 150, history = new Map();
const button = document.querySelector("button"), stale = document.querySelector("#stale");
let isPaused = false;

function note() {
  for (const part of document.querySelectorAll("[data-key]")) {
    const values = history.get(part.dataset.key) ?? [];
    values.push(Number(part.dataset.value));
    history.set(part.dataset.key, values.slice(-kept));
  }
}

function draw() {
  for (const part of document.querySelectorAll("[data-key]")) {
    const values = history.get(part.dataset.key) ?? [];
    if (values.length < 2) continue;
    const least = Math.min(...values), range = Math.max(...values) - least || 1;
    const at = (value, place) => (place * 120 / (values.length - 1)).toFixed(1) + "," + (23 - (value - least) / range * 22).toFixed(1);
    const name = "http://www.w3.org/2000/svg";
    const drawing = document.createElementNS(name, "svg"), line = document.createElementNS(name, "polyline");
    drawing.setAttribute("class", "trend");
    drawing.setAttribute("viewBox", "0 0 120 24");
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("aria-hidden", "true");
    line.setAttribute("points", values.map(at).join(" "));
    drawing.append(line);
    part.append(drawing);
  }
}

function replace(fresh) {
  const shown = document.querySelector("main");
  // What the reader has opened, scrolled or focused stays as it is.
  for (const part of shown.querySelectorAll("details[open]")) fresh.querySelector("#" + part.id)?.setAttribute("open", "");
  const scrolled = [...shown.querySelectorAll(".scroll")].map(part => [part.id, part.scrollLeft]);
  const focused = document.activeElement?.closest("main [id]")?.id;
  shown.replaceWith(fresh);
  for (const [id, left] of scrolled) document.getElementById(id)?.scrollTo(left, 0);
  if (focused) document.getElementById(focused)?.focus({preventScroll: true});
}

async function renew() {
  const isRead = !getSelection().isCollapsed;
  if (!isPaused && !isRead && !document.hidden) {
    try {
      const page = await fetch(location.href, {headers: {Accept: "text/html"}, cache: "no-store"});
      const fresh = new DOMParser().parseFromString(await page.text(), "text/html").querySelector("main");
      if (!page.ok || !fresh) throw new Error(page.status);
      replace(fresh);
      note();
      draw();
      stale.hidden = true;
    } catch {
      stale.hidden = false;
    }
  }
  setTimeout(renew, every);
}

button.hidden = false;
button.addEventListener("click", () => {
  isPaused = !isPaused;
  button.textContent = isPaused ? "Go on" : "Pause";
});
note();
setTimeout(renew, every);
