package fleets_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// Two fleets that are stored at the same time with one more member, on two instances: one of them has it, and only that
// answers its calls. Nor can both have it if each finds the other's claims old, because its caller is slow or a clock is
// wrong; then it may be that none has it.
func TestTwoFleetsNeverHaveOneMember(t *testing.T) {
	t.Parallel()
	const second = "clusters/all/namespaces/shop/targets/second"
	members := map[string][]string{
		fleetName: {"clusters/a/namespaces/shop/targets/web", "clusters/b/namespaces/shop/targets/web"},
		second:    {"clusters/y/namespaces/shop/targets/web", "clusters/z/namespaces/shop/targets/web"},
	}
	for what, skew := range map[string]time.Duration{"at once": 0, "slowly": time.Minute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			engines(t, func(t *testing.T, open func() store.Engine) {
				instances := map[string]*service{fleetName: start(t, open), second: start(t, open)}
				instances[second].Clock.Advance(skew)
				has := func(name string) bool {
					resp, err := instances[fleetName].Fleets.GetFleet(t.Context(), &setpointv1.GetFleetRequest{Name: name})
					fatal.If(t, err)
					return slices.ContainsFunc(resp.GetFleet().GetMembers(), func(m *setpointv1.FleetMemberStatus) bool { return m.GetTarget() == west })
				}
				won := 0
				begin := time.Now()
				for round := 0; round < 200 && time.Since(begin) < 5*time.Second; round++ {
					for name, s := range instances {
						fatal.If(t, s.trySet(t, name, queueFleet(2, 100, members[name]...)))
					}
					results := make(map[string]error)
					var mu sync.Mutex
					var storing sync.WaitGroup
					for name, s := range instances {
						storing.Go(func() {
							err := s.trySet(t, name, queueFleet(2, 100, append([]string{west}, members[name]...)...))
							mu.Lock()
							defer mu.Unlock()
							results[name] = err
						})
					}
					storing.Wait()
					stored, answers := 0, 0
					for name, err := range results {
						if (err == nil) != has(name) {
							t.Fatalf("round %d: %s has the member: %t, and storing it said %v", round, name, has(name), err)
						}
						if err == nil {
							stored++
						} else if problem := servertest.RPCProblem(err); problem.Reason != "FLEET_MEMBER_TAKEN" {
							t.Fatalf("round %d: %v", round, err)
						}
						for _, s := range instances {
							if s.try(t, member(west, 3, 60, func(r *setpointv1.RecommendRequest) { r.Fleet = name })) == nil {
								answers++
							}
						}
					}
					if stored > 1 || answers != 2*stored || skew == 0 && stored == 0 {
						t.Fatalf("round %d: %d fleets have it, and %d of 4 calls are answered: %v", round, stored, answers, results)
					}
					won += stored
				}
				t.Logf("%d stored", won)
			})
		})
	}
}

// Where two stored specs name a target all the same, because a caller died at the worst moment, only the fleet that has its
// key answers it.
func TestTheKeyOfAMemberDecides(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		const second = "clusters/all/namespaces/shop/targets/second"
		engine := open()
		s := start(t, func() store.Engine { return engine })
		s.set(t, queueFleet(2, 100, west, east))
		specs, err := engine.(store.Parts).Part(store.Specs, 0)
		fatal.If(t, err)
		keyOf := func(name string) store.Key { return store.Key{Cluster: "all", Namespace: "shop", Target: name} }
		record, err := specs.Load(t.Context(), keyOf("web"))
		fatal.If(t, err)
		if _, err := specs.CompareAndSwap(t.Context(), store.Swap{Key: keyOf("second"), Value: record.Value}); err != nil {
			t.Fatal(err)
		}
		of := func(fleet string) func(*setpointv1.RecommendRequest) {
			return func(r *setpointv1.RecommendRequest) { r.Fleet = fleet }
		}
		if err := s.try(t, member(west, 3, 60)); err != nil {
			t.Errorf("of the fleet that has the key: %v", err)
		}
		if problem := servertest.RPCProblem(s.try(t, member(west, 3, 60, of(second)))); problem.Reason != "FLEET_NOT_FOUND" {
			t.Errorf("of the other one: %v", problem)
		}
	})
}
