export function PlaygroundView() {
  return <h1>Playground</h1>;
}
