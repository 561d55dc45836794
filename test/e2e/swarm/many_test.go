//go:build linux

package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// Many services of a real engine: what a pass over all of them takes of the agent and asks of the
// engine. Their tasks can't be placed, as no node has the label that they ask for, so that there
// are tasks and no containers, which this machine has no room for; they are scaled by a queue.
// They are 500, each 15 s, with FULL=1.
func TestManyServices(t *testing.T) {
	const passes, mostCore = 4, 0.25
	services, period := 150, 5*time.Second
	if testlength.Full() {
		services, period = 500, 15*time.Second
	} else {
		t.Logf("%d services: 500 with FULL=1", services)
	}
	queue, sources := newQueue(t)
	queue.Store(20)
	w := newWorld(t, "--sources-file="+sources, "--sync-period="+period.String())
	w.agent.Stop()
	w.createMany(t, services)
	w.startAgent()
	had := w.reconciles()
	w.awaitReconciles(t, had+float64(2*services), 2*period)
	used, err := process.Processor(w.agent.PID())
	fatal.If(t, err)
	requests, began, had := w.requests(), time.Now(), w.reconciles()
	w.awaitReconciles(t, had+float64(passes*services), passes*period)
	took, made := time.Since(began), (w.reconciles()-had)/float64(services)
	now, err := process.Processor(w.agent.PID())
	fatal.If(t, err)
	resident, err := process.Resident(w.agent.PID())
	fatal.If(t, err)
	perPass, asked := (now-used).Seconds()/made, (w.requests()-requests)/made
	t.Logf("%d services of a real engine, without containers: %.2f s of a core a pass over all of them, which is %.1f %% of one core at a period of %s; %.0f requests to the engine a pass; %.1f passes in %s; %.0f MiB resident",
		services, perPass, 100*perPass/period.Seconds(), period, asked, made, took.Round(100*time.Millisecond), float64(resident)/(1<<20))
	if perPass > mostCore*period.Seconds() {
		t.Errorf("a pass takes %.2f s of a core, want at most %.2f", perPass, mostCore*period.Seconds())
	}
	if most := 3.1*float64(services) + took.Seconds()/made; asked > most {
		t.Errorf("%.0f requests a pass, want at most %.0f", asked, most)
	}
	// All of them are scaled in one reconcile.
	queue.Store(40)
	changed := time.Now()
	kit.Eventually(t, patience, "all services to have 4 replicas", func() error {
		n, err := w.counting(4)
		if err != nil || n < services {
			time.Sleep(time.Second)
			return fmt.Errorf("%d of %d have, %w", n, services, err)
		}
		return nil
	})
	t.Logf("all were scaled %s after the queue grew", time.Since(changed).Round(100*time.Millisecond))
}

// engineClient calls the manager's engine directly, past the gate.
func (w *world) engineClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 8, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.socket(1))
	}}}
}

// createMany creates services whose tasks wait for a node that does not exist.
func (w *world) createMany(t *testing.T, n int) {
	t.Helper()
	client := w.engineClient()
	defer client.CloseIdleConnections()
	turns := make(chan struct{}, 8)
	var making sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for i := range n {
		turns <- struct{}{}
		making.Go(func() {
			defer func() { <-turns }()
			spec, err := json.Marshal(map[string]any{
				"Name": fmt.Sprintf("many-%03d", i),
				"Labels": map[string]string{
					"setpoint.enable": "true", "setpoint.max": "10", "setpoint.metric.queue.source": "queue", "setpoint.metric.queue.path": "/",
					"setpoint.metric.queue.valuePath": "{.depth}", "setpoint.metric.queue.average": "10",
				},
				"Mode":         map[string]any{"Replicated": map[string]any{"Replicas": 2}},
				"TaskTemplate": map[string]any{"ContainerSpec": map[string]any{"Image": "burn:1"}, "Placement": map[string]any{"Constraints": []string{"node.labels.absent==true"}}},
			})
			if err == nil {
				err = post(client, "http://engine/v1.41/services/create", spec)
			}
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	making.Wait()
	fatal.If(t, failed)
}

func post(client *http.Client, url string, body []byte) error {
	answer, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", answer.Status, said)
	}
	return err
}

// counting is how many services have that count.
func (w *world) counting(count int) (int, error) {
	client := w.engineClient()
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://engine/v1.41/services")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var all []struct {
		Spec struct {
			Mode struct{ Replicated struct{ Replicas int } }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range all {
		if s.Spec.Mode.Replicated.Replicas == count {
			n++
		}
	}
	return n, nil
}

// reconciles is how many the agent has had, and requests how many it has made to the engine.
func (w *world) reconciles() float64 { return w.agent.Metric("setpoint_agent_reconciles_total") }

func (w *world) requests() float64 { return w.agent.Metric("setpoint_swarm_engine_requests_total") }

var errReconciles = errors.New("it has not had so many reconciles")

func (w *world) awaitReconciles(t *testing.T, want float64, usual time.Duration) {
	t.Helper()
	deadline := time.Now().Add(patience + usual)
	for w.reconciles() < want {
		if time.Now().After(deadline) {
			t.Fatal(errReconciles)
		}
		time.Sleep(200 * time.Millisecond) // asking takes of the agent's own time
	}
}
