// Runs before the first paint, so that a chosen theme does not flash.
import { applyTheme, chosenTheme } from "./theme";

applyTheme(chosenTheme());
