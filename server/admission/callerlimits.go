package admission

import (
	"fmt"
	"math"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// limitsOf returns the policy's limits for a caller.
func (g *Guard) limitsOf(identity string) (limit.Limits, bool) { return g.callerLimits.Get(identity) }

// noteLimits passes the policy's limits for a caller on to the limiter.
func (g *Guard) noteLimits(c *access.Caller) {
	if g.Limiter == nil {
		return
	}
	own := c.Grants.Limits()
	limits := g.options.Limits.Identity
	replace := func(into *int, value int) {
		switch value {
		case 0:
		case policy.Unlimited:
			*into = 0
		default:
			*into = value
		}
	}
	replace(&limits.InFlight, own.InFlight)
	replace(&limits.Streams, own.Streams)
	switch {
	case math.IsInf(own.RequestsPerSecond, 1):
		limits.Rate, limits.Burst = 0, 0
	case own.RequestsPerSecond > 0:
		limits.Rate, limits.Burst = own.RequestsPerSecond, own.Burst
	case own.Burst > 0 && limits.Rate > 0:
		limits.Burst = own.Burst
	}
	before, known := g.callerLimits.Get(c.Identity.Name)
	if limits == g.options.Limits.Identity && !known || known && before == limits {
		return
	}
	g.callerLimits.Put(c.Identity.Name, limits)
	g.Limiter.Reload()
}

// newLimiter creates the limiter of the options.
func (g *Guard) newLimiter() error {
	if g.options.Limits.InFlight == 0 {
		return nil
	}
	options := g.options.Limits
	options.Limits = g.limitsOf
	g.callerLimits = bounded.New[string, limit.Limits](options.MaxIdentities)
	var err error
	if g.Limiter, err = limit.New(options); err != nil {
		return err
	}
	if g.options.Registerer != nil {
		if err := g.options.Registerer.Register(limitMetrics{g.Limiter}); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
