package fleetcmd_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/fleetcmd"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const web = "clusters/all/namespaces/shop/targets/web"

// stored is a server of stored specs and fleets, by the contract.
type stored struct {
	setpointv1.UnimplementedTargetServiceServer
	setpointv1.UnimplementedFleetServiceServer

	mu      sync.Mutex
	specs   map[string]*setpointv1.TargetSpec // guarded by mu, as is all that follows
	fleet   *setpointv1.Fleet
	reads   int // of fleets
	meddles int // how many changes of others come before the next ones
	changes int
}

func (s *stored) GetTargetSpec(_ context.Context, req *setpointv1.GetTargetSpecRequest) (*setpointv1.GetTargetSpecResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.specs[req.GetName()]
	if found == nil {
		return nil, status.Error(codes.NotFound, "no such spec")
	}
	found = proto.CloneOf(found)
	if s.meddles > 0 {
		s.meddles--
		s.specs[req.GetName()].Etag += "-other"
	}
	return &setpointv1.GetTargetSpecResponse{TargetSpec: found}, nil
}

func (s *stored) SetTargetSpec(_ context.Context, req *setpointv1.SetTargetSpecRequest) (*setpointv1.SetTargetSpecResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.specs[req.GetName()]
	if etag := req.GetTargetSpec().GetEtag(); etag != "" && etag != known.GetEtag() {
		return nil, status.Error(codes.Aborted, "the spec has changed")
	}
	spec := proto.CloneOf(req.GetTargetSpec())
	s.changes++
	spec.Name, spec.Etag, spec.UpdatedBy = req.GetName(), fmt.Sprint(s.changes), "alice"
	s.specs[req.GetName()] = spec
	return &setpointv1.SetTargetSpecResponse{TargetSpec: spec}, nil
}

func (s *stored) ListTargetSpecs(_ context.Context, req *setpointv1.ListTargetSpecsRequest) (*setpointv1.ListTargetSpecsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &setpointv1.ListTargetSpecsResponse{}
	for _, spec := range s.specs {
		answer.TargetSpecs = append(answer.TargetSpecs, spec)
	}
	slices.SortFunc(answer.GetTargetSpecs(), func(a, b *setpointv1.TargetSpec) int { return strings.Compare(a.GetName(), b.GetName()) })
	return answer, nil
}

func (s *stored) DeleteTargetSpec(_ context.Context, req *setpointv1.DeleteTargetSpecRequest) (*setpointv1.DeleteTargetSpecResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.specs[req.GetName()].GetEtag() != req.GetEtag() {
		return nil, status.Error(codes.Aborted, "the spec has changed")
	}
	delete(s.specs, req.GetName())
	return &setpointv1.DeleteTargetSpecResponse{}, nil
}

func (s *stored) GetFleet(_ context.Context, req *setpointv1.GetFleetRequest) (*setpointv1.GetFleetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if strings.HasSuffix(req.GetName(), "/broken") {
		return nil, status.Error(codes.Internal, "the store\x1b[31m is away")
	}
	if s.fleet.GetName() != req.GetName() {
		return nil, status.Error(codes.NotFound, "no such fleet")
	}
	return &setpointv1.GetFleetResponse{Fleet: s.fleet}, nil
}

// start starts the server, and returns how to run the command against it.
func start(t *testing.T) (*stored, func(args ...string) clitest.Result) {
	t.Helper()
	s := &stored{specs: map[string]*setpointv1.TargetSpec{}}
	server := grpc.NewServer()
	setpointv1.RegisterTargetServiceServer(server, s)
	setpointv1.RegisterFleetServiceServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s, func(args ...string) clitest.Result {
		t.Helper()
		return clitest.Run(t, cli.Root(&cobra.Command{Use: "setpoint"}, fleetcmd.New()), "", append(append([]string{"fleet"}, args...), "--server", listener.Addr().String())...)
	}
}

func check(t *testing.T, name string, got clitest.Result, code int, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got.Stdout+got.Stderr, w) {
			t.Errorf("%s:\n%s%swant %q", name, got.Stdout, got.Stderr, w)
		}
	}
	if got.Code != code {
		t.Errorf("%s: exit code %d, want %d\n%s", name, got.Code, code, got.Stderr)
	}
}

