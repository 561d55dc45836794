package decision

import (
	"context"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/store"
)

// shadowing is a change: the record gets the shadows of the target's stored spec.
type shadowing struct {
	*Targets
	target   string
	kept     []byte
	attempts int
	done     bool
	err      error
}

// SetShadows puts the shadows of a target's stored spec, as shadows.Specs returns them, into its record; nil: there are
// none. A target without a record gets them with its first decision.
func (t *Targets) SetShadows(ctx context.Context, target string, kept []byte) error {
	c, key := &shadowing{Targets: t, target: target, kept: kept}, ParseTarget(target)
	if t.outage.has(key) {
		if err := t.outage.writeBack(ctx, key); err != nil {
			return apierror.OfStore(ctx, target, err)
		}
	}
	t.change(ctx, key, c, store.Record{}, false)
	return c.err
}

// next implements change.
func (c *shadowing) next(stored store.Record, _ bool, _ []byte) []byte {
	c.attempts++
	if c.done = !stored.Exists(); c.done {
		return nil
	}
	known, err := record.Decode(stored.Value)
	if err != nil {
		c.Log.Error("stored history unreadable", zap.String("target", c.target), zap.Error(err))
		c.err = apierror.OfHistory(c.target, err)
		return nil
	}
	next, changed := shadows.WithSpecs(known.Shadows, c.kept)
	if c.done = !changed; c.done {
		return nil
	}
	known.Shadows = next
	return record.Append(nil, &known)
}

// ended implements change.
func (c *shadowing) ended() bool { return c.done || c.err != nil }

// undoGuess implements change: it is based on the stored record.
func (c *shadowing) undoGuess() bool { return false }

// swapped implements change.
func (c *shadowing) swapped(result store.SwapResult, _ []byte) {
	if c.done = result.Swapped; !c.done && c.attempts >= c.Options.MaxAttempts {
		c.err = apierror.Contended(c.target, c.attempts)
	}
}

// fail implements change.
func (c *shadowing) fail(ctx context.Context, err error, _ bool) {
	c.err = apierror.OfStore(ctx, c.target, err)
}
