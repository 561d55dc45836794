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
		{"setpoint:9091", "dns:///setpoint:9091", []string{"setpoint:9091"}},
		{"setpoint", "dns:///setpoint:9090", []string{"setpoint:9090"}},
		{"localhost:9090", "dns:///localhost:9090", []string{"localhost:9090"}},
		{"10.0.0.1", "dns:///10.0.0.1:9090", []string{"10.0.0.1:9090"}},
		{"::1", "dns:///[::1]:9090", []string{"[::1]:9090"}},
		{"[::1]", "dns:///[::1]:9090", []string{"[::1]:9090"}},
		{"[::1]:9", "dns:///[::1]:9", []string{"[::1]:9"}},
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
	for _, target := range []string{"", ",", "a:1,", ":9090", "a:", "a b:1", "a:1:2", "/run/setpoint.sock", "a/b:1", "http://a:1", "https://a:1/v1"} {
		if _, err := setpoint.New(target, setpoint.WithInsecure()); err == nil {
			t.Errorf("%q is taken for a target", target)
		}
	}
}

func TestOnLoopback(t *testing.T) {
	for target, want := range map[string]bool{
		"localhost": true, "127.0.0.1:9090": true, "127.8.8.8": true, "[::1]:9090": true, "::1": true, "localhost:1,127.0.0.1:2": true,
		"localhost,setpoint": false, "setpoint:9090": false, "10.0.0.1": false, "localhost.example.org": false, "0.0.0.0:9090": false,
		"dns:///localhost:9090": false, "unix:///run/setpoint.sock": false, "": false,
	} {
		if got := setpoint.OnLoopback(target); got != want {
			t.Errorf("%q: %t, want %t", target, got, want)
		}
	}
}