func TestFleetsAreCreatedDrainedAndDeleted(t *testing.T) {
	t.Parallel()
	s, run := start(t)
	check(t, "none", run("list"), 0, "no fleets that you may read")
	check(t, "create", run("create", "all/shop/web", "--member=west", "--member=east,weight=2,min=1,max=30", "--member=clusters/c/namespaces/n/targets/t",
		"--min=2", "--max=40", "--cpu=60", "--survive-one", "--on-lost=shift", "--stale-after=30s", "--lost-after=2m", "--max-moves=3", "--period=5s"),
		0, "fleet "+web+" stored: 3 members, 2 to 40 replicas.")
	want := &setpointv1.FleetSpec{
		Members: []*setpointv1.FleetMember{
			{Target: "clusters/west/namespaces/shop/targets/web"},
			{Target: "clusters/east/namespaces/shop/targets/web", Weight: new(int32(2)), MinReplicas: 1, MaxReplicas: new(int32(30))},
			{Target: "clusters/c/namespaces/n/targets/t"},
		},
		StaleAfter: durationpb.New(30 * time.Second), LostAfter: durationpb.New(2 * time.Minute), OnLost: "SHIFT", SurviveOne: true, MaxMoves: 3,
	}
	got := s.specs[web]
	if !proto.Equal(got.GetFleet(), want) || got.GetPeriod().AsDuration() != 5*time.Second || got.GetSpec().GetMetrics()[0].GetResource().GetTarget().GetAverageUtilization() != 60 {
		t.Errorf("stored is %v", got)
	}
	check(t, "again", run("create", "all/shop/web", "--member=west", "--member=east", "--max=4"), cli.ExitFailed, "a fleet of 3 members is stored under the name "+web+": --replace replaces it")
	check(t, "again, with a percent sign", run("create", "all/shop/web", "--member=west", "--member=east", "--max=4", "--cpu=60%"), cli.ExitFailed, "is stored under the name")
	check(t, "a share that is no percent", run("create", "all/shop/web", "--member=west", "--member=east", "--max=4", "--cpu=most"), cli.ExitUsage, "must be a whole number of percent from 1, such as 60")
	for _, wrong := range [][]string{{"--max-moves=-1", "fleet.maxMoves"}, {"--scope=External:other=global", `fleet.scopes["External:other"]`}, {"--stale-after=2s", "fleet.staleAfter"}} {
		check(t, "again, with a mistake", run("create", "all/shop/web", "--member=west", "--member=east", "--max=4", wrong[0]), cli.ExitUsage, wrong[1])
	}
	queue := clitest.File(t, "queue.yaml", "spec: {maxReplicas: 4, metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 10}}}]}\n")
	check(t, "with a scope", run("create", "all/shop/queue", "-f", queue, "--member=west", "--member=east", "--scope=External:queue=per-member"), 0, "stored: 2 members")
	const scoped = "clusters/all/namespaces/shop/targets/queue"
	if scopes := s.specs[scoped].GetFleet().GetScopes(); scopes["External:queue"] != "PER_MEMBER" {
		t.Errorf("the scopes are %v", scopes)
	}
	delete(s.specs, scoped)
	s.specs["clusters/a/namespaces/b/targets/c"] = &setpointv1.TargetSpec{Name: "clusters/a/namespaces/b/targets/c", Spec: got.GetSpec()}
	check(t, "over another spec", run("create", "a/b/c", "--member=west", "--member=east", "--max=4"), cli.ExitFailed, "a spec that is no fleet is stored under the name")
	check(t, "list", run("list"), 0, "FLEET         DESIRED  SHARES  BOUNDS  MEMBERS  DECIDED  WRONG\nall/shop/web  -        -       2-40    3        -        deleted meanwhile\n")
	check(t, "list as JSON", run("list", "-o=json"), 0, `"onLost": "SHIFT"`)

	s.meddles = 2 // two others change the spec at the same time
	check(t, "drain", run("drain", web, "east"), 0, "east/shop/web becomes empty: see setpoint fleet show all/shop/web\n")
	if m := s.specs[web].GetFleet().GetMembers()[1]; !m.GetDrained() || m.GetWeight() != 2 {
		t.Errorf("drained: %v", m)
	}
	check(t, "drain again", run("drain", web, "east/shop/web"), 0, "east/shop/web already becomes empty\n")
	check(t, "promote", run("promote", "all/shop/web", "east"), 0, "east/shop/web takes part again: see")
	if !proto.Equal(s.specs[web].GetFleet(), want) {
		t.Errorf("after drain and promote: %v", s.specs[web].GetFleet())
	}
	s.meddles = 3
	check(t, "a spec that changes all the time", run("drain", web, "east"), cli.ExitFailed, "the spec has changed")
	check(t, "no member", run("drain", web, "north"), cli.ExitFailed, `the fleet has no member "north"; its members are west/shop/web, east/shop/web, c/n/t`)
	check(t, "no fleet", run("drain", "all/shop/other", "north"), cli.ExitFailed, "there is no fleet clusters/all/namespaces/shop/targets/other that you may read: setpoint fleet list")
	check(t, "another spec is no fleet", run("delete", "a/b/c"), cli.ExitFailed, "clusters/a/namespaces/b/targets/c is a stored spec without members, and no fleet")

	file := clitest.File(t, "fleet.yaml", "spec: {maxReplicas: 9, minReplicas: 3}\nfleet:\n  members: [{target: clusters/a/namespaces/n/targets/t}]\n  onLost: SHIFT\n")
	check(t, "replaced by a file and flags", run("create", web, "-f", file, "--member=b/n/t", "--replace"), 0, "2 members, 3 to 9 replicas", "Its metrics are others now")
	if f := s.specs[web].GetFleet(); len(f.GetMembers()) != 2 || f.GetOnLost() != "SHIFT" {
		t.Errorf("of a file: %v", f)
	}
	s.meddles = 1
	check(t, "replaced while others change it", run("create", web, "-f", file, "--member=b/n/t", "--replace"), cli.ExitFailed, "the spec has changed")
	check(t, "delete", run("delete", "all/shop/web"), 0, "fleet "+web+" deleted; members that name it keep their counts")
	if s.specs[web] != nil {
		t.Error("it is still there")
	}
}

