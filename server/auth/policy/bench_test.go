package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

func BenchmarkAllow(b *testing.B) {
	p := example(b)
	var large strings.Builder
	large.WriteString("grants:\n")
	for n := range 100 {
		fmt.Fprintf(&large, "- {identities: ['token:x'], clusters: [c%d], namespaces: [n%d], verbs: [recommend]}\n", n, n)
	}
	many := parse(b, large.String())
	tests := []struct {
		name               string
		grants             *policy.Grants
		cluster, namespace string
		want               bool
	}{
		{"exact", p.For(who("token:agent-shop")), "prod-eu", "shop", true},
		{"wildcards", p.For(who("certificate:uri:spiffe://example.com/ns/shop/sa/scaler")), "prod-eu", "shop", true},
		{"everything", policy.Default(false).For(who("token:x")), "prod-eu", "shop", true},
		{"refused", p.For(who("token:agent-shop")), "prod-us", "shop", false},
		{"last of 100 grants", many.For(who("token:x")), "c99", "n99", true},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if tt.grants.Allow(policy.Recommend, tt.cluster, tt.namespace) != tt.want {
					b.Fatal("wrong")
				}
			}
		})
	}
}

func BenchmarkFor(b *testing.B) {
	p := example(b)
	caller := who("oidc:corp:alice", "oidc:corp:dev", "oidc:corp:sre")
	b.ReportAllocs()
	for b.Loop() {
		if !p.For(caller).Allow(policy.Recommend, "prod-eu", "shop") {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkOptions(b *testing.B) {
	g := example(b).For(who("token:ci"))
	b.ReportAllocs()
	for b.Loop() {
		if o := g.Options("prod-eu", "shop", "checkout"); *o.MaxReplicas != 200 {
			b.Fatal("wrong")
		}
	}
}
