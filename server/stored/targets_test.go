package stored_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func poll(t *testing.T, s *servertest.Service, change ...func(*setpointv1.GetRecommendationRequest)) (*setpointv1.Recommendation, error) {
	t.Helper()
	req := &setpointv1.GetRecommendationRequest{Target: servertest.Polled}
	for _, c := range change {
		c(req)
	}
	response, err := s.Recommendations.GetRecommendation(t.Context(), req)
	return response.GetRecommendation(), err
}

func wantPoll(t *testing.T, s *servertest.Service, want int32, change ...func(*setpointv1.GetRecommendationRequest)) *setpointv1.Recommendation {
	t.Helper()
	got, err := poll(t, s, change...)
	if err != nil {
		t.Fatalf("GetRecommendation: %v", err)
	}
	if got.GetDesiredReplicas() != want {
		t.Fatalf("recommended %d replicas, want %d: %v", got.GetDesiredReplicas(), want, got)
	}
	return got
}

// A caller of GetTarget need not request its spec, which may not exist.
func TestATargetHasItsStoredSpec(t *testing.T) {
	s := servertest.Start(t)
	s.Recommend(t, servertest.Queue(servertest.Polled, 3, 30))
	if got := s.Target(t, servertest.Polled).GetTargetSpec(); got != nil {
		t.Errorf("without a stored spec: %v", got)
	}
	set := s.SetSpec(t, servertest.QueueSpec(1, 10))
	if got := s.Target(t, servertest.Polled).GetTargetSpec(); !proto.Equal(got, set) {
		t.Errorf("got %v, want %v", got, set)
	}
}

func TestStoredSpecs(t *testing.T) {
	s := servertest.Start(t)
	get := func() (*setpointv1.TargetSpec, error) {
		r, err := s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: servertest.Polled})
		return r.GetTargetSpec(), err
	}
	_, err := get()
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "SPEC_NOT_FOUND")

	first := s.SetSpec(t, servertest.QueueSpec(1, 10))
	if first.GetName() != servertest.Polled || first.GetEtag() == "" || !first.GetCreateTime().AsTime().Equal(servertest.T0) || !first.GetUpdateTime().AsTime().Equal(servertest.T0) {
		t.Errorf("stored as %v", first)
	}
	s.Clock.Advance(time.Minute)
	second := s.SetSpec(t, servertest.QueueSpec(2, 10))
	if !second.GetCreateTime().AsTime().Equal(servertest.T0) || !second.GetUpdateTime().AsTime().Equal(servertest.T0.Add(time.Minute)) || second.GetEtag() == first.GetEtag() {
		t.Errorf("stored again as %v", second)
	}
	if got, err := get(); err != nil || !proto.Equal(got, second) {
		t.Errorf("GetTargetSpec = %v, %v, want %v", got, err, second)
	}

	stale := servertest.QueueSpec(3, 10)
	stale.Etag = first.GetEtag()
	_, err = s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: stale})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Aborted, "SPEC_CHANGED")
	_, err = s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: servertest.Polled, Etag: first.GetEtag()})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Aborted, "SPEC_CHANGED")
	_, err = s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: servertest.Polled, Etag: "no etag"})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Aborted, "SPEC_CHANGED")
	if got, err := get(); err != nil || !proto.Equal(got, second) {
		t.Errorf("after what was refused: %v, %v, want %v", got, err, second)
	}
	stale.Etag = second.GetEtag()
	third := s.SetSpec(t, stale)
	if _, err := s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: servertest.Polled, Etag: third.GetEtag()}); err != nil {
		t.Fatal(err)
	}
	_, err = get()
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "SPEC_NOT_FOUND")
	for _, etag := range []string{"", third.GetEtag(), "no etag"} { // of which none can have been another version's
		_, err = s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: servertest.Polled, Etag: etag})
		servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "SPEC_NOT_FOUND")
	}
	_, err = s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: stale})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Aborted, "SPEC_CHANGED")
}

func TestAllProblemsOfASpecAreReported(t *testing.T) {
	s := servertest.Start(t)
	bad := servertest.QueueSpec(5, 2)
	bad.Spec.Metrics[0].External.Target.AverageValue = proto.String("ten")
	bad.Period = durationpb.New(time.Millisecond)
	bad.Options = &setpointv1.RecommendOptions{Profile: "v9"}
	_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: bad})
	if status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	var fields []string
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range d.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	for _, want := range []string{"targetSpec.period", "targetSpec.options.profile", "targetSpec.spec.maxReplicas", "targetSpec.spec.metrics[0].external.target.averageValue"} {
		if !slices.Contains(fields, want) {
			t.Errorf("violations of %q, want one of %s", fields, want)
		}
	}
	_, err = s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: servertest.Polled})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "SPEC_NOT_FOUND")
}

func TestStoredSpecsAreListedInPages(t *testing.T) {
	s := servertest.Start(t)
	for i := range 25 {
		name := fmt.Sprintf("clusters/demo/namespaces/shop-%d/targets/t%02d", i%2, i)
		if _, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: servertest.QueueSpec(1, 10)}); err != nil {
			t.Fatal(err)
		}
	}
	fleet := servertest.QueueSpec(1, 10)
	fleet.Fleet = &setpointv1.FleetSpec{Scopes: map[string]string{"External:queue": "GLOBAL"}, Members: []*setpointv1.FleetMember{{Target: "clusters/east/namespaces/shop/targets/web"}, {Target: "clusters/west/namespaces/shop/targets/web"}}}
	const fleetName = "clusters/demo/namespaces/shop-1/targets/fleet"
	if _, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: fleetName, TargetSpec: fleet}); err != nil {
		t.Fatal(err)
	}
	list := func(fleets bool) (names []string) {
		for token, pages := "", 0; ; pages++ {
			page, err := s.Targets.ListTargetSpecs(t.Context(), &setpointv1.ListTargetSpecsRequest{Parent: "clusters/demo/namespaces/-", PageSize: 7, PageToken: token, FleetsOnly: fleets})
			if err != nil || pages > 4 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, spec := range page.GetTargetSpecs() {
				names = append(names, spec.GetName())
			}
			if token = page.GetNextPageToken(); token == "" {
				return names
			}
		}
	}
	if got := list(true); !slices.Equal(got, []string{fleetName}) {
		t.Errorf("of fleets only: %q", got)
	}
	names := list(false)
	if len(names) != 26 || !slices.IsSorted(names) {
		t.Errorf("listed %d: %q", len(names), names)
	}
}