// Bad input is refused before a connection is made, all of it at once.
func TestFleetsThatAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	spec := clitest.File(t, "spec.yaml", "maxReplicas: 9\n")
	const two = "--member=a"
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"no name", []string{"create", "web", "--max=3"}, []string{`"web" is no name of a fleet: it must be clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, or CLUSTER/NAMESPACE/TARGET for short`}},
		{"a name of places", []string{"show", "a/../b"}, []string{`"a/../b" is no name of a fleet`}},
		{"no spec, and no words", []string{"create", web, two, "--on-lost=drop", "--scope=queue"}, []string{"a spec is needed: give --file, or --max", `--on-lost: "drop" must be hold or shift`, `--scope: "queue" must be METRIC=global`}},
		{"bounds, times and words", []string{"create", web, two, "--member=b", "--min=5", "--max=4", "--stale-after=3m", "--lost-after=2m", "--on-lost=x"}, []string{"--min: 5 is above --max 4", "--lost-after: 2m0s is less than --stale-after 3m0s", `--on-lost: "x" must be hold or shift`}},
		{"no members", []string{"create", web, "--max=3"}, []string{"a fleet has at least two members, and 0 are named"}},
		{"one member", []string{"create", web, "--max=3", two}, []string{"a fleet has at least two members, and 1 are named"}},
		{"two specs", []string{"create", web, "-f", spec, "--max=3", two, "--member=b"}, []string{"--file has the spec: --min, --max and --cpu must be in it"}},
		{"members that are none", []string{"create", web, "--max=3", "--member=a/b", "--member=a,wieght=2", "--member=a,weight=0", "--member=a,max=-1", "--member=a,min=x", "--member="},
			[]string{`--member: "a/b" is no name of a member`, `"a,wieght=2" has "wieght=2"`, `"a,weight=0": weight must be above 0; setpoint fleet drain`, `"a,max=-1": max must be a whole number from 0`, `"a,min=x": min must be`, `--member: "" is no name`}},
		{"no such scope", []string{"create", web, "--max=3", "--scope=External:queue=some"}, []string{`--scope: "External:queue=some" must be`}},
		{"no file", []string{"create", web, "-f", "/no/such", two, "--member=b"}, []string{"/no/such"}},
		{"no member to drain", []string{"drain", web}, []string{"wrong number of arguments (1); usage: setpoint fleet drain FLEET MEMBER"}},
		{"fewer than no fleets", []string{"list", "--limit=-1"}, []string{"--limit: -1 is negative"}},
	} {
		check(t, tt.name, clitest.Run(t, cli.Root(&cobra.Command{Use: "setpoint"}, fleetcmd.New()), "", append(append([]string{"fleet"}, tt.args...), "--server=127.0.0.1:1")...), cli.ExitUsage, tt.want...)
	}
}

