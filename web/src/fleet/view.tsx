export function FleetView(_: { query: URLSearchParams }) {
  return <div class="loading" role="status" aria-label="Loading" />;
}
