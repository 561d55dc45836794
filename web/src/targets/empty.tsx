import { Copyable } from "../components/copy";
import { base, root } from "../router";
import { useSession } from "../session";

const body = `{
    "spec": {"minReplicas": 2, "maxReplicas": 10, "metrics": [{
      "type": "External", "external": {
        "metric": {"name": "requests_per_second"},
        "target": {"type": "AverageValue", "averageValue": "100"}}}]},
    "scale": {"specReplicas": 3, "statusReplicas": 3},
    "externalMetrics": [{"metric": {"name": "requests_per_second"}, "value": "450"}]
  }`;

/** What to do when nothing is there yet. */
export function NoTargets() {
  const token = useSession().config?.authentication ? `  -H "Authorization: Bearer $TOKEN" \\\n` : "";
  const curl = `curl -X POST '${location.origin}${root}v1/clusters/demo/namespaces/shop/targets/web:recommend' \\\n${token}  --data-binary '${body}'`;
  return (
    <div class="empty">
      <h1>No targets yet</h1>
      <p>
        A target is a workload that something asks about: how many replicas should it have now, and why? It appears here with the first
        question, and stays up to date by itself.
      </p>
      <h2>Ask about one</h2>
      <p>3 replicas serve 450 requests a second, and each is meant to serve 100. The answer is 5, and this page shows why.</p>
      <Copyable text={curl} label="A request to copy" />
      <h2>Or have a platform ask</h2>
      <ul class="plain">
        <li><code>setpoint agent kubernetes</code> runs the HorizontalPodAutoscalers of a cluster, or shadows them.</li>
        <li><code>setpoint agent swarm</code> and <code>setpoint agent nomad</code> do the same there.</li>
        <li>The <a href={`${root}docs/`} target="_blank" rel="noreferrer">API</a> takes questions from anything that can send JSON.</li>
      </ul>
      <p>A fleet whose members have not asked yet is among the <a href={`${base}?fleets=`}>fleets that are stored</a>.</p>
      <p class="muted">You see only what the service's policy file lets you read: if targets are missing, ask its maintainer.</p>
    </div>
  );
}