// The list has what is the matter, for tables only, and asks for no more fleets than it shows.
func TestFleetsAreListedWithTheirStates(t *testing.T) {
	t.Parallel()
	s, run := start(t)
	for _, name := range []string{web, "clusters/a/namespaces/b/targets/broken", "clusters/a/namespaces/b/targets/gone"} {
		s.specs[name] = &setpointv1.TargetSpec{
			Name: name, Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 9},
			Fleet: &setpointv1.FleetSpec{Members: []*setpointv1.FleetMember{{}, {Drained: true}}},
		}
	}
	s.specs["clusters/a/namespaces/b/targets/alone"] = &setpointv1.TargetSpec{Name: "clusters/a/namespaces/b/targets/alone"}
	n := new(int32(1))
	s.fleet = &setpointv1.Fleet{
		Name: web, DesiredReplicas: 12, ShareTotal: 11, UnplacedReplicas: 1, MissingReplicas: 2, DecisionTime: timestamppb.New(time.Now().Add(-26*time.Hour - time.Minute)),
		MemberCounts: &setpointv1.FleetMemberCounts{Fresh: 3, Lost: 1, Drained: 1},
		Status: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
			{Type: "ScalingActive", Status: "False", Reason: "FailedGetResourceMetric"},
		}},
		Members: []*setpointv1.FleetMemberStatus{
			{State: "FRESH", Error: "no metrics", Applied: true, Share: n, SpecReplicas: n}, {State: "FRESH", Share: n, SpecReplicas: n}, {State: "UNSEEN"},
			{State: "LOST", Error: "not counted again", Share: n, SpecReplicas: n},
		},
	}
	const want = `FLEET         DESIRED  SHARES  BOUNDS  MEMBERS                    DECIDED  WRONG
a/b/broken    -        -       1-9     2                          -        its state can't be read: the store` + "\ufffd" + `[31m is away
a/b/gone      -        -       1-9     2                          -        deleted meanwhile
all/shop/web  12       11      1-9     3 fresh, 1 lost, 1 drained  26h ago  no count: FailedGetResourceMetric with 1 lost, 1 unplaced, 2 missing without the largest member, 1 without a metric, 1 not as told
`
	if got := run("list"); strings.Join(strings.Fields(got.Stdout), " ") != strings.Join(strings.Fields(want), " ") || got.Code != 0 {
		t.Errorf("got\n%s%swant\n%s", got.Stdout, got.Stderr, want)
	}
	s.reads = 0
	check(t, "the first one", run("list", "--limit=1"), 0, "a/b/broken", "listed 1 fleets, and there are more")
	if s.reads != 1 {
		t.Errorf("%d reads for one row", s.reads)
	}
	s.reads = 0
	check(t, "as JSON", run("list", "-o=json"), 0, `"maxReplicas": 9`, `"shareTotal": 11`, `"wrong": "deleted meanwhile"`, `"wrong": "no count: FailedGetResourceMetric with 1 lost, 1 unplaced`)
	if s.reads != 3 {
		t.Errorf("%d reads for three fleets", s.reads)
	}
	check(t, "as YAML", run("list", "-o=yaml", "--limit=1"), 0, "states:\n- name: clusters/a/namespaces/b/targets/broken\n  wrong: 'its state can''t be read")
	check(t, "none", run("list", "-o=json", "clusters/none/namespaces/none"), 0)
	s.fleet = &setpointv1.Fleet{Name: web, MemberCounts: &setpointv1.FleetMemberCounts{Unseen: 2}}
	check(t, "new", run("list"), 0, "2 unseen")
	if got := run("list"); !strings.Contains(got.Stdout, "never    not decided yet") {
		t.Errorf("before the first decision:\n%s", got.Stdout)
	}
	conditions := []*setpointv1.HorizontalPodAutoscalerCondition{
		{Type: "ScalingActive", Status: "True", Reason: "ValidMetricFound"}, {Type: "ScalingLimited", Status: "True", Reason: "TooManyReplicas"},
	}
	s.fleet = &setpointv1.Fleet{Name: web, DecisionTime: timestamppb.Now(), UnplacedReplicas: 1, Status: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: conditions}}
	check(t, "at the maximum", run("list"), 0, "at its maximum, 1 unplaced")
	conditions[0].Status = "False"
	if got := run("list"); strings.Contains(got.Stdout, "maximum") {
		t.Errorf("a maximum of an earlier decision:\n%s", got.Stdout)
	}
}

