package targets

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// watched runs targets watch until the test has read its lines, and has it end well then.
func watched(t *testing.T, lines int, args ...string) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	root := newRoot()
	out, written := io.Pipe()
	root.SetArgs(append([]string{"targets", "watch"}, args...))
	root.SetOut(written)
	var stderr strings.Builder
	root.SetErr(&stderr)
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		_ = written.Close()
		ended <- err
	}()
	text := bufio.NewScanner(out)
	for len(got) < lines && text.Scan() {
		got = append(got, text.Text())
	}
	cancel()
	_ = out.Close()
	if err := <-ended; err != nil || len(got) < lines {
		t.Errorf("%v: %d lines, then %v\n%s", args, len(got), err, stderr.String())
	}
	return got
}

// The server's decision of before the watch comes with --since.
func TestDecisionsAreWatched(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	table := watched(t, 2, "--server", address, "--since=1h", "--pending")
	if !strings.HasPrefix(table[0], "TIME ") || !strings.Contains(table[1], " 3 -> 5 ") || !strings.Contains(table[1], " "+demoTarget+" ") ||
		strings.Index(table[0], "TARGET") != strings.Index(table[1], demoTarget) {
		t.Errorf("the table is\n%s", strings.Join(table, "\n"))
	}
	// Also without --pending, long before the next heartbeat.
	began := time.Now()
	if table := watched(t, 2, "--server", address, "--since=1h"); !strings.Contains(table[1], "PENDING") || time.Since(began) > 14*time.Second {
		t.Errorf("after %s the table is\n%s", time.Since(began), strings.Join(table, "\n"))
	}
	for _, parent := range []string{"clusters/demo", "clusters/demo/namespaces/-", "demo/-", demoTarget, shortOf(demoTarget)} {
		var response struct {
			Target, ResumeToken string
			Decision            struct{ DesiredReplicas int }
		}
		line := watched(t, 1, parent, "--server", address, "--since=2026-01-02T15:04:05Z", "--changes-only", "-o=json")[0]
		if err := json.Unmarshal([]byte(line), &response); err != nil || response.Target != demoTarget || response.Decision.DesiredReplicas != 5 || response.ResumeToken == "" {
			t.Errorf("%v in %s", err, line)
		}
	}
	if got := watched(t, 2, "--server", address, "--since=1h", "-o=yaml"); got[0] != "---" {
		t.Errorf("as YAML it is\n%s", strings.Join(got, "\n"))
	}
}

func TestInvalidWatchesAreRefused(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	for _, tt := range []struct {
		name, want string
		code       int
		args       []string
	}{
		{"an instant that is none", `--since: "yesterday" is neither`, cli.ExitUsage, []string{"--since=yesterday"}},
		{"a time to come", `--since: "-1h" is neither`, cli.ExitUsage, []string{"--since=-1h"}},
		{"a parent that is none, without a call", "parent: must be clusters/", cli.ExitUsage, []string{"clusters/x/y", "--server=127.0.0.1:1"}},
		{"a name alone, as it was given", `(got "foo")`, cli.ExitUsage, []string{"foo", "--server=127.0.0.1:1"}},
		{"nobody there", "(Unavailable)", cli.ExitFailed, []string{"--server=127.0.0.1:1"}},
	} {
		got := run(t, "", append([]string{"targets", "watch", "--server=" + address}, tt.args...)...)
		if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) {
			t.Errorf("%s: exit code %d, %s\nwant %d and %q", tt.name, got.Code, got.Stderr, tt.code, tt.want)
		}
	}
}

// A watch that never had an answer does not say that it waits until the server is back, and has no table.
func TestAWatchThatNeverBeganSaysSo(t *testing.T) {
	t.Parallel()
	got := run(t, "", "targets", "watch", "--server=127.0.0.1:1")
	if got.Code != cli.ExitFailed || got.Stdout != "" || strings.Contains(got.Stderr, "is back") || strings.Contains(got.Stderr, "rpc error") || strings.Count(got.Stderr, "no answer yet, trying again a few times: ") != 1 ||
		!strings.HasSuffix(got.Stderr, "(Unavailable)\n") {
		t.Errorf("exit code %d, %q, %s", got.Code, got.Stdout, got.Stderr)
	}
}

// expiring is a server that takes the credentials of one stream only.
type expiring struct {
	setpointv1.UnimplementedTargetServiceServer
	asked atomic.Int32
}

