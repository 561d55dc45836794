package agentcmd

import (
	"context"
	"net/http"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// userAgent is the agents' name at the service.
const userAgent = "setpoint-agent"

// openService returns a client of the service; nothing is sent before the first call.
func (s *Settings) openService() (*setpoint.Client, error) {
	client, err := s.Service.Open(userAgent)
	if err != nil {
		return nil, cli.BadInput(err)
	}
	return client, nil
}

// announce returns the call by which agents of one platform know of one another.
func announce(client *setpoint.Client) agent.Announce {
	return setpointv1.NewOperationsServiceClient(client.Conn()).AnnounceAgent
}

// memoryShare is the share of a memory limit, percent, that an agent's collector keeps to:
// most of its memory lives.
const memoryShare = 90

// An agent's heap grows by leastGrowth, in percent, before garbage is collected: unlike a server's most
// of it lives, as what is known of a cluster does, so that room for garbage costs much memory and
// saves little time. But many objects at a short period leave so much that collecting it takes
// longer than reconciling: then the heap grows by up to mostGrowth, so that there are no more than
// collections in a time of growthEvery.
const (
	leastGrowth, mostGrowth = 35, 100
	collections             = 5
	growthEvery             = 10 * time.Second
)

// TuneMemory makes the collector respect the user's memory limit and, unless the user has set
// the rate, collect often, until the context ends.
func TuneMemory(ctx context.Context) {
	daemon.KeepWithin(memoryShare)
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(leastGrowth)
	go func() {
		ticker := time.NewTicker(growthEvery)
		defer ticker.Stop()
		growth, before := leastGrowth, collected()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now := collected()
			if want := growthAfter(growth, now-before); want != growth {
				growth = want
				debug.SetGCPercent(growth)
			}
			before = now
		}
	}()
}

// growthAfter is the growth, in percent, after so many collections with another growth.
func growthAfter(growth int, n uint64) int {
	return min(mostGrowth, max(leastGrowth, growth*int(min(n, 1000))/collections))
}

// collected is the number of collections since the process began.
func collected() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	runtimemetrics.Read(sample)
	if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// pagesOf are the pages of every agent's admin address. ready returns why the agent is not ready,
// nil if it is.
func pagesOf(metrics prometheus.Gatherer, ready func() error, shadows func() *shadow.Report) []daemon.Page {
	return append([]daemon.Page{
		daemon.MetricsPage(metrics, nil),
		{Path: "/healthz", About: "whether the process lives", Handler: http.HandlerFunc(answerOK)},
		{Path: "/readyz", About: "whether the objects have been read", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			answerOK(w, r)
		})},
		{Path: ShadowPath, About: "how shadows agree with what is in charge", Handler: answerJSON(func() any { return shadows() })},
	}, daemon.DebugPages()...)
}

// ReadyMetric is the answer of /readyz as a gauge, for alerts. ready returns why the agent is not ready.
func ReadyMetric(ready func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_agent_ready", Help: "1 while the agent has read its platform's objects and /readyz answers 200.",
	}, func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
}

func answerOK(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
