//go:build linux

package pods

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// names is DNS of a cluster: A records of Services, by names within one namespace.
type names struct {
	conn   net.PacketConn
	prefix string // of the node's addresses: "127.23.42."
	lookup func(service string) []net.IP
}

// count is how many a node has: 127.x.y.1, that of DNS, to 127.x.y.254.
const count = 254

// listen finds addresses that no other node uses, the first of which is for DNS.
func listen(lookup func(string) []net.IP) (*names, error) {
	var errs []error
	for range 100 {
		prefix := fmt.Sprintf("127.%d.%d.", 16+rand.IntN(200), rand.IntN(256))
		conn, err := net.ListenPacket("udp4", prefix+"1:53")
		if err == nil {
			return &names{conn: conn, prefix: prefix, lookup: lookup}, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (n *names) dns() string { return n.prefix + "1" }

// address is the node's ith address, from 2. Addresses are never reused within a prefix: a
// client of an ended pod must not reach another one.
func (n *names) address(i int) (string, error) {
	if i < 2 || i > count {
		return "", fmt.Errorf("the node has no address %d: one node gives out %d in a test, its DNS among them, and none of them twice: start fewer pods, or another node", i, count)
	}
	return fmt.Sprintf("%s%d", n.prefix, i), nil
}

func (n *names) close() { _ = n.conn.Close() }

// serve answers until close.
func (n *names) serve() {
	buffer := make([]byte, 4096)
	for {
		length, from, err := n.conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if answer := n.answer(buffer[:length]); answer != nil {
			_, _ = n.conn.WriteTo(answer, from) // the client retries
		}
	}
}

// answer returns nil for an invalid question.
func (n *names) answer(question []byte) []byte {
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil || message.Response || len(message.Questions) != 1 {
		return nil
	}
	q := message.Questions[0]
	message.Response, message.RecursionAvailable = true, true
	message.Additionals = nil
	service, domain, _ := strings.Cut(strings.TrimSuffix(q.Name.String(), "."), ".")
	_, domain, _ = strings.Cut(domain, ".") // the only namespace
	addresses := n.lookup(service)
	if domain != "svc.cluster.local" || addresses == nil {
		message.RCode = dnsmessage.RCodeNameError
		addresses = nil
	}
	if q.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 5},
				Body:   &dnsmessage.AResource{A: [4]byte(address.To4())},
			})
		}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	return packed
}
