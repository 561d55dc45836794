package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// Exported is what the service keeps of a target, as a recording.
type Exported struct {
	// Scenarios are without gaps, in order of time; their Calls are set.
	Scenarios []*recording.Scenario
	// Steps is how many decisions they have.
	Steps int
	// Gaps are where decisions are missing.
	Gaps []Gap
	// Unreadable is how many chunks could not be read, and Unreadability why the first one could not.
	Unreadable    int
	Unreadability error
}

// Gap is a time of which decisions are missing, or can't be made again.
type Gap struct {
	From, To time.Time
	Why      string
}

// Why decisions are missing.
const (
	notKept    = "decisions in between were not kept"
	notYet     = notKept + ", or another instance has not yet written them: export again in half an hour"
	tooOften   = notKept + ", because the target was asked more than once a second for minutes"
	noState    = "the target's history is not kept before the next hour"
	noSpec     = "the text of the spec is not kept"
	notTheSame = "a decision was made without the store, or changed by a correction of its clock"
)

// unwritten is how long three instances that share a target's calls keep decisions in memory, by default; one does so for a
// third of it.
const unwritten = 30 * time.Minute

// Export turns chunks of a target into a recording, in any order, with the decisions from an instant to another one
// (the zero value: all). It begins up to an hour earlier, where the target's history is kept, so that each decision
// can be made again. Gaps end a scenario, and so does the next history that is kept of one of more than largeScenario bytes.
func Export(target string, chunks [][]byte, from, to time.Time) *Exported {
	return export(target, chunks, from, to, largeScenario)
}

// largeScenario leaves room for an hour in a line of recording.MaxLineBytes.
const largeScenario = recording.MaxLineBytes / 4

func export(target string, chunks [][]byte, from, to time.Time, large int) *Exported {
	x := &exporter{out: &Exported{}, target: target, large: large, specs: make(map[uint64]*setpointv1.SpecInUse), reports: make(map[int64]*truth.Report)}
	var steps []truth.Step
	for _, chunk := range chunks {
		some, reports, err := truth.Open(chunk)
		if err != nil {
			if x.out.Unreadable++; x.out.Unreadability == nil {
				x.out.Unreadability = err
			}
			continue
		}
		steps = append(steps, some...)
		for i := range reports {
			x.reports[reports[i].Of] = &reports[i]
		}
	}
	slices.SortStableFunc(steps, func(a, b truth.Step) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Before, b.Before))
	})
	steps = slices.CompactFunc(steps, func(a, b truth.Step) bool { return a.At == b.At && a.Before == b.Before && a.Desired == b.Desired })
	for i := range steps {
		x.learn(&steps[i])
	}
	if n := len(steps); n > 0 {
		x.newest = steps[n-1].At
	}
	wanted := within(steps, from, to)
	if len(wanted) > 0 && !from.IsZero() && wanted[0].Before != 0 && instant(wanted[0].Before).After(from) {
		x.last = 1 // what was decided from then on and before the first step is missing
		if from.After(instant(1)) {
			x.last = from.UnixNano()
		}
	}
	for _, s := range wanted {
		x.add(&s)
	}
	x.end()
	return x.out
}

// within returns the steps from the last one at which a scenario may begin before an instant; none, if there are none
// from then on.
func within(steps []truth.Step, from, to time.Time) []truth.Step {
	if !to.IsZero() {
		steps = steps[:before(steps, to)]
	}
	if from.IsZero() {
		return steps
	}
	begin := before(steps, from)
	if begin == len(steps) {
		return nil
	}
	for i := begin; i >= 0; i-- {
		if begins(&steps[i]) {
			return steps[i:]
		}
	}
	return steps[begin:]
}

// before is how many steps are before an instant, which may be one that has no nanoseconds since the Unix epoch.
func before(steps []truth.Step, end time.Time) int {
	n, _ := slices.BinarySearchFunc(steps, end, func(s truth.Step, at time.Time) int { return instant(s.At).Compare(at) })
	return n
}

// begins reports whether a scenario may begin with the step.
func begins(s *truth.Step) bool { return len(s.State) > 0 }

// anew reports whether the windows began anew with the step, after a pause.
func anew(s *truth.Step) bool {
	before, err := record.Decode(s.State)
	return err == nil && !before.Initialized
}

// exporter builds scenarios from steps in order of time.
type exporter struct {
	out      *Exported
	target   string
	specs    map[uint64]*setpointv1.SpecInUse
	reports  map[int64]*truth.Report
	scenario *recording.Scenario
	// size is about the bytes of the scenario, which ends where it can if they are more than large.
	size, large int
	// last is the instant of the step before, 0: there is none; and spec that step's. before are the instants of some
	// steps up to it, and newest that of the last one of all.
	last   int64
	before []int64
	newest int64
	spec   uint64
}