// Of a fleet of which one member has all there is no largest one to do without.
func TestAFleetOfOneMemberSaysThatNothingIsAdded(t *testing.T) {
	t.Parallel()
	s, run := start(t)
	s.fleet = &setpointv1.Fleet{
		Name: web, DesiredReplicas: 3, ShareTotal: 3, MissingReplicas: 3, MinReplicas: 2, MaxReplicas: 20, DecisionTime: timestamppb.Now(),
		MemberCounts: &setpointv1.FleetMemberCounts{Fresh: 2, Drained: 1}, Spec: &setpointv1.FleetSpec{SurviveOne: true},
	}
	got := run("show", "all/shop/web")
	if text := strings.Join(strings.Fields(got.Stdout), " "); !strings.Contains(text, "add up to 3; one member has them all: no other one would remain, so nothing is added for its loss Members") {
		t.Errorf("got\n%s%s", got.Stdout, got.Stderr)
	}
}

// A count that a schedule or an override has made is not explained by the spec's bounds.
func TestAFleetSaysWhatStagesAndOverridesMadeOfIt(t *testing.T) {
	t.Parallel()
	s, run := start(t)
	now := time.Now()
	schedule := &setpointv1.Adjustment{Stage: "BOUNDS", Rule: "schedule/office", Message: `schedule "office" raises minReplicas from 2 to 10`}
	pin := &setpointv1.Adjustment{Stage: "OVERRIDE", Rule: "pin", Message: "pinned to 6 by alice"}
	s.specs[web] = &setpointv1.TargetSpec{Spec: &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(2)), MaxReplicas: 20}}
	for _, tt := range []struct {
		name    string
		desired int32
		all     []*setpointv1.Adjustment
		want    string
	}{
		{"a schedule", 10, []*setpointv1.Adjustment{schedule}, `Why schedule "office" raises minReplicas from 2 to 10 ScalingLimited`},
		{"an override", 6, []*setpointv1.Adjustment{pin}, "Why pinned to 6 by alice ScalingLimited"},
		{"neither", 2, nil, "Why at its minimum of 2 ScalingLimited"},
		{"a schedule of another time of day", 2, []*setpointv1.Adjustment{schedule}, "Why at its minimum of 2; schedule"},
		{"a spec that may not be read", 2, nil, "Why at its minimum ScalingLimited"},
	} {
		if tt.name == "a spec that may not be read" {
			delete(s.specs, web)
		}
		s.fleet = &setpointv1.Fleet{
			Name: web, DesiredReplicas: tt.desired, MinReplicas: 2, MaxReplicas: 20, DecisionTime: timestamppb.New(now), Adjustments: tt.all,
			Status: &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: tt.desired, Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
				{Type: "ScalingLimited", Status: "True", Reason: "TooFewReplicas", Message: "too few"},
			}},
		}
		got := run("show", "all/shop/web")
		if text := strings.Join(strings.Fields(got.Stdout), " "); !strings.Contains(text, tt.want) {
			t.Errorf("%s:\n%s%swant %s", tt.name, got.Stdout, got.Stderr, tt.want)
		}
		if got := run("show", "all/shop/web", "-o", "json"); len(tt.all) > 0 && !strings.Contains(got.Stdout, tt.all[0].GetRule()) {
			t.Errorf("%s, for scripts:\n%s%swant %s", tt.name, got.Stdout, got.Stderr, tt.all[0].GetRule())
		}
	}
}

