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

// ports are those that freePort gave away. They stay their servers' while those
// are down.
var ports sync.Map

// freePort returns an unused port. It is below those that systems
// give to outgoing connections, as one of these would keep a server from coming
// back to its port.
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
