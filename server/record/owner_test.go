package record

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

func TestIncarnation(t *testing.T) {
	t.Parallel()
	equal(t, "of nothing", Incarnation(""), uint64(0))
	equal(t, "of the published value of FNV-1a", Incarnation("foobar"), uint64(0x85944171f73967e8))
	equal(t, "of bytes", Incarnation([]byte("foobar")), Incarnation("foobar"))
}

func TestTheHistoryOfANamesake(t *testing.T) {
	t.Parallel()
	h := Record{History: recommender.History{Seen: true, Updated: t0, Status: recommender.Status{DesiredReplicas: 7}}}
	h.Answers, h.Incarnation = []Answer{{RequestID: "a"}}, 1
	equal(t, "its own", h.Of(1), h)
	equal(t, "of somebody who does not say", h.Of(0), h)
	equal(t, "another's", h.Of(2), Record{History: recommender.History{Updated: t0}})
	h.Cluster = 3
	equal(t, "another's of the same cluster, which keeps the name", h.Of(2), Record{History: recommender.History{Updated: t0}, Frame: codec.Frame{Cluster: 3}})
	h.Incarnation = 0
	equal(t, "of nobody known", h.Of(2), h)
}

func TestADecisionRemembersWhoItWasFor(t *testing.T) {
	t.Parallel()
	var h Record
	h = h.Next(h.History, Owner{})
	equal(t, "of nobody", h.Incarnation, uint64(0))
	h = h.Next(h.History, Owner{Incarnation: 7})
	equal(t, "of somebody", h.Incarnation, uint64(7))
	h = h.Next(h.History, Owner{})
	equal(t, "of the one before, who asks without saying so", h.Incarnation, uint64(7))
}

func TestAHistoryIsKeptWithItsIncarnation(t *testing.T) {
	t.Parallel()
	h := seen(func(r *Record) { r.Incarnation = Incarnation("6f3f7e0e") })
	encoded := Append(nil, &h)
	decoded := decode(t, encoded)
	equal(t, "as it is read", decoded, h)
	h.Incarnation = 0
	equal(t, "bytes that it takes", len(encoded)-len(Append(nil, &h)), 8)
}

// earlierAndLater are two records with different recommendations.
func earlierAndLater() (earlier, later Record) {
	earlier, later = seen(func(*Record) {}), seen(func(*Record) {})
	earlier.Recommendations = []recommender.TimedRecommendation{{Replicas: 9, At: 1}}
	later.Updated, later.Recommendations = t0.Add(time.Second), []recommender.TimedRecommendation{{Replicas: 2, At: 2}}
	return earlier, later
}

// Two instances met two things of one name while the store was away.
func TestMergeOfNamesakes(t *testing.T) {
	t.Parallel()
	first, second := earlierAndLater()
	first.Incarnation, second.Incarnation = 1, 2
	equal(t, "the later one is local", Merge(&first, &second), second)
	equal(t, "the later one is stored", Merge(&second, &first), second)
	unknown := second
	unknown.Incarnation = 0
	equal(t, "who it is only one knows", Merge(&first, &unknown).Incarnation, uint64(1))
	equal(t, "who it is only the other one knows", Merge(&unknown, &first).Incarnation, uint64(1))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	equal(t, "of nothing", Cluster(""), uint32(0))
	equal(t, "of the published value of FNV-1a", Cluster("foobar"), uint32(0xbf9cf968))
	equal(t, "of bytes", Cluster([]byte("foobar")), Cluster("foobar"))
}

func TestWhoseHistoryItMayBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		known, ask uint32
		want       bool
	}{
		{"nobody's, of nobody", 0, 0, true},
		{"nobody's, of somebody", 0, 1, true},
		{"somebody's, of one who does not say", 1, 0, true},
		{"somebody's own", 1, 1, true},
		{"another's", 1, 2, false},
	} {
		h := Record{Frame: codec.Frame{Cluster: tt.known}}
		equal(t, tt.name, h.IsOfCluster(tt.ask), tt.want)
	}
}

func TestADecisionRemembersTheCluster(t *testing.T) {
	t.Parallel()
	var h Record
	h = h.Next(h.History, Owner{})
	equal(t, "of nobody", h.Cluster, uint32(0))
	h = h.Next(h.History, Owner{Cluster: 7})
	equal(t, "of the first one that says so", h.Cluster, uint32(7))
	h = h.Next(h.History, Owner{})
	equal(t, "of the one before, which asks without saying so", h.Cluster, uint32(7))
}

// Two clusters of one name met two instances while the store was away.
func TestMergeOfTwoClusters(t *testing.T) {
	t.Parallel()
	stored, local := earlierAndLater()
	stored.Cluster, local.Cluster = 1, 2
	equal(t, "the one in the store has it, although it is older", Merge(&stored, &local), stored)
	equal(t, "also if it is the later one", Merge(&local, &stored), local)
	stored.Incarnation, local.Incarnation = 1, 2
	equal(t, "also of things that differ", Merge(&stored, &local), stored)
	local.Cluster = 0
	equal(t, "whose the later thing is only the earlier one knows", Merge(&stored, &local).Cluster, uint32(1))
	equal(t, "whose the earlier thing is only the later one knows", Merge(&local, &stored).Cluster, uint32(1))
	stored.Incarnation, local.Incarnation = 1, 1
	equal(t, "whose it is only the store knows", Merge(&stored, &local).Cluster, uint32(1))
	equal(t, "whose it is only this instance knows", Merge(&local, &stored).Cluster, uint32(1))
}