// The response is the one to a complete request.
func TestAPollIsAnsweredAsARequestWouldBe(t *testing.T) {
	s := servertest.Start(t)
	_, err := poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "SPEC_NOT_FOUND")
	s.SetSpec(t, servertest.QueueSpec(1, 10))
	_, err = poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "SCALE_UNKNOWN")
	s.Observe(t, 2, "35")
	wantPoll(t, s, 4)

	direct := servertest.RequestFor("clusters/demo/namespaces/shop/targets/direct")
	direct.Spec, direct.Scale = servertest.QueueSpec(1, 10).Spec, &setpointv1.Scale{SpecReplicas: 2}
	direct.ExternalMetrics[0].Value = "35"
	want, err := s.Recommendations.Recommend(t.Context(), direct)
	if err != nil || want.GetDesiredReplicas() != 4 {
		t.Errorf("a request is answered with %v, %v", want, err)
	}
}

func TestWhoeverAsksWithinThePeriodGetsTheSame(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 2, "35")
	first := wantPoll(t, s, 4)
	if first.GetAction() != "SCALE_UP" || first.GetCurrentReplicas() != 2 || first.GetMinReplicas() != 1 || first.GetMaxReplicas() != 100 || first.GetReason() == "" {
		t.Errorf("got %v", first)
	}
	s.Clock.Advance(14 * time.Second)
	s.Observe(t, 4, "80")
	if again := wantPoll(t, s, 4); again.GetRecommendationId() != first.GetRecommendationId() || !proto.Equal(again.GetEvaluationTime(), first.GetEvaluationTime()) {
		t.Errorf("within the period: %v, want that of %v", again, first)
	}
	s.Clock.Advance(time.Second)
	if next := wantPoll(t, s, 8); next.GetRecommendationId() == first.GetRecommendationId() {
		t.Error("after the period the same recommendation answers")
	}
}

// Nobody's own request answers polls, whatever its id is: earlier versions knew the answers to polls
// by the text of their ids.
func TestNoRequestPassesForAPoll(t *testing.T) {
	s := servertest.Start(t)
	spec := s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 2, "35")
	first := wantPoll(t, s, 4)
	s.Clock.Advance(time.Second)
	for _, id := range []string{
		fmt.Sprintf("after %s %s 1-100 ", first.GetRecommendationId(), spec.GetEtag()), spec.GetEtag(),
	} {
		forged := servertest.Queue(servertest.Polled, 4, 900)
		forged.RequestId = id
		if answer := s.Recommend(t, forged); answer.GetDesiredReplicas() <= 4 {
			t.Fatalf("the request itself gets %v", answer)
		}
		if got := wantPoll(t, s, 4); got.GetRecommendationId() == first.GetRecommendationId() {
			t.Error("the poll does not know of the request")
		}
	}
}

func TestAnotherSpecDecidesBeforeThePeriodIsOver(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 2, "35")
	wantPoll(t, s, 4)
	s.Clock.Advance(time.Second)
	s.SetSpec(t, servertest.QueueSpec(1, 3))
	wantPoll(t, s, 3)
}

// The count that a poller tells counts for the decision that its poll causes.
func TestAPollersCountCountsForItsDecision(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 2, "200")
	for _, step := range []struct{ current, want int32 }{{3, 6}, {6, 12}, {5, 10}} { // twice as many at most
		if got := wantPoll(t, s, step.want, func(r *setpointv1.GetRecommendationRequest) { r.CurrentReplicas = &step.current }); got.GetCurrentReplicas() != step.current {
			t.Errorf("at %d: %v", step.current, got)
		}
		s.Clock.Advance(15 * time.Second)
	}
	wantPoll(t, s, 4) // from the reported 2
}

