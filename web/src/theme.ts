// Light or dark, as the system has it unless a person chose.

import { store } from "./store";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "upliftmem-theme";

function chosen(): Theme {
  const kept = localStorage.getItem(KEY);
  return THEMES.find((one) => one === kept) ?? "auto";
}

export const theme = store<Theme>(chosen());

function apply(): void {
  const now = theme.get();
  if (now === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
}

export function setTheme(to: Theme): void {
  localStorage.setItem(KEY, to);
  theme.set(to);
  apply();
}

/** From what is seen now to the other one. */
export function toggleTheme(): void {
  const now = theme.get();
  const dark = now === "dark" || (now === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(dark ? "light" : "dark");
}

apply();
