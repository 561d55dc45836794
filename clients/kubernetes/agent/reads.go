package agent

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// reads counts reads, and how many needed no request. It implements prometheus.Collector.
type reads struct {
	mu      sync.Mutex
	readers []*cluster.Reader // guarded by mu
}

var readsDesc = prometheus.NewDesc("setpoint_agent_reads_total",
	"Reads of the cluster, by API and result; saved: answered from a cache or by another read's request.",
	[]string{"call", "result"}, nil)

func newReads(r prometheus.Registerer) (*reads, error) {
	s := &reads{}
	if r == nil {
		return s, nil
	}
	return s, r.Register(s)
}

func (s *reads) of(readers ...*cluster.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers = readers
}

// Describe implements prometheus.Collector.
func (*reads) Describe(descs chan<- *prometheus.Desc) { descs <- readsDesc }

// Collect implements prometheus.Collector.
func (s *reads) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	readers := s.readers
	s.mu.Unlock()
	sums := map[cluster.Call]cluster.Count{}
	for _, call := range cluster.Calls() {
		sums[call] = cluster.Count{} // reads that never happened show as 0
	}
	for _, reader := range readers {
		for call, count := range reader.Counts() {
			sum := sums[call]
			sum.Requests, sum.Failed, sum.Saved = sum.Requests+count.Requests, sum.Failed+count.Failed, sum.Saved+count.Saved
			sums[call] = sum
		}
	}
	for call, sum := range sums {
		for result, n := range map[string]uint64{"sent": sum.Requests - sum.Failed, "failed": sum.Failed, "saved": sum.Saved} {
			out <- prometheus.MustNewConstMetric(readsDesc, prometheus.CounterValue, float64(n), string(call), result)
		}
	}
}
