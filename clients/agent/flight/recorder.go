package flight

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// historyTimeout bounds a request for a target's history.
const historyTimeout = 2 * time.Second

// Recorder is an agent.Observer that writes recordings.
type Recorder struct {
	options Options
	file    *file
	notes   chan note
	ended   chan struct{}
	steps   *prometheus.CounterVec

	mu     sync.Mutex
	closed bool // guarded by mu
	// gaps are the objects of which the full queue dropped something. Guarded by mu.
	gaps map[agent.Key]bool

	// Owned by the writing goroutine.
	open  map[agent.Key]*scenario
	bytes int
	// unwritten counts the scenarios that failed to be written since the last log line about them.
	unwritten    int
	unwrittenLog rate.Sometimes
}

var _ agent.Observer = (*Recorder)(nil)

// note is an entry of the queue: a decision, the end of an object's scenario, or a signal to a
// caller of Wait.
type note struct {
	key      agent.Key
	decision *agent.Decision
	taken    chan<- struct{}
	// gap reports whether an earlier note of the object was dropped.
	gap bool
}

// Open opens the file and starts recording.
func Open(options Options) (*Recorder, error) {
	r, err := newRecorder(options)
	if err != nil {
		return nil, err
	}
	go r.run()
	return r, nil
}

// newRecorder returns a recorder that is not running yet.
func newRecorder(options Options) (*Recorder, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		options: options, notes: make(chan note, options.Queue), ended: make(chan struct{}),
		gaps: map[agent.Key]bool{}, open: map[agent.Key]*scenario{}, unwrittenLog: rate.Sometimes{Interval: time.Minute},
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_agent_flight_steps_total",
			Help: "Reconciles offered to the flight recorder: written, left out because they can't be replayed, dropped because too many waited, or failed to be written.",
		}, []string{"result"}),
	}
	for _, result := range []string{"written", "left_out", "dropped", "failed"} {
		r.steps.WithLabelValues(result)
	}
	if options.Registerer != nil {
		if err := options.Registerer.Register(r.steps); err != nil {
			return nil, err
		}
	}
	if r.file, err = openFile(options.File, options.MaxBytes, options.MaxFiles); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

// Observe implements agent.Observer.
func (r *Recorder) Observe(d *agent.Decision) { r.put(note{key: d.Key, decision: d}) }

// Lost implements agent.Observer.
func (r *Recorder) Lost(key agent.Key) { r.put(note{key: key}) }

// Forget implements agent.Observer.
func (r *Recorder) Forget(key agent.Key) { r.put(note{key: key}) }

// put enqueues without waiting.
func (r *Recorder) put(n note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	n.gap = r.gaps[n.key]
	select {
	case r.notes <- n:
		delete(r.gaps, n.key)
	default:
		r.gaps[n.key] = true
		if n.decision != nil {
			r.steps.WithLabelValues("dropped").Inc()
		}
	}
}

// Wait waits until everything observed so far is processed. It must not be called during or
// after Close.
func (r *Recorder) Wait() {
	taken := make(chan struct{})
	r.notes <- note{taken: taken}
	<-taken
}

// Close flushes and closes the file. Later observations are ignored.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.notes)
	}
	r.mu.Unlock()
	<-r.ended
	return r.file.close()
}

func (r *Recorder) run() {
	defer close(r.ended)
	for n := range r.notes {
		if n.taken == nil {
			r.take(n)
		}
		r.closeGaps()
		if n.taken != nil {
			close(n.taken)
		}
	}
	for _, key := range r.keys() {
		r.finish(key)
	}
}

// closeGaps ends the scenarios of objects with something dropped, once everything before is
// processed: a deleted object may have no further note.
func (r *Recorder) closeGaps() {
	r.mu.Lock()
	gone := map[agent.Key]bool{}
	if len(r.notes) == 0 && len(r.gaps) > 0 {
		gone, r.gaps = r.gaps, gone
	}
	r.mu.Unlock()
	for _, key := range sorted(maps.Keys(gone)) {
		r.finish(key)
	}
}

// keys are the objects with an open scenario, in a fixed order.
func (r *Recorder) keys() []agent.Key { return sorted(maps.Keys(r.open)) }

func sorted(keys iter.Seq[agent.Key]) []agent.Key { return slices.SortedFunc(keys, agent.Key.Compare) }

// take processes a note.
func (r *Recorder) take(n note) {
	if n.gap {
		r.finish(n.key)
	}
	d := n.decision
	if d != nil && d.Request.GetFleet() != "" { // decided from what other members told
		r.steps.WithLabelValues("left_out").Inc()
		r.finish(n.key)
		return
	}
	switch {
	case d == nil:
		r.finish(n.key)
		return
	case d.New:
		r.finish(n.key)
		if s, err := begin(d, nil); err == nil {
			r.open[n.key] = s
		}
	}
	r.record(n.key, d)
	if s := r.open[n.key]; s == nil || len(s.line.Calls) >= r.options.MaxSteps || r.bytes > r.options.Memory {
		r.finish(n.key)
		r.anchor(n.key, d)
	}
}

// record adds a decision to the object's scenario, or ends the scenario if the decision does
// not fit.
func (r *Recorder) record(key agent.Key, d *agent.Decision) {
	s := r.open[key]
	if s == nil || d.Unsettled || !s.fits(d) {
		r.steps.WithLabelValues("left_out").Inc()
		r.finish(key)
		return
	}
	before := s.bytes
	if err := s.add(d); err != nil {
		r.options.Log.Debug("reconcile not recorded", zap.Stringer("object", key), zap.Error(err))
		r.steps.WithLabelValues("left_out").Inc()
		r.finish(key)
		return
	}
	r.bytes += s.bytes - before
}

// anchor begins a scenario after a decision, with the service's current history. If the history
// can't be read, or is newer than the decision, the next decision tries again.
func (r *Recorder) anchor(key agent.Key, d *agent.Decision) {
	if r.options.Targets == nil || d.Unsettled {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), historyTimeout)
	defer cancel()
	target, err := r.options.Targets.GetTarget(ctx, d.Request.GetTarget())
	if err != nil || target.GetHistory() == nil || target.GetHistory().GetPending() != nil ||
		target.GetLastDecision().GetRecommendationId() != d.Answer.GetRecommendationId() {
		return
	}
	if s, err := begin(d, target); err == nil {
		r.open[key] = s
	}
}

// finish writes the object's scenario, if it has one.
func (r *Recorder) finish(key agent.Key) {
	s := r.open[key]
	if s == nil {
		return
	}
	delete(r.open, key)
	r.bytes -= s.bytes
	if len(s.line.Calls) == 0 {
		return
	}
	result := "written"
	if err := s.write(r.file); err != nil {
		result = "failed"
		r.unwritten++
		// A full disk fails every object of every period.
		r.unwrittenLog.Do(func() {
			r.options.Log.Error("recording not written", zap.Stringer("object", key), zap.Int("failed", r.unwritten), zap.Error(err))
			r.unwritten = 0
		})
	}
	r.steps.WithLabelValues(result).Add(float64(len(s.line.Calls)))
}
