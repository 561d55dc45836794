package fleets_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func sharing(targets, bytes int) func(*servertest.Setup) {
	return func(su *servertest.Setup) { su.Options.ClusterTargets, su.Options.ClusterBytes = targets, bytes }
}

// wantCrowded wants the error of a cluster's limit.
func wantCrowded(t *testing.T, what string, err error, limit string) {
	t.Helper()
	if problem := servertest.RPCProblem(err); problem.Code != codes.ResourceExhausted || problem.Reason != "LIMIT_EXCEEDED" || problem.Metadata["limit"] != limit {
		t.Errorf("%s: %v, want LIMIT_EXCEEDED by %s", what, err, limit)
	}
}

// crowd are the names of members in a cluster.
func crowd(cluster string, from, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("clusters/%s/namespaces/shop/targets/t%d", cluster, from+i))
	}
	return names
}

// As many targets of a cluster can be members as it may have. What is refused leaves no claim and no spec, and one that
// is taken out leaves room.
func TestMembersCountInTheirCluster(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open, sharing(5, 0))
		for i, from := range []int{0, 2} {
			fatal.If(t, s.trySet(t, nameOf(fmt.Sprint("f", i)), queueFleet(2, 100, crowd("full", from, 2)...)))
		}
		third := nameOf("third")
		wantCrowded(t, "a sixth member", s.trySet(t, third, queueFleet(2, 100, crowd("full", 4, 2)...)), "cluster_targets")
		if _, err := s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: third}); servertest.RPCProblem(err).Reason != "SPEC_NOT_FOUND" {
			t.Errorf("its spec is stored: %v", err)
		}
		if err := s.trySet(t, third, queueFleet(2, 100, append(crowd("full", 4, 1), crowd("empty", 0, 1)...)...)); err != nil {
			t.Errorf("a fifth, of which the refused one has left the claim: %v", err)
		}
		// Those that are members stay, whatever is stored again.
		if err := s.trySet(t, nameOf("f0"), queueFleet(2, 50, crowd("full", 0, 2)...)); err != nil {
			t.Errorf("a fleet that is stored again: %v", err)
		}
		if _, err := s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: nameOf("f1")}); err != nil {
			t.Fatal(err)
		}
		s.Clock.Advance(time.Second)
		if err := s.trySet(t, nameOf("f1"), queueFleet(2, 100, crowd("full", 5, 2)...)); err != nil {
			t.Errorf("in the room of two that left: %v", err)
		}
	})
}

// The records of a cluster's fleets take no more than its bytes, in however many calls they grow. Members that have called
// go on, and so do other clusters.
func TestFleetsCountInTheirCluster(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		const bound, filled, members = 50_000, 49_000, 32
		engine := open()
		part, err := engine.(store.Parts).Part(store.Fleets, 0)
		if err == nil {
			_, err = part.CompareAndSwap(t.Context(), store.Swap{Key: servertest.KeyOf(nameOf("filler")), Value: make([]byte, filled)})
		}
		fatal.If(t, err)
		s := start(t, func() store.Engine { return engine }, sharing(0, bound))
		call := func(fleet, name string) error {
			return s.try(t, member(name, 3, 60, func(r *setpointv1.RecommendRequest) { r.Fleet = fleet }))
		}
		var refused error
		var fleets []string
		crowded := "" // the member that found no room
		for i := 0; i < 30 && refused == nil; i++ {
			name := nameOf(fmt.Sprint("f", i))
			names := crowd(fmt.Sprint("c", i), 0, members)
			if refused = s.trySet(t, name, queueFleet(2, 100, names...)); refused != nil {
				break
			}
			fleets = append(fleets, name)
			for _, one := range names {
				if refused = call(name, one); refused != nil {
					crowded = one
					break
				}
				s.Clock.Advance(2 * time.Second)
			}
		}
		wantCrowded(t, "in the end", refused, "cluster_bytes")
		// Nor is a fleet stored that has no room for its record.
		refused = nil
		for i := 0; i < 100 && refused == nil; i++ {
			name := nameOf(fmt.Sprint("more", i))
			if refused = s.trySet(t, name, queueFleet(2, 100, crowd(fmt.Sprint("more", i), 0, 2)...)); refused == nil {
				fleets = append(fleets, name)
				s.Clock.Advance(2 * time.Second)
			} else if _, err := s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: name}); servertest.RPCProblem(err).Reason != "SPEC_NOT_FOUND" {
				t.Errorf("it is stored: %v", err)
			}
		}
		wantCrowded(t, "another fleet", refused, "cluster_bytes")
		used := filled
		for _, name := range fleets {
			record, err := part.Load(t.Context(), servertest.KeyOf(name))
			fatal.If(t, err)
			used += len(record.Value)
		}
		t.Logf("%d fleets take %d bytes", len(fleets), used)
		if used > bound+100 || used < bound-200 {
			t.Errorf("%d fleets take %d bytes, with a maximum of %d", len(fleets), used, bound)
		}
		s.Clock.Advance(time.Minute)
		if err := call(fleets[0], crowd("c0", 0, 1)[0]); err != nil {
			t.Errorf("a member that has called before: %v", err)
		}
		if crowded != "" { // of a batch they go on, too
			fleet, requests := nameOf("f"+servertest.KeyOf(crowded).Cluster[1:]), []*setpointv1.RecommendRequest{}
			for _, name := range []string{crowded, crowd(servertest.KeyOf(crowded).Cluster, 0, 1)[0]} {
				requests = append(requests, member(name, 3, 60, func(r *setpointv1.RecommendRequest) { r.Fleet = fleet }))
			}
			results := s.Batch(t, requests...)
			wantCrowded(t, "in a batch", status.FromProto(results[0].GetError()).Err(), "cluster_bytes")
			if results[1].GetResponse() == nil {
				t.Errorf("beside it: %v", results[1])
			}
		}
		elsewhere := strings.Replace(fleetName, "clusters/all", "clusters/elsewhere", 1)
		if err := s.trySet(t, elsewhere, queueFleet(2, 100, west, east)); err != nil {
			t.Errorf("a fleet of another cluster: %v", err)
		} else if err := call(elsewhere, west); err != nil {
			t.Errorf("its member: %v", err)
		}
	})
}
