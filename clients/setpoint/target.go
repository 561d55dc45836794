package setpoint

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/resolver"
)

// defaultPort is the default gRPC port of a server.
const defaultPort = "9090"

// readTarget returns the target for gRPC and the addresses it has; none for a target in gRPC's form.
func readTarget(target string) (dialTarget string, list []string, err error) {
	if isURI(target) {
		if scheme, _, _ := strings.Cut(target, "://"); scheme == "http" || scheme == "https" {
			return "", nil, fmt.Errorf("setpoint: target %q is no URL: give the gRPC address, host:port", target)
		}
		return target, nil, nil
	}
	for _, part := range strings.Split(target, ",") {
		address, err := withPort(strings.TrimSpace(part))
		if err != nil {
			return "", nil, fmt.Errorf("setpoint: target %q: %w", target, err)
		}
		if !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	if len(list) == 1 {
		return "dns:///" + list[0], list, nil
	}
	return listScheme + ":///" + url.PathEscape(strings.Join(list, ",")), list, nil
}

// isURI distinguishes targets in gRPC's own form from addresses.
func isURI(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (strings.Contains(target, "://") || resolver.Get(u.Scheme) != nil)
}

// withPort adds the default port to an address that has none.
func withPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("address %q: %w", address, err)
		}
	}
	if host == "" || port == "" || strings.ContainsAny(host, "/ ") {
		return "", fmt.Errorf("%q is not host:port", address)
	}
	return net.JoinHostPort(host, port), nil
}

// listScheme is the scheme of targets that are a list of addresses.
const listScheme = "setpoint"

// addressList resolves to itself. Each name in it is resolved when it is dialed, and the
// certificate of its server must be for that name.
type addressList []string

// Scheme is the scheme of the targets that it resolves.
func (addressList) Scheme() string { return listScheme }

// Build reports the addresses.
func (l addressList) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	for _, address := range l {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: address, ServerName: address}},
		})
	}
	return l, cc.UpdateState(state)
}

// OverrideAuthority is the host in calls, because the list itself is no host.
func (l addressList) OverrideAuthority(resolver.Target) string { return l[0] }

// ResolveNow does nothing: the list is fixed.
func (addressList) ResolveNow(resolver.ResolveNowOptions) {}

// Close does nothing.
func (addressList) Close() {}
