package connections

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// AnyHost as a name for GuardHost allows all hosts.
const AnyHost = "*"

// GuardHost has refuse answer calls to a loopback address whose Host names another machine: with
// DNS rebinding a web site whose name resolves to 127.0.0.1 would have the same origin as the
// service. names are further allowed hosts, for example a proxy's. Addresses that other machines
// can reach are not guarded.
func GuardHost(address net.Addr, names []string, next, refuse http.Handler) http.Handler {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() || slices.Contains(names, AnyHost) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isThisMachine(r.Host, names) {
			next.ServeHTTP(w, r)
			return
		}
		refuse.ServeHTTP(w, r)
	})
}

// HostRefusal is the message of a refusal.
func HostRefusal(host string) string {
	return fmt.Sprintf("this address is on loopback and is not %.200q: use localhost or an IP address, or name the host in --allowed-hosts", host)
}

// isThisMachine reports whether a request's host is allowed: an IP address, which DNS can't
// rebind, localhost and names below it, which no web site can register and browsers resolve to
// loopback by themselves, a name without a dot, which no web site has, or one of the names.
// Without a Host, as of HTTP/1.0 for which load balancers ask, no browser calls.
func isThisMachine(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	address, _, _ := strings.Cut(host, "%")
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || net.ParseIP(address) != nil ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}
