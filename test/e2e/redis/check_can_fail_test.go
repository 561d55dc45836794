//go:build linux

package redis

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// forgetful loses answers in transit: the calls were performed nevertheless.
type forgetful struct{ frontend }

func forgetfully(f frontend) frontend { return forgetful{f} }
func clearly(f frontend) frontend     { return f }

var errLostAnswer = status.Error(codes.Unavailable, "the answer was lost")

func (f forgetful) Recommend(ctx context.Context, request *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	response, err := f.frontend.Recommend(ctx, request)
	if err == nil && rand.IntN(4) == 0 {
		return nil, errLostAnswer
	}
	return response, err
}

func (f forgetful) ReportScale(ctx context.Context, request *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	response, err := f.frontend.ReportScale(ctx, request)
	if err == nil && rand.IntN(4) == 0 {
		return nil, errLostAnswer
	}
	return response, err
}

// careless is a store that does not compare before it swaps: it writes over whatever
// stands. Of the first two swaps both callers have loaded before either is made.
type careless struct {
	*memory.Store
	swaps atomic.Int64
	two   chan struct{}
}

func (s *careless) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	switch s.swaps.Add(1) {
	case 1:
		select {
		case <-s.two:
		case <-ctx.Done():
		}
	case 2:
		close(s.two)
	}
	for {
		record, err := s.Load(ctx, swap.Key)
		if err != nil {
			return store.SwapResult{}, err
		}
		swap.Old = record.Version
		result, err := s.Store.CompareAndSwap(ctx, swap)
		if err != nil || result.Swapped {
			return result, err
		}
	}
}

// engine is a store that keeps decisions too.
type engine interface {
	store.Store
	store.Log
}

