// Runs before the first paint, so that a chosen theme does not flash, and before anything else is loaded.
import { loadAgainWhileIncomplete } from "./lib/again";
import { applyTheme, chosenTheme } from "./theme";

loadAgainWhileIncomplete();
applyTheme(chosenTheme());

// The icon's address is relative to the page's path, which changes with the view, maybe before the browser asks for the icon.
const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
icon?.setAttribute("href", icon.href);
