//go:build linux

package redis

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
	kept "github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newMemory(t *testing.T) *memory.Store {
	e := memory.New(memory.Options{})
	t.Cleanup(func() { _ = e.Close() })
	return e
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
	fatal.If(t, err)
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
		history, err := kept.Decode(record.Value)
		return conversion.Target(name, &history, true), err
	})
	for _, c := range records[0].calls {
		c.answer = proto.CloneOf(c.answer)
	}
	return records[0]
}
