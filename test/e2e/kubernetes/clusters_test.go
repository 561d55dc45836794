//go:build linux

package kubernetes

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Two clusters, one recommender: each agent may speak for its own cluster alone.
func TestClustersShareARecommenderAndNothingElse(t *testing.T) {
	t.Parallel()
	cert, key := kubetest.Certificate(t)
	const east, west = "sp_east", "sp_west"
	s := service.Start(t, "--tls-cert-file="+cert, "--tls-key-file="+key,
		"--auth-tokens-file="+tokensFile(t, map[string]string{"east": east, "west": west}), "--policy-file="+textFile(t, `grants:
- {identities: ["token:east"], clusters: [east], verbs: [recommend, delete]}
- {identities: ["token:west"], clusters: [west], verbs: [recommend, delete]}
`))
	// The same names of everything in both.
	eastern := newPlace(t, withAutoscalers(t, kubetest.Shared(t)), autoscalers, "two")
	western := &place{t: t, c: kubetest.SharedWithoutNative(t), kind: hpas, namespace: eastern.namespace}
	western.c.Kubectl(t, "create", "namespace", western.namespace)
	// Ten minutes allow five more pods, to ten: counting another cluster's pods yields a wrong
	// count.
	for _, p := range []*place{eastern, western} {
		p.c.Deployment(t, p.namespace, app, 2)
		cpu(600, 0).do(p, app)
		p.awaitReplicas(app, 2)
		p.add(app, limited(5, 5, 600)(app))
	}
	start := func(p *place, cluster, token string) *agent {
		a := newAgent(t, p.c, p.namespace, s, "--source="+p.kind.source(), "--cluster="+cluster, "--tls-ca-file="+cert, "--token-file="+textFile(t, token))
		a.command.Args = slices.DeleteFunc(a.command.Args, func(arg string) bool { return arg == "--insecure" })
		a.start()
		a.awaitReady()
		return a
	}
	start(eastern, "east", east)
	eastern.awaitReplicas(app, 7)
	eastern.awaitCondition(app, "ScalingLimited=True/ScaleUpLimit")

	// With the other's token, and as the other cluster with its own.
	for _, wrong := range []struct{ cluster, token string }{{"west", east}, {"east", west}} {
		mark := western.c.Mark(t)
		a := start(western, wrong.cluster, wrong.token)
		western.awaitCondition(app, "AbleToScale=False/RecommendationRefused")
		if got := western.condition(app, "AbleToScale"); !strings.Contains(got, "may not") {
			t.Errorf("what the condition says of a refusal: %s", got)
		}
		a.stop()
		if n := western.c.Since(t, mark).Of(a.account.User).Counts()["update deployments/scale"]; n != 0 {
			t.Errorf("%d scales were written without a recommendation", n)
		}
	}

	start(western, "west", west)
	western.awaitReplicas(app, 7)
	western.awaitCondition(app, "ScalingLimited=True/ScaleUpLimit")
	// A new object of the same name has no history, the one in the other cluster keeps its.
	western.c.Kubectl(t, "delete", "hpa", app, "-n", western.namespace)
	western.add(app, limited(5, 5, 600)(app))
	western.awaitReplicas(app, 12)
	eastern.awaitCondition(app, "ScalingLimited=True/ScaleUpLimit")
	if got := eastern.replicas(app); got != 7 {
		t.Errorf("%d replicas in the east, want 7", got)
	}
}

func textFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func tokensFile(t *testing.T, tokens map[string]string) string {
	t.Helper()
	text := "tokens:\n"
	for identity, token := range tokens {
		text += fmt.Sprintf("- {identity: %s, sha256: \"%x\"}\n", identity, sha256.Sum256([]byte(token)))
	}
	return textFile(t, text)
}
