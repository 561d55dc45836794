package explain

import (
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// writeAhead writes when schedules start and end next. The steps of their ramps are left out.
func (c *oneCase) writeAhead(p *page, ahead []*setpointv1.OutlookBounds) {
	lines := c.clock.schedules(c.req.GetStages(), ahead)
	if len(ahead) == 0 && len(lines) == 0 {
		return
	}
	from := ""
	if len(ahead) > 0 {
		from = boundsText(ahead[0]) + " from " + c.clock.time(ahead[0].GetTime().AsTime()) + " on"
	}
	p.heading("Schedules", from)
	for _, line := range lines {
		p.line(2, 2, plain, line)
	}
}

// Schedules says when the schedules of stages start and end next, in their zones and in UTC, and which are suspended or
// over. ahead are the bounds that they make from now on, as an outlook has them.
func Schedules(stages *setpointv1.Stages, ahead []*setpointv1.OutlookBounds, now time.Time) []string {
	lines := clock{now: now, zone: time.UTC}.schedules(stages, ahead)
	for i := range lines {
		lines[i] = spaces(lines[i])
	}
	return lines
}

func (c clock) schedules(stages *setpointv1.Stages, ahead []*setpointv1.OutlookBounds) (lines []string) {
	for _, b := range ahead[min(1, len(ahead)):] {
		event := clean(b.GetEvent())
		if event == "" {
			continue
		}
		at := b.GetTime().AsTime()
		when := c.in(at, c.zone) + " (" + c.relative(at) + ")"
		for _, s := range stages.GetSchedules() {
			of := `schedule "` + s.GetName() + `" `
			if zone, err := time.LoadLocation(s.GetTimeZone()); err == nil && strings.HasPrefix(event, of) && zone.String() != c.zone.String() {
				when = c.in(at, zone) + " (" + c.in(at, c.zone) + "," + nbsp + c.relative(at) + ")"
			}
		}
		lines = append(lines, event+" at "+when+": "+boundsText(b))
	}
	for _, s := range stages.GetSchedules() {
		title := `schedule "` + clean(s.GetName()) + `" `
		switch {
		case s.GetSuspended():
			lines = append(lines, title+"is suspended")
		case s.GetAt() != nil && isOver(s, c.now):
			lines = append(lines, title+"is over: it starts no more")
		}
	}
	return lines
}

// isOver reports whether a schedule was active for the last time.
func isOver(s *setpointv1.Schedule, now time.Time) bool {
	times, err := schedule.Compile(schedule.Text{Zone: s.GetTimeZone(), At: s.GetAt().AsTime(), Duration: s.GetDuration().AsDuration(), EndCron: s.GetEndCron()})
	if err != nil {
		return false
	}
	period := times.At(now)
	return !period.Active && period.Until.IsZero()
}

func boundsText(b *setpointv1.OutlookBounds) string {
	return "minReplicas " + number(b.GetMinReplicas()) + ", maxReplicas " + number(b.GetMaxReplicas())
}

// in is the time of day in a zone with its name, without seconds if there are none; with the date where that is
// another there.
func (c clock) in(t time.Time, zone *time.Location) string {
	return strings.TrimSuffix(clock{c.now, zone}.time(t), ":00") + nbsp + zone.String()
}
