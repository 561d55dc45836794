package stages

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// raise is a minimum that may count.
type raise struct {
	minimum
	title, rule string
	// schedule is nil for a proposal.
	schedule *Schedule
}

// ramp says in a sentence of which ramp it is a part; empty: of none.
func (r *raise) ramp() string {
	if r.schedule == nil {
		return ""
	}
	return r.schedule.ramp(&r.minimum)
}

// higher returns the one with more replicas, of two that are equal the first.
func higher(a, b raise) raise {
	if b.replicas > a.replicas {
		return b
	}
	return a
}

// ceiling is a maximum that may count; below 0 there is none.
type ceiling struct {
	limit
	title string
}

var noCeiling = ceiling{limit: limit{replicas: -1}}

// lower returns the one with fewer replicas, of two that are equal the first.
func lower(a, b ceiling) ceiling {
	if a.replicas < 0 || b.replicas >= 0 && b.replicas < a.replicas {
		return b
	}
	return a
}

// bounds edits the spec's bounds by schedules that act at once and by the caller's floors, and collects
// the limits and votes of those that are paced.
func (r *run) bounds() {
	if len(r.plan.Schedules) == 0 && len(r.Proposals) == 0 {
		return
	}
	atOnce, paced := raise{minimum: noMinimum}, raise{minimum: noMinimum}
	most, limited := noCeiling, noCeiling
	r.scheduled(&atOnce, &paced, &most, &limited)
	for _, of := range []*raise{&atOnce, &paced} {
		if of.schedule != nil {
			of.title, of.rule = of.schedule.title(), of.schedule.rule()
		}
	}
	var voters []*Proposal
	for i := range r.Proposals {
		p := &r.Proposals[i]
		title, rule := fmt.Sprintf("proposal %q", p.Name), ruleOf("proposal/", p.Name)
		if !r.now.Before(p.Expires) {
			r.tell(recommender.Adjustment{Stage: recommender.StageProposal, Rule: rule, Before: -1, After: -1,
				Message: fmt.Sprintf("%s of %d expired at %s and does not count", title, p.Replicas, p.Expires.UTC().Format(time.RFC3339Nano))})
			continue
		}
		switch p.Role {
		case Floor:
			atOnce = higher(atOnce, raise{minimum: minimum{replicas: p.Replicas, until: p.Expires}, title: title, rule: rule})
		case Voter:
			voters = append(voters, p)
		case Cap:
			limited = lower(limited, ceiling{limit{replicas: p.Replicas, stage: recommender.StageProposal, rule: rule, until: p.Expires}, title})
		}
	}
	r.atOnce(&atOnce, &most, lower(most, limited))
	if paced.replicas >= 0 {
		r.hasLeast = true
		r.vote(paced.title+paced.ramp(), paced.rule, recommender.StageSchedule, paced.until, paced.replicas)
	}
	for _, p := range voters {
		r.vote(fmt.Sprintf("proposal %q", p.Name), ruleOf("proposal/", p.Name), recommender.StageProposal, p.Expires, p.Replicas)
	}
	if limited.replicas >= 0 {
		// A minimum counts more.
		own, note := limited.replicas, ""
		if limited.replicas = max(own, paced.replicas, r.in.Spec.MinReplicas); limited.replicas > own {
			switch {
			case limited.replicas > r.in.Spec.MinReplicas:
				note = fmt.Sprintf(", not to %d: %s has more", own, paced.title)
			case limited.replicas > r.original.Spec.MinReplicas:
				note = fmt.Sprintf(", not to %d: %s raises minReplicas", own, atOnce.title)
			default:
				note = fmt.Sprintf(", not to %d: minReplicas is more", own)
			}
		}
		title, replicas := limited.title, limited.replicas
		limited.message = func(before int32) string {
			return fmt.Sprintf("%s limits the proposal of %d to %d%s", title, before, replicas, note)
		}
		r.caps = append(r.caps, limited.limit)
	}
}

