// Keys of the keyboard: `/` searches, `g` and a letter goes to a page, `?` tells.

import { address, go } from "./router";

export const GO: Record<string, { path: string; name: string }> = {
  o: { path: "/", name: "Overview" },
  m: { path: "/memories", name: "Memories" },
  r: { path: "/retrievals", name: "Retrievals" },
  p: { path: "/probes", name: "Probes" },
  t: { path: "/training", name: "Training" },
  s: { path: "/settings", name: "Settings" },
};

/** Milliseconds within which the letter follows the `g`. */
const SOON = 1_200;

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

function search(): void {
  const field = document.querySelector<HTMLInputElement>("[data-search]");
  if (field) {
    field.focus();
    field.select();
    return;
  }
  go(address("/memories"));
  // The field is there once the page is drawn, and after the page took the focus.
  setTimeout(() => document.querySelector<HTMLInputElement>("[data-search]")?.focus(), 50);
}

export function listen(help: () => void): () => void {
  let pressed = 0;
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    const to = GO[event.key];
    if (to && Date.now() - pressed < SOON) {
      event.preventDefault();
      pressed = 0;
      go(address(to.path));
      return;
    }
    pressed = event.key === "g" ? Date.now() : 0;
    if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") {
      event.preventDefault();
      help();
    }
  };
  addEventListener("keydown", key);
  return () => removeEventListener("keydown", key);
}
