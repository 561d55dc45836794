//go:build linux

package service

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// ports are three ports of an instance, its own also while it is down: a UDP socket
// on the same number keeps other tests of other processes away, which ask for one
// before they take a port.
type ports struct {
	numbers [3]int
	held    []net.PacketConn
}

// Ports are below those that systems give to outgoing connections, one of which
// would keep a service from coming back to its port.
const (
	firstPort = 30000
	portCount = 2700
)

func reservePorts() (*ports, error) {
	p := &ports{}
	for i := range p.numbers {
		if err := p.reserve(i); err != nil {
			p.release()
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) reserve(i int) error {
	for range 1000 {
		p.numbers[i] = firstPort + rand.IntN(portCount)
		held, err := net.ListenPacket("udp", p.address(i))
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", p.address(i))
		if err = errors.Join(err, closed(free)); err != nil {
			_ = held.Close()
			continue
		}
		p.held = append(p.held, held)
		return nil
	}
	return fmt.Errorf("found no free port from %d to %d", firstPort, firstPort+portCount-1)
}

func closed(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func (p *ports) address(i int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.numbers[i]))
}

func (p *ports) release() {
	for _, held := range p.held {
		_ = held.Close()
	}
	p.held = nil
}