// rampBases are where ramps begin and end: at the minimum without their schedule. A ramp that acts at once leaves out the
// paced minimums, which may not be reached yet.
type rampBases struct{ atOnce, paced int32 }

// add counts the minimum of an active schedule.
func (b *rampBases) add(s *Schedule) {
	if b.paced = max(b.paced, s.Min); !s.MinPaced {
		b.atOnce = max(b.atOnce, s.Min)
	}
}

// of is where the ramps of a schedule begin, at most at maxReplicas.
func (b *rampBases) of(s *Schedule, most int32) int32 {
	if s.MinPaced {
		return min(b.paced, most)
	}
	return min(b.atOnce, most)
}

// rampBases are those of now.
func (r *run) rampBases() rampBases {
	b := rampBases{r.in.Spec.MinReplicas, r.in.Spec.MinReplicas}
	if !slices.ContainsFunc(r.plan.Schedules, func(s Schedule) bool { return s.RampUp > 0 || s.RampDown > 0 }) {
		return b
	}
	for i := range r.plan.Schedules {
		if s := &r.plan.Schedules[i]; !s.Suspended && s.Min > r.in.Spec.MinReplicas && s.Times.At(r.now).Active {
			b.add(s)
		}
	}
	return b
}

// scheduled finds the largest minimum and the smallest maximum of the schedules, by pace.
func (r *run) scheduled(atOnce, paced *raise, most, limited *ceiling) {
	bases := r.rampBases()
	for i := range r.plan.Schedules {
		s := &r.plan.Schedules[i]
		if s.Suspended {
			continue
		}
		p := s.Times.At(r.now)
		if m := s.minimum(r.now, &p, bases.of(s, r.in.Spec.MaxReplicas)); m.replicas >= 0 {
			of := atOnce
			if s.MinPaced {
				of = paced
			}
			if m.replicas > of.replicas {
				*of = raise{minimum: m, schedule: s}
			}
		}
		if s.Max < 0 || !p.Active {
			continue
		}
		of := limited
		if s.MaxAtOnce {
			of = most
		}
		if of.replicas < 0 || s.Max < of.replicas {
			*of = ceiling{limit{replicas: s.Max, stage: recommender.StageSchedule, rule: s.rule(), until: p.Until}, s.title()}
		}
	}
}

// atOnce edits the bounds of the spec, inside the object's own. lowest is the smallest ceiling of all: a floor above
// it counts more.
func (r *run) atOnce(floor *raise, top *ceiling, lowest ceiling) {
	spec := &r.in.Spec
	least, most := spec.MinReplicas, spec.MaxReplicas
	if floor.replicas > least && least < most {
		note := floor.ramp()
		if floor.replicas > most {
			note = fmt.Sprintf(", limited to maxReplicas %d", most)
		}
		spec.MinReplicas = min(floor.replicas, most)
		if lowest.replicas >= 0 && lowest.replicas < spec.MinReplicas {
			note += fmt.Sprintf("; that counts more than the %d of %s", lowest.replicas, lowest.title)
		}
		r.edited, r.in.OwnMin = true, &r.original.Spec.MinReplicas
		r.tell(recommender.Adjustment{Stage: recommender.StageBounds, Rule: floor.rule, Before: least, After: spec.MinReplicas, Until: floor.until,
			Message: fmt.Sprintf("%s raises minReplicas from %d to %d%s", floor.title, least, spec.MinReplicas, note)})
	}
	if top.replicas < 0 || top.replicas >= most || spec.MinReplicas >= most {
		return
	}
	note := ""
	if top.replicas < spec.MinReplicas {
		note = fmt.Sprintf(", limited to minReplicas %d", spec.MinReplicas)
	}
	spec.MaxReplicas = max(top.replicas, spec.MinReplicas)
	r.edited = true
	r.tell(recommender.Adjustment{Stage: recommender.StageBounds, Rule: top.rule, Before: most, After: spec.MaxReplicas, Until: top.until,
		Message: fmt.Sprintf("%s lowers maxReplicas from %d to %d%s", top.title, most, spec.MaxReplicas, note)})
}
