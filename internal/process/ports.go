package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are the ports of an instance, also while it is down: a UDP socket on the same
// number keeps other tests away, which reserve a port the same way before they use it.
type Ports struct {
	numbers []int
	held    []net.PacketConn
}

// They are below the ephemeral range, because an outgoing connection could take the
// port of a service that is down.
const (
	firstPort = 30000
	portCount = 2700
)

// Reserve finds n ports. Callers must release them.
func Reserve(n int) (*Ports, error) {
	p := &Ports{numbers: make([]int, n)}
	for i := range p.numbers {
		if err := p.reserve(i); err != nil {
			p.Release()
			return nil, err
		}
	}
	return p, nil
}

func (p *Ports) reserve(i int) error {
	for range 1000 {
		p.numbers[i] = firstPort + rand.IntN(portCount)
		held, err := net.ListenPacket("udp", p.Address(i))
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", p.Address(i))
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

// Address returns host and port of the ith port.
func (p *Ports) Address(i int) string {
	return net.JoinHostPort("127.0.0.1", p.Number(i))
}

// Number returns the ith port.
func (p *Ports) Number(i int) string { return strconv.Itoa(p.numbers[i]) }

// Release gives the ports back.
func (p *Ports) Release() {
	for _, held := range p.held {
		_ = held.Close()
	}
	p.held = nil
}
