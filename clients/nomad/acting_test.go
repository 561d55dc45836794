package nomad_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A region is known by the ids of its keys, in whatever order; servers without keys have no id.
func TestTheIdentityOfARegion(t *testing.T) {
	t.Parallel()
	platform := func(status int, answer, namespace string) (string, []string) {
		t.Helper()
		served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/.well-known/jwks.json" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(answer))
		}))
		defer served.Close()
		acts, err := nomad.Acting(t.Context(), connect(t, nomad.Config{Address: served.URL}), namespace)
		fatal.If(t, err)
		if len(acts) == 0 {
			return "", nil
		}
		return acts[0].Platform, acts[0].Namespaces
	}
	one, all := platform(200, `{"keys": [{"kid": "b", "kty": "RSA"}, {"kid": "a"}]}`, "*")
	same, some := platform(200, `{"keys": [{"kid": "a"}, {"kid": "b"}]}`, "shop")
	other, _ := platform(200, `{"keys": [{"kid": "c"}]}`, "*")
	if one == "" || one != same || one == other || all != nil || !slices.Equal(some, []string{"shop"}) {
		t.Errorf("regions are %q, %q and %q, of the namespaces %q and %q", one, same, other, all, some)
	}
	for _, none := range []string{`{"keys": []}`, `{"keys": null}`} {
		if got, _ := platform(200, none, "*"); got != "" {
			t.Errorf("without keys a region is %q", got)
		}
	}
	if got, _ := platform(404, "not found", "*"); got != "" {
		t.Errorf("an old server's region is %q", got)
	}
}
