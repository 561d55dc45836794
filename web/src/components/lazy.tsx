// Views that are loaded when they are first shown, or ahead.

import type { ComponentType, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ((props: P) => VNode) & { ahead: () => void } {
  let loaded: ComponentType<P> | undefined;
  const start = () => load().then((c) => { loaded = c; });
  function Lazy(props: P) {
    const [, set] = useState(0);
    const [failed, fail] = useState(false);
    useEffect(() => {
      if (loaded) return;
      let gone = false;
      start().then(() => !gone && set(1), () => !gone && fail(true));
      return () => {
        gone = true;
      };
    }, []);
    if (failed) {
      return (
        <div class="empty" role="alert">
          <h2>This part of the page could not be loaded</h2>
          <p>The service may have been updated. Load the page again.</p>
          <button class="button primary" onClick={() => location.reload()}>
            Load again
          </button>
        </div>
      );
    }
    if (!loaded) return <div class="loading" role="status" aria-label="Loading" />;
    const Component = loaded;
    return <Component {...props} />;
  }
  return Object.assign(Lazy, { ahead: () => void start().catch(() => {}) });
}
