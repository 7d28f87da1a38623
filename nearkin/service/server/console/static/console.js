// Presses the button that names the pressed key, unless the visitor types or has switched keys off.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  const option = document.querySelector("#review-keys input");
  if (option === null || !option.checked) return;
  const key = CSS.escape(event.key.toLowerCase());
  const button = document.querySelector(`main button[aria-keyshortcuts="${key}"]`);
  if (button !== null) {
    event.preventDefault();
    button.click();
  }
});