// The controller decides once a period, and so do polls: what each of them tells changes its own
// answer, and neither the record nor the answer to anybody else.
func TestAPeriodHasOneDecisionWhateverPollsAsk(t *testing.T) {
	t.Parallel()
	type ask = func(*setpointv1.GetRecommendationRequest)
	least := func(n int32) ask { return func(r *setpointv1.GetRecommendationRequest) { r.MinReplicas = &n } }
	most := func(n int32) ask { return func(r *setpointv1.GetRecommendationRequest) { r.MaxReplicas = &n } }
	current := func(n int32) ask {
		return func(r *setpointv1.GetRecommendationRequest) { r.CurrentReplicas = &n }
	}
	const above, below = "Current number of replicas above Spec.MaxReplicas", "Current number of replicas below Spec.MinReplicas"
	const raised = "external metric queue(nil) above target"
	// The decision is 4 to 8 replicas, of bounds 2 to 100.
	for _, tt := range []struct {
		name        string
		asks        []ask
		want        int32 // 0: an error
		action      string
		reason      string
		least, most int32
		limited     string
		code        codes.Code
	}{
		{"nothing", nil, 8, "SCALE_UP", raised, 2, 100, "DesiredWithinRange", codes.OK},
		{"wider bounds", []ask{least(1), most(1000)}, 8, "SCALE_UP", raised, 2, 100, "DesiredWithinRange", codes.OK},
		{"bounds around the count", []ask{least(5), most(8)}, 8, "SCALE_UP", raised, 5, 8, "DesiredWithinRange", codes.OK},
		{"a maximum on the way", []ask{most(6)}, 6, "SCALE_UP", raised, 2, 6, "TooManyReplicas", codes.OK},
		{"a maximum at the current count", []ask{most(4)}, 4, "NONE", "", 2, 4, "TooManyReplicas", codes.OK},
		{"a maximum below it", []ask{most(3)}, 3, "SCALE_DOWN", above, 2, 3, "TooManyReplicas", codes.OK},
		{"a minimum above the count", []ask{least(20)}, 20, "SCALE_UP", raised, 20, 100, "TooFewReplicas", codes.OK},
		{"bounds of the caller that exclude each other", []ask{least(6), most(3)}, 0, "", "", 0, 0, "", codes.InvalidArgument},
		{"a maximum below the spec's minimum", []ask{most(1)}, 0, "", "", 0, 0, "", codes.InvalidArgument},
		{"a maximum of none", []ask{most(0)}, 0, "", "", 0, 0, "", codes.InvalidArgument},
		{"the count before", []ask{current(4)}, 8, "SCALE_UP", raised, 2, 100, "DesiredWithinRange", codes.OK},
		{"a count on the way", []ask{current(7)}, 8, "SCALE_UP", raised, 2, 100, "DesiredWithinRange", codes.OK},
		{"the count that its bounds give", []ask{current(20), least(20)}, 20, "SCALE_UP", raised, 20, 100, "TooFewReplicas", codes.OK},
		{"another count", []ask{current(9)}, 0, "", "", 0, 0, "", codes.FailedPrecondition},
		{"none at all", []ask{current(0)}, 0, "", "", 0, 0, "", codes.FailedPrecondition},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			told := &setpointv1.GetRecommendationRequest{}
			for _, a := range tt.asks {
				a(told)
			}
			for _, first := range []bool{false, true} { // whether this poll causes the decision
				s := servertest.Start(t)
				s.SetSpec(t, servertest.QueueSpec(2, 100))
				s.Observe(t, 4, "80")
				before := &setpointv1.Recommendation{}
				if !first {
					before = wantPoll(t, s, 8)
				} else if told.CurrentReplicas != nil {
					continue // which counts for the decision that it causes
				}
				kept := s.Contents(t)
				got, err := poll(t, s, tt.asks...)
				if status.Code(err) != tt.code || got.GetDesiredReplicas() != tt.want || got.GetAction() != tt.action || got.GetReason() != tt.reason ||
					got.GetMinReplicas() != tt.least || got.GetMaxReplicas() != tt.most {
					t.Fatalf("first %t: got %v, %v", first, got, err)
				}
				if tt.code == codes.FailedPrecondition {
					servertest.WantProblem(t, servertest.RPCProblem(err), tt.code, "NOT_COMPUTED")
				}
				if tt.code == codes.OK {
					if c := got.GetStatus().GetConditions()[2]; got.GetCurrentReplicas() != 4 || got.GetStatus().GetDesiredReplicas() != tt.want || c.GetReason() != tt.limited ||
						(c.GetStatus() == "True") != (tt.limited != "DesiredWithinRange") {
						t.Errorf("first %t: the status does not agree: %v", first, got)
					}
				}
				if !first && s.Contents(t) != kept {
					t.Error("the poll changed what is stored")
				}
				if after := wantPoll(t, s, 8); !first && !proto.Equal(after, before) {
					t.Errorf("another poller is told %v, and before %v", after, before)
				}
				if to := s.Target(t, servertest.Polled).GetStatus().GetDesiredReplicas(); to != 8 {
					t.Errorf("first %t: recorded %d replicas, want 8", first, to)
				}
			}
		})
	}
}

// With assumeApplied the recorded count is the next decision's scale: two pollers with bounds of
// their own neither hold nor drive each other.
func TestPollersWithBoundsDoNotMoveEachOther(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	spec := servertest.QueueSpec(1, 50)
	spec.AssumeApplied = true
	s.SetSpec(t, spec)
	one := int32(1)
	s.Observe(t, -1, "10")
	wantPoll(t, s, 1)
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, -1, "300")
	for _, want := range []int32{4, 8, 16, 30} {
		wantPoll(t, s, 1, func(r *setpointv1.GetRecommendationRequest) { r.MaxReplicas = &one })
		wantPoll(t, s, want)
		s.Clock.Advance(15 * time.Second)
	}
}

// A poller that tells 0 of a target that may not be at zero is answered as the controller would, and
// nobody else hears of it: a query of a few bytes switched a workload off.
func TestATellerOfZeroSwitchesNothingOff(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(2, 20))
	zero := int32(0)
	for range 3 {
		s.Observe(t, 10, "100")
		wantPoll(t, s, 0, func(r *setpointv1.GetRecommendationRequest) { r.CurrentReplicas = &zero })
		wantPoll(t, s, 10)
		s.Clock.Advance(15 * time.Second)
	}
}

// A spec makes its record longer, and no answer: one that is nobody else's is found again within the period.
func TestWhoeverAsksAloneGetsTheSameByALongSpec(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	spec, observed := servertest.QueueSpec(2, 20), &setpointv1.ReportObservationRequest{Target: servertest.Polled, Scale: &setpointv1.Scale{SpecReplicas: 10}}
	template := spec.GetSpec().GetMetrics()[0]
	spec.Spec.Metrics = nil
	for i := range 20 {
		m := proto.CloneOf(template)
		m.External.Metric.Name = fmt.Sprintf("orders.region-%d.example.com-messages", i)
		spec.Spec.Metrics = append(spec.Spec.Metrics, m)
		observed.ExternalMetrics = append(observed.ExternalMetrics, &setpointv1.ExternalMetric{Metric: m.GetExternal().GetMetric(), Value: "100"})
	}
	s.SetSpec(t, spec)
	if _, err := s.Recommendations.ReportObservation(t.Context(), observed); err != nil {
		t.Fatal(err)
	}
	wantPoll(t, s, 10)
	s.Clock.Advance(15 * time.Second)
	zero := func(r *setpointv1.GetRecommendationRequest) { r.CurrentReplicas = new(int32) }
	first := wantPoll(t, s, 0, zero)
	s.Clock.Advance(time.Second)
	if again := wantPoll(t, s, 0, zero); !proto.Equal(again, first) {
		t.Errorf("decided again at %v, with a record of %d bytes", again.GetEvaluationTime().AsTime(), len(s.Stored(t, servertest.Polled)))
	}
}

