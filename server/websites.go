package server

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/connections"
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
			message := "another web site may not ask this, not even by a link; use the pages at " + pagePath + " or " + docsPath + ", type the address, or use a client that is no browser (which sends neither Sec-Fetch-Site nor Origin)"
			if r.Header.Get("Sec-Fetch-Site") == "" {
				message += fmt.Sprintf("; if this is the service's own page behind a proxy, that must pass on the browser's Host: its Origin is %s, and the Host here %s", apierror.Clip(r.Header.Get("Origin")), apierror.Clip(r.Host))
			}
			refusePage(w, r, message)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuseHost(w http.ResponseWriter, r *http.Request) {
	refusePage(w, r, connections.HostRefusal(r.Host))
}

// refusePage answers PERMISSION_DENIED.
func refusePage(w http.ResponseWriter, r *http.Request, message string) {
	err := apierror.New(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, message)
	rest.Refuse(w, r, http.StatusForbidden, err)
}
