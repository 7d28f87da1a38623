"use strict";
// The only script of the page. It updates numbers and shows pairs that the page already contains.
// It never creates markup or text of documents.
(() => {
  const panel = document.getElementById("what-if-panel");
  const steps = JSON.parse(panel.dataset.steps);
  const slider = document.getElementById("what-if-threshold");
  const marker = document.getElementById("what-if-marker");
  const number = new Intl.NumberFormat("en-US");
  const write = (name, value) => { document.getElementById("what-if-" + name).textContent = value; };
  const show = () => {
    const at = Number(slider.value), [threshold, kept, pairs] = steps[at], more = kept - steps[0][1];
    write("value", threshold.toFixed(3));
    write("kept", number.format(kept));
    write("more", more ? number.format(more) + " more than in this run" : "as in this run");
    write("pairs", number.format(pairs));
    slider.setAttribute("aria-valuetext", threshold.toFixed(3) + ": " + number.format(kept) + " kept");
    for (const section of panel.querySelectorAll("[data-step]")) section.hidden = Number(section.dataset.step) !== at;
    if (marker) {
      const x = Number(marker.dataset.left) + threshold * Number(marker.dataset.span);
      marker.setAttribute("x1", x);
      marker.setAttribute("x2", x);
      marker.style.display = at ? "" : "none";
    }
  };
  slider.addEventListener("input", show);
  panel.hidden = false;
  show();
})();
