package pagetoken_test

import (
	"context"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/store"
)

// kept is a store that keeps a secret until it is deleted.
type kept struct {
	store.Store
	secret []byte
}

func (k *kept) Secret(_ context.Context, _ string, proposal []byte) ([]byte, error) {
	if k.secret == nil {
		k.secret = slices.Clone(proposal)
	}
	return k.secret, nil
}

// Whoever deletes the key ends all listings: the instance that made it makes another one.
func TestADeletedKeyDoesNotComeBack(t *testing.T) {
	t.Parallel()
	engine := new(kept)
	tokens := pagetoken.New(engine)
	var keys [3]pagetoken.Key
	for i := range keys {
		var err error
		keys[i], err = tokens.Key(t.Context())
		fatal.If(t, err)
		if i == 1 {
			engine.secret = nil
		}
	}
	if keys[0] != keys[1] || keys[1] == keys[2] {
		t.Errorf("the same key while it is there: %v, and once it is deleted: %v", keys[0] == keys[1], keys[1] == keys[2])
	}
}
