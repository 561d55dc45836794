package serve

import (
	"strings"

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
		err := config.Address(a.address)
		switch other := taken[a.address]; {
		case err != nil:
			refuse(a.flag, "%v", err)
		case other != "" && !strings.HasSuffix(a.address, ":0"):
			refuse(a.flag, "%s is also the address of --%s: give each its own", a.address, other)
		default:
			taken[a.address] = a.flag
			continue
		}
		right = false
	}
	return right
}