// Bounds of a poller switch on nothing that is switched off, and are enforced, as the controller
// enforces its own, where the metrics can't be read.
func TestBoundsOfAPollerWithoutACount(t *testing.T) {
	t.Parallel()
	bounds := func(least, most int32) func(*setpointv1.GetRecommendationRequest) {
		return func(r *setpointv1.GetRecommendationRequest) { r.MinReplicas, r.MaxReplicas = &least, &most }
	}
	t.Run("switched off", func(t *testing.T) {
		s := servertest.Start(t)
		s.SetSpec(t, servertest.QueueSpec(1, 100))
		s.Observe(t, 0, "80")
		if got := wantPoll(t, s, 0, bounds(5, 50)); got.GetAction() != "NONE" {
			t.Errorf("got %v", got)
		}
	})
	for _, profile := range []string{"", "design-2015"} { // the latter has no conditions
		s := servertest.Start(t)
		spec := servertest.QueueSpec(1, 100)
		spec.Options = &setpointv1.RecommendOptions{Profile: profile}
		s.SetSpec(t, spec)
		s.Observe(t, 7, "")
		for _, b := range [][2]int32{{1, 100}, {2, 50}, {7, 7}} {
			_, err := poll(t, s, bounds(b[0], b[1]))
			servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_COMPUTED")
		}
		below, above := wantPoll(t, s, 5, bounds(1, 5)), wantPoll(t, s, 9, bounds(9, 50))
		if below.GetReason() != "Current number of replicas above Spec.MaxReplicas" || above.GetReason() != "Current number of replicas below Spec.MinReplicas" {
			t.Errorf("got %v and %v", below, above)
		}
	}
}

// If the count can't be computed, a poller gets an error and never a number.
func TestAPollerGetsNoNumberThatWasNotComputed(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 7, "")
	_, err := poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_COMPUTED")
	if !strings.Contains(err.Error(), "FailedGetExternalMetric") || !strings.Contains(err.Error(), "it was never reported") {
		t.Error(err)
	}
	_, err = poll(t, s) // by the last decision
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_COMPUTED")

	s.Clock.Advance(time.Minute)
	s.Observe(t, 7, "65")
	wantPoll(t, s, 7)
	s.Clock.Advance(61 * time.Second)
	s.Observe(t, 7, "")
	_, err = poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_COMPUTED")
	if !strings.Contains(err.Error(), "it was reported 61 s ago; the maximum age is 60 s") {
		t.Error(err)
	}
	s.Clock.Advance(61 * time.Second)
	_, err = poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "SCALE_UNKNOWN")
}

// A failure to compute a count ends with the next report, not a period later; without one it is
// the answer of the period.
func TestAFailureToComputeEndsWithTheNextReport(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 2, "")
	for _, change := range []func(*setpointv1.GetRecommendationRequest){
		func(*setpointv1.GetRecommendationRequest) {},
		func(req *setpointv1.GetRecommendationRequest) { req.CurrentReplicas = proto.Int32(2) },
	} {
		_, err := poll(t, s, change)
		servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_COMPUTED")
	}
	s.Clock.Advance(100 * time.Millisecond)
	_, before := poll(t, s)
	_, again := poll(t, s)
	if fmt.Sprint(before) != fmt.Sprint(again) {
		t.Errorf("%v, then %v without a report", before, again)
	}
	s.Observe(t, 2, "35")
	wantPoll(t, s, 4)
}

// Usage of pods counts for polls until it is too old, and no report of an earlier instant takes its place.
func TestReportedUsageCountsForPolls(t *testing.T) {
	s := servertest.Start(t)
	web := servertest.WebRequest(t)
	web.Spec.Metrics = append(web.Spec.Metrics, &setpointv1.MetricSpec{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{
		Name: "cpu", Container: "app", Target: web.GetSpec().GetMetrics()[0].GetResource().GetTarget(),
	}})
	s.SetSpec(t, &setpointv1.TargetSpec{Spec: web.GetSpec(), Options: web.GetOptions()})
	report := func(r *setpointv1.ReportObservationRequest) {
		t.Helper()
		r.Target = servertest.Polled
		if _, err := s.Recommendations.ReportObservation(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	report(&setpointv1.ReportObservationRequest{Scale: web.GetScale(), Pods: web.GetPods(), PodMetrics: web.GetPodMetrics()})
	s.Clock.Advance(time.Second)
	report(&setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 9}, NoPods: true, ObservationTime: timestamppb.New(servertest.T0.Add(-time.Second))})
	wantPoll(t, s, 5)
	s.Clock.Advance(time.Minute)
	report(&setpointv1.ReportObservationRequest{Scale: web.GetScale(), Pods: web.GetPods()})
	_, err := poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_COMPUTED")
	if !strings.Contains(err.Error(), "it was reported 61 s ago; the maximum age is 60 s") {
		t.Error(err)
	}
}

