package target_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/target"
)

func TestParseOverride(t *testing.T) {
	longest := strings.Repeat("a", target.MaxOverrideID)
	for _, p := range []target.Place{
		{Cluster: "demo"}, {Cluster: "demo", Namespace: "shop"}, {Cluster: "demo", Namespace: "shop", Target: "web"},
		// Names that look like other parts.
		{Cluster: "overrides", Namespace: "overrides", Target: "overrides"}, {Cluster: "namespaces", Namespace: "targets"},
	} {
		if got, ok := target.ParsePlace(p.String()); !ok || got != p {
			t.Errorf("%v: got the place %v, %t", p, got, ok)
		}
		if place, id, ok := target.CutOverride(p.String()); ok || place != p.String() || id != "" {
			t.Errorf("%v: cut to %q, %q, %t", p, place, id, ok)
		}
		for _, id := range []string{"a", "0", "a-z0-9", longest} {
			if got, gotID, ok := target.ParseOverride(p.Override(id)); !ok || got != p || gotID != id {
				t.Errorf("%s: got %v, %q, %t", p.Override(id), got, gotID, ok)
			}
		}
	}
	for _, s := range []string{
		"", "overrides/a", "clusters/c", "clusters/c/overrides", "clusters/c/overrides/", "clusters/-/overrides/a", "clusters//overrides/a",
		"clusters/c/overrides/a/", "clusters/c/overrides/-a", "clusters/c/overrides/a-", "clusters/c/overrides/A", "clusters/c/overrides/a.b",
		"clusters/c/overrides/" + longest + "a", "clusters/c/namespaces/overrides/a", "clusters/c/namespaces/n/targets/overrides/a",
		"clusters/c/namespaces//overrides/a", "clusters/c/namespaces/-/overrides/a", "clusters/c/namespaces/n/targets/-/overrides/a",
		"clusters/c/d/overrides/a", "clusters/c/namespaces/n/x/t/overrides/a", "clusters/c/overrides/a/overrides/b",
	} {
		if p, id, ok := target.ParseOverride(s); ok {
			t.Errorf("%q: got %v, %q", s, p, id)
		}
	}
}

func TestNamespaces(t *testing.T) {
	for typed, want := range map[string]string{
		"clusters/demo": "clusters/demo/namespaces/-", "clusters/-": "clusters/-/namespaces/-", "demo/shop": "clusters/demo/namespaces/shop",
		// As they are; the service refuses all but the first.
		"clusters/demo/namespaces/shop": "clusters/demo/namespaces/shop", "demo": "demo", "/shop": "/shop", "demo/": "demo/", "clusters/": "clusters/", "a/b/c": "a/b/c",
	} {
		if got := target.Namespaces(typed); got != want {
			t.Errorf("%q is %q, want %q", typed, got, want)
		}
	}
}

func TestPlaceHas(t *testing.T) {
	cluster, namespace := target.Place{Cluster: "c"}, target.Place{Cluster: "c", Namespace: "n"}
	web := target.Place{Cluster: "c", Namespace: "n", Target: "t"}
	for _, tt := range []struct {
		of, other target.Place
		want      bool
	}{
		{cluster, cluster, true}, {cluster, namespace, true}, {cluster, web, true}, {namespace, web, true}, {web, web, true},
		{namespace, cluster, false}, {web, namespace, false}, {web, cluster, false},
		{target.Place{Cluster: "d"}, web, false}, {target.Place{Cluster: "c", Namespace: "m"}, web, false},
		{target.Place{Cluster: "c", Namespace: "n", Target: "u"}, web, false},
	} {
		if got := tt.of.Has(tt.other); got != tt.want {
			t.Errorf("%s has %s: %t", tt.of, tt.other, got)
		}
	}
}
