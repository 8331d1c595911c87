// The theme that was chosen, before anything is painted. Nothing chosen: the one of the system.
"use strict";
try {
  const chosen = localStorage.getItem("hub-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // no storage, no choice
}
