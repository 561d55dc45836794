package playground

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
)

// stagesAnnotation has the stages of a HorizontalPodAutoscaler, as JSON.
const stagesAnnotation = "setpoint.dev/stages"

// staged reads stages as stages.proto has them, with its ranges: the browser has no protobuf that could.
type staged struct {
	// seconds reports whether durations must be in seconds, as in JSON; in an annotation they may be 12h.
	seconds bool
}

// annotated reads the stages of an annotation.
func (s *spec) annotated(v document.Value) {
	text, ok := v.Text()
	if !ok {
		return
	}
	m := &setpointv1.Stages{}
	err := document.Read("", []byte(text), func(root document.Value) { staged{}.read(root, m) })
	if err != nil {
		v.Refuse("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	s.stages, s.stagesAt = m, v.Path()
}

// stagesOf reads stages that are a field.
func (s *spec) stagesOf(v document.Value) {
	s.stages, s.stagesAt = &setpointv1.Stages{}, v.Path()
	staged{seconds: true}.read(v, s.stages)
}

// plan gives the autoscaler its stages.
func (a *asked) plan(s *spec) {
	in := &recommender.Input{Namespace: s.namespace, Spec: s.autoscaler.Spec, Options: s.autoscaler.Options}
	plan, violations := conversion.Stages(s.message, s.stages, in)
	for _, v := range violations {
		if below, is := strings.CutPrefix(v.Field, "stages"); is {
			v.Field = s.stagesAt + below
		}
		a.problems = append(a.problems, Problem{In: s.name, Line: s.lines.Of(v.Field), Path: v.Field, Text: v.Description})
	}
	s.autoscaler.Stages = plan
}

func (r staged) read(v document.Value, m *setpointv1.Stages) {
	v.Map(
		document.Optional("freshness", func(v document.Value) {
			m.Freshness = &setpointv1.Freshness{}
			v.Map(document.Required("maxSampleAge", r.duration(&m.Freshness.MaxSampleAge, time.Second, time.Hour)),
				document.Optional("futureTolerance", r.duration(&m.Freshness.FutureTolerance, 0, 5*time.Minute)))
		}),
		document.Optional("fallbacks", each(16, func(v document.Value) {
			f := &setpointv1.MetricFallback{}
			m.Fallbacks = append(m.Fallbacks, f)
			v.Map(
				document.Required("metric", words(&f.Metric, 512)), document.Optional("failureDuration", r.duration(&f.FailureDuration, 0, time.Hour)),
				document.Optional("replicas", count(&f.Replicas, 1)), document.Optional("ignore", flag(&f.Ignore)), document.Optional("direction", oneOf(&f.Direction, "BOTH", "UP_ONLY")),
				document.Optional("lastGood", func(v document.Value) {
					f.LastGood = &setpointv1.LastGood{}
					v.Map(document.Required("maxAge", r.duration(&f.LastGood.MaxAge, time.Second, 24*time.Hour)))
				}),
			)
		})),
		document.Optional("zeroGuards", each(16, func(v document.Value) {
			g := &setpointv1.ZeroGuard{}
			m.ZeroGuards = append(m.ZeroGuards, g)
			v.Map(document.Required("metric", words(&g.Metric, 512)), document.Optional("dropPercent", between(&g.DropPercent, 0, 100)),
				document.Optional("confirm", r.duration(&g.Confirm, time.Second, time.Hour)))
		})),
		document.Optional("combine", func(v document.Value) {
			m.Combine = &setpointv1.Combine{}
			v.Map(document.Optional("method", oneOf(&m.Combine.Method, "MAX", "MIN", "QUORUM", "WEIGHTED", "SUM")),
				document.Optional("quorum", between(&m.Combine.Quorum, 0, 1<<31-1)), document.Optional("weights", byMetric(&m.Combine.Weights)))
		}),
		document.Optional("schedules", each(64, func(v document.Value) {
			one := &setpointv1.Schedule{}
			m.Schedules = append(m.Schedules, one)
			r.schedule(v, one)
		})),
		document.Optional("forecast", func(v document.Value) {
			f := &setpointv1.Forecast{}
			m.Forecast = f
			v.Map(document.Required("timeZone", words(&f.TimeZone, 64)), document.Optional("mode", oneOf(&f.Mode, "FORECAST_ONLY", "FLOOR")),
				document.Optional("season", oneOf(&f.Season, "DAILY", "WEEKLY")), document.Optional("lead", r.duration(&f.Lead, 0, time.Hour)),
				document.Optional("quantilePercent", between(&f.QuantilePercent, 0, 100)),
				document.Optional("maxPercentOfMax", between(&f.MaxPercentOfMax, 0, 100)))
		}),
		document.Optional("idle", func(v document.Value) {
			m.Idle = &setpointv1.IdleScaling{}
			v.Map(document.Optional("activation", byMetric(&m.Idle.Activation)), document.Optional("cooldown", r.duration(&m.Idle.Cooldown, 0, 24*time.Hour)),
				document.Optional("initialCooldown", r.duration(&m.Idle.InitialCooldown, 0, 24*time.Hour)))
		}),
		document.Optional("guards", func(v document.Value) {
			m.Guards = &setpointv1.Guards{}
			v.Map(document.Optional("ignoreSurge", flag(&m.Guards.IgnoreSurge)), document.Optional("reversals", func(v document.Value) {
				b := &setpointv1.ReversalBudget{}
				m.Guards.Reversals = b
				v.Map(document.Required("count", between(&b.Count, 1, 15)), document.Required("period", r.duration(&b.Period, time.Minute, 24*time.Hour)),
					document.Optional("hold", r.duration(&b.Hold, time.Minute, 24*time.Hour)))
			}))
		}),
		document.Optional("windowThroughFailures", flag(&m.WindowThroughFailures)),
	)
}

// nameOfSchedule is stages.proto's pattern.
var nameOfSchedule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (r staged) schedule(v document.Value, s *setpointv1.Schedule) {
	v.Map(
		document.Required("name", func(v document.Value) {
			if words(&s.Name, 63)(v); s.Name != "" && !nameOfSchedule.MatchString(s.Name) {
				v.Refuse("must be of a–z, 0–9 and -")
			}
		}),
		document.Required("timeZone", words(&s.TimeZone, 64)),
		document.Optional("cron", words(&s.Cron, 256)), document.Optional("endCron", words(&s.EndCron, 256)),
		document.Optional("at", func(v document.Value) {
			if at, ok := v.Time(); ok {
				s.At = timestamppb.New(at)
			}
		}),
		document.Optional("duration", r.duration(&s.Duration, time.Minute, 31*24*time.Hour)),
		document.Optional("minReplicas", count(&s.MinReplicas, 0)), document.Optional("maxReplicas", count(&s.MaxReplicas, 1)),
		document.Optional("rampUp", r.duration(&s.RampUp, 0, 6*time.Hour)), document.Optional("rampDown", r.duration(&s.RampDown, 0, 6*time.Hour)),
		document.Optional("minPace", oneOf(&s.MinPace, "AT_ONCE", "PACED")), document.Optional("maxPace", oneOf(&s.MaxPace, "AT_ONCE", "PACED")),
		document.Optional("suspended", flag(&s.Suspended)),
	)
}

// inSeconds is a duration in JSON of Protobuf.
var inSeconds = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?s$`)

func (r staged) duration(to **durationpb.Duration, least, most time.Duration) func(document.Value) {
	return func(v document.Value) {
		text, ok := v.Text()
		if !ok {
			return
		}
		d, err := document.ParseDuration(text)
		switch {
		case r.seconds && !inSeconds.MatchString(text):
			v.Refuse("must be a number of seconds, such as 300s")
		case err != nil:
			v.Refuse("must be a duration, such as 300s")
		case d < least || d > most:
			v.Refuse("is %s, must be between %s and %s", d, least, most)
		default:
			*to = durationpb.New(d)
		}
	}
}

// each reads a list of at most that length.
func each(most int, read func(document.Value)) func(document.Value) {
	return func(v document.Value) {
		v.ListOrNone(func(i int, element document.Value) {
			if i == most {
				v.Refuse("may have at most %d", most)
			}
			if i < most {
				read(element)
			}
		})
	}
}

// words reads a text that is not empty.
func words(to *string, most int) func(document.Value) {
	return func(v document.Value) {
		if text, ok := v.Text(); ok {
			if *to = text; len([]rune(text)) > most {
				v.Refuse("must have at most %d characters", most)
			}
		}
	}
}

func oneOf(to *string, allowed ...string) func(document.Value) {
	return func(v document.Value) {
		if text, ok := v.TextOrEmpty(); ok {
			if *to = text; text != "" && !slices.Contains(allowed, text) {
				v.Refuse("must be %s", strings.Join(allowed, ", "))
			}
		}
	}
}

func flag(to *bool) func(document.Value) {
	return func(v document.Value) { *to, _ = v.Bool() }
}

func between(to *int32, least, most int64) func(document.Value) {
	return func(v document.Value) {
		n, _ := v.Int(least, most)
		*to = int32(n)
	}
}

func count(to **int32, least int64) func(document.Value) {
	return func(v document.Value) {
		if n, ok := v.Int(least, 1<<31-1); ok {
			*to = new(int32(n))
		}
	}
}

// byMetric reads quantities by metric.
func byMetric(to *map[string]string) func(document.Value) {
	return func(v document.Value) {
		*to = map[string]string{}
		v.Entries(func(key string, _, value document.Value) {
			if text, ok := value.Raw(); ok {
				(*to)[key] = text
			}
			if len(*to) == 65 {
				v.Refuse("may have at most 64")
			}
		})
	}
}

// misplaced says where the stages of a spec belong that is exported as another kind; empty: they move with it.
func (s *spec) misplaced(kind string) string {
	switch inSpec := strings.HasPrefix(s.stagesAt, "spec."); {
	case s.stages == nil || inSpec == (kind == autoscaler):
		return ""
	case inSpec:
		return fmt.Sprintf("%s has no place for stages in its spec: write them as JSON into the annotation %s", kind, stagesAnnotation)
	}
	return fmt.Sprintf("%s has its stages in spec.stages, not in an annotation: move them", kind)
}

// withoutSchedules are stages without schedules: what lint says of these depends on the time.
func withoutSchedules(p *stages.Plan) *stages.Plan {
	if p == nil {
		return nil
	}
	out := *p
	out.Schedules = nil
	return &out
}
