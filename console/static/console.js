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

// The live part is read again every two seconds.
const live = document.querySelector("[data-live]");
if (live) {
  let timer = null;
  const button = document.querySelector("[data-pause]");
  const read = async () => {
    try {
      const answer = await fetch(live.dataset.live, { credentials: "same-origin" });
      if (!answer.ok) throw answer;
      live.innerHTML = await answer.text();
      live.classList.remove("stale");
    } catch {
      live.classList.add("stale");
    }
    if (timer) timer = setTimeout(read, 2000);
  };
  const go = () => { timer = setTimeout(read, 2000); button.textContent = "Pause"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    if (timer) { clearTimeout(timer); timer = null; button.textContent = "Go on"; } else { go(); }
  });
  go();
}
