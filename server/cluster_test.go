package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
)

// ofCluster sets the calling cluster.
func ofCluster(uid string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.ClusterUid = uid }
}

// clusterWays are the paths of a request to its response or error.
var clusterWays = map[string]func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) problem{
	"call": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) problem {
		_, err := s.recommendations.Recommend(tb.Context(), req)
		return rpcProblem(err)
	},
	"call on the slow path": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) problem {
		// No encoder gives a field twice.
		req = with(req)
		req.ProtoReflect().SetUnknown([]byte{15 << 3, 0, 15 << 3, 0})
		_, err := s.recommendations.Recommend(tb.Context(), req)
		return rpcProblem(err)
	},
	"batch": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) problem {
		tb.Helper()
		other := with(queue(web+"-2", 3, 50)) // fails for itself only
		results := s.batch(tb, other, req)
		if results[0].GetResponse() == nil {
			tb.Errorf("the other one of the batch: %v", results[0])
		}
		return problemOf(results[1].GetError())
	},
	"stream": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) problem {
		stream := s.stream(tb)
		send(tb, stream, "1", req)
		return problemOf(receive(tb, stream).GetError())
	},
	"REST": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) problem {
		tb.Helper()
		body, err := marshalJSON(req)
		if err != nil {
			tb.Fatal(err)
		}
		a := s.ask(tb, http.MethodPost, "/v1/"+req.GetTarget()+":recommend", body)
		if a.code == http.StatusOK {
			return problem{}
		}
		return a.problem(tb)
	},
}

// Two clusters that use one name: the one that came first has the target, and the other
// one is refused and changes nothing.
func TestAnotherClusterOfTheNameIsRefused(t *testing.T) {
	t.Parallel()
	for way, ask := range clusterWays {
		for _, tt := range []struct {
			name        string
			first, then string
			refused     bool
		}{
			{"the same one", "a", "a", false},
			{"another one", "a", "b", true},
			{"one that does not say", "a", "", false},
			{"what nobody said to have is taken over", "", "b", false},
		} {
			for _, cached := range []bool{false, true} {
				t.Run(way+"/"+tt.name, func(t *testing.T) {
					t.Parallel()
					s := start(t, func(su *setup) {
						if cached {
							su.options.CacheBytes = 32 << 20
						}
					})
					s.recommend(t, with(queue(web, 3, 90), ofCluster(tt.first)))
					before := s.stored(t, web)
					s.clock.Advance(time.Second)
					got := ask(t, s, with(queue(web, 3, 20), ofCluster(tt.then)))
					if !tt.refused {
						if got.code != codes.OK {
							t.Errorf("refused: %+v", got)
						}
						return
					}
					wantProblem(t, got, codes.FailedPrecondition, "OTHER_CLUSTER")
					if got.metadata["target"] != web || !strings.Contains(got.message, web) || !strings.Contains(got.message, "delete the target") {
						t.Errorf("it does not say of what, or what to do: %+v", got)
					}
					if after := s.stored(t, web); string(after) != string(before) {
						t.Error("a refused request has changed the history")
					}
					// The owner stays the same, even after a request without a cluster.
					s.recommend(t, queue(web, 3, 20))
					wantProblem(t, ask(t, s, with(queue(web, 3, 20), ofCluster(tt.then))), codes.FailedPrecondition, "OTHER_CLUSTER")
				})
			}
		}
	}
}

// The objects of two clusters have different uids: another object of the owning cluster
// starts a new history, one of another cluster does not.
func TestANamesakeOfAnotherCluster(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, with(queue(web, 3, 90), incarnation("1"), ofCluster("a")))
	_, err := s.recommendations.Recommend(t.Context(), with(queue(web, 3, 20), incarnation("2"), ofCluster("b")))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	s.recommend(t, with(queue(web, 3, 20), incarnation("2"))) // without a cluster
	_, err = s.recommendations.Recommend(t.Context(), with(queue(web, 3, 20), incarnation("3"), ofCluster("b")))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	// Nor does it get the answer that the other one got.
	s.recommend(t, with(queue(web, 3, 20), incarnation("2"), ofCluster("a"), withID("r")))
	_, err = s.recommendations.Recommend(t.Context(), with(queue(web, 3, 20), incarnation("2"), ofCluster("b"), withID("r")))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// A dry run does not take the target, and shows which calls would be refused.
