package targets

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var listedAt = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// aTarget was asked for that long ago, each 15 s, and changes its count so.
func aTarget(name string, age time.Duration, from, to, proposal int32, states ...string) *setpointv1.Target {
	return &setpointv1.Target{
		Name: "clusters/eu-1/namespaces/shop/targets/" + name, Interval: durationpb.New(15 * time.Second), NotAskedTime: timestamppb.New(listedAt.Add(45*time.Second - age)),
		LastDecision: &setpointv1.Decision{
			Time: timestamppb.New(listedAt.Add(-age)), CurrentReplicas: from, DesiredReplicas: to, States: states,
			Basis: &setpointv1.DecisionBasis{Proposal: &proposal},
		},
		Status: &setpointv1.HorizontalPodAutoscalerStatus{CurrentMetrics: []*setpointv1.MetricStatus{{
			Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{Current: &setpointv1.MetricValueStatus{AverageUtilization: new(int32(287)), AverageValue: new("1435m")}},
		}}},
		SpecInUse: &setpointv1.SpecInUse{Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(2)), MaxReplicas: 6, Metrics: []*setpointv1.MetricSpec{{
				Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Target: &setpointv1.MetricTarget{AverageUtilization: new(int32(60))}},
			}},
		}},
	}
}

func listedTargets() []*setpointv1.Target {
	flaps := aTarget("flaps", 9*time.Second, 3, 3, 3)
	flaps.FlappingUntilTime = timestamppb.New(listedAt.Add(time.Second))
	turned := aTarget("turned-long-ago", 9*time.Second, 3, 4, 4)
	turned.FlappingUntilTime = timestamppb.New(listedAt)
	failing := aTarget("failing", 3*time.Second, 4, 4, 0, "METRICS_FAILING")
	failing.LastDecision.Basis, failing.Status.CurrentMetrics = nil, []*setpointv1.MetricStatus{{}, {}}
	noScale := aTarget("no-scale", 3*time.Second, 0, 0, 0, "SCALE_UNREADABLE")
	noScale.LastDecision.Basis, noScale.SpecInUse, noScale.Status = nil, nil, nil
	once := aTarget("once", 50*time.Minute, 1, 1, 1)
	once.Interval, once.NotAskedTime = nil, timestamppb.New(listedAt.Add(-35*time.Minute))
	older := aTarget("older-server", 50*time.Minute, 1, 1, 1)
	older.NotAskedTime = nil
	return []*setpointv1.Target{
		aTarget("at-max", 5*time.Second, 6, 6, 30, "AT_MAXIMUM"), aTarget("at-max-"+strings.Repeat("x", 150)+"-end", 5*time.Second, 4, 6, 40, "AT_MAXIMUM"),
		aTarget("dead", 50*time.Minute, 3, 3, 3), failing, flaps, noScale, once, older, {Name: "clusters/eu-1/namespaces/shop/targets/unread"}, turned,
	}
}

func TestTheListOfTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		order  string
		states []string
		form   string
		want   string
	}{
		{"urgency", nil, cli.AsTable, `
TARGET                                                           STATE        REPLICAS   MIN/MAX   METRIC     LACK   AGE
clusters/eu-1/namespaces/shop/targets/unread                     unread       ?          ?/?       ?          ?      ?
clusters/eu-1/namespaces/shop/targets/dead                       not-asked    3          2/6       287%/60%   0      50m
clusters/eu-1/namespaces/shop/targets/once                       not-asked    1          2/6       287%/60%   0      50m
clusters/eu-1/namespaces/shop/targets/no-scale                   unreadable   ?          ?/?       ?          ?      3s
clusters/eu-1/namespaces/shop/targets/failing                    failing      4          2/6       ?/60% +1   ?      3s
clusters/eu-1/namespaces/shop/t…xxxxxxxxxxxxxxxxxxxxxxxxxx-end   max          4 -> 6     2/6       287%/60%   34     5s
clusters/eu-1/namespaces/shop/targets/at-max                     max          6          2/6       287%/60%   24     5s
clusters/eu-1/namespaces/shop/targets/flaps                      flapping     3          2/6       287%/60%   0      9s
clusters/eu-1/namespaces/shop/targets/older-server               steady       1          2/6       287%/60%   0      50m
clusters/eu-1/namespaces/shop/targets/turned-long-ago            steady       3 -> 4     2/6       287%/60%   0      9s
`},
		{"lack", []string{"max", "failing"}, asName, `
clusters/eu-1/namespaces/shop/targets/at-max-` + strings.Repeat("x", 150) + `-end
clusters/eu-1/namespaces/shop/targets/at-max
clusters/eu-1/namespaces/shop/targets/failing
`},
		{"age", []string{"not-asked", "steady"}, asWide, `
TARGET                                                  STATE       REPLICAS   MIN/MAX   METRIC     LACK   AGE
clusters/eu-1/namespaces/shop/targets/dead              not-asked   3          2/6       287%/60%   0      50m
clusters/eu-1/namespaces/shop/targets/once              not-asked   1          2/6       287%/60%   0      50m
clusters/eu-1/namespaces/shop/targets/older-server      steady      1          2/6       287%/60%   0      50m
clusters/eu-1/namespaces/shop/targets/turned-long-ago   steady      3 -> 4     2/6       287%/60%   0      9s
`},
	} {
		// In pages of two, of which the best are kept.
		targets := listedTargets()
		all, err := listing.Best(0, listOrders[tt.order], func(_ int32, token string) (page []listedTarget, next string, err error) {
			for range 2 {
				if len(targets) == 0 {
					return page, "", nil
				}
				if l := newListedTarget(targets[0], listedAt); l.has(tt.states) {
					page = append(page, l)
				}
				targets = targets[1:]
			}
			return page, token + "x", nil
		})
		fatal.If(t, err)
		c := newTargetListForTest(tt.form)
		var out strings.Builder
		fatal.If(t, c.show(&out, all.Items, listedAt))
		if tt.form == cli.AsTable { // other programs, such as grep, get whole names, and a terminal lines that fit
			if long := "at-max-" + strings.Repeat("x", 150) + "-end "; !strings.Contains(out.String(), long) {
				t.Errorf("no %s in\n%s", long, out.String())
			}
			// One long name does not move the columns of all.
			if short := "targets/at-max" + strings.Repeat(" ", mostPadded-len("clusters/eu-1/namespaces/shop/targets/at-max")+3) + "max "; !strings.Contains(out.String(), short) {
				t.Errorf("no %q in\n%s", short, out.String())
			}
			out.Reset()
			fatal.If(t, writeColumns(&out, c.table(all.Items, listedAt), mostColumns))
		}
		if got := "\n" + out.String(); got != tt.want {
			t.Errorf("sorted by %s, of %v:%s\nwant%s", tt.order, tt.states, got, tt.want)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); tt.form == cli.AsTable && n > mostColumns {
				t.Errorf("a line has %d columns: %s", n, line)
			}
		}
	}
}

// A scale from zero has an average over no replicas.
func TestAnAverageOverNoReplicasIsInWords(t *testing.T) {
	t.Parallel()
	current, want := &setpointv1.MetricValueStatus{AverageValue: new("9223372036854775807m")}, &setpointv1.MetricTarget{AverageValue: new("10")}
	l := listedTarget{Target: &setpointv1.Target{
		Status:    &setpointv1.HorizontalPodAutoscalerStatus{CurrentMetrics: []*setpointv1.MetricStatus{{Type: "External", External: &setpointv1.ExternalMetricStatus{Current: current}}}},
		SpecInUse: &setpointv1.SpecInUse{Spec: &setpointv1.HorizontalPodAutoscalerSpec{Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{Target: want}}}}},
	}}
	for _, tt := range [][2]string{
		{l.metric(false), "no average/10"},
		{metricLine(&setpointv1.MetricExplanation{Name: "queue", Calculation: "AverageValuePerReplica", Current: current, Target: want, Proposal: new(int32(4))}), "queue: no average of 10, asks for 4"},
	} {
		if tt[0] != tt[1] {
			t.Errorf("%q, want %q", tt[0], tt[1])
		}
	}
}

// Stages that changed nothing have no row.
func TestStagesThatChangedNothingHaveNoRow(t *testing.T) {
	t.Parallel()
	one := []*setpointv1.Adjustment{{Stage: "OVERRIDE"}}
	for _, tt := range []struct {
		adjustments []*setpointv1.Adjustment
		without     *int32
		rows        int
	}{{nil, nil, 0}, {nil, new(int32(10)), 0}, {nil, new(int32(12)), 1}, {one, new(int32(10)), 2}, {one, nil, 1}} {
		if rows := stageRows(tt.adjustments, tt.without, 10); len(rows) != tt.rows || tt.rows > 0 && rows[0][0] != "Stages" {
			t.Errorf("%v without %v: %v", tt.adjustments, tt.without, rows)
		}
	}
}