// Of two metrics of one name, one with a selector, neither has what only the other one's reports have.
func TestMetricsOfOneNameAreToldApart(t *testing.T) {
	red := &setpointv1.LabelSelector{MatchLabels: map[string]string{"color": "red"}}
	of := func(color, value string, selector *setpointv1.LabelSelector) *setpointv1.ExternalMetric {
		return &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "queue", Selector: selector}, Labels: map[string]string{"color": color}, Value: value}
	}
	for name, tt := range map[string]struct {
		series []*setpointv1.ExternalMetric
		want   int32
	}{
		"series of both":           {[]*setpointv1.ExternalMetric{of("red", "20", nil), of("blue", "30", nil)}, 5},
		"series of the selector's": {[]*setpointv1.ExternalMetric{of("red", "40", red)}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := servertest.Start(t)
			spec := servertest.QueueSpec(1, 100)
			spec.Spec.Metrics = append(spec.Spec.Metrics, proto.CloneOf(spec.GetSpec().GetMetrics()[0]))
			spec.Spec.Metrics[1].External.Metric.Selector = red
			spec.Spec.Metrics[1].External.Target.AverageValue = proto.String("5")
			s.SetSpec(t, spec)
			s.Observe(t, 4, "")
			if _, err := s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: servertest.Polled, ExternalMetrics: tt.series}); err != nil {
				t.Fatal(err)
			}
			wantPoll(t, s, tt.want)
		})
	}
}

// What can't be read of a target's observations ends with the next report.
func TestAnObservationThatCannotBeReadIsReplaced(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	part, err := s.Memory.Part(store.Observations, 0)
	fatal.If(t, err)
	if _, err := part.CompareAndSwap(t.Context(), store.Swap{Key: servertest.KeyOf(servertest.Polled), Value: []byte{0xff}}); err != nil {
		t.Fatal(err)
	}
	_, err = poll(t, s)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Internal, "HISTORY_UNREADABLE")
	s.Observe(t, 2, "35")
	wantPoll(t, s, 4)
}

// A caller that applies each recommendation at once, and reports nothing, is trusted.
func TestRecommendationsMayBeAssumedToBeApplied(t *testing.T) {
	s := servertest.Start(t)
	spec := servertest.QueueSpec(2, 100)
	spec.AssumeApplied = true
	s.SetSpec(t, spec)
	for _, step := range []struct {
		queue         string
		current, want int32
	}{{"30", 3, 3}, {"60", 3, 6}, {"90", 6, 9}} {
		s.Observe(t, -1, step.queue)
		if got := wantPoll(t, s, step.want); got.GetCurrentReplicas() != step.current {
			t.Errorf("of a queue of %s: from %d, want %d", step.queue, got.GetCurrentReplicas(), step.current)
		}
		s.Clock.Advance(15 * time.Second)
	}
	got, err := s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: servertest.Polled})
	fatal.If(t, err)
	target := got.GetTarget()
	if n := len(target.GetHistory().GetScaleUps()); target.GetStatus().GetDesiredReplicas() != 9 || n > 3 {
		t.Errorf("got %v", target)
	}
}

// Many concurrent callers, of two instances, get one decision.
func TestAllWhoAskAtOnceGetOneDecision(t *testing.T) {
	engine := memory.New(memory.Options{})
	share := func(su *servertest.Setup) { su.Engine, su.Log = unclosed{engine}, engine }
	a, b := servertest.Start(t, share), servertest.Start(t, share)
	a.SetSpec(t, servertest.QueueSpec(1, 100))
	for round := range 5 {
		a.Observe(t, 2, fmt.Sprint(35+10*round))
		ids := make([]string, 40)
		var asking sync.WaitGroup
		for i := range ids {
			asking.Go(func() {
				of := []*servertest.Service{a, b}[i%2]
				if r, err := of.Recommendations.GetRecommendation(t.Context(), &setpointv1.GetRecommendationRequest{Target: servertest.Polled}); err == nil {
					ids[i] = r.GetRecommendation().GetRecommendationId()
				}
			})
		}
		asking.Wait()
		if got := slices.Compact(slices.Sorted(slices.Values(ids))); len(got) != 1 || got[0] == "" {
			t.Fatalf("round %d: %d decisions: %q", round, len(got), got)
		}
		a.Clock.Advance(15 * time.Second)
		b.Clock.Advance(15 * time.Second)
	}
}

// unclosed is an engine that another service uses, too.
type unclosed struct{ *memory.Store }

func (unclosed) Close() error { return nil }

func TestStoredTargetsOverREST(t *testing.T) {
	s := servertest.Start(t)
	do := func(method, path, body string, want int) map[string]any {
		t.Helper()
		var content any
		if body != "" {
			content = json.RawMessage(body)
		}
		got := s.Ask(t, method, path, content)
		if got.Code != want {
			t.Fatalf("%s %s: %d %s, want %d", method, path, got.Code, got.Raw, want)
		}
		var answer map[string]any
		fatal.If(t, json.Unmarshal(got.Raw, &answer))
		return answer
	}
	const path = "/v1/" + servertest.Polled
	spec := do(http.MethodPut, path+"/spec", servertest.JSON(t, servertest.QueueSpec(1, 10)), http.StatusOK)
	if spec["name"] != servertest.Polled || spec["etag"] == "" {
		t.Errorf("stored as %v", spec)
	}
	do(http.MethodPut, path+"/spec", servertest.JSON(t, servertest.QueueSpec(3, 2)), http.StatusBadRequest)
	if got := fmt.Sprint(do(http.MethodPut, path+"/spec", `{"spec": {"maxReplicas": 5, "metric": []}}`, http.StatusBadRequest)); !strings.Contains(got, "spec.metric") {
		t.Errorf("an unknown field: %s", got)
	}
	do(http.MethodPut, path+"/spec", `{"spec": {"metrics": [`+strings.Repeat("{},", 200_000)+`{}]}}`, http.StatusTooManyRequests)
	do(http.MethodPost, path+":reportObservation", `{"scale": {"specReplicas": 2}, "externalMetrics": [{"metric": {"name": "queue"}, "value": "35"}]}`, http.StatusOK)
	if got := do(http.MethodGet, path+"/recommendation", "", http.StatusOK); got["desiredReplicas"] != 4.0 {
		t.Errorf("recommended %v", got)
	}
	if got := do(http.MethodGet, path+"/recommendation?maxReplicas=3", "", http.StatusOK); got["desiredReplicas"] != 3.0 {
		t.Errorf("recommended %v", got)
	}
	for bounds, blamed := range map[string]string{"maxReplicas=0": "maxReplicas", "minReplicas=11": "minReplicas", "minReplicas=3&maxReplicas=2": "minReplicas"} {
		got := do(http.MethodGet, path+"/recommendation?"+bounds, "", http.StatusBadRequest)
		if field := servertest.At(got, "details", 0, "fieldViolations", 0, "field"); field != blamed {
			t.Errorf("%s: blamed is %v, want %s", bounds, field, blamed)
		}
	}
	if got := do(http.MethodGet, "/v1/clusters/-/namespaces/-/targetSpecs", "", http.StatusOK); len(got["targetSpecs"].([]any)) != 1 {
		t.Errorf("listed %v", got)
	}
	do(http.MethodDelete, path+"/spec", "", http.StatusOK)
	do(http.MethodGet, path+"/recommendation", "", http.StatusNotFound)
}

