package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/auth"
)

// gatewayCaller is the metadata in which the gateway tells who calls. It counts only
// on the connection within the process.
const gatewayCaller = "setpoint-gateway-caller"

// authenticated lets REST calls pass whose caller is known, before their bodies are
// read, and tells gRPC who it is.
func (s *Server) authenticated(mux *runtime.ServeMux, next http.Handler) http.Handler {
	if s.options.Access == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, err := s.options.Access.Authenticator.Authenticate(r.Context(), auth.Credentials{
			Authorization: r.Header.Values("Authorization"), TLS: r.TLS,
		})
		if err != nil {
			err = s.refuseUnknown(r.Method+" "+r.URL.Path, err)
			if r.ContentLength != 0 {
				hangUp(w)
			}
			answerStatus(mux, w, r, status.Convert(err))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), restCallerKey{}, identity)))
	})
}

// answerStatus answers as the gateway does, but for the header that says how to
// authenticate, in which the gateway would put the message.
func answerStatus(mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request, s *status.Status) {
	_, marshaler := runtime.MarshalerForRequest(mux, r)
	w.Header().Set("Content-Type", marshaler.ContentType(s.Proto()))
	if s.Code() == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	body, err := marshaler.Marshal(s.Proto())
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(runtime.HTTPStatusFromCode(s.Code()))
	_, _ = w.Write(body)
}

type restCallerKey struct{}

// callerMetadata is what the gateway tells gRPC of a call.
func callerMetadata(ctx context.Context, _ *http.Request) metadata.MD {
	identity, ok := ctx.Value(restCallerKey{}).(*auth.Identity)
	if !ok {
		return nil
	}
	text, err := json.Marshal(gatewayIdentity{identity.Name, identity.Method, identity.Groups.Names()})
	if err != nil {
		return nil
	}
	return metadata.Pairs(gatewayCaller, base64.StdEncoding.EncodeToString(text))
}

// gatewayIdentity is an identity on its way from the gateway.
type gatewayIdentity struct {
	Name   string
	Method auth.Method
	Groups []string
}

// identityFromGateway reads what callerMetadata wrote.
func identityFromGateway(ctx context.Context) (*auth.Identity, bool) {
	values := metadata.ValueFromIncomingContext(ctx, gatewayCaller)
	if len(values) != 1 {
		return nil, false
	}
	text, err := base64.StdEncoding.DecodeString(values[0])
	if err != nil {
		return nil, false
	}
	var g gatewayIdentity
	if err := json.Unmarshal(text, &g); err != nil || g.Name == "" {
		return nil, false
	}
	return &auth.Identity{Name: g.Name, Method: g.Method, Groups: auth.NewGroups(g.Groups...)}, true
}

// forwardedHeader says which headers of a REST call gRPC gets to see, and as what.
// Credentials stay here, and nobody tells gRPC who calls but callerMetadata.
func forwardedHeader(name string) (string, bool) {
	switch lower := strings.ToLower(name); lower {
	case "traceparent", "tracestate", "x-request-id":
		return lower, true
	case "user-agent":
		return runtime.MetadataPrefix + lower, true // gRPC has its own
	}
	return "", false
}

// logRefusal logs that a caller is not known, and why; never what it sent. The line of the
// call itself says as much in short.
func (s *Server) logRefusal(where string, err error) {
	fields := []zap.Field{zap.String("call", where), zap.String("cause", string(auth.ReasonOf(err))), zap.Error(err)}
	if detail := unwrap(err); detail != nil {
		fields = append(fields, zap.NamedError("detail", detail))
	}
	s.log.Debug("caller refused", fields...)
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}
