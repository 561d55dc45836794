package fleets_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// Members that call two instances at once are all answered, and the shares that they learn never add up to more than the
// fleet's bound, whoever wins which race.
func TestManyMembersOnTwoInstances(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		const members, most = 8, 40
		instances := []*service{start(t, open), start(t, open)}
		var names []string
		for i := range members {
			names = append(names, fmt.Sprintf("clusters/c%d/namespaces/shop/targets/web", i))
		}
		instances[0].set(t, queueFleet(members, most, names...))
		replicas := make([]int32, members)
		for i := range replicas {
			replicas[i] = 1
		}
		for round := range 12 {
			var calling sync.WaitGroup
			for i, name := range names {
				calling.Go(func() {
					// Up and down again, each member by what it read.
					queue := int32(10 * ((round*7 + i*3) % 12))
					resp, err := instances[(round+i)%2].Recommendations.Recommend(t.Context(), member(name, replicas[i], queue))
					if err != nil {
						t.Errorf("round %d, member %d: %v", round, i, err)
						return
					}
					replicas[i] = resp.GetDesiredReplicas()
				})
			}
			calling.Wait()
			for _, s := range instances {
				s.Clock.Advance(15 * time.Second)
			}
		}
		a, b := instances[0].fleet(t), instances[1].fleet(t)
		sum := int32(0)
		for _, m := range a.GetMembers() {
			sum += m.GetShare()
		}
		if sum != a.GetShareTotal() || sum > most || !proto.Equal(a, b) {
			t.Errorf("shares add up to %d of %v; the other instance has %v", sum, a, b)
		}
	})
}

// A caller that dies between the steps of storing or deleting a spec leaves nothing that repeating it does not repair.
func TestHalfStoredSpecsAreRepaired(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	s := &service{servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnFleet = func(ctx context.Context, swap store.Swap, do servertest.SwapFunc) (store.SwapResult, error) {
			if away.Load() {
				return store.SwapResult{}, store.ErrUnavailable
			}
			return do(ctx, swap)
		}
	})}
	// The members are claimed and the spec is stored, and the record is not there.
	away.Store(true)
	want(t, "a new fleet", s.trySet(t, fleetName, queueFleet(2, 100, west, east)), codes.Unavailable, "STORE_UNAVAILABLE")
	away.Store(false)
	if got := s.call(t, member(west, 3, 60)); got.GetFleet().GetMembers().GetUnseen() != 1 {
		t.Errorf("without a record: %v", got)
	}
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60))
	s.call(t, member(east, 3, 60))
	// The spec is another one, and the record is still under the one before: until it is repeated, or read again.
	away.Store(true)
	want(t, "another maximum", s.trySet(t, fleetName, queueFleet(2, 8, west, north)), codes.Unavailable, "STORE_UNAVAILABLE")
	away.Store(false)
	s.set(t, queueFleet(2, 8, west, north))
	s.Clock.Advance(15 * time.Second)
	if got := s.call(t, member(west, 6, 60)).GetFleet(); got.GetMembers().GetUnseen() != 1 || got.GetMembers().GetFresh() != 1 {
		t.Errorf("under the repeated spec: %v", got)
	}
	// east was not released by the call that died, and is free all the same.
	const second = "clusters/all/namespaces/shop/targets/second"
	if err := s.trySet(t, second, queueFleet(2, 100, east, "clusters/south/namespaces/shop/targets/web")); err != nil {
		t.Errorf("a member of the spec before: %v", err)
	}
	// The etag of another version changes nothing, and claims nobody.
	old := queueFleet(2, 100, west, "clusters/far/namespaces/shop/targets/web")
	old.Etag = "00"
	want(t, "an old etag", s.trySet(t, fleetName, old), codes.Aborted, "SPEC_CHANGED")
	if got := s.fleet(t).GetMembers(); got[0].GetTarget() != north {
		t.Errorf("after it: %v", got)
	}
	// A target that is no fleet any more: its members are free, and it is polled again.
	plain := queueFleet(2, 100)
	plain.Fleet = nil
	err := s.trySet(t, fleetName, plain)
	if want(t, "in silence", err, codes.FailedPrecondition, "IS_FLEET"); !strings.Contains(err.Error(), "DeleteTargetSpec") || !strings.Contains(err.Error(), "etag") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	s.call(t, member(west, 6, 60))
	is, err := s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: fleetName})
	fatal.If(t, err)
	plain.Etag = is.GetTargetSpec().GetEtag()
	s.set(t, plain)
	want(t, "no fleet any more", s.try(t, member(west, 6, 60)), codes.FailedPrecondition, "FLEET_NOT_FOUND")
	if _, err := s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: fleetName, Scale: &setpointv1.Scale{SpecReplicas: 1}}); err != nil {
		t.Errorf("a report: %v", err)
	}
	if err := s.trySet(t, second, queueFleet(2, 100, east, west)); err != nil {
		t.Errorf("a member of it: %v", err)
	}
}
