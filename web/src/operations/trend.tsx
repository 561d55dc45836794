import { useEffect, useRef } from "preact/hooks";
import { color, onThemeChange } from "../theme";

/** Values since the view was opened, as a small line. */
export function Trend(props: { values: readonly number[]; tone: string }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const { values, tone } = props;
  const draw = () => {
    const c = ref.current;
    if (!c) return;
    const scale = Math.min(devicePixelRatio || 1, 2);
    c.width = 90 * scale;
    c.height = 22 * scale;
    const g = c.getContext("2d")!;
    g.scale(scale, scale);
    if (values.length < 2) return;
    const top = Math.max(...values, 1e-9);
    g.beginPath();
    values.forEach((v, i) => {
      const x = 89 - (values.length - 1 - i) * Math.max(1.5, Math.min(6, 88 / (values.length - 1)));
      g[i ? "lineTo" : "moveTo"](x, 20 - (v / top) * 17);
    });
    g.strokeStyle = color(tone);
    g.lineWidth = 1.5;
    g.lineJoin = "round";
    g.stroke();
  };
  useEffect(draw);
  useEffect(() => onThemeChange(draw), []);
  return <canvas ref={ref} class="trend" width={90} height={22} aria-hidden="true" />;
}
