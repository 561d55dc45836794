import { base } from "../router";

export function NotFound() {
  return (
    <div class="empty">
      <h2>There is nothing at this address</h2>
      <p>
        <a href={base}>All targets</a>
      </p>
    </div>
  );
}
