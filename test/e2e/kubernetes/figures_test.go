//go:build linux

package kubernetes

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// figuresFor are the numbers of objects, measured one after the other.
var figuresFor = flag.String("figures", "", "numbers of objects for TestFiguresBesideTheNativeController, such as 500,2000,10000; empty: it is skipped")

// figuresPeriod is the sync period of both, as they have it by default.
var figuresPeriod = flag.Duration("figures-period", 15*time.Second, "sync period for TestFiguresBesideTheNativeController and TestTheAgentKeepsAShortPeriod")

// figuresWindow is how long each is watched.
func figuresWindow() time.Duration { return max(time.Minute, 4**figuresPeriod) }

const (
	figuresPods = 2
	// figuresEach is how many objects a namespace has.
	figuresEach = 50
)

// figures are a controller's measurements over a window.
type figures struct {
	evaluations, requests float64
	window                time.Duration
	own, server, service  time.Duration // processor time of itself, the API server, and the service
	memory                int64         // at its peak
	serviceMemory         int64         // the same, of the service
	// late is how late 99 of 100 reconciles of the agent began at most, read from a histogram.
	late time.Duration
}

// interval is how far apart two evaluations of an object were, at the mean.
func (f *figures) interval(objects int) time.Duration {
	return time.Duration(float64(f.window) * float64(objects) / max(1, f.evaluations))
}

// row is a line of the table.
func (f *figures) row(objects int, who string) string {
	periods := f.window.Seconds() / figuresPeriod.Seconds()
	perPeriod := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()/periods) }
	interval := f.interval(objects)
	return fmt.Sprintf("| %d | %s | %.0f | %.1f s | %.1f s | %s | %s | %s | %.0f MiB |", objects, who, f.requests/periods,
		interval.Seconds(), max(0, interval-*figuresPeriod).Seconds(), perPeriod(f.own), perPeriod(f.service), perPeriod(f.server), float64(f.memory)/(1<<20))
}

// Compared with the native controller, with its default client rate and without limit: the same
// objects on the same control plane, one after the other, in reconciles without changes.
func TestFiguresBesideTheNativeController(t *testing.T) {
	if *figuresFor == "" {
		t.Skip("make figures-kubernetes runs it, alone, for it measures")
	}
	rows := []string{
		"| objects | controller | requests to the API server a period | an object is evaluated every | behind the period | processor time a period | of the service | of the API server | memory at its peak |",
		"|---|---|---|---|---|---|---|---|---|",
	}
	for text := range strings.SplitSeq(*figuresFor, ",") {
		objects, err := strconv.Atoi(text)
		must(t, err)
		if objects < figuresEach || objects%figuresEach != 0 {
			t.Fatalf("%d objects: want a multiple of %d", objects, figuresEach)
		}
		t.Run(text, func(t *testing.T) {
			c := kubetest.Start(t, kubetest.Config{WithoutWorkloads: true})
			w := newManyWorld(t, c, extent{objects / figuresEach, figuresEach, figuresPods})
			// Without a limit first, so that each object's initial status is not counted.
			for _, one := range []struct {
				name  string
				flags []string
			}{
				{"native, `--kube-api-qps` without a limit", []string{"--kube-api-qps=1000000", "--kube-api-burst=1000000", "--concurrent-horizontal-pod-autoscaler-syncs=5"}},
				{"native, its defaults", []string{"--kube-api-qps=20", "--kube-api-burst=30", "--concurrent-horizontal-pod-autoscaler-syncs=5"}},
			} {
				f := w.nativeFigures(t, one.flags)
				rows = append(rows, f.row(objects, one.name))
			}
			f := w.agentFigures(t)
			rows = append(rows, f.row(objects, "agent"))
		})
	}
	t.Logf("pods of each object: %d, sync period %v, watched for %v\n%s", figuresPods, *figuresPeriod, figuresWindow(), strings.Join(rows, "\n"))
}

// watch runs a function over a window and returns the measurements.
func (w *manyWorld) watch(t *testing.T, user string, itself *process.Process, recommender int, evaluations func(kubetest.Requests) float64) (f figures) {
	t.Helper()
	took := func(pid int) time.Duration {
		if pid == 0 {
			return 0
		}
		d, err := process.Processor(pid)
		must(t, err)
		return d
	}
	mark, began := w.c.Mark(t), time.Now()
	own, server, service, before := took(itself.PID()), took(w.c.APIServer().PID()), took(recommender), evaluations(nil)
	time.Sleep(figuresWindow()) // what is measured is a time
	f.own, f.server, f.service = took(itself.PID())-own, took(w.c.APIServer().PID())-server, took(recommender)-service
	f.window = time.Since(began)
	requests := w.c.Since(t, mark).Of(user)
	counts := requests.Counts()
	t.Logf("requests of %s in %v: %v", user, f.window.Round(time.Second), counts)
	for _, n := range counts {
		f.requests += float64(n)
	}
	f.evaluations = evaluations(requests) - before
	var err error
	f.memory, err = process.PeakResident(itself.PID())
	must(t, err)
	return f
}

