package cluster

import "sync/atomic"

// Call is a kind of request to the cluster.
type Call string

// The counted kinds of requests.
const (
	// ScaleGet reads a scale.
	ScaleGet Call = "scale get"
	// ScaleUpdate writes a scale.
	ScaleUpdate Call = "scale update"
	// PodMetricsList queries metrics.k8s.io.
	PodMetricsList Call = "metrics.k8s.io"
	// CustomMetricsGet queries custom.metrics.k8s.io.
	CustomMetricsGet Call = "custom.metrics.k8s.io"
	// ExternalMetricsList queries external.metrics.k8s.io.
	ExternalMetricsList Call = "external.metrics.k8s.io"
)

// Calls returns all kinds of calls.
func Calls() []Call {
	return []Call{ScaleGet, ScaleUpdate, PodMetricsList, CustomMetricsGet, ExternalMetricsList}
}

// Count counts the requests of one kind since the start.
type Count struct {
	// Requests is how many were sent.
	Requests uint64
	// Failed is how many of those failed.
	Failed uint64
	// Saved is the number of answers that needed no request.
	Saved uint64
}

// tally counts calls. Use newTally: the zero value is not usable.
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

// count returns the counts of one kind.
func (t tally) count(call Call) Count {
	c := t[call]
	return Count{Requests: c.requests.Load(), Failed: c.failed.Load(), Saved: c.saved.Load()}
}
