package fleets_test

import (
	"fmt"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// A member's call of a fleet of eight beside one of a target that is decided alone, over gRPC and a real Redis; each
// comes a period after the one before, and decides.
func BenchmarkCallOnRedis(b *testing.B) {
	engine := servertest.Redis(b, redistest.Start(b, redistest.Config{}).URL())
	s := servertest.Start(b, func(su *servertest.Setup) {
		su.Engine, su.Log, su.Options.MaxClockSkew, su.Options.CacheBytes = engine, engine, 0, 32<<20
	})
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("clusters/c%d/namespaces/shop/targets/web", i))
	}
	if _, err := s.Targets.SetTargetSpec(b.Context(), &setpointv1.SetTargetSpecRequest{Name: fleetName, TargetSpec: queueFleet(2, 100, names...)}); err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		s.Recommend(b, member(name, 3, 30))
	}
	of := map[string]func(int) *setpointv1.RecommendRequest{
		"member": func(i int) *setpointv1.RecommendRequest { return member(names[i%8], 3, 30) },
		"alone": func(i int) *setpointv1.RecommendRequest {
			return member(fmt.Sprintf("clusters/c%d/namespaces/shop/targets/alone", i%8), 3, 30, func(r *setpointv1.RecommendRequest) { r.Fleet = "" })
		},
		"alone, read slowly": func(i int) *setpointv1.RecommendRequest {
			return member(fmt.Sprintf("clusters/c%d/namespaces/shop/targets/staged", i%8), 3, 30, func(r *setpointv1.RecommendRequest) { r.Fleet, r.Stages = "", &setpointv1.Stages{} })
		},
	}
	for _, what := range []string{"alone", "alone, read slowly", "member"} {
		b.Run(what, func(b *testing.B) {
			for i := range b.N {
				s.Clock.Advance(15 * time.Second / 8)
				s.Recommend(b, of[what](i))
			}
		})
	}
}
