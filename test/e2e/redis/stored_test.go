//go:build linux

package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// specCall is a call about a target's stored spec.
type specCall struct {
	kind string // set, get, delete or poll
	// value is the spec's that was set, which names it: no other has its maxReplicas.
	value int32
	// etag is the given etag; empty: none.
	etag string
	span
	code codes.Code
	// saw is the value in the answer, 0 for none, and gave its etag.
	saw  int32
	gave string
}

// specLoad is calls about stored specs, by target.
type specLoad struct {
	t        *testing.T
	services []*service.Instance
	began    time.Time
	// tickets and values are the drawn numbers; answered counts answered calls, witnessed the
	// examined decisions.
	tickets, values, answered, witnessed atomic.Int64
	stopping                             chan struct{}
	running                              sync.WaitGroup

	mu sync.Mutex
	// calls and etags, the last of each target that was seen, are guarded by mu.
	calls map[string][]*specCall
	etags map[string]string
}

// callsOfATarget is how many calls are about one target before the next one's turn comes:
// short histories are quick to check.
const callsOfATarget = 80

func (l *specLoad) name(ticket int64) string {
	return fmt.Sprint("clusters/demo/namespaces/shop/targets/spec-", ticket/callsOfATarget)
}

// storedSpec is a spec with that value, whose decisions show the observation.
func storedSpec(value int32, etag string) *setpointv1.TargetSpec {
	return &setpointv1.TargetSpec{
		Etag: etag, AssumeApplied: true, Period: durationpb.New(time.Second),
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: value,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1000000000")}, // of one replica
			}}},
		},
	}
}

// call makes one call at any of the services.
func (l *specLoad) call(ticket int64) {
	name, s := l.name(ticket), l.services[rand.IntN(len(l.services))]
	c := &specCall{kind: "poll"}
	switch n := rand.IntN(20); {
	case n < 6:
		c.kind, c.value = "set", int32(l.values.Add(1))
	case n < 9:
		c.kind = "get"
	case n < 11:
		c.kind = "delete"
	}
	l.mu.Lock()
	if rand.IntN(2) == 0 {
		c.etag = l.etags[name]
	}
	l.mu.Unlock()
	timeout := 5 * time.Second
	if rand.IntN(60) == 0 {
		timeout = time.Duration(1+rand.IntN(4)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c.from = time.Since(l.began)
	var spec *setpointv1.TargetSpec
	var err error
	switch c.kind {
	case "set":
		var r *setpointv1.SetTargetSpecResponse
		r, err = s.Targets().SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: storedSpec(c.value, c.etag)})
		spec = r.GetTargetSpec()
	case "get":
		var r *setpointv1.GetTargetSpecResponse
		r, err = s.Targets().GetTargetSpec(ctx, &setpointv1.GetTargetSpecRequest{Name: name})
		spec = r.GetTargetSpec()
	case "delete":
		_, err = s.Targets().DeleteTargetSpec(ctx, &setpointv1.DeleteTargetSpecRequest{Name: name, Etag: c.etag})
	case "poll":
		var r *setpointv1.GetRecommendationResponse
		r, err = s.Recommendations().GetRecommendation(ctx, &setpointv1.GetRecommendationRequest{Target: name})
		c.saw = r.GetRecommendation().GetMaxReplicas()
	}
	c.to, c.code = time.Since(l.began), status.Code(err)
	if err != nil && strings.Contains(err.Error(), "Error while dialing") {
		// Without a connection nothing was sent: pause before calling that service again.
		time.Sleep(5 * time.Millisecond)
		return
	}
	if spec != nil {
		c.saw, c.gave = spec.GetSpec().GetMaxReplicas(), spec.GetEtag()
	}
	if err == nil {
		l.answered.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[name] = append(l.calls[name], c)
	if c.gave != "" {
		l.etags[name] = c.gave
	}
}

// report reports a number of a target.
func (l *specLoad) report(ctx context.Context, target string, number int64) error {
	_, err := l.services[rand.IntN(len(l.services))].Recommendations().ReportObservation(ctx, &setpointv1.ReportObservationRequest{
		Target:          target,
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: strconv.FormatInt(number, 10)}},
	})
	return err
}

