package target_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/target"
)

func TestWhole(t *testing.T) {
	for text, want := range map[string]string{
		"all/shop/web": "clusters/all/namespaces/shop/targets/web",
		// All else stays as it is.
		"": "", "web": "web", "hpa/web": "hpa/web", "a//b": "a//b", "a/../b": "a/../b", "a/-/b": "a/-/b", "a/b/c/d": "a/b/c/d", "clusters/a/b": "clusters/a/b",
		"clusters/a": "clusters/a", "clusters/a/namespaces/b": "clusters/a/namespaces/b", "clusters/a/namespaces/b/targets/c": "clusters/a/namespaces/b/targets/c",
	} {
		if got := target.Whole(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
