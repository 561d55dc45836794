// Streams of all windows of a browser. Without TLS it has six connections to a service, and where streams take them all
// every other request waits, in each window, until one is closed.

const most = 4;
/** How long a claim counts that is not renewed, ms: a window may be gone without a word. */
const lasts = 12_000;

const key = (slot: number): string => `setpoint.stream.${slot}`;

/** Who has a slot, by the storage that windows share; "": nobody. */
function owner(slot: number): string {
  const [id = "", until] = (localStorage.getItem(key(slot)) ?? "").split(" ");
  const left = Number(until) - Date.now();
  return left > 0 && left <= lasts ? id : "";
}

/** Whether the connection carries any number of requests at once. */
function multiplexed(): boolean {
  const [page] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return /^h[23]/.test(page?.nextHopProtocol ?? "");
}

/** Claims a stream, and returns what gives it back; undefined: other windows have all. */
export async function claimStream(): Promise<(() => void) | undefined> {
  try {
    if (multiplexed()) return () => {};
    const id = Math.random().toString(36).slice(2);
    for (let slot = 0; slot < most; slot++) {
      if (owner(slot) !== "") continue;
      const write = () => localStorage.setItem(key(slot), `${id} ${Date.now() + lasts}`);
      const back = () => {
        if (owner(slot) === id) localStorage.removeItem(key(slot));
      };
      write();
      document.addEventListener("visibilitychange", back); // the page may be left, or loaded again, before it has the slot
      await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 20)); // of two that write at once the last one has it
      document.removeEventListener("visibilitychange", back);
      if (owner(slot) !== id) continue;
      const timer = setInterval(write, lasts / 3);
      return () => {
        clearInterval(timer);
        back();
      };
    }
    return undefined;
  } catch {
    return () => {}; // storage is refused: this window knows of no other
  }
}