// learn remembers the text of a spec.
func (x *exporter) learn(s *truth.Step) {
	if len(s.SpecText) == 0 || x.specs[s.Spec] != nil {
		return
	}
	use := &setpointv1.SpecInUse{}
	if proto.Unmarshal(s.SpecText, use) != nil {
		return
	}
	if spec := use.GetSpec(); spec != nil && len(spec.GetMetrics()) == 0 { // what the sums belong to
		for _, m := range recommender.DefaultMetrics() {
			spec.Metrics = append(spec.Metrics, &setpointv1.MetricSpec{Type: string(m.Type), Resource: &setpointv1.ResourceMetricSource{
				Name: m.Resource, Target: &setpointv1.MetricTarget{Type: m.Target.Type, AverageUtilization: m.Target.AverageUtilization},
			}})
		}
	}
	x.specs[s.Spec] = use
}

// add adds a step.
func (x *exporter) add(s *truth.Step) {
	spec := x.specs[s.Spec]
	missing := x.last != 0 && s.Before != x.last
	switch {
	case spec == nil:
		x.gap(s, noSpec)
		return
	case missing:
		x.end()
		x.gap(s, x.missed(s))
	case begins(s) && x.size > x.large:
		x.end()
	case begins(s) && (s.Spec != x.spec || anew(s)):
		x.end() // a promoted shadow goes on with its own history, not with that of the steps before
	}
	if x.scenario == nil {
		if !begins(s) {
			if !missing {
				x.gap(s, noState)
			}
			return
		}
		x.scenario = &recording.Scenario{Name: fmt.Sprintf("%s from %s", x.target, instant(s.At).Format(time.RFC3339Nano)), Source: "service", State: s.State}
	}
	call, err := x.call(s, spec)
	if err != nil {
		x.gap(s, err.Error())
		return
	}
	x.scenario.Calls = append(x.scenario.Calls, *call)
	x.size += len(call.Request) + len(call.Answer) + len(call.Basis) + sumsSize*(1+len(s.Metrics))
	x.last, x.spec = s.At, s.Spec
	x.before = append(x.before[max(0, len(x.before)+1-truth.Burst):], s.At)
}

// missed is why decisions before the step are missing. What is recorded does not say so: a target that was recorded as
// often as one may be until it pauses has paused, and what is new may be in another instance's memory.
func (x *exporter) missed(s *truth.Step) string {
	n := len(x.before)
	switch {
	case !begins(s) && s.Before <= x.last:
		return notTheSame
	case n == truth.Burst && x.before[n-1]-x.before[0] < truth.Burst*truth.Pace:
		return tooOften
	case s.Before > x.newest-int64(unwritten):
		return notYet
	}
	return notKept
}

// gap notes one before the step, and ends the scenario.
func (x *exporter) gap(s *truth.Step, why string) {
	x.end()
	from := cmp.Or(x.last, s.Before, s.At) // a target that is new has nothing before
	if n := len(x.out.Gaps); n > 0 && x.out.Gaps[n-1].Why == why && x.last == 0 {
		x.out.Gaps[n-1].To = instant(s.At)
		return
	}
	x.out.Gaps = append(x.out.Gaps, Gap{From: instant(from), To: instant(s.At), Why: why})
	x.last = 0
}

// end ends the scenario.
func (x *exporter) end() {
	if x.scenario != nil && len(x.scenario.Calls) > 0 {
		x.out.Scenarios = append(x.out.Scenarios, x.scenario)
		x.out.Steps += len(x.scenario.Calls)
	}
	x.scenario, x.size = nil, 0
}

// sumsSize is about the length of a metric's sums in JSON.
const sumsSize = 400

func instant(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }

// scaleReasons are the words for what failed when the scale was read.
var scaleReasons = map[uint8]string{
	uint8(recommender.ScaleGetFailed): "FailedGet", uint8(recommender.ScaleInvalidAPIVersion): "InvalidAPIVersion", uint8(recommender.ScaleUnknownKind): "UnknownKind",
}

// roles are the words for what a proposal is.
var roles = map[stages.Role]string{stages.Voter: "VOTER", stages.Floor: "FLOOR", stages.Cap: "CAP"}

