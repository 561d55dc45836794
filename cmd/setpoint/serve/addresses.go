package serve

import (
	"net"
	"strconv"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// addresses are the addresses of serve, by flag; an empty admin address is left out.
func (s *settings) addresses() []flagAddress {
	all := []flagAddress{{"grpc-address", s.GRPCAddress}, {"rest-address", s.RESTAddress}}
	if s.AdminAddress != "" {
		all = append(all, flagAddress{"admin-address", s.AdminAddress})
	}
	return all
}

type flagAddress struct{ flag, address string }

// validateAddresses refuses invalid addresses, and reports whether all are valid.
func (s *settings) validateAddresses(refuse config.Refuse) (right bool) {
	right = true
	taken := map[string]string{}
	for _, a := range s.addresses() {
		host, port, err := net.SplitHostPort(a.address)
		number, numberErr := strconv.ParseUint(port, 10, 16)
		switch other := taken[a.address]; {
		case err != nil:
			refuse(a.flag, "%q is not host:port, such as 127.0.0.1:9090, or :9090 for all interfaces", a.address)
		case numberErr != nil:
			refuse(a.flag, "%q: the port must be a number from 0 to 65535", a.address)
		case host != "" && net.ParseIP(host) == nil && !isHostName(host):
			refuse(a.flag, "%q: %q is neither an IP address nor the name of a host", a.address, host)
		case other != "" && number != 0:
			refuse(a.flag, "%s is also the address of --%s: give each its own", a.address, other)
		default:
			taken[a.address] = a.flag
			continue
		}
		right = false
	}
	return right
}

// isHostName reports whether a name is a valid host name, whether or not the host exists.
func isHostName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_', c == '%', c == ':':
		default:
			return false
		}
	}
	return true
}
