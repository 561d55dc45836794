package conversion

import (
	"errors"
	"fmt"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// paced is the pace of proposals; any other acts at once, or is refused by validation.Structure.
const (
	paced  = "PACED"
	atOnce = "AT_ONCE"
)

// schedules reads schedules.
func (r *stagesReader) schedules(in []*setpointv1.Schedule) []stages.Schedule {
	in = upTo(mostSchedules, in)
	if len(in) == 0 {
		return nil
	}
	out := make([]stages.Schedule, 0, len(in))
	names := make(map[string]bool, len(in))
	for i, s := range in {
		field := fmt.Sprintf("stages.schedules[%d]", i)
		r.unique(names, s.GetName(), field)
		one := stages.Schedule{
			Name: s.GetName(), Min: -1, Max: -1, Suspended: s.GetSuspended(), RampUp: s.GetRampUp().AsDuration(), RampDown: s.GetRampDown().AsDuration(),
			MinPaced: s.GetMinPace() == paced, MaxAtOnce: s.GetMaxPace() == atOnce,
		}
		if s != nil && s.MinReplicas != nil {
			one.Min = max(0, s.GetMinReplicas())
		}
		if s != nil && s.MaxReplicas != nil {
			one.Max = max(0, s.GetMaxReplicas())
		}
		r.scheduleBounds(s, field)
		if one.Times = r.times(s, field); one.Times != nil {
			out = append(out, one)
		}
	}
	return out
}

// unique refuses a name that a list has already.
func (r *stagesReader) unique(names map[string]bool, name, field string) {
	if names[name] {
		r.refuse(field+".name", "Duplicate value: %q", clip(name))
	}
	names[name] = true
}

func (r *stagesReader) scheduleBounds(s *setpointv1.Schedule, field string) {
	if s == nil {
		return
	}
	spec := &r.in.Spec
	least, most := s.GetMinReplicas(), s.GetMaxReplicas()
	switch {
	case s.MinReplicas == nil && s.MaxReplicas == nil:
		r.refuse(field+".minReplicas", "Required value: a schedule has minReplicas, maxReplicas or both")
	case s.MinReplicas != nil && s.MaxReplicas != nil && least > most:
		r.refuse(field+".minReplicas", "Invalid value: %d: must be at most maxReplicas, which is %d", least, most)
	}
	inside := func(name string, n int32) {
		switch {
		case n > spec.MaxReplicas:
			r.refuse(field+"."+name, "Invalid value: %d: must be at most the spec's maxReplicas, which is %d", n, spec.MaxReplicas)
		case n < spec.MinReplicas:
			r.refuse(field+"."+name, "Invalid value: %d: must be at least the spec's minReplicas, which is %d", n, spec.MinReplicas)
		}
	}
	if r.stored && s.MinReplicas != nil {
		inside("minReplicas", least)
	}
	if r.stored && s.MaxReplicas != nil {
		inside("maxReplicas", most)
	}
	if s.MinReplicas == nil && s.GetRampUp().AsDuration() != 0 {
		r.refuse(field+".rampUp", "Forbidden: only minReplicas has ramps")
	}
	if s.MinReplicas == nil && s.GetRampDown().AsDuration() != 0 {
		r.refuse(field+".rampDown", "Forbidden: only minReplicas has ramps")
	}
}

// mostUnknownZones is how many zones that do not exist are looked for in a request.
const mostUnknownZones = 8

// asksForZone reports whether a zone is to be looked for, or refuses it.
func (r *stagesReader) asksForZone(zone, field string) bool {
	switch {
	case zone == "":
		r.refuse(field, `Required value: must be a time zone of the IANA database, such as "Europe/Berlin", or "UTC"`)
		return false
	case r.unknownZones >= mostUnknownZones && !schedule.Loaded(zone):
		r.refuse(field, "Invalid value: %q: was not looked for, because %d others are not in the IANA time zone database: correct those first", clip(zone), mostUnknownZones)
		return false
	}
	return true
}

// times reads when a schedule is active; nil: a violation was added, here or by validation.Structure.
func (r *stagesReader) times(s *setpointv1.Schedule, field string) *schedule.Times {
	before := len(r.violations)
	text := schedule.Text{Zone: s.GetTimeZone(), Cron: s.GetCron(), EndCron: s.GetEndCron()}
	switch {
	case s.GetAt() == nil && text.Cron == "":
		r.refuse(field+".cron", "Required value: a schedule starts at the times of a cron expression, or once, at")
	case s.GetAt() != nil && text.Cron != "":
		r.refuse(field+".at", "Forbidden: the schedule has a cron expression")
	case s.GetAt() != nil && (!s.GetAt().IsValid() || s.GetAt().AsTime().IsZero()):
		r.refuse(field+".at", "Invalid value: must be between the years 1 and 9999")
	case s.GetAt() != nil:
		text.At = s.GetAt().AsTime()
	}
	switch {
	case s.GetDuration() == nil && text.EndCron == "":
		r.refuse(field+".duration", "Required value: a schedule ends after a duration, or at the times of endCron")
	case s.GetDuration() != nil && text.EndCron != "":
		r.refuse(field+".endCron", "Forbidden: the schedule has a duration")
	case s.GetDuration() != nil:
		if text.Duration = s.GetDuration().AsDuration(); text.Duration <= 0 {
			return nil
		}
	}
	if !r.asksForZone(text.Zone, field+".timeZone") {
		return nil
	}
	problem := func(err error) {
		var wrong *schedule.Error
		if !errors.As(err, &wrong) {
			return
		}
		switch wrong.Field {
		case schedule.ZoneField:
			r.unknownZones++
			r.refuse(field+".timeZone", "Invalid value: %q: %v", clip(text.Zone), err)
		case schedule.CronField:
			r.refuse(field+".cron", "Invalid value: %q: %v", clip(text.Cron), err)
		case schedule.EndCronField:
			r.refuse(field+".endCron", "Invalid value: %q: %v", clip(text.EndCron), err)
		}
	}
	if len(r.violations) == before {
		if times, err := schedule.Compile(text); err == nil {
			return times
		}
	}
	for _, err := range schedule.Check(text) {
		problem(err)
	}
	return nil
}

// MostAhead is how far ahead of an evaluation a proposal may expire.
const MostAhead = time.Hour

var roles = map[string]stages.Role{"VOTER": stages.Voter, "FLOOR": stages.Floor, "CAP": stages.Cap}

// proposals reads the caller's proposals.
func (r *stagesReader) proposals(in []*setpointv1.Proposal) []stages.Proposal {
	in = upTo(mostProposals, in)
	if len(in) == 0 {
		return nil
	}
	out := make([]stages.Proposal, 0, len(in))
	names := make(map[string]bool, len(in))
	for i, p := range in {
		field := fmt.Sprintf("proposals[%d]", i)
		r.unique(names, p.GetName(), field)
		expires := p.GetExpireTime()
		switch {
		case expires == nil: // validation.Structure tells
		case !expires.IsValid():
			r.refuse(field+".expireTime", "Invalid value: must be between the years 1 and 9999")
		case expires.AsTime().Sub(r.now) > MostAhead:
			r.refuse(field+".expireTime", "Invalid value: %s: must be at most %s after the evaluation, which is at %s",
				expires.AsTime().Format(time.RFC3339Nano), MostAhead, r.now.UTC().Format(time.RFC3339Nano))
		default:
			out = append(out, stages.Proposal{Name: p.GetName(), Replicas: max(0, p.GetReplicas()), Role: roles[p.GetRole()], Expires: expires.AsTime()})
		}
	}
	return out
}

// usualCooldown is how long a workload at one replica must be inactive to go to zero.
const usualCooldown = 5 * time.Minute

// idle reads when a workload goes to zero.
func (r *stagesReader) idle(in *setpointv1.IdleScaling, p *stages.Plan) *stages.Idle {
	const field = "stages.idle"
	if in == nil {
		return nil
	}
	if r.in.Spec.MinReplicas != 0 {
		r.refuse(field, "Forbidden: needs spec.minReplicas 0, which is %d", r.in.Spec.MinReplicas)
	}
	if !r.in.Options.ScaleToZero {
		r.refuse(field, "Forbidden: needs options.scaleToZero")
	}
	out := &stages.Idle{Activation: map[int]int64{}, Cooldown: usualCooldown}
	if in.GetCooldown() != nil {
		out.Cooldown = in.GetCooldown().AsDuration()
	}
	if out.InitialCooldown = out.Cooldown; in.GetInitialCooldown() != nil {
		out.InitialCooldown = in.GetInitialCooldown().AsDuration()
	}
	hasTotal := func(i int) bool {
		t := r.in.Spec.Metrics[i].Type
		return t == recommender.ObjectMetric || t == recommender.ExternalMetric
	}
	for i := range r.in.Spec.Metrics {
		if hasTotal(i) {
			out.Activation[i] = 0
		}
	}
	if len(out.Activation) == 0 {
		r.refuse(field, "Forbidden: needs an Object or External metric, as others have no value without pods")
	}
	activation := in.GetActivation()
	for _, name := range pairs(activation) {
		field := fmt.Sprintf("stages.idle.activation[%q]", clip(name))
		milli, inRange, err := quantity.ParseMilli(activation[name])
		switch {
		case err != nil:
			r.refuse(field, "Invalid value: %q: %v", clip(activation[name]), err)
		case !inRange, milli < 0:
			r.refuse(field, "Invalid value: %q: must be at least 0, and in the range of the controller's arithmetic", clip(activation[name]))
		}
		switch index := r.metric(p, name, field); {
		case index < 0:
		case !hasTotal(index):
			r.refuse(field, "Invalid value: %q: only Object and External metrics have a value without pods", clip(name))
		default:
			out.Activation[index] = milli
		}
	}
	return out
}
