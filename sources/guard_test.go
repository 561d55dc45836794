package sources

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/samples"
	failure "github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

func TestAddressesThatNoNameMayLeadTo(t *testing.T) {
	for address, allowed := range map[string]bool{
		"10.0.0.7:9090":                true,
		"192.168.1.1:80":               true,
		"[fd12:3456::1]:9090":          true,
		"[2001:db8::1]:443":            true,
		"127.0.0.1:9090":               false,
		"127.8.9.1:9090":               false,
		"0.0.0.0:80":                   false,
		"0.1.2.3:80":                   false,
		"169.254.169.254:80":           false,
		"224.0.0.1:80":                 false,
		"[::1]:9090":                   false,
		"[::]:9090":                    false,
		"[fe80::1%eth0]:9090":          false,
		"[ff02::1]:80":                 false,
		"[fd00:ec2::254]:80":           false,
		"[::ffff:127.0.0.1]:80":        false,
		"[::ffff:169.254.169.254]:80":  false,
		"[64:ff9b::169.254.169.254]:1": false,
		"[64:ff9b::10.0.0.7]:80":       true,
		"[::127.0.0.1]:80":             false,
		"10.1.2.3:9091":                false, // the machine's own, see below
		"10.1.2.4:9091":                true,
		"[::ffff:10.1.2.3]:9091":       false,
		"[64:ff9b::10.1.2.3]:9091":     false,
		"[fd12:3456::2]:9091":          false,
		"no address":                   false,
	} {
		own := func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd12:3456::2")}, nil
		}
		if err := checkAddress(address, own); (err == nil) != allowed {
			t.Errorf("%s: allowed %v: %v", address, !allowed, err)
		}
	}
}

func TestAMachineThatDoesNotKnowItsAddresses(t *testing.T) {
	unknown := func() ([]netip.Addr, error) { return nil, errors.New("netlink") }
	if err := checkAddress("10.0.0.7:9090", unknown); err == nil {
		t.Error("connected to what may be this machine")
	}
}

// The kernel tells the machine's addresses over a socket of a family of its own. Without it no source that has a name is read.
func TestTheUnitLetsTheServiceKnowItsAddresses(t *testing.T) {
	unit := testpages.Read(t, "../packaging/systemd/setpoint.service")
	if !regexp.MustCompile(`(?m)^RestrictAddressFamilies=.*\bAF_NETLINK\b`).MatchString(unit) {
		t.Error("setpoint.service takes the family AF_NETLINK from the service, which net.InterfaceAddrs needs")
	}
}

// The machine's other addresses lead to it as loopback does, with the admin port for one.
func TestNamesThatLeadToTheMachinesOwnAddresses(t *testing.T) {
	own, err := ownAddresses()
	fatal.If(t, err)
	tried := 0
	for _, ip := range own {
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
		if err != nil {
			continue // the address is not usable
		}
		tried++
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		dial := func(configured string) error {
			config := samples.Config{Sources: map[string]samples.Source{"one": {HTTP: &samples.HTTP{URL: "http://" + net.JoinHostPort(configured, port)}}}}
			conn, err := guard(config)(t.Context(), "tcp", net.JoinHostPort(ip.String(), port))
			if err == nil {
				_ = conn.Close()
			}
			return err
		}
		if err := dial("prometheus.example"); !tellsHow(err) {
			t.Errorf("a name that leads to %s: %v", ip, err)
		}
		if err := dial(ip.String()); err != nil {
			t.Errorf("%s, which the operator wrote: %v", ip, err)
		}
	}
	if tried == 0 {
		t.Skip("this machine has only loopback addresses")
	}
}

// tellsHow reports whether an error tells those who read it in a status how to allow the address.
func tellsHow(err error) bool {
	return err != nil && strings.Contains(failure.Classify(err).Message, "to allow such an address")
}

// A name is checked when it is dialled: its owner may have pointed it here since the
// operator wrote it.
func TestANameThatLeadsToLoopback(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	dial := func(configured, asked string) error {
		config := samples.Config{Sources: map[string]samples.Source{"one": {HTTP: &samples.HTTP{URL: "http://" + configured + ":" + port}}}}
		conn, err := guard(config)(context.Background(), "tcp", asked+":"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := dial("127.0.0.1", "127.0.0.1"); err != nil {
		t.Errorf("an address that the operator wrote: %v", err)
	}
	if err := dial("localhost", "LOCALHOST"); err != nil {
		t.Errorf("localhost, which the operator wrote: %v", err)
	}
	// ip6-localhost and the machine's own name are names as any other, and lead here.
	if err := dial("prometheus.example", "127.0.0.1"); !tellsHow(err) {
		t.Errorf("an address that only a source named: %v", err)
	}
	if err := dial("prometheus.example", "localhost"); !tellsHow(err) {
		t.Errorf("a name that leads to loopback: %v", err)
	}
}