// inProcess runs a load on one in-process server, as seen by callers through see, and returns
// its records.
func inProcess(t *testing.T, e engine, see func(frontend) frontend, change func(*server.Options)) []*record {
	t.Helper()
	options := server.DefaultOptions()
	options.AnswerLimit, options.AnswerBytes = 512, 1<<20
	if change != nil {
		change(&options)
	}
	s, err := server.New(e, e, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l := startLoad(t, []frontend{see(s.Recommendations())}, callOptions{
		callers: 4, name: inTurn(1, 200), giveUp: 0.2, patience: 5 * time.Second,
	})
	l.awaitAnswers(400)
	l.stop()
	return l.records(func(name string) (*setpointv1.Target, error) {
		key := store.Key{Cluster: "e2e", Namespace: "load", Target: strings.TrimPrefix(name, targetPrefix)}
		record, err := e.Load(t.Context(), key)
		if err != nil || !record.Exists() {
			return nil, err
		}
		history, err := encoding.DecodeHistory(record.Value)
		return conversion.Target(name, &history, true), err
	})
}

func newMemory(t *testing.T) *memory.Store {
	e := memory.New(memory.Options{})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestTheChecksPassWhereAnswersAreLostAndCallersGiveUp(t *testing.T) {
	a, _ := checkAll(t, inProcess(t, newMemory(t), forgetfully, nil))
	if a.answered < 400 || a.unknownKept == 0 {
		t.Errorf("%d calls answered, %d of unknown outcome in the history: too few to have shown anything", a.answered, a.unknownKept)
	}
}

func TestTheChecksFailOnAStoreThatDoesNotCompare(t *testing.T) {
	records := inProcess(t, &careless{Store: newMemory(t), two: make(chan struct{})}, clearly, nil)
	a := accountOf(records)
	if len(a.lost) == 0 {
		t.Error("the account misses no answered recommendation")
	}
	illegal := 0
	for _, r := range records {
		if r.linearizable() != nil {
			illegal++
		}
	}
	if illegal == 0 {
		t.Error("porcupine finds an order for all targets")
	}
	t.Logf("%d of %d answered recommendations lost, %d of %d targets not linearizable", len(a.lost), a.answered, illegal, len(records))
}

func TestTheChecksFailWhereRequestIDsAreForgotten(t *testing.T) {
	records := inProcess(t, newMemory(t), forgetfully, func(o *server.Options) { o.AnswerRetention = 0 })
	if a := accountOf(records); len(a.faults) == 0 {
		t.Error("the account finds nothing doubled")
	}
}

// Each of these is a fault that the check named must find, in records that are right
// but for it.
func TestTheChecksFailOnRecordsThatWereTamperedWith(t *testing.T) {
	accountFails := func(r *record) bool {
		a := accountOf([]*record{r})
		return len(a.faults)+len(a.lost)+len(a.lostReports) > 0
	}
	orderFails := func(r *record) bool { accountOf([]*record{r}); return r.linearizable() != nil }
	replayFails := func(r *record) bool { accountOf([]*record{r}); return len(r.replay()) > 0 }
	for _, test := range []struct {
		name   string
		tamper func(r *record)
		fails  []func(*record) bool
	}{
		{"nothing", func(*record) {}, nil},
		{"an answered recommendation is not in the history", func(r *record) {
			r.target.History.Recommendations = append(r.target.History.Recommendations[:5], r.target.History.Recommendations[6:]...)
		}, []func(*record) bool{accountFails, orderFails, replayFails}},
		{"one is there twice", func(r *record) {
			h := r.target.History
			h.Recommendations = append(h.Recommendations, h.Recommendations[5])
		}, []func(*record) bool{accountFails, orderFails, replayFails}},
		{"one is nobody's", func(r *record) {
			h := r.target.History
			h.Recommendations = append(h.Recommendations, &setpointv1.TimedRecommendation{Replicas: 2 * largest})
		}, []func(*record) bool{accountFails, orderFails}},
		{"two have changed places", func(r *record) {
			h := r.target.History.Recommendations
			h[5], h[6] = h[6], h[5]
		}, []func(*record) bool{replayFails}},
		{"an applied change is not there", func(r *record) {
			r.target.History.ScaleUps = r.target.History.ScaleUps[1:]
		}, []func(*record) bool{accountFails, orderFails, replayFails}},
		{"an answer was made on an older history", func(r *record) {
			r.order[20].answer.Explanation.History.Recommendations--
		}, []func(*record) bool{orderFails, replayFails}},
		{"an answer has seen a change too few", func(r *record) {
			answer := r.order[len(r.order)-1].answer
			answer.Explanation.History.ScaleUps--
		}, []func(*record) bool{orderFails, replayFails}},
		{"an answer had ended before one that it builds on began", func(r *record) {
			first, last := r.order[5], r.order[len(r.order)-5]
			first.from, first.to, last.from, last.to = last.from, last.to, first.from, first.to
		}, []func(*record) bool{orderFails}},
		{"a condition says something else", func(r *record) {
			r.order[7].answer.Status.Conditions[0].Message += "!"
		}, []func(*record) bool{replayFails}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := sequential(t)
			if accountFails(r) || orderFails(r) || replayFails(r) {
				t.Fatal("a check fails before")
			}
			test.tamper(r)
			for i, fails := range test.fails {
				if !fails(r) {
					t.Errorf("check %d of those that should does not find it", i)
				}
			}
		})
	}
}

// sequential returns the record of a target that one caller has called, with a report
// after each call.
func sequential(t *testing.T) *record {
	t.Helper()
	e := newMemory(t)
	options := server.DefaultOptions()
	s, err := server.New(e, e, options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &load{t: t, frontends: []frontend{s.Recommendations()}, began: time.Now()}
	for i := range 40 {
		c := newCall(int64(i), targetPrefix+"t0-0")
		l.recommend(c)
		c.report = &report{}
		l.report(c)
		l.calls = append(l.calls, c)
	}
	records := l.records(func(name string) (*setpointv1.Target, error) {
		record, err := e.Load(t.Context(), store.Key{Cluster: "e2e", Namespace: "load", Target: "t0-0"})
		if err != nil {
			return nil, err
		}
		history, err := encoding.DecodeHistory(record.Value)
		return conversion.Target(name, &history, true), err
	})
	for _, c := range records[0].calls {
		c.answer = proto.CloneOf(c.answer)
	}
	return records[0]
}
