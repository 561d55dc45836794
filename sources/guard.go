package sources

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/clients/samples"
	failure "github.com/setpoint-dev/setpoint/clients/samples/source"
)

// guard returns how sources are connected to. The address is looked at when it is dialled,
// after the name was resolved: a name's owner may change where it leads after it was checked.
func guard(config samples.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	written := map[string]bool{}
	for _, source := range config.Sources {
		for _, host := range hostsOf(source) {
			written[strings.ToLower(host)] = true
		}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		host = strings.ToLower(host)
		_, notIP := netip.ParseAddr(host)
		// Whoever wrote 127.0.0.1 or localhost meant it; other names may lead there by mistake
		// or by malice, and so may addresses that a Redis tells.
		meant := written[host] && (notIP == nil || host == "localhost")
		dialer := net.Dialer{Control: func(_, to string, _ syscall.RawConn) error {
			if meant {
				return nil
			}
			return checkAddress(to, ownAddresses)
		}}
		return dialer.DialContext(ctx, network, address)
	}
}

// ownAddresses are those of this machine's interfaces, or of the pod's. They are looked up anew: an
// interface may come or change.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("the addresses of this machine are unknown: %w", err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	return own, nil
}

// checkAddress returns why an address is not connected to. own returns the machine's addresses.
func checkAddress(address string, own func() ([]netip.Addr, error)) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap().WithZone("")
	for _, mapped := range embedding {
		if mapped.Contains(ip) { // an IPv4 address behind a translator
			b := ip.As16()
			ip = netip.AddrFrom4([4]byte(b[12:]))
		}
	}
	mine, err := own()
	if err != nil {
		return err
	}
	if slices.Contains(mine, ip) || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || ip.IsInterfaceLocalMulticast() ||
		thisNetwork.Contains(ip) || metadataIPv6 == ip {
		// Who reads it may not know where the name leads.
		return failure.Failed(failure.Unreachable, "its name leads to this machine, or to a link-local or multicast address: to allow such an address, write it in the source itself")
	}
	return nil
}

var (
	// thisNetwork reaches the machine itself on some systems.
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// embedding are prefixes whose last 32 bits are an IPv4 address: NAT64, and IPv4-compatible.
	embedding = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::/96")}
	// metadataIPv6 is where a cloud tells machines their credentials, beside 169.254.169.254.
	metadataIPv6 = netip.MustParseAddr("fd00:ec2::254")
)

// hostsOf are the hosts that a source's configuration names.
func hostsOf(source samples.Source) (hosts []string) {
	for _, server := range []*samples.Server{source.Prometheus, source.HTTP} {
		if server == nil {
			continue
		}
		if u, err := url.Parse(server.URL); err == nil {
			hosts = append(hosts, u.Hostname())
		}
	}
	if source.Redis != nil {
		for _, address := range source.Redis.Addresses {
			if host, _, err := net.SplitHostPort(address); err == nil {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}
