"use strict";
// The only script of the page. It updates numbers and shows pairs that the page already contains.
// It never creates markup or text of documents.
(() => {
  const number = new Intl.NumberFormat("en-US");
  const panel = document.getElementById("what-if-panel");
  if (panel) enableSlider(panel);
  for (const table of document.querySelectorAll("table.sortable")) enableSorting(table);
  const finder = document.querySelector(".find");
  if (finder) enableSearch(finder);
  if (matchMedia("(max-width: 40rem)").matches) foldSections();

  function foldSections() {
    for (const section of document.querySelectorAll("details.fold")) section.open = false;
    for (const link of document.querySelectorAll("nav a")) {
      link.addEventListener("click", () => {
        const fold = document.querySelector(link.hash + " > details.fold");
        if (fold) fold.open = true;
      });
    }
  }

  function enableSlider(panel) {
    const steps = JSON.parse(panel.dataset.steps);
    const slider = document.getElementById("what-if-threshold");
    const marker = document.getElementById("what-if-marker");
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
  }

  function enableSorting(table) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const isNumber = body.rows[0].cells[column].dataset.value !== undefined;
        const wasDescending = head.getAttribute("aria-sort") === "descending";
        const isDescending = isNumber ? !wasDescending : head.getAttribute("aria-sort") === "ascending";
        const value = (row) => isNumber ? Number(row.cells[column].dataset.value) : row.cells[column].textContent;
        const order = (a, b) => isNumber ? value(a) - value(b) : value(a).localeCompare(value(b));
        const rows = [...body.rows].sort((a, b) => isDescending ? order(b, a) : order(a, b));
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
        body.append(...rows);
      });
    });
  }

  function enableSearch(finder) {
    const field = finder.querySelector("input");
    const articles = [...document.querySelectorAll("#clusters article")];
    const texts = articles.map((article) => article.textContent.toLowerCase());
    field.addEventListener("input", () => {
      const searched = field.value.trim().toLowerCase();
      let shown = 0;
      articles.forEach((article, position) => {
        article.hidden = !texts[position].includes(searched);
        shown += article.hidden ? 0 : 1;
        const folded = article.closest("details");
        if (searched && folded && !article.hidden) folded.open = true;
      });
      finder.querySelector("output").textContent = searched ? number.format(shown) + " of " + number.format(articles.length) + " clusters" : "";
    });
    finder.hidden = false;
  }
})();