// Expensive messages are refused before they are decoded, and stored data is limited.
func TestStoredTargetsAreBounded(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 10))
	_, err := s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
		Target: servertest.Polled, PodMetrics: slices.Repeat([]*setpointv1.PodMetrics{{}}, 200_000)})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.ResourceExhausted, "LIMIT_EXCEEDED")
	_, err = s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: servertest.Polled,
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: strings.Repeat("a", 2<<20)}, Value: "1"}}})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.ResourceExhausted, "LIMIT_EXCEEDED")
	large := servertest.QueueSpec(1, 10)
	large.Spec.Metrics = slices.Repeat([]*setpointv1.MetricSpec{{}}, 100_000)
	_, err = s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: large})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.ResourceExhausted, "LIMIT_EXCEEDED")
	// Each report is small; all of them are not kept.
	var last error
	for i := range 40 {
		_, last = s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: servertest.Polled,
			ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i)},
				Labels: map[string]string{"a": strings.Repeat("b", 60_000)}, Value: "1"}}})
		if last != nil {
			break
		}
	}
	servertest.WantProblem(t, servertest.RPCProblem(last), codes.ResourceExhausted, "LIMIT_EXCEEDED")
	_, err = s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: servertest.Polled,
		ObservationTime: timestamppb.New(servertest.T0.Add(-2 * time.Hour)),
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "m"}, Value: "one"}}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(status.Convert(err).Details()), "externalMetrics[0].value") ||
		!strings.Contains(fmt.Sprint(status.Convert(err).Details()), "observationTime") {
		t.Errorf("got %v", err)
	}
}

// A decision made with another spec does not serve a poll, and the operator's caps of a caller
// narrow its answer only.
func TestAPollIsNotAnsweredByOthersDecisions(t *testing.T) {
	t.Run("with a spec of their own", func(t *testing.T) {
		s := servertest.Start(t)
		s.SetSpec(t, servertest.QueueSpec(1, 10))
		s.Observe(t, 2, "35")
		s.Clock.Advance(time.Second)
		other := servertest.RequestFor(servertest.Polled)
		other.Spec.MaxReplicas = 90
		other.ExternalMetrics[0].Value = "80"
		if r := s.Recommend(t, other); r.GetDesiredReplicas() < 8 {
			t.Fatalf("got %v", r)
		}
		wantPoll(t, s, 4)
	})
	t.Run("with caps of the operator", func(t *testing.T) {
		s := servertest.Guarded(t)
		set := &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: servertest.QueueSpec(1, 100)}
		if _, err := s.Targets.SetTargetSpec(servertest.As(t.Context(), servertest.AdminToken), set); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recommendations.ReportObservation(servertest.As(t.Context(), servertest.AdminToken), &setpointv1.ReportObservationRequest{Target: servertest.Polled, Scale: &setpointv1.Scale{SpecReplicas: 8},
			ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "150"}}}); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, tt := range []struct {
			token       string
			want, bound int32
		}{{servertest.CappedToken, 6, 6}, {servertest.AdminToken, 15, 100}, {servertest.CappedToken, 6, 6}} { // by one decision
			r, err := s.Recommendations.GetRecommendation(servertest.As(t.Context(), tt.token), &setpointv1.GetRecommendationRequest{Target: servertest.Polled})
			if err != nil || r.GetRecommendation().GetDesiredReplicas() != tt.want || r.GetRecommendation().GetMaxReplicas() != tt.bound {
				t.Errorf("%s: %v, %v, want %d of at most %d", tt.token[:9], r.GetRecommendation(), err, tt.want, tt.bound)
			}
			ids = append(ids, r.GetRecommendation().GetRecommendationId())
		}
		if len(slices.Compact(ids)) != 1 || ids[0] == "" {
			t.Errorf("decisions %q, want one", ids)
		}
	})
}

// A stored spec is decided for others: the caps of whoever stores it hold when it is stored.
func TestASpecBeyondTheCapsOfItsAuthorIsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	for _, tt := range []struct {
		name, token string
		least, most int32
		problem     string
	}{
		{"above the cap", servertest.CappedToken, 2, 7, "targetSpec.spec.maxReplicas: Invalid value: 7: must be at most 6, by the operator's policy for token:capped (caps.maxReplicas)"},
		{"below the floor", servertest.CappedToken, 1, 6, "targetSpec.spec.minReplicas: Invalid value: 1: must be at least 2, by the operator's policy for token:capped (caps.minReplicas)"},
		{"a maximum below the floor", servertest.CappedToken, 1, 1, ""},
		{"within both", servertest.CappedToken, 2, 6, ""},
		{"without caps", servertest.AdminToken, 1, 10_000, ""},
	} {
		set := &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: servertest.QueueSpec(tt.least, tt.most)}
		_, err := s.Targets.SetTargetSpec(servertest.As(t.Context(), tt.token), set)
		switch {
		case tt.problem == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.problem != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tt.problem)):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.problem)
		}
	}
}

