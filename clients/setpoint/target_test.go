package setpoint_test

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

func TestTargets(t *testing.T) {
	for _, tt := range []struct {
		target, dial string
		list         []string
	}{
		{"setpoint:9091", "dns:///setpoint:9091", nil},
		{"setpoint", "dns:///setpoint:9090", nil},
		{"localhost:9090", "dns:///localhost:9090", nil},
		{"10.0.0.1", "dns:///10.0.0.1:9090", nil},
		{"::1", "dns:///[::1]:9090", nil},
		{"[::1]", "dns:///[::1]:9090", nil},
		{"[::1]:9", "dns:///[::1]:9", nil},
		{"a:1, b ,a:1", "setpoint:///a:1%2Cb:9090", []string{"a:1", "b:9090"}},
		{"dns:///setpoint:9090", "dns:///setpoint:9090", nil},
		{"dns:setpoint:9090", "dns:setpoint:9090", nil},
		{"unix:///run/setpoint.sock", "unix:///run/setpoint.sock", nil},
		{"unix:/run/setpoint.sock", "unix:/run/setpoint.sock", nil},
	} {
		t.Run(tt.target, func(t *testing.T) {
			dial, list, err := setpoint.ReadTarget(tt.target)
			if err != nil || dial != tt.dial || !slices.Equal(list, tt.list) {
				t.Errorf("got %q, %q, %v, want %q, %q", dial, list, err, tt.dial, tt.list)
			}
		})
	}
	for _, target := range []string{"", ",", "a:1,", ":9090", "a:", "a b:1", "a:1:2", "/run/setpoint.sock", "a/b:1"} {
		if _, err := setpoint.New(target, setpoint.WithInsecure()); err == nil {
			t.Errorf("%q is taken for a target", target)
		}
	}
}