// What targets get and explain say is what the list says, with the instants of what comes with the clock.
func TestTheStatesOfOneTarget(t *testing.T) {
	t.Parallel()
	overridden := func(name string, until *timestamppb.Timestamp, states ...string) *setpointv1.Target {
		of := aTarget(name, 9*time.Second, 3, 3, 3, append(states, "OVERRIDDEN")...)
		of.LastDecision.Adjustments = []*setpointv1.Adjustment{{Stage: "OVERRIDE", Rule: "begins", UntilTime: timestamppb.New(listedAt.Add(-time.Hour))}, {Stage: "OVERRIDE", Rule: "hold", UntilTime: until}}
		return of
	}
	silent := aTarget("silent", 50*time.Minute, 3, 3, 3, "AT_MAXIMUM")
	silent.FlappingUntilTime = timestamppb.New(listedAt.Add(time.Minute))
	for _, tt := range []struct {
		target *setpointv1.Target
		want   string
	}{
		{aTarget("web", time.Second, 3, 3, 3), "steady"},
		{silent, "not-asked since " + instant(timestamppb.New(listedAt.Add(-50*time.Minute+45*time.Second))) + ", max, flapping until " + instant(timestamppb.New(listedAt.Add(time.Minute)))},
		{overridden("held", timestamppb.New(listedAt)), "overridden"},
		{overridden("held", nil), "overridden"},
		{overridden("ended", timestamppb.New(listedAt.Add(-time.Second)), "AT_MINIMUM"), "unknown since its override ended at " + instant(timestamppb.New(listedAt.Add(-time.Second))) + ", min"},
		{&setpointv1.Target{}, "unread"},
	} {
		if got := stateLine(tt.target, listedAt); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.target.GetName(), got, tt.want)
		}
		tt.target.NotAskedTime = timestamppb.New(time.Now().Add(time.Hour)) // for what takes the clock's time
		var out strings.Builder
		writeTarget(&out, tt.target, nil)
		if want := "State\t" + stateLine(tt.target, time.Now()) + "\n"; !strings.Contains(out.String(), want) {
			t.Errorf("%s: targets get says\n%s\nwant %q", tt.target.GetName(), out.String(), want)
		}
	}
	for _, of := range []*setpointv1.Target{{}, aTarget("no-scale", time.Second, 0, 0, 0, "SCALE_UNREADABLE")} {
		var out strings.Builder
		if writeTarget(&out, of, nil); !strings.Contains(out.String(), "Replicas\t?\n") {
			t.Errorf("%q has a count that nobody has read:\n%s", of.GetName(), out.String())
		}
	}
}

