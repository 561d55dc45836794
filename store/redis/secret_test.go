package redis_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// All instances agree on a secret, also those that ask first at once, and after Redis has
// lost it.
func TestInstancesAgreeOnSecrets(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	const instances = 8
	agree := func(name string) []byte {
		t.Helper()
		secrets := make([][]byte, instances)
		var asking sync.WaitGroup
		for i := range instances {
			s := open(t, server.URL(), prefix, nil)
			asking.Go(func() {
				var err error
				if secrets[i], err = s.Secret(t.Context(), name, []byte{byte(i), 0, 0xff, '\n'}); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		for _, secret := range secrets {
			if len(secret) != 4 || !bytes.Equal(secret, secrets[0]) {
				t.Fatalf("they disagree: %q", secrets)
			}
		}
		return secrets[0]
	}
	first := agree("a")
	if again := agree("a"); !bytes.Equal(first, again) {
		t.Errorf("it was %q, and is %q", first, again)
	}
	fatal.If(t, server.Client(t).Del(t.Context(), prefix+"secret:a").Err())
	agree("a")
}
