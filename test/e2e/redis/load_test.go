//go:build linux

package redis

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// frontend is a service as callers see it.
type frontend interface {
	Recommend(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
	ReportScale(context.Context, *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error)
}

// remote is a process.
type remote struct{ *service.Instance }

func (r remote) Recommend(ctx context.Context, request *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return r.Recommendations().Recommend(ctx, request)
}

func (r remote) ReportScale(ctx context.Context, request *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return r.Recommendations().ReportScale(ctx, request)
}

func remotes(instances []*service.Instance) []frontend {
	var all []frontend
	for _, s := range instances {
		all = append(all, remote{s})
	}
	return all
}

// serviceFlags are the load's requirements: as many remembered answers as a target gets calls,
// so that a retry is recognized however late it comes.
var serviceFlags = []string{"--request-id-limit=512", "--request-id-bytes=1048576", "--request-id-retention=30m"}

// callOptions say which callers make which calls.
type callOptions struct {
	callers int
	// name returns the target of a ticket that a caller drew.
	name        func(caller int, ticket int64) string
	firstTicket int64
	// hurry is the share of attempts with a deadline of a few milliseconds, giveUp
	// that of failed attempts after which the caller does not ask again.
	hurry, giveUp float64
	// patience is how long a caller retries.
	patience time.Duration
}

// load calls services and remembers all that was said.
type load struct {
	t         *testing.T
	options   callOptions
	frontends []frontend
	began     time.Time
	tickets   atomic.Int64
	answered  atomic.Int64
	failed    atomic.Int64
	running   sync.WaitGroup
	stopping  chan struct{}
	// ended is when the last call had ended, set by stop.
	ended time.Duration

	mu       sync.Mutex
	calls    []*call
	failures []failure
}

// call is a recommendation and, if there was one, the report about it.
type call struct {
	request *setpointv1.RecommendRequest
	// value is the count that it recommends, which names it.
	value int32
	span
	// answer is nil where the caller never got one.
	answer *setpointv1.RecommendResponse
	report *report
}

// report is a report that the count was applied.
type report struct {
	span
	// answer is nil where the caller never got one; unknown says that the service
	// answered that it has no such recommendation, or no longer.
	answer  *setpointv1.ReportScaleResponse
	unknown bool
}

// span is when something was asked for and when that ended, since the load began, and
// in how many attempts.
type span struct {
	from, to time.Duration
	attempts int
}

// failure is an attempt that failed.
type failure struct {
	at     time.Duration
	code   codes.Code
	target string
}

// startLoad starts to call. The load stops with the test at the latest.
func startLoad(t *testing.T, frontends []frontend, options callOptions) *load {
	l := &load{t: t, options: options, frontends: frontends, began: time.Now(), stopping: make(chan struct{})}
	l.tickets.Store(options.firstTicket)
	for i := range options.callers {
		l.running.Go(func() { l.caller(i) })
	}
	t.Cleanup(l.stop)
	return l
}

// stop waits until all calls have ended.
func (l *load) stop() {
	select {
	case <-l.stopping:
		return
	default:
	}
	close(l.stopping)
	l.running.Wait()
	l.ended = l.now()
}

func (l *load) now() time.Duration { return time.Since(l.began) }

func (l *load) caller(number int) {
	var calls []*call
	var failures []failure
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = append(l.calls, calls...)
		l.failures = append(l.failures, failures...)
	}()
	for {
		select {
		case <-l.stopping:
			return
		default:
		}
		ticket := l.tickets.Add(1) - 1
		c := newCall(ticket, l.options.name(number, ticket))
		calls = append(calls, c)
		failures = append(failures, l.recommend(c)...)
		if c.answer != nil && rand.IntN(2) == 0 {
			c.report = &report{}
			failures = append(failures, l.report(c)...)
		}
	}
}

// largest is a prime above the number of calls that any test makes.
const largest = 999_983

// targetPrefix begins the names of all targets.
const targetPrefix = "clusters/e2e/namespaces/load/targets/"

// inTurn has the callers call so many targets at a time; after perTarget calls each
// they give way to new ones.
func inTurn(targets, perTarget int64) func(int, int64) string {
	return func(_ int, ticket int64) string {
		return fmt.Sprintf("%st%d-%d", targetPrefix, ticket/(targets*perTarget), ticket%targets)
	}
}

