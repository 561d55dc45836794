package policy_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// FuzzParse checks that any policy that is taken answers consistently.
func FuzzParse(f *testing.F) {
	data := testpages.Read(f, filepath.Join("testdata", "policy.yaml"))
	f.Add(data, "token:ci", "prod-eu", "shop")
	f.Add(`{"grants": [{"identities": ["*"], "clusters": ["a*b*c"], "verbs": ["*"]}]}`, "token:x", "abc", "")
	f.Add("grants: []\nlimits: [{burst: unlimited}]", "anonymous", "a", "b")
	f.Fuzz(func(t *testing.T, text, name, cluster, namespace string) {
		p, err := policy.Parse("policy.yaml", []byte(text))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "policy.yaml:") && !strings.HasPrefix(line, "  ") {
					t.Errorf("a problem without its place: %q", line)
				}
			}
			return
		}
		identity := who(name)
		g := p.For(identity)
		allowed := g.Allow(policy.Read, cluster, namespace)
		if allowed && (cluster == "" || !isSegment(cluster)) {
			return // the server refuses such names
		}
		for _, parent := range [][2]string{{"-", "-"}, {cluster, "-"}, {"-", namespace}, {cluster, namespace}} {
			s := g.Within(policy.Read, parent[0], parent[1])
			if allowed && (s.None() || !s.Contains(cluster, namespace)) {
				t.Errorf("allowed, but not within %q", parent)
			}
			if s.All() && isSegment(cluster) && isSegment(namespace) && !allowed {
				t.Errorf("refused, but all of %q is in", parent)
			}
		}
		if identity == nil || identity.Method == auth.MethodNone && !strings.Contains(text, "anonymous") && !strings.Contains(text, `\`) && allowed {
			t.Error("anonymous was not written out")
		}
		o := g.Options(cluster, namespace, "t")
		if o.MaxReplicas != nil && (*o.MaxReplicas < 1 || o.MinReplicas != nil && *o.MinReplicas > *o.MaxReplicas) {
			t.Errorf("from %v to %v replicas", *o.MinReplicas, *o.MaxReplicas)
		}
		if l := g.Limits(); l.RequestsPerSecond < 0 || l.Burst < 0 || l.InFlight < 0 || l.Streams < 0 {
			t.Errorf("limits %+v", l)
		}
	})
}

func isSegment(name string) bool {
	return name != "" && name != "-" && name != "." && name != ".." && !strings.ContainsAny(name, "/*")
}