// witness stores a spec of its own target, reports a number and polls, each at any of the
// services: the decision must use that number. It reports whether all three were answered.
func (l *specLoad) witness(number int64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	some := func() *service.Instance { return l.services[rand.IntN(len(l.services))] }
	name := fmt.Sprint("clusters/demo/namespaces/shop/targets/witness-", number%5)
	_, err := some().Targets().SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: storedSpec(int32(l.values.Add(1)), "")})
	if err != nil || l.report(ctx, name, number) != nil {
		return false
	}
	r, err := some().Recommendations().GetRecommendation(ctx, &setpointv1.GetRecommendationRequest{Target: name})
	if err != nil {
		return false
	}
	metrics := r.GetRecommendation().GetStatus().GetCurrentMetrics()
	if want := strconv.FormatInt(number, 10); len(metrics) != 1 || metrics[0].GetExternal().GetCurrent().GetAverageValue() != want {
		l.t.Errorf("%s: the decision is made of %v, after %s was reported", name, metrics, want)
	}
	return true
}

// begin has callers call and one report, until stop.
func (l *specLoad) begin(callers int) {
	stopped := func() bool {
		select {
		case <-l.stopping:
			return true
		default:
			return false
		}
	}
	for range callers {
		l.running.Go(func() {
			for !stopped() {
				l.call(l.tickets.Add(1))
			}
		})
	}
	l.running.Go(func() {
		for number := int64(1); !stopped(); number++ {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_ = l.report(ctx, l.name(l.tickets.Load()), number) // so that polls find something
			cancel()
			if l.witness(number) {
				l.witnessed.Add(1)
			}
		}
	})
}

// awaitAnswers waits until so many further calls were answered.
func (l *specLoad) awaitAnswers(n int64) {
	l.t.Helper()
	want := l.answered.Load() + n
	for deadline := time.Now().Add(time.Minute); l.answered.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatal("no answers for a minute")
		}
	}
}

// specModel is a stored spec: its value, or 0. A call with unknown outcome may or may not have
// happened.
var specModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{int32(0)} },
	Step: func(s, input, output any) []any {
		state, in, out := s.(int32), input.(specInput), output.(*specCall)
		matches := !in.conditional || state != 0 && state == in.expects
		next := in.value // of a set; 0 of a delete
		switch {
		case out.kind == "get", out.kind == "poll":
			if out.saw == state {
				return []any{state}
			}
			return nil
		case out.unknown():
			if matches {
				return []any{state, next}
			}
			return []any{state}
		case out.code == codes.OK && matches && (out.kind == "set" || state != 0):
			return []any{next}
		case out.code == codes.NotFound && out.kind == "delete" && state == 0,
			out.code == codes.Aborted && in.conditional && !matches:
			return []any{state}
		}
		return nil
	},
}).ToModel()

// specInput is a call: the new value, if the spec must have another one, whether it is
// conditional.
type specInput struct {
	value, expects int32
	conditional    bool
}

// unknown reports whether the call's outcome is unknown.
func (c *specCall) unknown() bool {
	return c.code != codes.OK && c.code != codes.NotFound && c.code != codes.Aborted
}

// operations are the calls of a target as the model has them.
func (l *specLoad) operations(calls []*specCall) (all []porcupine.Operation) {
	valueOf := make(map[string]int32)
	for _, c := range calls {
		if c.gave == "" {
			continue
		}
		if of, known := valueOf[c.gave]; known && of != c.saw {
			l.t.Errorf("etag %s is that of the specs %d and %d", c.gave, of, c.saw)
		}
		valueOf[c.gave] = c.saw
	}
	for _, c := range calls {
		read := c.kind == "get" || c.kind == "poll"
		contended := c.code == codes.Aborted && c.etag == ""
		if read && c.unknown() || contended {
			continue // it wrote and shows nothing
		}
		to := int64(c.to)
		if c.unknown() {
			to = 1 << 62
		}
		// An etag that no answer returned matches nothing.
		in := specInput{value: c.value, conditional: c.etag != "" && !read, expects: valueOf[c.etag]}
		all = append(all, porcupine.Operation{Input: in, Output: c, Call: int64(c.from), Return: to})
	}
	return all
}