func TestADryRunTakesNoTarget(t *testing.T) {
	t.Parallel()
	s := start(t)
	dry := func(r *setpointv1.RecommendRequest) { r.DryRun = true }
	s.recommend(t, queue(web, 3, 30))
	s.recommend(t, with(queue(web, 3, 30), ofCluster("a"), dry))
	s.recommend(t, with(queue(web, 3, 30), ofCluster("b")))
	_, err := s.recommendations.Recommend(t.Context(), with(queue(web, 3, 30), ofCluster("a"), dry))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// Two requests of one batch, where the first one takes the target.
func TestTheFirstOfABatchTakesTheTarget(t *testing.T) {
	t.Parallel()
	s := start(t)
	results := s.batch(t, with(queue(web, 3, 30), ofCluster("a")), with(queue(web, 3, 30), ofCluster("b")), with(queue(web, 3, 30), ofCluster("a")))
	if results[0].GetResponse() == nil || results[2].GetResponse() == nil {
		t.Errorf("the one that has it: %v, %v", results[0], results[2])
	}
	wantProblem(t, problemOf(results[1].GetError()), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// A cached record alone refuses no call: the target may have been handed over.
func TestAHandOverReachesWhoRemembers(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.CacheBytes = 32 << 20 })
	s.recommend(t, with(queue(web, 3, 30), ofCluster("a")))
	if _, err := s.memory.Delete(t.Context(), keyOf(web)); err != nil { // by another instance
		t.Fatal(err)
	}
	s.recommend(t, with(queue(web, 3, 30), ofCluster("b")))
	_, err := s.recommendations.Recommend(t.Context(), with(queue(web, 3, 30), ofCluster("a")))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// A cluster can delete only its own targets; an operator, without a cluster, hands them
// over.
func TestDeleteSparesAnotherClustersTarget(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, with(queue(web, 3, 50), incarnation("1"), ofCluster("a")))
	remove := func(change func(*setpointv1.DeleteTargetRequest)) error {
		req := &setpointv1.DeleteTargetRequest{Name: web}
		change(req)
		_, err := s.targets.DeleteTarget(t.Context(), req)
		return err
	}
	before := s.stored(t, web)
	for _, uid := range []string{"", "1", "2"} {
		err := remove(func(r *setpointv1.DeleteTargetRequest) { r.TargetUid, r.ClusterUid = uid, "b" })
		wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	}
	s.ask(t, http.MethodDelete, "/v1/"+web+"?clusterUid=b", nil).expect(t, http.StatusBadRequest)
	if got := s.stored(t, web); string(got) != string(before) {
		t.Error("a refused delete has changed the history")
	}
	err := remove(func(r *setpointv1.DeleteTargetRequest) { r.TargetUid, r.ClusterUid = "2", "a" })
	if status.Code(err) != codes.NotFound {
		t.Errorf("another one of the same cluster: %v, want NOT_FOUND", err)
	}
	if err := remove(func(r *setpointv1.DeleteTargetRequest) { r.ClusterUid = "a" }); err != nil {
		t.Errorf("its own: %v", err)
	}
	s.recommend(t, with(queue(web, 3, 50), ofCluster("a")))
	if err := remove(func(*setpointv1.DeleteTargetRequest) {}); err != nil {
		t.Errorf("by an operator: %v", err)
	}
	s.recommend(t, with(queue(web, 3, 50), ofCluster("b")))
	s.put(t, web, encoding.AppendHistory(nil, &recommender.History{Seen: true, Updated: t0})) // without an owner
	if err := remove(func(r *setpointv1.DeleteTargetRequest) { r.ClusterUid = "a" }); err != nil {
		t.Errorf("a history without an owner: %v", err)
	}
}

// Without the store the rule applies to the last known owner, and responses to two
// clusters are not mixed when it is back.
func TestAnotherClusterDuringAnOutage(t *testing.T) {
	t.Parallel()
	s, on := away(t, nil)
	s.recommend(t, with(kept(3, 30), ofCluster("a")))
	s.recommend(t, kept(3, 30))
	on.Store(true)
	s.clock.Advance(time.Second)
	_, err := s.recommendations.Recommend(t.Context(), with(kept(3, 50), ofCluster("b")))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	s.recommend(t, with(kept(3, 50), ofCluster("a")))
	_, err = s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web, ClusterUid: "b"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("delete: %v, want UNAVAILABLE", err)
	}
	// Another instance has handed it over.
	theirs := encoding.AppendHistory(nil, &recommender.History{
		Seen: true, Initialized: true, Since: t0.UnixNano(), Updated: t0, Cluster: recommender.Cluster("b"),
		Recommendations: []recommender.TimedRecommendation{{Replicas: 8, At: t0.UnixNano()}},
	})
	s.put(t, web, theirs)
	on.Store(false)
	_, err = s.recommendations.Recommend(t.Context(), with(kept(3, 70), ofCluster("a")))
	wantProblem(t, rpcProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	if got := s.history(t, web); len(got.Recommendations) != 1 || got.Recommendations[0].Replicas != 8 {
		t.Errorf("mixed: %v", got.Recommendations)
	}
}

func TestClusterUIDsAreShortAndPlain(t *testing.T) {
	t.Parallel()
	s := start(t)
	for uid, ok := range map[string]bool{strings.Repeat("u", 64): true, strings.Repeat("u", 65): false, "a b": false, "é": false} {
		req := with(queue(web+"-"+string(rune('a'+len(uid)%26)), 3, 50), ofCluster(uid))
		_, err := s.recommendations.Recommend(t.Context(), req)
		if ok != (err == nil) {
			t.Errorf("%q: %v", uid, err)
		}
		if !ok {
			wantProblem(t, rpcProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
		}
		_, err = s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: req.GetTarget(), ClusterUid: uid})
		if !ok && status.Code(err) != codes.InvalidArgument {
			t.Errorf("delete with %q: %v", uid, err)
		}
	}
}
