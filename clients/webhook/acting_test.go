package webhook_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Two agents know the webhook alike if they have one secret in common, whatever its name and place,
// and nobody knows it without a secret.
func TestTheIdentityOfAWebhook(t *testing.T) {
	t.Parallel()
	const other = "fedcba9876543210fedcba9876543210"
	acting := func(keys string) []agent.Acting {
		t.Helper()
		w := newWorld(t)
		w.writeKeys(keys)
		acts, err := w.client.Acting(t.Context())
		fatal.If(t, err)
		return acts
	}
	one := acting("k1:" + secret)
	both := acting("new:" + other + "\nold:" + secret)
	if len(one) != 1 || len(both) != 2 || both[1].Platform != one[0].Platform || both[0].Platform == one[0].Platform {
		t.Errorf("with one secret %v, with both %v", one, both)
	}
}
