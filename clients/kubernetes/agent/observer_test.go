package agent

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// notebook is an observer that records its calls.
type notebook struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (n *notebook) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notebook) Observe(d *agent.Decision) {
	n.note("%d>%d new=%t applied=%t unsettled=%t", d.Answer.GetCurrentReplicas(), d.Answer.GetDesiredReplicas(), d.New, d.Applied, d.Unsettled)
}
func (n *notebook) Lost(key Key)   { n.note("lost %s", key.Name) }
func (n *notebook) Forget(key Key) { n.note("forget %s", key.Name) }

func (n *notebook) read() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := fmt.Sprint(n.lines)
	n.lines = nil
	return text
}

func TestObserversSeeEveryPossibleDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, period), &notebook{}
		w.start(func(o *agent.Options) { o.Observers = []agent.Observer{n} })
		w.workload("shop/web", 3, 50)
		key := w.add(newHPA("shop", "web"))
		settle()
		want(t, "a new object", n.read(), "[3>5 new=true applied=true unsettled=false]")
		time.Sleep(period + period/2)
		want(t, "the next reconcile", n.read(), "[5>5 new=false applied=false unsettled=false]")
		w.with(func() { w.fault = func(string, int) error { return errAway } })
		time.Sleep(period)
		if got := n.read(); got == "[]" || got[:9] != "[lost web" {
			t.Errorf("without an answer: %s", got)
		}
		w.with(func() { w.fault = nil })
		time.Sleep(2 * period)
		n.read()
		w.with(func() {
			w.load["shop/web"] = 70
			w.fault = func(call string, _ int) error {
				if call == "report" {
					return errAway
				}
				return nil
			}
		})
		time.Sleep(period)
		want(t, "a report that is lost", n.read(), "[5>7 new=false applied=true unsettled=true]")
		w.with(func() {
			w.fault, w.applyErr, w.load["shop/web"] = nil, &cluster.MovedError{}, 90
		})
		time.Sleep(period)
		want(t, "a count that moves", n.read(), "[lost web lost web lost web]")
		w.remove(key)
		settle()
		want(t, "the end", n.read(), "[forget web]")
	})
}
