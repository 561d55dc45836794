package decisionlog

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
)

var decidedAt = time.Date(2026, time.March, 3, 10, 0, 0, 0, time.UTC)

func TestAnEntryHasTheBasisOfItsDecision(t *testing.T) {
	t.Parallel()
	n := func(n int32) *int32 { return &n }
	for _, tc := range []struct {
		name  string
		basis recommender.Basis
		want  *setpointv1.DecisionBasis
	}{
		{"nothing is known", recommender.Basis{}, nil},
		{
			"bounds only: at a bound no metric is read",
			recommender.Basis{Min: 0, Max: 7, Bounded: true, UpWindow: 0, DownWindow: 300, Windowed: true},
			&setpointv1.DecisionBasis{MinReplicas: n(0), MaxReplicas: n(7), ScaleUpWindowSeconds: n(0), ScaleDownWindowSeconds: n(300)},
		},
		{
			"a scale-up with two metrics, one of which failed",
			recommender.Basis{
				Min: 1, Max: 20, Bounded: true, Proposal: 9, Decided: true, Limit: 8, Direction: recommender.Up, HasLimit: true,
				UpWindow: 15, DownWindow: 60, Windowed: true, Proposals: [4]int32{9, -1}, ProposalsLen: 2,
			},
			&setpointv1.DecisionBasis{
				Proposal: n(9), MetricProposals: []int32{9, -1}, MinReplicas: n(1), MaxReplicas: n(20), Ceiling: n(8),
				ScaleUpWindowSeconds: n(15), ScaleDownWindowSeconds: n(60),
			},
		},
		{
			"a scale-down to a floor of zero, by a profile without windows",
			recommender.Basis{Min: 0, Max: 3, Bounded: true, Decided: true, Direction: recommender.Down, HasLimit: true, ProposalsLen: 1},
			&setpointv1.DecisionBasis{Proposal: n(0), MetricProposals: []int32{0}, MinReplicas: n(0), MaxReplicas: n(3), Floor: n(0)},
		},
		{"what the history knows of a change", recommender.Basis{Proposal: 4, Decided: true}, &setpointv1.DecisionBasis{Proposal: n(4)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := recommender.Decision{ID: recommender.ID{1}, At: decidedAt, Current: 4, Desired: 8, Reason: "queue above target", Basis: tc.basis}
			entry := OfDecision(&d, "request", 7)
			value := entry.value(entry.decision)
			got := Read(value)
			if !proto.Equal(got.GetBasis(), tc.want) {
				t.Errorf("got %v, want %v", got.GetBasis(), tc.want)
			}
			d.Basis = recommender.Basis{}
			entry = OfDecision(&d, "request", 7)
			without := entry.value(entry.decision)
			if got.Basis, got.States = nil, nil; !proto.Equal(Read(without), got) {
				t.Errorf("without the basis %v is read, want %v", Read(without), got)
			}
			if len(value) > len(without)+40 {
				t.Errorf("%d bytes, %d without the basis", len(value), len(without))
			}
		})
	}
}

// Entries of earlier versions are a record, whose lists have the basis.
func TestAnEntryOfAnEarlierVersionIsRead(t *testing.T) {
	t.Parallel()
	n := func(n int32) *int32 { return &n }
	counts := func(counts ...int32) (events []recommender.ScaleEvent) {
		for _, count := range counts {
			events = append(events, recommender.ScaleEvent{Change: count, At: decidedAt.UnixNano()})
		}
		return events
	}
	of := func(h recommender.History) []byte {
		h.Updated, h.Last = decidedAt, recommender.LastDecision{ID: recommender.ID{1}, At: decidedAt.UnixNano(), From: 4, To: 8}
		return record.Append(nil, &record.Record{History: h})
	}
	for _, tc := range []struct {
		name  string
		value []byte
		want  *setpointv1.DecisionBasis
	}{
		{"nothing is known", of(recommender.History{}), nil},
		{
			"a scale-up without windows", of(recommender.History{
				Recommendations: []recommender.TimedRecommendation{{Replicas: 9, At: decidedAt.UnixNano()}, {Replicas: 9, At: decidedAt.UnixNano()}, {Replicas: -1, At: decidedAt.UnixNano()}},
				ScaleUps:        counts(20, -1, 8), ScaleDowns: counts(1, -1),
			}),
			&setpointv1.DecisionBasis{Proposal: n(9), MetricProposals: []int32{9, -1}, MinReplicas: n(1), MaxReplicas: n(20), Ceiling: n(8)},
		},
		{
			"bounds and windows", of(recommender.History{ScaleUps: counts(20, 15), ScaleDowns: counts(1, 60, 0)}),
			&setpointv1.DecisionBasis{MinReplicas: n(1), MaxReplicas: n(20), ScaleUpWindowSeconds: n(15), ScaleDownWindowSeconds: n(60), Floor: n(0)},
		},
	} {
		got := Read(tc.value)
		if got.GetDesiredReplicas() != 8 || !proto.Equal(got.GetBasis(), tc.want) {
			t.Errorf("%s: %v is read, want the basis %v", tc.name, got, tc.want)
		}
		for n := range tc.value {
			if got := Read(tc.value[:n]); got != nil {
				t.Errorf("%s: of %d bytes %v is read", tc.name, n, got)
			}
		}
	}
}

