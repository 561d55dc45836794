package nomad_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// locked is a Nomad that has nothing but the lock of one variable.
type locked struct {
	// silent are the operations, such as lock-renew, that get no answer.
	silent   atomic.Pointer[string]
	acquired atomic.Int32
	renewed  atomic.Int32
	released atomic.Int32
	lines    *observer.ObservedLogs
	lock     *nomad.Lock
}

// leads is the metric of whether the agent has the lock.
func (l *locked) leads() float64 {
	collected := make(chan prometheus.Metric, 1)
	l.lock.Collector().Collect(collected)
	var metric dto.Metric
	_ = (<-collected).Write(&metric)
	return metric.GetGauge().GetValue()
}

// ServeHTTP implements http.Handler.
func (l *locked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen after that
	counts := map[string]*atomic.Int32{"lock-acquire": &l.acquired, "lock-renew": &l.renewed, "lock-release": &l.released}
	for operation, count := range counts {
		if !r.URL.Query().Has(operation) {
			continue
		}
		count.Add(1)
		if silent := l.silent.Load(); silent != nil && strings.Contains(*silent, operation) {
			<-r.Context().Done()
			return
		}
	}
	_ = json.NewEncoder(w).Encode(api.Variable{Path: "setpoint/agent", Lock: &api.VariableLock{ID: "1", TTL: "15s"}})
}

// lead runs act while the agent has the lock, and returns what ends it.
func lead(t *testing.T, l *locked, act func(context.Context) error) (stop context.CancelFunc, ended chan error) {
	pipe := agenttest.NewPipe()
	server := &http.Server{Handler: l}
	go func() { _ = server.Serve(pipe) }()
	t.Cleanup(func() { _ = server.Close() })
	client, err := nomad.Connect(nomad.Config{Address: "http://nomad:4646", Dial: pipe.DialContext})
	fatal.If(t, err)
	core, lines := observer.New(zap.InfoLevel)
	l.lines = lines
	l.lock = &nomad.Lock{Client: client, Path: "setpoint/agent", Namespace: "default", Log: zap.New(core)}
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- l.lock.Lead(ctx, act) }()
	return cancel, ended
}

// A holder whose renewals get no answer stops acting before the lock ends, and others may act.
func TestAHolderWithoutAnAnswerStopsActing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &locked{}
		l.silent.Store(new("lock-renew"))
		began, stopped := time.Now(), make(chan time.Duration, 10)
		stop, ended := lead(t, l, func(ctx context.Context) error {
			<-ctx.Done()
			stopped <- time.Since(began)
			return nil
		})
		time.Sleep(15 * time.Second)
		synctest.Wait()
		select {
		case after := <-stopped:
			t.Logf("it stops acting after %s, with %d renewals", after, l.renewed.Load())
		default:
			t.Error("it still acts when its lock has ended")
		}
		stop()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(ended) == 0 {
			t.Error("the agent does not stop")
		}
	})
}

// A standby whose request gets no answer asks again, and stops when it has to.
func TestAStandbyWithoutAnAnswerAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &locked{}
		l.silent.Store(new("lock-acquire"))
		acts := make(chan bool, 10)
		stop, ended := lead(t, l, func(ctx context.Context) error {
			acts <- true
			<-ctx.Done()
			return nil
		})
		if leads := l.leads(); leads != 0 {
			t.Errorf("the metric is %v before it has asked", leads)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := l.acquired.Load(); n < 3 {
			t.Errorf("it has asked %d times in a minute", n)
		}
		if leads := l.leads(); leads != 0 {
			t.Errorf("the metric is %v without an answer", leads)
		}
		l.silent.Store(nil)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(acts) != 1 {
			t.Errorf("it acts %d times once there is an answer", len(acts))
		}
		if n := l.lines.FilterField(zap.String("state", "this agent has the lock setpoint/agent, and acts")).Len(); n != 1 {
			t.Errorf("%d lines say that it acts: %v", n, l.lines.All())
		}
		if leads := l.leads(); leads != 1 {
			t.Errorf("the metric is %v when it acts", leads)
		}
		l.silent.Store(new("lock-acquire lock-renew lock-release"))
		stop()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(ended) == 0 {
			t.Error("the agent does not stop")
		}
	})
}

// While reconciles in flight end, the lock is renewed, and then released.
func TestTheLockIsKeptUntilReconcilesAreDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &locked{}
		failed := errors.New("reconciles in flight were not done")
		stop, ended := lead(t, l, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return failed
		})
		time.Sleep(10 * time.Second)
		stop()
		before := l.renewed.Load()
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if n := l.renewed.Load() - before; n < 4 || l.released.Load() > 0 {
			t.Errorf("renewed %d times, released %d times while reconciles are in flight", n, l.released.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := l.released.Load(); n != 1 {
			t.Errorf("released %d times", n)
		}
		if err := <-ended; !errors.Is(err, failed) {
			t.Errorf("got %v", err)
		}
	})
}
