// Apply the chosen theme before the first paint; without a choice, that of the system.
"use strict";
try {
  const chosen = localStorage.getItem("hub-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // without storage nothing was chosen
}