// newCall returns a call that no other ticket makes.
func newCall(ticket int64, target string) *call {
	// In no order, so that a target's highest one may come at any time.
	value := int32(2 + ticket*7919%largest)
	const hour = int32(3600)
	return &call{value: value, request: &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "load", ApiVersion: "apps/v1"},
			MinReplicas:    new(int32(1)),
			MaxReplicas:    2 * largest,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "value"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				// A policy that allows all and counts all.
				ScaleUp: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), Policies: []*setpointv1.HPAScalingPolicy{
					{Type: "Pods", Value: 1_000_000_000, PeriodSeconds: 1800},
				}},
				ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(hour)},
			},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 1, StatusReplicas: new(int32(1))},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "value"}, Value: strconv.Itoa(int(value))}},
		RequestId:       "call-" + strconv.FormatInt(ticket, 10),
		Explain:         true,
	}}
}

// recommend repeats a request until there is an answer or the caller's patience ends, always
// with the same request id.
func (l *load) recommend(c *call) (failures []failure) {
	failures = l.attempt(&c.span, c.request.GetTarget(), func(ctx context.Context, f frontend) (err error) {
		c.answer, err = f.Recommend(ctx, c.request)
		return err
	})
	if c.answer != nil {
		l.answered.Add(1)
	}
	return failures
}

func (l *load) report(c *call) []failure {
	r := c.report
	return l.attempt(&r.span, c.request.GetTarget(), func(ctx context.Context, f frontend) (err error) {
		r.answer, err = f.ReportScale(ctx, &setpointv1.ReportScaleRequest{
			Target: c.request.GetTarget(), RecommendationId: c.answer.GetRecommendationId(), Outcome: "APPLIED",
		})
		if status.Code(err) == codes.NotFound {
			r.unknown = true
			return nil
		}
		return err
	})
}

// attempt makes attempts at random services. Any error that is not retryable fails the test.
func (l *load) attempt(s *span, target string, ask func(context.Context, frontend) error) (failures []failure) {
	s.from = l.now()
	defer func() { s.to = l.now() }()
	for {
		s.attempts++
		timeout := 10 * time.Second
		if rand.Float64() < l.options.hurry {
			timeout = time.Duration(1+rand.IntN(20)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		err := ask(ctx, l.frontends[rand.IntN(len(l.frontends))])
		cancel()
		if err == nil {
			return failures
		}
		failures = append(failures, failure{l.now(), status.Code(err), target})
		l.failed.Add(1)
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted:
		default:
			l.t.Errorf("a call failed in a way that does not ask for a retry: %v", err)
			return failures
		}
		if rand.Float64() < l.options.giveUp || l.now()-s.from > l.options.patience {
			return failures
		}
		pause := time.NewTimer(time.Duration(1+rand.IntN(20)) * time.Millisecond)
		<-pause.C
	}
}

// awaitAnswers waits until n more calls have been answered.
func (l *load) awaitAnswers(n int64) {
	l.t.Helper()
	l.awaitMore(&l.answered, n, "calls answered")
}

// awaitFailures waits until n more attempts have failed.
func (l *load) awaitFailures(n int64) {
	l.t.Helper()
	l.awaitMore(&l.failed, n, "attempts failed")
}

func (l *load) awaitMore(counter *atomic.Int64, n int64, what string) {
	l.t.Helper()
	goal := counter.Load() + n
	kit.Eventually(l.t, slow, "under load", func() error {
		if have := counter.Load(); have < goal {
			return fmt.Errorf("only %d of %d more %s", n-(goal-have), n, what)
		}
		return nil
	})
}

// codes counts the failed attempts by code, between two instants.
func (l *load) codes(from, to time.Duration) string {
	counts := make(map[string]int)
	for _, f := range l.failures {
		if f.at >= from && f.at <= to {
			counts[f.code.String()]++
		}
	}
	if len(counts) == 0 {
		return "none"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// firstAnswer returns when the first call after an instant ended with an answer.
func (l *load) firstAnswer(after time.Duration) time.Duration {
	first := time.Duration(-1)
	for _, c := range l.calls {
		if c.answer != nil && c.to >= after && (first < 0 || c.to < first) {
			first = c.to
		}
	}
	return first
}

// silence returns the longest time without an answer of the targets chosen that
// overlaps the time between two instants.
func (l *load) silence(from, to time.Duration, chosen func(target string) bool) time.Duration {
	answers := []time.Duration{0, l.ended}
	for _, c := range l.calls {
		if c.answer != nil && chosen(c.request.GetTarget()) {
			answers = append(answers, c.to)
		}
	}
	slices.Sort(answers)
	longest := time.Duration(0)
	for i, at := range answers[1:] {
		if before := answers[i]; at >= from && before <= to {
			longest = max(longest, at-before)
		}
	}
	return longest
}

func anyTarget(string) bool { return true }

// slow bounds waits that take seconds on an idle machine.
const slow = 2 * time.Minute
