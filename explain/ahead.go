package explain

import (
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// writeAhead writes when schedules start and end next. The steps of their ramps are left out.
func (c *oneCase) writeAhead(p *page, all []*setpointv1.OutlookBounds) {
	if len(all) == 0 {
		return
	}
	bounds := func(b *setpointv1.OutlookBounds) string {
		return "minReplicas " + number(b.GetMinReplicas()) + ", maxReplicas " + number(b.GetMaxReplicas())
	}
	p.heading("Schedules", bounds(all[0])+" from "+c.clock.time(all[0].GetTime().AsTime())+" on")
	for _, b := range all[1:] {
		if event := clean(b.GetEvent()); event != "" {
			p.line(2, 2, plain, c.clock.at(b.GetTime())+": "+event+": "+bounds(b))
		}
	}
}
