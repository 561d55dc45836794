//go:build unix

package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const host = "127.0.0.1"

// ports are those that freePort returned. They stay reserved while their server is
// down.
var ports sync.Map

// freePort returns an unused port below the ephemeral range, because an outgoing
// connection could take the port of a server that is down.
func freePort() (int, error) {
	const first, count = 20000, 10000
	for range 1000 {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, fmt.Errorf("found no free port from %d to %d", first, first+count-1)
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
