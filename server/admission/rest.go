package admission

import (
	"context"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// restCaller is the caller of a REST call.
type restCaller struct {
	guard    *Guard
	identity *auth.Identity
	creds    auth.Credentials
	// generation is the authenticator's at the time of the authentication.
	generation uint64
}

// AuthenticateREST authenticates REST calls before their bodies are read, and passes the caller on
// in the context.
func (g *Guard) AuthenticateREST(mux *runtime.ServeMux, authorization func(*http.Request) ([]string, error), next http.Handler) http.Handler {
	if g.options.Access == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			trimHeaders(r)
			next.ServeHTTP(w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values, err := authorization(r)
		c := &restCaller{guard: g, creds: auth.Credentials{Authorization: values, TLS: r.TLS}}
		c.generation = g.options.Access.Authenticator.Generation()
		asked := c.creds
		ticket := limit.TicketOf(r.Context())
		if ticket != nil {
			asked.Waits = ticket.Wait
		}
		if err == nil {
			if c.identity, err = g.options.Access.Authenticator.Authenticate(r.Context(), asked); err != nil {
				err = g.refuseUnknown(r.Method+" "+r.URL.Path, err)
			}
		}
		if err != nil {
			if r.ContentLength != 0 {
				HangUp(w)
			}
			AnswerStatus(mux, w, r, status.Convert(err))
			return
		}
		calls.NoteRESTCaller(r.Context(), c.identity.Name)
		if ticket != nil { // it may have released its place
			if refusal := ticket.Arrived(); refusal.Refused() {
				HangUp(w)
				AnswerRefusal(mux, w, r, refusal)
				return
			}
		}
		trimHeaders(r)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), restCallerKey{}, c)))
	})
}

// AnswerStatus responds as the gateway does, except for the header WWW-Authenticate, into which
// the gateway would put the message.
func AnswerStatus(mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request, s *status.Status) {
	calls.NoteRESTError(r.Context(), s.Err())
	_, marshaler := runtime.MarshalerForRequest(mux, r)
	w.Header().Set("Content-Type", marshaler.ContentType(s.Proto()))
	if s.Code() == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	TellWhenToRetry(w, s)
	body, err := marshaler.Marshal(s.Proto())
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(runtime.HTTPStatusFromCode(s.Code()))
	_, _ = w.Write(body)
}

type restCallerKey struct{}

// RESTNameOf returns the name of a REST call's caller, if it is known before the body is read.
func RESTNameOf(ctx context.Context) string {
	if c, ok := ctx.Value(restCallerKey{}).(*restCaller); ok {
		return c.identity.Name
	}
	return ""
}

// restCallerOf returns the caller of a call over REST; nil: unknown.
func restCallerOf(ctx context.Context) *restCaller {
	c, _ := ctx.Value(restCallerKey{}).(*restCaller)
	return c
}

// Limits of forwarded headers, in bytes: their total must be less than the limit of a gRPC call.
var maxForwarded = [...]struct {
	header string
	most   int
}{{"Traceparent", 256}, {"Tracestate", 512}, {forwardedFor, 1024}, {forwardedHost, maxHost}, {"User-Agent", 256}}

const maxHost = 512

// trimHeaders removes headers that are too large for gRPC, and credentials, which are no longer
// needed.
func trimHeaders(r *http.Request) {
	r.Header.Del("Authorization")
	for _, limit := range maxForwarded {
		length := 0
		for _, value := range r.Header[limit.header] {
			length += len(value)
		}
		if length > limit.most {
			r.Header.Del(limit.header)
		}
	}
	r.Host = r.Host[:min(len(r.Host), maxHost)]
}

// Headers of proxies, which the gateway passes on in its own form.
const forwardedFor, forwardedHost = "X-Forwarded-For", "X-Forwarded-Host"

// forwarded are the headers that are passed to gRPC, and their names there. No credentials are
// among them; the caller is a value of the context.
var forwarded = [...]struct{ header, key string }{
	{"Traceparent", "traceparent"}, {"Tracestate", "tracestate"}, {calls.RequestIDHeader, calls.RequestIDKey},
	{"User-Agent", runtime.MetadataPrefix + "user-agent"}, // gRPC has its own
}

// ForwardedHeader returns the name under which a header of a REST call is passed to gRPC, if it is
// passed at all. The header's name is in its canonical form.
func ForwardedHeader(name string) (string, bool) {
	for _, f := range forwarded {
		if name == f.header {
			return f.key, true
		}
	}
	return "", false
}

// RESTMetadata returns the metadata that runtime.AnnotateIncomingContext makes for a call through
// AuthenticateREST. It looks up the headers that are passed on instead of examining all headers,
// which takes several times as long. The result shares values with the request's headers.
func RESTMetadata(r *http.Request) metadata.MD {
	md := make(metadata.MD, len(forwarded)+2)
	for _, f := range forwarded {
		values := r.Header[f.header]
		if slices.ContainsFunc(values, isUnprintable) {
			values = slices.DeleteFunc(slices.Clone(values), isUnprintable)
		}
		if len(values) > 0 {
			md[f.key] = slices.Clip(values)
		}
	}
	host := r.Header.Get(forwardedHost)
	if host == "" || isUnprintable(host) {
		host = r.Host
	}
	if host != "" && !isUnprintable(host) {
		md["x-forwarded-host"] = []string{host}
	}
	path := slices.Clip(r.Header[forwardedFor])
	if address, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		path = append(path, address)
	}
	if len(path) > 0 {
		if joined := strings.Join(path, ", "); !isUnprintable(joined) {
			md["x-forwarded-for"] = []string{joined}
		}
	}
	return md
}

// isUnprintable reports whether a text has bytes that gRPC does not allow in metadata.
func isUnprintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return true
		}
	}
	return false
}

// logRefusal logs why authentication failed, but never the credentials. The log line of the call
// has the short form.
func (g *Guard) logRefusal(where string, err error) {
	fields := []zap.Field{zap.String("call", where), zap.String("cause", string(auth.ReasonOf(err))), zap.Error(err)}
	if detail := unwrap(err); detail != nil {
		fields = append(fields, zap.NamedError("detail", detail))
	}
	g.options.Log.Debug("caller refused", fields...)
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

// LimitREST admits or refuses REST calls before their bodies are read.
func (g *Guard) LimitREST(mux *runtime.ServeMux, next http.Handler) http.Handler {
	if g.Limiter == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ticket := new(limit.Ticket)
		if refusal := g.Limiter.Enter(ticket, RESTConnectionOf(r).Origin()); refusal.Refused() {
			AnswerRefusal(mux, w, r, refusal)
			return
		}
		ticket.Begin()
		defer ticket.Release()
		next.ServeHTTP(w, r.WithContext(limit.WithTicket(r.Context(), ticket)))
	})
}

// TellWhenToRetry sets the header Retry-After from the status' RetryInfo, for callers that parse
// nothing else of an error. It is rounded up to whole seconds.
func TellWhenToRetry(w http.ResponseWriter, s *status.Status) {
	if c := s.Code(); c != codes.ResourceExhausted && c != codes.Unavailable {
		return
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(info.GetRetryDelay().AsDuration().Seconds()))))
		}
	}
}

// AnswerRefusal responds that a limit refuses the call, and when to retry.
func AnswerRefusal(mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request, refusal limit.Refusal) {
	AnswerStatus(mux, w, r, refusal.Status())
}