func (e *expiring) WatchDecisions(_ *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	if e.asked.Add(1) == 1 {
		_ = stream.Send(&setpointv1.WatchDecisionsResponse{ResumeToken: "t"})
	}
	return status.Error(codes.Unauthenticated, "expired")
}

// A watch whose token expires tries once more, and does not say that it waits for the server.
func TestAWatchWhoseTokenExpiresSaysSo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	s, server := grpc.NewServer(), &expiring{}
	setpointv1.RegisterTargetServiceServer(s, server)
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	got := run(t, "", "targets", "watch", "--server="+l.Addr().String())
	if got.Code != cli.ExitFailed || server.asked.Load() != 2 || strings.Contains(got.Stderr, "until the server is back") || strings.Contains(got.Stderr, "rpc error") ||
		!strings.HasPrefix(got.Stderr, "refused, trying once more with the credentials that there are now: ") || !strings.HasSuffix(got.Stderr, "setpoint: expired (Unauthenticated)\n") {
		t.Errorf("exit code %d after %d streams: %s", got.Code, server.asked.Load(), got.Stderr)
	}
}

// A count for which no metric is the reason says what limited it, before what stages say.
func TestADecisionWithoutAReasonSaysWhatLimitsIt(t *testing.T) {
	t.Parallel()
	condition := func(kind, is, reason string) *setpointv1.HorizontalPodAutoscalerCondition {
		return &setpointv1.HorizontalPodAutoscalerCondition{Type: kind, Status: is, Reason: reason, Message: "says " + reason}
	}
	able, held := condition("AbleToScale", "True", "ReadyForNewScale"), condition("AbleToScale", "True", "ScaleDownStabilized")
	within, limited := condition("ScalingLimited", "False", "DesiredWithinRange"), condition("ScalingLimited", "True", "ScaleUpLimit")
	schedule := []*setpointv1.Adjustment{{Stage: "BOUNDS", Message: "schedule raises"}}
	for _, tt := range []struct {
		name string
		d    *setpointv1.Decision
		want string
	}{
		{"by a policy", &setpointv1.Decision{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{able, limited}}, "says ScaleUpLimit"},
		{"by a policy, beside a schedule", &setpointv1.Decision{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{able, limited}, Adjustments: schedule}, "says ScaleUpLimit; schedule raises"},
		{"by nothing now, for no metric could be read", &setpointv1.Decision{Error: "queue: away", Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
			able, condition("ScalingActive", "False", "FailedGetExternalMetric"), limited,
		}}, "queue: away"},
		{"by the window", &setpointv1.Decision{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{held, limited}}, "says ScaleDownStabilized"},
		{"a reason is enough", &setpointv1.Decision{Reason: "cpu", Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{able, limited}}, "cpu"},
		{"by nothing", &setpointv1.Decision{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{able, within}}, ""},
	} {
		if got := why(demoTarget, tt.d); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A shadow applies nothing, and reports nothing.
func TestTheOutcomeOfAShadow(t *testing.T) {
	t.Parallel()
	for was, want := range map[string]string{"NONE": "NONE", "PENDING": "PENDING", "APPLIED": "SEEN", "DROPPED": "NOT SEEN"} {
		d := &setpointv1.Decision{Outcome: was, Reason: "cpu"}
		if got := outcome(demoTarget+target.ShadowSuffix, d); got != want {
			t.Errorf("%s of a shadow is %s, want %s", was, got, want)
		}
		if got := outcome(demoTarget, d); got != was {
			t.Errorf("%s is %s", was, got)
		}
		if got := why(demoTarget+target.ShadowSuffix, d); got != "cpu" {
			t.Errorf("%s of a shadow: %q", was, got)
		}
	}
}

// A change is one line, which says what became of it and why.
func TestAWatchedChangeIsOneLine(t *testing.T) {
	t.Parallel()
	c := &watchCommand{targetsCommand: &targetsCommand{output: cli.NewOutputFlag(cli.AsTable)}}
	var out strings.Builder
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	show := func(after time.Duration, id, outcome string) {
		t.Helper()
		r := &setpointv1.WatchDecisionsResponse{}
		if id != "" {
			r.Target = "t"
			r.Decision = &setpointv1.Decision{RecommendationId: id, Time: timestamppb.New(at), CurrentReplicas: 3, DesiredReplicas: 5, Reason: "cpu above target", Outcome: outcome}
			if outcome == "FAILED" {
				r.Decision.Conditions = []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Reason: "FailedUpdateScale", Message: "unable to update: exceeded quota"}}
			}
		}
		fatal.If(t, c.show(&out, r, at.Add(after)))
		fatal.If(t, c.writeDue(&out, at.Add(after)))
	}
	show(0, "a", "PENDING")
	show(time.Second, "a", "FAILED")
	show(time.Second, "b", "PENDING")
	show(2*time.Second, "b", "APPLIED")
	show(2*time.Second, "c", "PENDING")
	show(3*time.Second, "c", "DROPPED")
	show(3*time.Second, "d", "PENDING")
	show(12*time.Second, "", "")
	show(15*time.Second, "", "")
	show(16*time.Second, "", "")
	c.pending = true
	show(17*time.Second, "e", "PENDING")
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line)[4:], " "))
	}
	want := []string{
		"FAILED t cpu above target; unable to update: exceeded quota", "APPLIED t cpu above target",
		"DROPPED t cpu above target; never reported, and the next call did not have it", "PENDING t cpu above target", "PENDING t cpu above target",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the lines are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A change without an outcome is shown ten seconds after its decision, an old one at once, although the server says nothing more; and
// whatever the server's clock says, it has a second for its outcome and is shown after ten.
func TestPendingChangesAreShownInTime(t *testing.T) {
	t.Parallel()
	for ago, after := range map[time.Duration]time.Duration{0: 10 * time.Second, 4 * time.Second: 6 * time.Second, time.Hour: time.Second, -time.Hour: 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := &watchCommand{targetsCommand: &targetsCommand{output: cli.NewOutputFlag(cli.AsTable)}}
			var out strings.Builder
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go c.showDue(ctx, &out)
			shown := func() string {
				c.mu.Lock()
				defer c.mu.Unlock()
				return out.String()
			}
			r := &setpointv1.WatchDecisionsResponse{Target: "t", Decision: &setpointv1.Decision{RecommendationId: "a", Time: timestamppb.New(time.Now().Add(-ago)), Outcome: "PENDING"}}
			fatal.If(t, c.show(&out, r, time.Now()))
			time.Sleep(after - time.Millisecond)
			synctest.Wait()
			if shown() != "" {
				t.Errorf("decided %s ago: shown before %s", ago, after)
			}
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			if !strings.Contains(shown(), "PENDING") {
				t.Errorf("decided %s ago: not shown after %s", ago, after)
			}
		})
	}
}