// nativeFigures are those of the native controller with these flags.
func (w *manyWorld) nativeFigures(t *testing.T, flags []string) figures {
	t.Helper()
	must(t, w.c.StartControllers(kubetest.Config{WithoutWorkloads: true, Native: true, SyncPeriod: *figuresPeriod, ControllerFlags: flags}))
	defer w.c.StopControllers()
	evaluated := func(requests kubetest.Requests) float64 { return float64(requests.Counts()["get deployments/scale"]) }
	// Until each object has its initial status, or for the measured window, whichever is
	// shorter: with its defaults that may take half an hour for all.
	mark, until := w.c.Mark(t), time.Now().Add(figuresWindow())
	for time.Now().Before(until) && evaluated(w.c.Since(t, mark).Of(kubetest.NativeUser)) < float64(2*w.objects()) {
		time.Sleep(time.Second)
	}
	return w.watch(t, kubetest.NativeUser, w.c.Controllers(), 0, evaluated)
}

// agentFigures are those of the agent with its own service.
func (w *manyWorld) agentFigures(t *testing.T) figures {
	t.Helper()
	s := service.Start(t)
	a := newAgentForAll(t, w.c, s, *figuresPeriod)
	a.Start()
	a.AwaitReady()
	w.awaitReconciles(t, a, 5*float64(w.objects())) // until objects share their readings
	began := time.Now()
	awaitTurns(t, a)
	t.Logf("the start's turns were made up for after another %v", time.Since(began).Round(time.Second))
	before := a.Metrics()[lag]
	f := w.watch(t, a.account.User, a.Process, s.PID(), func(kubetest.Requests) float64 { return a.Metric("setpoint_agent_reconciles_total") })
	var ok bool
	if f.late, ok = quantile(before, a.Metrics()[lag], .99); !ok {
		t.Error("one of a hundred reconciles was later than the histogram goes")
	}
	var err error
	f.serviceMemory, err = process.PeakResident(s.PID())
	must(t, err)
	return f
}

// lag is how late reconciles begin.
const lag = "setpoint_agent_schedule_lag_seconds"

// awaitTurns waits until reconciles begin in time. At the start each object is written to, within
// the client's rate to the API server, so that the later of many objects wait for the first ones.
// An agent that can't keep the period is measured all the same.
func awaitTurns(t *testing.T, a *agent) {
	t.Helper()
	for range 60 {
		before := a.Metrics()[lag]
		time.Sleep(*figuresPeriod)
		if late, ok := quantile(before, a.Metrics()[lag], .9); ok && late < *figuresPeriod/4 {
			return
		}
	}
	t.Log("reconciles are late for longer than 60 periods: more are due than are done")
}

// quantile is that of what a histogram of seconds has got since it was before; false: it is above the last bucket. It
// is between the bounds of a bucket, as far from them as it would be if the bucket's observations were even.
func quantile(since, now *dto.MetricFamily, q float64) (time.Duration, bool) {
	before, after := since.GetMetric()[0].GetHistogram(), now.GetMetric()[0].GetHistogram()
	rank, below, bound := q*float64(after.GetSampleCount()-before.GetSampleCount()), 0.0, 0.0
	for i, bucket := range after.GetBucket() {
		count := float64(bucket.GetCumulativeCount() - before.GetBucket()[i].GetCumulativeCount())
		if count >= rank {
			share := 1.0
			if count > below {
				share = (rank - below) / (count - below)
			}
			return time.Duration((bound + share*(bucket.GetUpperBound()-bound)) * float64(time.Second)), true
		}
		below, bound = count, bucket.GetUpperBound()
	}
	return 0, false
}

// TestTheAgentKeepsAShortPeriod measures the effective period of many objects at a short one, with one instance of the
// service. An object is due a period after it was due before, so that from one reconcile to the next it is a period and
// the second one's delay at most.
func TestTheAgentKeepsAShortPeriod(t *testing.T) {
	if *figuresFor == "" {
		t.Skip("make figures-period runs it, alone, for it measures")
	}
	rows := []string{
		"| objects | evaluations/s | effective period, mean | of 99 of 100 at most | processors of the agent | of the service | of the API server | memory of the agent at its peak | of the service |",
		"|---|---|---|---|---|---|---|---|---|",
	}
	for text := range strings.SplitSeq(*figuresFor, ",") {
		objects, err := strconv.Atoi(text)
		must(t, err)
		t.Run(text, func(t *testing.T) {
			c := kubetest.Start(t, kubetest.Config{WithoutWorkloads: true})
			f := newManyWorld(t, c, extent{objects / figuresEach, figuresEach, figuresPods}).agentFigures(t)
			of := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()/f.window.Seconds()) }
			rows = append(rows, fmt.Sprintf("| %d | %.0f | %.2f s | %.2f s | %s | %s | %s | %.0f MiB | %.0f MiB |", objects, f.evaluations/f.window.Seconds(),
				f.interval(objects).Seconds(), (*figuresPeriod+f.late).Seconds(), of(f.own), of(f.service), of(f.server),
				float64(f.memory)/(1<<20), float64(f.serviceMemory)/(1<<20)))
			if f.evaluations == 0 {
				t.Error("nothing was evaluated")
			}
		})
	}
	t.Logf("pods of each object: %d, sync period %v, watched for %v\n%s", figuresPods, *figuresPeriod, figuresWindow(), strings.Join(rows, "\n"))
}
