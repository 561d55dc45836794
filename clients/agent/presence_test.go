package agent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func keyNamed(name string) Key { return Key{Kind: "Service", Namespace: "shop", Name: name} }

func newTestPresence(t *testing.T, wake func(...Key)) *presence {
	t.Helper()
	m, err := newMetrics(nil, nil, nil)
	fatal.If(t, err)
	return newPresence(wake, nil, m, zap.NewNop(), &once{})
}

// A late probe may still send its request: how long an object waits for its turn says nothing
// about the service. Even if many late probes start at once, one a second is sent.
func TestProbesThatComeLateMayAsk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		takes time.Duration // until a woken object starts
	}{
		{"at once", 0},
		{"a little later", 900 * time.Millisecond},
		{"when the next one is sent", time.Second},
		{"later", 3500 * time.Millisecond},
		{"much later", 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const away = time.Minute
				var mu sync.Mutex
				asked := 0
				var p *presence
				p = newTestPresence(t, func(keys ...Key) {
					for _, key := range keys {
						time.AfterFunc(tt.takes, func() {
							if ok, _, _ := p.admit(key); ok {
								mu.Lock()
								asked++
								mu.Unlock()
								p.failed(key, time.Now(), "away")
							}
						})
					}
				})
				for i := range 20 {
					p.failed(keyNamed(fmt.Sprint(i)), time.Now(), "away")
				}
				ctx, cancel := context.WithTimeout(t.Context(), away)
				defer cancel()
				p.run(ctx)
				mu.Lock()
				defer mu.Unlock()
				// The last probes have not started yet.
				if least, most := int((away-tt.takes)/time.Second)/2, int(away/time.Second); asked < least || asked > most {
					t.Errorf("%d questions in %s, want %d to %d", asked, away, least, most)
				}
			})
		})
	}
}

// Probes that could not start don't all send requests at once.
func TestProbesDoNotAddUp(t *testing.T) {
	t.Parallel()
	p := newTestPresence(t, func(...Key) {})
	for i := range 10 {
		p.failed(keyNamed(fmt.Sprint(i)), time.Now(), "away")
	}
	for range 10 {
		p.sendProbe()
	}
	admitted := 0
	for i := range 10 {
		if ok, _, _ := p.admit(keyNamed(fmt.Sprint(i))); ok {
			admitted++
		}
	}
	want(t, "admitted", admitted, 1)
	want(t, "waiting", len(p.absence.waiting), 9)
}

// The reason of an absence is the current one, but is not another one with each request.
func TestAnAbsenceHasTheCauseOfNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestPresence(t, func(...Key) {})
		const refused, alien = "dial tcp 127.0.0.1:9090: connect: connection refused", "tls: certificate signed by unknown authority"
		since := time.Now()
		for _, step := range []struct {
			after        time.Duration
			reason, want string
		}{
			{0, refused, refused},
			{time.Second, alien, refused},
			{time.Minute, "dial tcp 127.0.0.2:9090: connect: connection refused", refused}, // the same cause
			{0, alien, alien},
			{time.Second, refused, alien},
			{time.Minute, refused, refused},
		} {
			time.Sleep(step.after)
			began, why, away := p.failed(keyNamed("a"), time.Now(), step.reason)
			if !away || !began.Equal(since) || why != step.want {
				t.Errorf("%s later: away %v since %s: %q, want %q", step.after, away, began, why, step.want)
			}
			if ok, _, shown := p.admit(keyNamed("b")); ok || shown != step.want {
				t.Errorf("%s later those that wait are told %q, want %q", step.after, shown, step.want)
			}
		}
	})
}

// An absence keeps no object that was deleted meanwhile.
func TestAnAbsenceForgetsDeletedObjects(t *testing.T) {
	t.Parallel()
	p := newTestPresence(t, func(...Key) {})
	gone, there := keyNamed("gone"), keyNamed("there")
	p.failed(gone, time.Now(), "away")
	p.failed(there, time.Now(), "away")
	p.sendProbe()
	p.sendProbe()
	p.forget(gone)
	want(t, "probes", len(p.absence.probes), 1)
	p.answered(there)
	want(t, "suspects", len(p.suspects), 0)
}

// slowGauge runs a hook before it is set to 1.
type slowGauge struct {
	prometheus.Gauge
	before func()
}

func (g slowGauge) Set(value float64) {
	if value == 1 {
		g.before()
	}
	g.Gauge.Set(value)
}

// The metric shows the last state, even if the service goes away again while its return is
// being recorded.
func TestTheMetricIsAsThePresence(t *testing.T) {
	t.Parallel()
	p := newTestPresence(t, func(...Key) {})
	p.failed(keyNamed("a"), time.Now(), "away")
	up := p.metrics.up
	gone := make(chan struct{})
	p.metrics.up = slowGauge{up, func() {
		go func() {
			defer close(gone)
			p.failed(keyNamed("b"), time.Now().Add(time.Hour), "away again")
		}()
		select {
		case <-gone:
		case <-time.After(50 * time.Millisecond): // the change has to wait for this
		}
	}}
	p.answered(keyNamed("a"))
	<-gone
	var is dto.Metric
	fatal.If(t, up.Write(&is))
	want(t, "recommender_up while it is away", is.GetGauge().GetValue(), 0)
}
