//go:build linux

package pods

import "testing"

// The last address of a node's is 254; one more would be that of a broadcast, and then no address.
func TestAddressesOfANodeEnd(t *testing.T) {
	t.Parallel()
	n := &names{prefix: "127.23.42."}
	for _, c := range []struct {
		i    int
		want string // "": none
	}{{0, ""}, {1, ""}, {2, "127.23.42.2"}, {254, "127.23.42.254"}, {255, ""}, {1000, ""}} {
		got, err := n.address(c.i)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("address %d is %q, %v; want %q", c.i, got, err, c.want)
		}
	}
}