// Whoever may record nothing gets a decision that is not recorded, one a period.
func TestADryRunPollRecordsNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	const frozen = "clusters/demo/namespaces/shop/targets/frozen"
	if _, err := s.Targets.SetTargetSpec(servertest.As(t.Context(), servertest.AdminToken), &setpointv1.SetTargetSpecRequest{Name: frozen, TargetSpec: servertest.QueueSpec(1, 5)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recommendations.ReportObservation(servertest.As(t.Context(), servertest.AdminToken), &setpointv1.ReportObservationRequest{Target: frozen, Scale: &setpointv1.Scale{SpecReplicas: 2},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "40"}}}); err != nil {
		t.Fatal(err)
	}
	before := s.Contents(t)
	poll := func(token string) *setpointv1.Recommendation {
		r, err := s.Recommendations.GetRecommendation(servertest.As(t.Context(), token), &setpointv1.GetRecommendationRequest{Target: frozen})
		if err != nil || r.GetRecommendation().GetDesiredReplicas() != 4 {
			t.Fatalf("%v, %v, want 4", r, err)
		}
		return r.GetRecommendation()
	}
	first := poll(servertest.CappedToken)
	s.Clock.Advance(time.Second)
	if again := poll(servertest.CappedToken); again.GetRecommendationId() != "" || !proto.Equal(again, first) || s.Contents(t) != before {
		t.Errorf("told %v and %v, and recorded: %t", first, again, s.Contents(t) != before)
	}
	recorded := poll(servertest.AdminToken)
	if shared := poll(servertest.CappedToken); recorded.GetRecommendationId() == "" || shared.GetRecommendationId() != recorded.GetRecommendationId() {
		t.Errorf("the decision of others is not the answer: %v", shared)
	}
}

// Where nobody knows the count, as after Redis has lost its data, a loaded workload is not taken to its minimum.
func TestAnUnknownCountBeginsWhereItsMetricsWantIt(t *testing.T) {
	t.Parallel()
	for _, failing := range []int{0, 2} { // polls before the metrics can be read
		s := servertest.Start(t)
		spec := servertest.QueueSpec(1, 60)
		spec.AssumeApplied = true
		s.SetSpec(t, spec)
		for range failing {
			if got, err := poll(t, s); err == nil {
				t.Errorf("without metrics: %v", got)
			}
			s.Clock.Advance(15 * time.Second)
		}
		s.Observe(t, -1, "320")
		if got := wantPoll(t, s, 32).GetCurrentReplicas(); got != 32 {
			t.Errorf("after %d failures it begins at %d, want 32", failing, got)
		}
		s.Clock.Advance(15 * time.Second)
		s.Observe(t, -1, "600")
		wantPoll(t, s, 60) // policies count from there
	}
}

// A target that is assumed to be where it was recommended to be leaves zero, and does not
// begin there: at zero the controller acts only if it scaled there itself.
func TestATargetThatIsAssumedToBeAtZeroLeavesIt(t *testing.T) {
	s := servertest.Start(t)
	spec := servertest.QueueSpec(0, 100)
	spec.AssumeApplied, spec.Options = true, &setpointv1.RecommendOptions{ScaleToZero: proto.Bool(true)}
	spec.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(0)}}
	s.SetSpec(t, spec)
	for i, step := range []struct {
		queue         string
		current, want int32
	}{{"20", 2, 2}, {"0", 2, 0}, {"0", 0, 0}, {"0", 0, 0}, {"10.5", 0, 2}, {"0", 2, 0}, {"30", 0, 3}} {
		s.Observe(t, -1, step.queue)
		if got := wantPoll(t, s, step.want).GetCurrentReplicas(); got != step.current {
			t.Errorf("step %d is from %d, want %d", i, got, step.current)
		}
		s.Clock.Advance(15 * time.Second)
	}
	got, err := s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: servertest.Polled})
	if n := len(got.GetTarget().GetHistory().GetScaleDowns()); err != nil || n == 0 {
		t.Errorf("%v, %d scale-downs count", err, n)
	}
	// Somebody's own zero is left alone. Once it is no longer reported, the target begins again.
	spec.ObservationMaxAge = durationpb.New(time.Minute)
	s.SetSpec(t, spec)
	s.Observe(t, 0, "30")
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 3, "30")
	wantPoll(t, s, 3)
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 0, "30")
	wantPoll(t, s, 0)
	s.Clock.Advance(2 * time.Minute)
	s.Observe(t, -1, "30")
	if got := wantPoll(t, s, 3).GetCurrentReplicas(); got != 1 {
		t.Errorf("begins at %d, want 1", got)
	}
}

// Stored data may cost a poll no more than a request with the same bytes.
func TestAPollCostsNoMoreThanItsBytes(t *testing.T) {
	s := servertest.Start(t)
	dear := servertest.QueueSpec(1, 100)
	one := dear.Spec.Metrics[0]
	for range 99 {
		dear.Spec.Metrics = append(dear.Spec.Metrics, proto.Clone(one).(*setpointv1.MetricSpec))
	}
	s.SetSpec(t, dear)
	report := &setpointv1.ReportObservationRequest{Target: servertest.Polled, Scale: &setpointv1.Scale{SpecReplicas: 2}}
	for range 20_000 {
		report.ExternalMetrics = append(report.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "1"})
	}
	if _, err := s.Recommendations.ReportObservation(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	if _, err := poll(t, s); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("100 metrics that share 20,000 series: %v, want RESOURCE_EXHAUSTED", err)
	}
}