// call is a step as a recording has it.
func (x *exporter) call(s *truth.Step, use *setpointv1.SpecInUse) (*recording.Call, error) {
	if n := len(use.GetSpec().GetMetrics()); n != len(s.Metrics) && len(s.Metrics) > 0 {
		return nil, fmt.Errorf("sums of %d metrics, but the spec has %d", len(s.Metrics), n)
	}
	request := &setpointv1.RecommendRequest{
		Target: x.target, Spec: use.GetSpec(), Options: use.GetOptions(), Stages: use.GetStages(),
		Scale: &setpointv1.Scale{SpecReplicas: s.Scale.SpecReplicas, StatusReplicas: new(s.Scale.StatusReplicas)},
	}
	if s.Generation >= 0 {
		request.Generation = new(s.Generation)
	}
	switch p := &s.Problem; p.Kind {
	case truth.ScaleProblem:
		request.ScaleError = &setpointv1.ScaleError{Reason: scaleReasons[p.Code], Message: p.Message}
	case truth.SelectorProblem:
		request.SelectorProblem = &setpointv1.SelectorProblem{Reason: p.Reason, Message: p.Message, Autoscalers: p.Others}
		request.Scale.Selector = p.Selector
	}
	latest := instant(s.At).Add(conversion.MostAhead) // by the clock of the report it may have been later
	for _, p := range s.Proposed {
		if p.Expires.After(latest) {
			p.Expires = latest
		}
		request.Proposals = append(request.Proposals, &setpointv1.Proposal{
			Name: p.Name, Role: roles[p.Role], Replicas: p.Replicas, ExpireTime: timestamppb.New(p.Expires),
		})
	}
	answer := &setpointv1.RecommendResponse{
		DesiredReplicas: s.Desired, CurrentReplicas: s.Current, Reason: s.Reason, Error: s.Error,
		Status: &setpointv1.HorizontalPodAutoscalerStatus{CurrentReplicas: s.StatusCurrent, DesiredReplicas: s.StatusDesired},
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		answer.Status.Conditions = append(answer.Status.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	if s.Desired != s.Current {
		answer.Events = []*setpointv1.Event{{Type: "Normal", Reason: recommender.SuccessfulRescale, Message: fmt.Sprintf("New size: %d; reason: %s", s.Desired, s.Reason)}}
	}
	call := &recording.Call{Time: instant(s.At), Sums: sumsOf(s, len(use.GetSpec().GetMetrics()))}
	if report := x.reports[s.At]; report != nil && report.Failed {
		call.ApplyError = cmp.Or(report.Message, "the caller reported a failure")
	} else if report == nil && s.Desired != s.Current {
		call.Unreported = true
	}
	var errs [3]error
	call.Request, errs[0] = text(request)
	call.Answer, errs[1] = text(answer)
	call.Basis, errs[2] = text(basisOf(&s.Basis))
	return call, errors.Join(errs[:]...)
}

// text is a message in JSON, which is the same in each process.
func text(m proto.Message) (json.RawMessage, error) {
	loose, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var tight bytes.Buffer
	err = json.Compact(&tight, loose)
	return tight.Bytes(), err
}

func basisOf(b *recommender.Basis) *setpointv1.DecisionBasis {
	m := &setpointv1.DecisionBasis{}
	if b.Decided {
		m.Proposal, m.MetricProposals = &b.Proposal, b.Proposals[:b.ProposalsLen]
	}
	if b.Bounded {
		m.MinReplicas, m.MaxReplicas = &b.Min, &b.Max
	}
	return m
}

// sumsOf are the sums of a step.
func sumsOf(s *truth.Step, metrics int) *recording.Sums {
	out := &recording.Sums{Pods: s.Pods, Ready: s.Ready, Metrics: make([]recording.MetricSums, metrics)}
	group := func(g *recommender.GroupSums) recording.GroupSums {
		return recording.GroupSums{Pods: g.Pods, Usage: g.Usage, Requests: g.Requests, Filled: g.Filled}
	}
	if said := s.Said; said != (forecast.Said{}) {
		out.Forecast = &said
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		of, t := &m.Sums, &m.Total
		out.Metrics[i] = recording.MetricSums{
			Ready: group(&of.Ready), Unready: group(&of.Unready), Missing: group(&of.Missing), Ignored: of.Ignored,
			Unlisted: of.Unlisted, UnlistedUsage: of.UnlistedUsage, Sampled: of.Sampled, Unusable: of.Unusable, NoRequest: of.NoRequest,
			UsageWraps: of.UsageWraps, RequestsWrap: of.RequestsWrap, Series: t.Series, Sum: t.Sum, Beyond: t.Beyond,
			Error: m.Error, SelectorError: m.SelectorError,
		}
		if usual := (fleet.Total{Series: t.Series, Sum: t.Sum, Low: min(0, t.Sum), High: max(0, t.Sum), Beyond: t.Beyond}); usual != *t {
			out.Metrics[i].Low, out.Metrics[i].High = t.Low, t.High
		}
	}
	return out
}