// What is shown has the width of a terminal, and no text of others reaches a terminal as it is.
func TestAFleetIsShown(t *testing.T) {
	t.Parallel()
	s, run := start(t)
	check(t, "none", run("show", "all/shop/web"), cli.ExitFailed, "there is no fleet "+web)
	now := time.Now()
	before := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }
	usage := &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))}}}
	s.specs[web] = &setpointv1.TargetSpec{Spec: &setpointv1.HorizontalPodAutoscalerSpec{Metrics: []*setpointv1.MetricSpec{usage}}}
	s.fleet = &setpointv1.Fleet{
		Name: web, DesiredReplicas: 12, ShareTotal: 11, UnplacedReplicas: 1, MissingReplicas: 2, MinReplicas: 4, MaxReplicas: 40, DecisionTime: before(8 * time.Second),
		MemberCounts: &setpointv1.FleetMemberCounts{Fresh: 2, Lost: 1, Drained: 1},
		Spec: &setpointv1.FleetSpec{
			SurviveOne: true, StaleAfter: durationpb.New(45 * time.Second), LostAfter: durationpb.New(time.Hour),
			Members: []*setpointv1.FleetMember{{Target: "clusters/east/namespaces/shop/targets/web", Weight: new(int32(2)), MinReplicas: 1, MaxReplicas: new(int32(30))}},
		},
		Contradictions: []string{"External:queue", "Object:requests"},
		Status: &setpointv1.HorizontalPodAutoscalerStatus{
			CurrentReplicas: 10, DesiredReplicas: 12,
			CurrentMetrics: []*setpointv1.MetricStatus{{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{Name: "cpu", Current: &setpointv1.MetricValueStatus{AverageUtilization: new(int32(72))}}}},
			Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
				{Type: "AbleToScale", Status: "True", Reason: "SucceededRescale", Message: "not shown"},
				{Type: "ScaledToZero", Status: "False", Reason: "NotScaledToZero", Message: "not shown"},
				{Type: "ScalingLimited", Status: "True", Reason: "ScaleUpLimit", Message: "the desired replica count is increasing faster than the maximum scale rate"},
			},
		},
		Members: []*setpointv1.FleetMemberStatus{
			{Target: "clusters/east/namespaces/shop/targets/web", State: "FRESH", Drained: true, Share: new(int32(6)), SpecReplicas: new(int32(6)), StatusReplicas: new(int32(5)), LastCallTime: before(3 * time.Second), Applied: true, Capacity: new(int32(6)), OwnMinReplicas: new(int32(1)), OwnMaxReplicas: new(int32(30)),
				Error: "failed to get cpu\x1b[31m utilization: did not receive metrics for targeted pods (pods might be unready), and so on"},
			{Target: "clusters/north/namespaces/shop/targets/web", State: "UNSEEN"},
			{Target: "clusters/west/namespaces/shop/targets/web", State: "LOST", Share: new(int32(5)), SpecReplicas: new(int32(7)), StatusReplicas: new(int32(7)), LastCallTime: before(5 * time.Minute), OwnMinReplicas: new(int32(2)), OwnMaxReplicas: new(int32(9))},
		},
	}
	got := run("show", "all/shop/web")
	const want = `Fleet     clusters/all/namespaces/shop/targets/web
Replicas  12 of 4 to 40, decided 8s ago; the shares add up to 11; 1 more that no
          member can take; without the largest member 2 would be missing
Why       cpu 72% (target 60%); limited by a policy
          ScalingLimited True ScaleUpLimit: the desired replica count is
          increasing faster than the maximum scale rate
Scopes    contradicted by what members read of External:queue, Object:requests:
          a GLOBAL metric is about the same for all, a PER_MEMBER one is not
Members   2 fresh, 1 lost, 1 drained; the count is to remain without the largest
Silent    stale after 45s, lost after 1h, and then its share is kept

MEMBER          STATE           SHARE  HAS  RUNNING  WEIGHT  BOUNDS  CALLED
east/shop/web   fresh, drained  6      6    5        2       1-30    3s ago
north/shop/web  unseen          -      -    -        1       0-40    never
west/shop/web   lost            5      7    7        1       0-40    5m ago

east/shop/web: it gets at most 6 for now: it has not got more to run
east/shop/web: failed to get cpu` + "\ufffd" + `[31m utilization: did not receive metrics for
          targeted pods (pods might be unready), and so on
west/shop/web: it has at least 2, by its own spec or an override of it
west/shop/web: it has at most 9, by its own spec or an override of it
west/shop/web: it has not done what an answer of the last minutes said
west/shop/web: nothing is known of its 7 replicas now: they count as idle for a
          scale-up, and as busy for a scale-down
`
	if got.Stdout != want || got.Code != 0 {
		t.Errorf("got\n%s%swant\n%s", got.Stdout, got.Stderr, want)
	}
	west := s.fleet.GetMembers()[2]
	west.Share, west.SpecReplicas = new(int32(0)), new(int32(0))
	check(t, "one that is off", run("show", web), 0, "west/shop/web: it is off: somebody has scaled it to 0")
	s.fleet.DesiredReplicas = 0
	if off := run("show", web); strings.Contains(off.Stdout, "it is off") {
		t.Errorf("a fleet without replicas: %s", off.Stdout)
	}
	for line := range strings.Lines(got.Stdout) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	s.fleet.Spec.OnLost = "SHIFT"
	if shifted := run("show", web); strings.Contains(shifted.Stdout, "nothing is known") {
		t.Errorf("one whose share the others have: %s", shifted.Stdout)
	}
	check(t, "as JSON", run("show", web, "-o=json"), 0, `"shareTotal": 11`)
	s.fleet = &setpointv1.Fleet{Name: web, MinReplicas: 1, MaxReplicas: 5, MemberCounts: &setpointv1.FleetMemberCounts{Unseen: 2}, Spec: &setpointv1.FleetSpec{OnLost: "SHIFT"}}
	check(t, "before it decided", run("show", web), 0, "Replicas  none decided yet; 1 to 5: it waits for the calls of its members", "2 unseen", "Silent    stale after three periods, lost after 5m, or when it is stale", "its share is the others'")
}

