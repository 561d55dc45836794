package decision_test

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
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// ofCluster sets the calling cluster.
func ofCluster(uid string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.ClusterUid = uid }
}

// Two clusters that use one name: the one that came first has the target, and the other
// one is refused and changes nothing.
func TestAnotherClusterOfTheNameIsRefused(t *testing.T) {
	t.Parallel()
	for way, ask := range ways {
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
					s := servertest.Start(t, func(su *servertest.Setup) {
						if cached {
							su.Options.CacheBytes = 32 << 20
						}
					})
					s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 90), ofCluster(tt.first)))
					before := s.Stored(t, servertest.Web)
					s.Clock.Advance(time.Second)
					_, got := ask(t, s, servertest.With(servertest.Queue(servertest.Web, 3, 20), ofCluster(tt.then)))
					if !tt.refused {
						if got.Code != codes.OK {
							t.Errorf("refused: %+v", got)
						}
						return
					}
					servertest.WantProblem(t, got, codes.FailedPrecondition, "OTHER_CLUSTER")
					if got.Metadata["target"] != servertest.Web || !strings.Contains(got.Message, servertest.Web) || !strings.Contains(got.Message, "delete the target") {
						t.Errorf("it does not say of what, or what to do: %+v", got)
					}
					if after := s.Stored(t, servertest.Web); string(after) != string(before) {
						t.Error("a refused request has changed the history")
					}
					// The owner stays the same, even after a request without a cluster.
					s.Recommend(t, servertest.Queue(servertest.Web, 3, 20))
					_, got = ask(t, s, servertest.With(servertest.Queue(servertest.Web, 3, 20), ofCluster(tt.then)))
					servertest.WantProblem(t, got, codes.FailedPrecondition, "OTHER_CLUSTER")
				})
			}
		}
	}
}

// The objects of two clusters have different uids: another object of the owning cluster
// starts a new history, one of another cluster does not.
func TestANamesakeOfAnotherCluster(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 90), incarnation("1"), ofCluster("a")))
	_, err := s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 20), incarnation("2"), ofCluster("b")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 20), incarnation("2"))) // without a cluster
	_, err = s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 20), incarnation("3"), ofCluster("b")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	// Nor does it get the answer that the other one got.
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 20), incarnation("2"), ofCluster("a"), servertest.WithID("r")))
	_, err = s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 20), incarnation("2"), ofCluster("b"), servertest.WithID("r")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// A dry run does not take the target, and shows which calls would be refused.
func TestADryRunTakesNoTarget(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	dry := func(r *setpointv1.RecommendRequest) { r.DryRun = true }
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("a"), dry))
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("b")))
	_, err := s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("a"), dry))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// Two requests of one batch, where the first one takes the target.
func TestTheFirstOfABatchTakesTheTarget(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	results := s.Batch(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("a")), servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("b")), servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("a")))
	if results[0].GetResponse() == nil || results[2].GetResponse() == nil {
		t.Errorf("the one that has it: %v, %v", results[0], results[2])
	}
	servertest.WantProblem(t, servertest.ProblemOf(results[1].GetError()), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// A cached record alone refuses no call: the target may have been handed over.
func TestAHandOverReachesWhoRemembers(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.CacheBytes = 32 << 20 })
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("a")))
	if _, err := s.Memory.Delete(t.Context(), servertest.KeyOf(servertest.Web)); err != nil { // by another instance
		t.Fatal(err)
	}
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("b")))
	_, err := s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 30), ofCluster("a")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
}

// A cluster can delete only its own targets; an operator, without a cluster, hands them
// over.
func TestDeleteSparesAnotherClustersTarget(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), incarnation("1"), ofCluster("a")))
	remove := func(change func(*setpointv1.DeleteTargetRequest)) error {
		req := &setpointv1.DeleteTargetRequest{Name: servertest.Web}
		change(req)
		_, err := s.Targets.DeleteTarget(t.Context(), req)
		return err
	}
	before := s.Stored(t, servertest.Web)
	for _, uid := range []string{"", "1", "2"} {
		err := remove(func(r *setpointv1.DeleteTargetRequest) { r.TargetUid, r.ClusterUid = uid, "b" })
		servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	}
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web+"?clusterUid=b", nil).Expect(t, http.StatusBadRequest)
	if got := s.Stored(t, servertest.Web); string(got) != string(before) {
		t.Error("a refused delete has changed the history")
	}
	err := remove(func(r *setpointv1.DeleteTargetRequest) { r.TargetUid, r.ClusterUid = "2", "a" })
	if status.Code(err) != codes.NotFound {
		t.Errorf("another one of the same cluster: %v, want NOT_FOUND", err)
	}
	if err := remove(func(r *setpointv1.DeleteTargetRequest) { r.ClusterUid = "a" }); err != nil {
		t.Errorf("its own: %v", err)
	}
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), ofCluster("a")))
	if err := remove(func(*setpointv1.DeleteTargetRequest) {}); err != nil {
		t.Errorf("by an operator: %v", err)
	}
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), ofCluster("b")))
	s.Put(t, servertest.Web, encoding.AppendHistory(nil, &recommender.History{Seen: true, Updated: servertest.T0})) // without an owner
	if err := remove(func(r *setpointv1.DeleteTargetRequest) { r.ClusterUid = "a" }); err != nil {
		t.Errorf("a history without an owner: %v", err)
	}
}

// Without the store the rule applies to the last known owner, and responses to two
// clusters are not mixed when it is back.
func TestAnotherClusterDuringAnOutage(t *testing.T) {
	t.Parallel()
	s, on := away(t, nil)
	s.Recommend(t, servertest.With(kept(3, 30), ofCluster("a")))
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	s.Clock.Advance(time.Second)
	_, err := s.Recommendations.Recommend(t.Context(), servertest.With(kept(3, 50), ofCluster("b")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	s.Recommend(t, servertest.With(kept(3, 50), ofCluster("a")))
	_, err = s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web, ClusterUid: "b"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("delete: %v, want UNAVAILABLE", err)
	}
	// Another instance has handed it over.
	theirs := record.Record{History: recommender.History{
		Seen: true, Initialized: true, Since: servertest.T0.UnixNano(), Updated: servertest.T0,
		Recommendations: []recommender.TimedRecommendation{{Replicas: 8, At: servertest.T0.UnixNano()}},
	}}
	theirs.Cluster = record.Cluster("b")
	s.Put(t, servertest.Web, record.Append(nil, &theirs))
	on.Store(false)
	_, err = s.Recommendations.Recommend(t.Context(), servertest.With(kept(3, 70), ofCluster("a")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "OTHER_CLUSTER")
	if got := history(t, s, servertest.Web); len(got.Recommendations) != 1 || got.Recommendations[0].Replicas != 8 {
		t.Errorf("mixed: %v", got.Recommendations)
	}
}

func TestClusterUIDsAreShortAndPlain(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for uid, ok := range map[string]bool{strings.Repeat("u", 64): true, strings.Repeat("u", 65): false, "a b": false, "é": false} {
		req := servertest.With(servertest.Queue(servertest.Web+"-"+string(rune('a'+len(uid)%26)), 3, 50), ofCluster(uid))
		_, err := s.Recommendations.Recommend(t.Context(), req)
		if ok != (err == nil) {
			t.Errorf("%q: %v", uid, err)
		}
		if !ok {
			servertest.WantProblem(t, servertest.RPCProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
		}
		_, err = s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: req.GetTarget(), ClusterUid: uid})
		if !ok && status.Code(err) != codes.InvalidArgument {
			t.Errorf("delete with %q: %v", uid, err)
		}
	}
}
