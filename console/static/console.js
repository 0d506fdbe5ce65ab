"use strict";
// Parts of a page that ask Kafka load after the page is there.
async function load(part) {
  try {
    const answer = await fetch(part.dataset.load, { credentials: "same-origin" });
    part.innerHTML = await answer.text();
  } catch {
    part.textContent = "The console did not answer. Load the page again.";
  }
  part.removeAttribute("aria-busy");
}
document.querySelectorAll("[data-load]").forEach(load);

// The live part comes as server-sent events; the browser connects again by itself.
const live = document.querySelector("[data-live]");
if (live && "EventSource" in window) {
  let source = null;
  const button = document.querySelector("[data-pause]");
  const listen = () => {
    source = new EventSource(live.dataset.live);
    source.addEventListener("snapshot", (event) => { live.innerHTML = event.data; live.classList.remove("stale"); });
    source.addEventListener("error", () => live.classList.add("stale"));
    button.textContent = "Pause";
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    if (source) { source.close(); source = null; button.textContent = "Go on"; } else { listen(); }
  });
  listen();
}