// Nobody is lost where nobody calls: the list and what is shown tell that in words.
func TestAFleetThatNobodyCallsSaysSo(t *testing.T) {
	t.Parallel()
	s, run := start(t)
	s.specs[web] = &setpointv1.TargetSpec{Name: web, Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 9}, Fleet: &setpointv1.FleetSpec{}}
	calledBefore := func(all ...time.Duration) (members []*setpointv1.FleetMemberStatus) {
		for _, d := range all {
			members = append(members, &setpointv1.FleetMemberStatus{State: "STALE", LastCallTime: timestamppb.New(time.Now().Add(-d - 10*time.Second))})
		}
		return append(members, &setpointv1.FleetMemberStatus{State: "UNSEEN"})
	}
	stale := &setpointv1.FleetMemberCounts{Stale: 2, Unseen: 1}
	decided := timestamppb.New(time.Now().Add(-9 * time.Minute))
	refused := calledBefore(9 * time.Minute)
	refused[0].Error = "it calls and is refused: the request's metrics are not those of its fleet"
	for name, tt := range map[string]struct {
		members []*setpointv1.FleetMemberStatus
		counts  *setpointv1.FleetMemberCounts
		decided *timestamppb.Timestamp
		wrong   string
		quiet   bool
	}{
		"all are silent":             {calledBefore(9*time.Minute, 10*time.Minute), stale, decided, "nobody has called for 9m", true},
		"before it decided":          {calledBefore(9 * time.Minute), stale, nil, "not decided yet, nobody has called for 9m", true},
		"all can't see the pods":     {calledBefore(0, 9*time.Minute), stale, decided, "-", false},
		"one calls":                  {calledBefore(9*time.Minute, 9*time.Minute), &setpointv1.FleetMemberCounts{Fresh: 1, Stale: 1}, decided, "-", false},
		"those who call are refused": {refused, stale, decided, "1 call in vain", false},
		"nobody ever called":         {calledBefore(), &setpointv1.FleetMemberCounts{Unseen: 1}, nil, "not decided yet", false},
	} {
		s.mu.Lock()
		s.fleet = &setpointv1.Fleet{Name: web, DecisionTime: tt.decided, Members: tt.members, MemberCounts: tt.counts, Spec: &setpointv1.FleetSpec{StaleAfter: durationpb.New(3 * time.Minute)}}
		s.mu.Unlock()
		if got := run("list"); !strings.HasSuffix(strings.Join(strings.Fields(got.Stdout), " "), map[bool]string{true: " ago ", false: " never "}[tt.decided != nil]+tt.wrong) {
			t.Errorf("%s: listed\n%s%s", name, got.Stdout, got.Stderr)
		}
		if got := run("show", web); strings.Contains(got.Stdout, "nobody has called for 9m: there are no decisions, and all keep what") != tt.quiet {
			t.Errorf("%s: shown\n%s%s", name, got.Stdout, got.Stderr)
		}
	}
}
