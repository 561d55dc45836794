// While an upgrade runs, instances of two versions are behind one address, and one of them is asked for files that only
// the other has.

const key = "setpoint.again";
/** How often the page loads itself again, a second apart: for longer than instances take to be replaced, and not for ever. */
const most = 60;

/** Loads the page again if one of its scripts or styles could not be loaded. What proxies and extensions add does not count: the page's policy may forbid it for good. */
export function loadAgainWhileIncomplete(): void {
  const own = new URL(".", (document.currentScript as HTMLScriptElement).src).href;
  let incomplete = false;
  const failed = ({ target: of }: Event) => {
    const address = of instanceof HTMLScriptElement ? of.src : of instanceof HTMLLinkElement && of.rel === "stylesheet" ? of.href : "";
    if (incomplete || !address.startsWith(own)) return;
    incomplete = true;
    let times = most;
    try {
      times = Number(sessionStorage.getItem(key));
      if (times < most) sessionStorage.setItem(key, String(times + 1));
    } catch {
      times = most; // Storage is refused: nothing would end it.
    }
    if (times < most) setTimeout(() => location.reload(), 1000);
    else document.getElementById("app")?.append("This page could not be loaded. Load it again.");
  };
  addEventListener("error", failed, true); // such events do not bubble
  addEventListener("load", () => {
    removeEventListener("error", failed, true);
    try {
      if (!incomplete) sessionStorage.removeItem(key);
    } catch {
      // Storage is refused.
    }
  });
}
