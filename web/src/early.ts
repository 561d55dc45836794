// Runs before the first paint, so that a chosen theme does not flash, and before anything else is loaded.
import { loadAgainWhileIncomplete } from "./lib/again";
import { applyTheme, chosenTheme } from "./theme";

loadAgainWhileIncomplete();
applyTheme(chosenTheme());