// A report that could not be decided on is refused, rather than every poll after it, and one with a value that the
// controller would read as another one.
func TestReportsThatNoPollCouldUseAreRefused(t *testing.T) {
	s := servertest.Start(t)
	queue := &setpointv1.MetricIdentifier{Name: "queue"}
	near := &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for field, report := range map[string]*setpointv1.ReportObservationRequest{
		"externalMetrics[0].metric.selector": {ExternalMetrics: []*setpointv1.ExternalMetric{{Value: "1", Metric: &setpointv1.MetricIdentifier{Name: "queue", Selector: near}}}},
		"externalMetrics[0].value":           {ExternalMetrics: []*setpointv1.ExternalMetric{{Value: "1e300", Metric: queue}}},
		"customMetrics[0].value": {CustomMetrics: []*setpointv1.CustomMetric{{
			Value: "1e16", Metric: queue, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: "a"},
		}}},
		"podMetrics[0].containers[0].usage": {PodMetrics: []*setpointv1.PodMetrics{{Pod: "a", Containers: []*setpointv1.ContainerMetrics{{
			Name: "app", Usage: map[string]string{"cpu": "1e16"},
		}}}}},
	} {
		report.Target = servertest.Polled
		_, err := s.Recommendations.ReportObservation(t.Context(), report)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// A reported proposal counts for polls until it expires, the last of its name.
func TestReportedProposalsCountForPolls(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 4, "40")
	report := func(expires time.Duration, replicas int32, names ...string) error {
		req := &setpointv1.ReportObservationRequest{Target: servertest.Polled}
		for _, name := range names {
			req.Proposals = append(req.Proposals, &setpointv1.Proposal{Name: name, Replicas: replicas, Role: "FLOOR", ExpireTime: timestamppb.New(s.Clock.Now().Add(expires))})
		}
		_, err := s.Recommendations.ReportObservation(t.Context(), req)
		return err
	}
	fatal.If(t, report(time.Minute, 9, "forecast"))
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 4, "40") // another report keeps it
	got := wantPoll(t, s, 9)
	if a := got.GetAdjustments(); len(a) != 1 || a[0].GetRule() != "proposal/forecast" || got.GetPlainDesiredReplicas() != 4 {
		t.Errorf("told %v", got)
	}
	fatal.If(t, report(time.Hour, 7, "forecast"))
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 4, "40")
	wantPoll(t, s, 7)
	// Of more names than are kept the last ones stay.
	fatal.If(t, report(time.Hour, 3, "a", "b", "c", "d", "e", "f", "g", "h"))
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 4, "40")
	wantPoll(t, s, 4)
	fatal.If(t, report(30*time.Second, 6, "a"))
	s.Clock.Advance(45 * time.Second)
	s.Observe(t, 4, "40")
	if got := wantPoll(t, s, 4).GetAdjustments(); len(got) == 0 || !strings.Contains(got[0].GetMessage(), "expired at") {
		t.Errorf("told %v of an expired one", got)
	}
	s.Clock.Advance(time.Minute)
	s.Observe(t, 4, "40")
	if got := wantPoll(t, s, 4).GetAdjustments(); len(got) > 0 && strings.Contains(got[0].GetMessage(), "expired at") {
		t.Errorf("told %v of one that expired long ago", got)
	}

	// The next poll may be decided by an instance whose clock is behind.
	fatal.If(t, report(time.Hour, 8, "a"))
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 4, "40")
	s.Clock.Advance(15 * time.Second)
	fatal.If(t, report(time.Hour, 8, "a"))
	s.Clock.Advance(-time.Second)
	wantPoll(t, s, 8)

	err := report(time.Hour+time.Second, 3, "a", "a")
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
	if text := err.Error(); !strings.Contains(text, "proposals[0].expireTime") || !strings.Contains(text, "2 more") {
		t.Errorf("%s, want also the name that is twice", text)
	}
}

// A decision of an instance whose clock is ahead answers those that are behind for its period; after a clock was set back a poll decides.
func TestADecisionOfAClockThatIsAheadAnswers(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 4, "40")
	first := wantPoll(t, s, 4).GetRecommendationId()
	for _, test := range []struct {
		back  time.Duration
		again bool
	}{{10 * time.Second, false}, {5*time.Second - 1, false}, {time.Minute, true}} {
		s.Clock.Advance(-test.back)
		s.Observe(t, 4, "40")
		if again := wantPoll(t, s, 4).GetRecommendationId() != first; again != test.again {
			t.Errorf("%s further behind: decided anew %t, want %t", test.back, again, test.again)
		}
	}
}

// What a clock has stamped that was ahead until it was set counts no longer than a report of now, and not for as long as
// that clock was ahead.
func TestAReportOfAClockThatWasAheadIsReplaced(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Clock.Advance(30 * time.Minute)
	s.Observe(t, 4, "40")
	s.Clock.Advance(-30 * time.Minute)
	if got, err := poll(t, s, func(r *setpointv1.GetRecommendationRequest) { r.CurrentReplicas = new(int32(4)) }); err == nil || !strings.Contains(err.Error(), "by a clock that was 1800 s ahead") {
		t.Errorf("before another report: %v, %v", got, err)
	}
	if got, err := poll(t, s); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without a count before another report: %v, %v", got, err)
	}
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 4, "80")
	wantPoll(t, s, 8)
	// Instances' clocks may be a little apart.
	s.Clock.Advance(15 * time.Second)
	s.Observe(t, 8, "120")
	s.Clock.Advance(-10 * time.Second)
	s.Observe(t, 8, "160")
	s.Clock.Advance(10 * time.Second)
	wantPoll(t, s, 16)
}
