package faults

import (
	"testing"
)

// toxic begins a fault that is one toxic.
func toxic(kind, stream string, a attributes) func(*testing.T, *rig) func() {
	return func(t *testing.T, r *rig) func() {
		r.proxy.add(t, kind, stream, a)
		return func() { r.proxy.clear(t) }
	}
}

func TestABrokenNetworkIsRefusedAndRecoversAlone(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{
			name: "connections are refused", trips: true, clean: true,
			begin: func(t *testing.T, r *rig) func() {
				r.proxy.disable()
				return func() { r.proxy.enable(t) }
			},
		},
		{name: "connections are reset by the first request", trips: true, clean: true, begin: toxic("reset_peer", "upstream", attributes{"timeout": 0})},
		{name: "connections are reset by the first reply", trips: true, begin: toxic("reset_peer", "downstream", attributes{"timeout": 0})},
		{name: "connections end within a request", trips: true, clean: true, begin: toxic("limit_data", "upstream", attributes{"bytes": 20})},
		{name: "connections end within a reply", trips: true, begin: toxic("limit_data", "downstream", attributes{"bytes": 3})},
		{name: "requests vanish", trips: true, clean: true, begin: toxic("timeout", "upstream", attributes{"timeout": 0})},
		{name: "replies vanish", trips: true, begin: toxic("timeout", "downstream", attributes{"timeout": 0})},
		{name: "replies come later than the timeout", trips: true, begin: toxic("latency", "downstream", attributes{"latency": 3 * timeout.Milliseconds()})},
		{name: "requests come later than the timeout", trips: true, begin: toxic("latency", "upstream", attributes{"latency": 3 * timeout.Milliseconds()})},
	} {
		t.Run(f.name, f.run)
	}
}