// Three services share a Redis. Callers store, replace by etag, read and delete the specs of one
// target after the other, and poll them, at any of the services, some with deadlines of a few
// milliseconds; one reports what is observed. Meanwhile the services are killed, one at
// a time, and started again.
//
// All the same there is an order of all calls in which each took effect while it went on: a poll
// is answered by the spec that is stored then. And a decision is made of what was reported before
// it was asked for, whichever services were asked.
func TestStoredSpecsAreLinearizableWhileServicesAreKilled(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	services := service.StartAll(t, 3, append(serviceFlags, "--redis="+server.URL())...)
	l := &specLoad{t: t, services: services, began: time.Now(), stopping: make(chan struct{}), calls: map[string][]*specCall{}, etags: map[string]string{}}
	l.begin(12)
	kills := 0
	for limit := loadTime(t) / 2; time.Since(l.began) < limit || kills < enoughKills; kills++ {
		victim := services[kills%len(services)]
		l.awaitAnswers(rand.Int64N(100))
		victim.Kill()
		l.awaitAnswers(rand.Int64N(20))
		service.RestartAll([]*service.Instance{victim})
		l.awaitAnswers(rand.Int64N(200))
	}
	close(l.stopping)
	l.running.Wait()

	outcomes, unknown, unchecked := map[string]int{}, 0, 0
	for name, calls := range l.calls {
		switch result, _ := porcupine.CheckOperationsVerbose(specModel, l.operations(calls), 10*time.Second); result {
		case porcupine.Illegal:
			t.Errorf("%s: there is no order of its %d calls", name, len(calls))
		case porcupine.Unknown: // many calls have an unknown outcome
			unchecked++
		}
		for _, c := range calls {
			outcomes[c.kind+" "+c.code.String()]++
			if c.unknown() {
				unknown++
			}
		}
	}
	t.Logf("%d targets, of which %d took too long to check, %d kills, %d decisions looked at; outcomes: %v", len(l.calls), unchecked, kills, l.witnessed.Load(), outcomes)
	if unchecked > len(l.calls)/10 {
		t.Errorf("%d of %d targets took too long to check", unchecked, len(l.calls))
	}
	if unknown == 0 || outcomes["set Aborted"] == 0 || outcomes["delete Aborted"] == 0 || outcomes["poll OK"] == 0 || l.witnessed.Load() == 0 {
		t.Error("too little happened to have shown anything")
	}
}

// The check can fail: a spec that comes back after it was replaced is no register's.
func TestTheCheckOfSpecsCanFail(t *testing.T) {
	at := func(kind string, from, value, saw int32, etag, gave string) *specCall {
		return &specCall{kind: kind, value: value, saw: saw, etag: etag, gave: gave, span: span{from: time.Duration(from), to: time.Duration(from + 1)}}
	}
	l := &specLoad{t: t}
	for _, tt := range []struct {
		name  string
		calls []*specCall
		want  porcupine.CheckResult
	}{
		{"a poll of the spec that is stored", []*specCall{at("set", 0, 1, 1, "", "a"), at("poll", 2, 0, 1, "", "")}, porcupine.Ok},
		{"a poll of a spec that was replaced", []*specCall{at("set", 0, 1, 1, "", "a"), at("set", 2, 2, 2, "a", "b"), at("poll", 4, 0, 1, "", "")}, porcupine.Illegal},
		{"an etag that counts twice", []*specCall{at("set", 0, 1, 1, "", "a"), at("set", 2, 2, 2, "a", "b"), at("set", 4, 3, 3, "a", "c")}, porcupine.Illegal},
		{"a spec that is there after its delete", []*specCall{at("set", 0, 1, 1, "", "a"), at("delete", 2, 0, 0, "", ""), at("get", 4, 0, 1, "", "a")}, porcupine.Illegal},
	} {
		if got, _ := porcupine.CheckOperationsVerbose(specModel, l.operations(tt.calls), time.Minute); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
