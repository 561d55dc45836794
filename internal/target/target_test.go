package target_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/target"
)

func TestParse(t *testing.T) {
	longest := strings.Repeat("a", target.MaxSegment)
	for _, name := range []target.Name{
		{Cluster: "demo", Namespace: "shop", Target: "web"},
		{Cluster: "eu-1.example", Namespace: "_x", Target: "Web.v2_b-3"},
		{Cluster: "...", Namespace: "--", Target: "-."},
		{Cluster: longest, Namespace: longest, Target: longest},
	} {
		got, ok := target.Parse(name.String())
		if !ok || got != name {
			t.Errorf("%v: got %v, %t", name, got, ok)
		}
	}
	for _, s := range []string{
		"", "clusters", "clusters/c/namespaces/n/targets", "clusters/c/namespaces/n/targets/", "clusters/c/namespaces/n/targets/t/",
		"/clusters/c/namespaces/n/targets/t", "cluster/c/namespaces/n/targets/t", "clusters/c/namespace/n/targets/t",
		"clusters/c/namespaces/n/target/t", "Clusters/c/namespaces/n/targets/t", "clusters/c/namespaces/n/targets/t/x",
		"clusters//namespaces/n/targets/t", "clusters/./namespaces/n/targets/t", "clusters/c/namespaces/../targets/t",
		"clusters/c/namespaces/n/targets/-", "clusters/c/namespaces/n/targets/t\n", "clusters/é/namespaces/n/targets/t",
		"clusters/c/namespaces/n/targets/" + longest + "a",
	} {
		if got, ok := target.Parse(s); ok || got != (target.Name{}) {
			t.Errorf("%q: got %v, %t", s, got, ok)
		}
	}
}

func TestParseTakesNoMemory(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { target.Parse("clusters/demo/namespaces/shop/targets/web") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseParent(t *testing.T) {
	for parent, want := range map[string][2]string{
		"clusters/demo/namespaces/shop": {"demo", "shop"},
		"clusters/-/namespaces/-":       {"", ""},
		"clusters/demo/namespaces/-":    {"demo", ""},
		"clusters/demo":                 {"", ""},
	} {
		if cluster, namespace := target.ParseParent(parent); [2]string{cluster, namespace} != want {
			t.Errorf("%s: got %q and %q", parent, cluster, namespace)
		}
	}
}
