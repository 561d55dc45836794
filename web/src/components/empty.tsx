import { base } from "../router";

export function NotFound() {
  return (
    <div class="empty">
      <h1>There is nothing at this address</h1>
      <p>
        <a href={base}>All targets</a>
      </p>
    </div>
  );
}
