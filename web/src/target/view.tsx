export function TargetView(props: { name: string }) {
  return <h1>{props.name}</h1>;
}