// A change is logged when it is settled: with its basis by the instance that recommended it, with
// the proposal that the history knows by any other.
func TestASettledChangeHasTheBasisOfItsDecision(t *testing.T) {
	t.Parallel()
	before := record.Record{History: recommender.History{
		Pending:         &recommender.Pending{ID: recommender.ID{7}, At: decidedAt.UnixNano(), From: 2, To: 4},
		Recommendations: []recommender.TimedRecommendation{{Replicas: 9, At: decidedAt.UnixNano() - 1}, {Replicas: 5, At: decidedAt.UnixNano()}},
	}}
	one, other := New(nil, nil, zap.NewNop(), 0), New(nil, nil, zap.NewNop(), 0)
	defer one.Close()
	defer other.Close()
	one.Recommended(&recommender.Decision{ID: recommender.ID{7}, Basis: recommender.Basis{Min: 2, Max: 4, Bounded: true, Proposal: 5, Decided: true}})
	for range 2 { // a settlement that loses a race is repeated
		entry := one.OfSettled(&before, &before.Status, recommender.Applied)
		got := Read(entry.value(entry.decision)).GetBasis()
		if got.GetProposal() != 5 || got.GetMaxReplicas() != 4 || got.GetMinReplicas() != 2 {
			t.Errorf("by the instance that recommended it: %v", got)
		}
	}
	entry := other.OfSettled(&before, &before.Status, recommender.Applied)
	got := Read(entry.value(entry.decision)).GetBasis()
	if got.GetProposal() != 5 || got.MaxReplicas != nil {
		t.Errorf("by another instance: %v", got)
	}
	for i := range 2 * maxPending {
		id := recommender.ID{1, byte(i), byte(i >> 8)}
		one.Recommended(&recommender.Decision{ID: id})
	}
	if n := len(one.pending.byID); n > maxPending {
		t.Errorf("%d changes are remembered, at most %d", n, maxPending)
	}
	if _, known := one.pending.of(recommender.ID{7}); known {
		t.Error("the oldest change is still remembered")
	}
}

// A change that is noted twice has one place: its first one is not given to another, which would
// forget it too early.
func TestAChangeThatIsNotedTwice(t *testing.T) {
	t.Parallel()
	l := New(nil, nil, zap.NewNop(), 0)
	defer l.Close()
	twice := &recommender.Decision{ID: recommender.ID{7}}
	l.Recommended(&recommender.Decision{ID: recommender.ID{6}})
	l.Recommended(twice)
	l.Recommended(twice)
	for i := range maxPending - 1 {
		l.Recommended(&recommender.Decision{ID: recommender.ID{1, byte(i), byte(i >> 8)}})
	}
	if _, known := l.pending.of(recommender.ID{6}); known {
		t.Error("the oldest is still known")
	}
	if _, known := l.pending.of(twice.ID); !known {
		t.Error("the one after it is forgotten")
	}
}

func BenchmarkOfDecision(b *testing.B) {
	for _, with := range []bool{true, false} {
		b.Run(fmt.Sprintf("basis=%v", with), func(b *testing.B) { benchmarkOfDecision(b, with) })
	}
}

func benchmarkOfDecision(b *testing.B, with bool) {
	d := recommender.Decision{
		ID: recommender.ID{1}, At: decidedAt, Current: 4, Desired: 4,
		Status: recommender.Status{
			CurrentReplicas: 4, DesiredReplicas: 4,
			Conditions: []recommender.Condition{
				{Type: recommender.AbleToScale, Status: recommender.ConditionTrue, Reason: "ReadyForNewScale", Message: "recommended size matches current size", LastTransitionTime: decidedAt},
				{Type: recommender.ScalingActive, Status: recommender.ConditionTrue, Reason: "ValidMetricFound", Message: "the HPA was able to successfully calculate a replica count from external metric queue(nil)", LastTransitionTime: decidedAt},
				{Type: recommender.ScalingLimited, Status: recommender.ConditionFalse, Reason: "DesiredWithinRange", Message: "the desired count is within the acceptable range", LastTransitionTime: decidedAt},
			},
		},
		Basis: recommender.Basis{
			Min: 2, Max: 20, Bounded: true, Proposal: 4, Decided: true, Limit: 8, Direction: recommender.Up, HasLimit: true,
			DownWindow: 300, Windowed: true, Proposals: [4]int32{4}, ProposalsLen: 1,
		},
	}
	if !with {
		d.Basis = recommender.Basis{}
	}
	b.ReportAllocs()
	var entry Entry
	for b.Loop() {
		entry = OfDecision(&d, "", 7)
	}
	b.ReportMetric(float64(len(entry.value(entry.decision))), "bytes/entry")
}

func BenchmarkWritten(b *testing.B) {
	entry := OfDecision(&recommender.Decision{ID: recommender.ID{1}, At: decidedAt, Basis: recommender.Basis{
		Min: 2, Max: 20, Bounded: true, Proposal: 4, Decided: true, DownWindow: 300, Windowed: true, Proposals: [4]int32{4}, ProposalsLen: 1,
	}}, "", 7)
	b.ReportAllocs()
	for b.Loop() {
		entry.value(entry.decision)
	}
}
