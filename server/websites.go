package server

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/rest"
)

// withoutWebsites refuses cross-origin requests of browsers, whose user may have a client
// certificate, or run the service on the same machine: of all methods, because a GET may decide,
// open a stream, or cost work, and links and images make one. A link from another site is
// refused, too: it is to lead to a page. Other clients send neither Sec-Fetch-Site nor Origin,
// and are not checked.
func withoutWebsites(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions: // which the protection lets through
			unsafe := *r
			unsafe.Method = http.MethodPost
			asked = &unsafe
		}
		if protection.Check(asked) != nil {
			refusePage(w, r, "another web site may not ask this, not even by a link; use the pages at "+pagePath+" or "+docsPath+", type the address, or use a client that is no browser (which sends neither Sec-Fetch-Site nor Origin)")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// AnyHost as a name for GuardHost allows all hosts.
const AnyHost = "*"

// GuardHost refuses calls to a loopback address whose Host names another machine: with DNS
// rebinding a web site whose name resolves to 127.0.0.1 would have the same origin as the
// service. names are further allowed hosts, for example a proxy's. Addresses that other
// machines can reach are not guarded.
func GuardHost(address net.Addr, names []string, next http.Handler) http.Handler {
	return guardHost(address, names, next, http.HandlerFunc(refuseHost))
}

func guardHost(address net.Addr, names []string, next, refuse http.Handler) http.Handler {
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

func refuseHost(w http.ResponseWriter, r *http.Request) {
	refusePage(w, r, fmt.Sprintf("this address is on loopback and is not %q: use localhost or an IP address, or name the host in --allowed-hosts", apierror.Clip(r.Host)))
}

// isThisMachine reports whether a request's host is allowed: an IP address, which DNS can't
// rebind, localhost, a name without a dot, which no web site has, or one of the names.
func isThisMachine(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	address, _, _ := strings.Cut(host, "%")
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || net.ParseIP(address) != nil ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// refusePage answers PERMISSION_DENIED.
func refusePage(w http.ResponseWriter, r *http.Request, message string) {
	err := apierror.New(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, message)
	rest.Refuse(w, r, http.StatusForbidden, err)
}