// A watch that ends leaves no change out.
func TestPendingChangesAreShownAtTheEnd(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	root := newRoot()
	out := &ending{cancel: cancel}
	root.SetArgs([]string{"targets", "watch", "--since=1h", "--server", address})
	root.SetOut(out)
	if err := root.ExecuteContext(ctx); err != nil || !strings.Contains(out.String(), "PENDING") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// ending is an output that ends the watch half a second after its first row.
type ending struct {
	strings.Builder

	cancel func()
	once   sync.Once
}

func (e *ending) Write(text []byte) (int, error) {
	e.once.Do(func() { time.AfterFunc(500*time.Millisecond, e.cancel) })
	return e.Builder.Write(text)
}

// shortOf is CLUSTER/NAMESPACE/TARGET.
func shortOf(name string) string {
	return strings.NewReplacer("clusters/", "", "/namespaces/", "/", "/targets/", "/").Replace(name)
}

// A watch of a target of which nothing is known says so: the name may be mistyped. One of a target that is known, or of
// a namespace, does not.
func TestAWatchOfAnUnknownTargetSaysSo(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	for arg, said := range map[string]bool{"demo/shop/nobody": true, demoTarget + "x": true, demoTarget: false, "clusters/nowhere": false} {
		ctx, cancel := context.WithCancel(t.Context())
		root := newRoot()
		out, written := io.Pipe()
		root.SetArgs([]string{"targets", "watch", arg, "--server", address})
		root.SetOut(written)
		var stderr strings.Builder
		root.SetErr(&stderr)
		ended := make(chan error, 1)
		go func() { ended <- root.ExecuteContext(ctx) }()
		lines := bufio.NewScanner(out)
		lines.Scan() // its head, which comes after what is said
		cancel()
		_ = out.Close()
		if err := <-ended; err != nil || strings.Contains(stderr.String(), "nothing is known of clusters/demo/namespaces/shop/targets/") != said {
			t.Errorf("%s: %v, said %q", arg, err, stderr.String())
		}
	}
}
