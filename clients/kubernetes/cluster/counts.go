package cluster

import "sync/atomic"

// Call is a sort of request to the cluster.
type Call string

// The sorts of requests that are counted.
const (
	// ScaleGet reads a scale.
	ScaleGet Call = "scale get"
	// ScaleUpdate writes a scale.
	ScaleUpdate Call = "scale update"
	// PodMetricsList asks metrics.k8s.io.
	PodMetricsList Call = "metrics.k8s.io"
	// CustomMetricsGet asks custom.metrics.k8s.io.
	CustomMetricsGet Call = "custom.metrics.k8s.io"
	// ExternalMetricsList asks external.metrics.k8s.io.
	ExternalMetricsList Call = "external.metrics.k8s.io"
)

// Calls are all sorts.
func Calls() []Call {
	return []Call{ScaleGet, ScaleUpdate, PodMetricsList, CustomMetricsGet, ExternalMetricsList}
}

// Count is the requests of one sort since the start.
type Count struct {
	// Requests is how many were sent.
	Requests uint64
	// Failed is how many of those failed.
	Failed uint64
	// Saved is how many answers took no request of their own.
	Saved uint64
}

// tally counts calls. The zero value is not ready, see newTally.
type tally map[Call]*counters

type counters struct{ requests, failed, saved atomic.Uint64 }

func newTally() tally {
	t := tally{}
	for _, call := range Calls() {
		t[call] = &counters{}
	}
	return t
}

// made counts a request and its outcome.
func (t tally) made(call Call, err error) {
	t[call].requests.Add(1)
	if err != nil {
		t[call].failed.Add(1)
	}
}

// saved counts an answer without a request.
func (t tally) saved(call Call) { t[call].saved.Add(1) }

// count returns the counts of one sort.
func (t tally) count(call Call) Count {
	c := t[call]
	return Count{Requests: c.requests.Load(), Failed: c.failed.Load(), Saved: c.saved.Load()}
}