// A spec that was stored after the last decision, as a promotion does, is not one that callers do without.
func TestWhichSpecDecides(t *testing.T) {
	t.Parallel()
	at := func(minutes int) *timestamppb.Timestamp {
		return timestamppb.New(listedAt.Add(time.Duration(minutes) * time.Minute))
	}
	use := &setpointv1.SpecInUse{Hash: "a"}
	for want, kept := range map[string]*setpointv1.TargetSpec{
		"sent by callers, a":        nil,
		"the stored one, a, stored": {Hash: "a", UpdateTime: at(1)},
		"callers send another spec than the stored one: a, stored b":          {Hash: "b", UpdateTime: at(-1)},
		"a at the last decision; b is stored since then, which the next poll": {Hash: "b", UpdateTime: at(1)},
	} {
		if got := specLine(&setpointv1.Target{SpecInUse: use, TargetSpec: kept, LastDecision: &setpointv1.Decision{Time: at(0)}}); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func newTargetListForTest(form string) *targetList {
	output := cli.NewOutputFlag(form)
	return &targetList{targetsCommand: &targetsCommand{output: output}, output: output}
}

// A list of the most urgent reads all pages, and keeps few more than its limit.
func TestTheBestOfManyPagesAreKept(t *testing.T) {
	t.Parallel()
	const pages, limit = 20, 3
	page := 0
	all, err := listing.Best(limit, listOrders["lack"], func(size int32, _ string) (items []listedTarget, next string, err error) {
		for i := range size {
			items = append(items, listedTarget{Target: &setpointv1.Target{Name: fmt.Sprint(page, "-", i)}, lack: (int32(page)*7 + i) % 1009})
		}
		if page++; page == pages {
			return items, "", nil
		}
		return items, "more", nil
	})
	if err != nil || page != pages || len(all.Items) != limit || !all.More || cap(all.Items) > 5*listing.LargestPage {
		t.Fatalf("%v after %d pages: %d of room for %d, more: %v", err, page, len(all.Items), cap(all.Items), all.More)
	}
	for _, l := range all.Items {
		if l.lack != 1008 {
			t.Errorf("%s lacks %d", l.GetName(), l.lack)
		}
	}
	// By name the first page is enough.
	page = 0
	if _, err := listing.Best(limit, nil, func(int32, string) ([]listedTarget, string, error) {
		page++
		return make([]listedTarget, 10), "more", nil
	}); err != nil || page != 1 {
		t.Errorf("%v after %d pages, want 1", err, page)
	}
}

func TestMistakesInListsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ arg, want string }{
		{"--state=maximum", `--state: "maximum" is none of unread, not-asked,`},
		{"--sort=size", `--sort: "size" is none of urgency,`},
		{"clusters/x/targets/y", "parent: must be clusters/"},
	} {
		if got := run(t, "", "targets", "list", "--server=127.0.0.1:1", tt.arg); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, tt.want) {
			t.Errorf("%s: exit code %d, %s\nwant %s", tt.arg, got.Code, got.Stderr, tt.want)
		}
	}
	address := clitest.StartServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	for arg, want := range map[string]string{
		"--state=steady": demoTarget + "\n", "--state=max,failing": "", "--state=Not asked,Steady": demoTarget + "\n", "--state=not asked": "",
		"clusters/demo": demoTarget + "\n", "clusters/-": demoTarget + "\n", "clusters/other": "",
	} {
		if got := run(t, "", "targets", "list", "--server", address, "-o=name", arg); got.Code != 0 || got.Stdout != want {
			t.Errorf("%s: exit code %d, %q, want %q", arg, got.Code, got.Stdout, want)
		}
	}
	const fleet = "{spec: {maxReplicas: 3}, fleet: {members: [{target: clusters/a/namespaces/b/targets/c}, {target: clusters/b/namespaces/b/targets/c}]}}"
	if got := run(t, fleet, "specs", "set", "all/b/c", "-f", "-", "--server", address); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	for arg, told := range map[string]bool{"--state=max": true, "--state=steady": true, "clusters/-": false} {
		if got := run(t, "", "targets", "list", "--server", address, arg); got.Code != 0 || strings.Contains(got.Stderr, "there are fleets") != told {
			t.Errorf("%s, where a fleet is: exit code %d, %q", arg, got.Code, got.Stderr)
		}
	}
}

// pagedSpecs are the specs of a server whose pages may have no fleets before the last one.
type pagedSpecs struct {
	setpointv1.TargetServiceClient
	pages [][]*setpointv1.TargetSpec
	read  int
}

func (p *pagedSpecs) ListTargetSpecs(_ context.Context, req *setpointv1.ListTargetSpecsRequest, _ ...grpc.CallOption) (*setpointv1.ListTargetSpecsResponse, error) {
	p.read++
	page := &setpointv1.ListTargetSpecsResponse{TargetSpecs: p.pages[len(req.GetPageToken())]}
	if len(req.GetPageToken()) < len(p.pages)-1 {
		page.NextPageToken = req.GetPageToken() + "x"
	}
	return page, nil
}

// Fleets are hinted at on whatever page the first one is, and no page after it is read.
func TestFleetsOnLatePagesAreHintedAt(t *testing.T) {
	t.Parallel()
	plain, fleet := &setpointv1.TargetSpec{}, &setpointv1.TargetSpec{Fleet: &setpointv1.FleetSpec{}}
	for _, tt := range []struct {
		pages [][]*setpointv1.TargetSpec
		read  int
		told  bool
	}{
		{[][]*setpointv1.TargetSpec{nil, {plain}, nil, {plain, fleet}, {fleet}}, 4, true},
		{[][]*setpointv1.TargetSpec{{plain}, nil}, 2, false},
	} {
		cmd, stderr, specs := &cobra.Command{}, &strings.Builder{}, &pagedSpecs{pages: tt.pages}
		cmd.SetErr(stderr)
		cmd.SetContext(t.Context())
		if hintFleets(cmd, specs, ""); specs.read != tt.read || strings.Contains(stderr.String(), "there are fleets") != tt.told {
			t.Errorf("%d pages were read, told: %q", specs.read, stderr)
		}
	}
}
