package rest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/integration"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/services"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Options are the settings of a Gateway. All but Session are required.
type Options struct {
	Guard           *admission.Guard
	Observer        *calls.Observer
	Requests        *requests.Reader
	Recommendations *services.Recommendations
	// Unary and Streams are the interceptors of gRPC, which also apply to calls over REST.
	Unary   grpc.UnaryServerInterceptor
	Streams grpc.StreamServerInterceptor
	// Session returns the Authorization of a call without one by the session of a user of the
	// web page, or the error of the answer; nil without sessions.
	Session func(*http.Request) ([]string, error)
	// CostLimits are the settings that limit lists in messages.
	CostLimits cost.Limits
	// MaxRequestBytes limits a body, and its message.
	MaxRequestBytes int
	// Draining is closed when the server begins to stop.
	Draining <-chan struct{}
}

// Gateway turns REST requests into calls of services in this process.
type Gateway struct {
	options      Options
	conn         *inside
	translations translations
}

// New returns a gateway without services.
func New(options Options) *Gateway {
	g := &Gateway{options: options, translations: newTranslations()}
	g.conn = newInside(&g.options)
	return g
}

// Add adds a service, as gRPC's RegisterService does.
func (g *Gateway) Add(desc *grpc.ServiceDesc, service any) { g.conn.add(desc, service) }

func newMux() *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &marshaler{Marshaler: restjson.Marshaler{Check: checkJSON}}),
		runtime.WithMiddlewares(restjson.Middleware),
		runtime.WithErrorHandler(answerError),
		runtime.WithStreamErrorHandler(streamError),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithIncomingHeaderMatcher(admission.ForwardedHeader),
	)
}

// Handler serves the contract's paths, and those of other systems' contracts.
func (g *Gateway) Handler() (http.Handler, error) {
	ctx, mux := context.Background(), newMux()
	for _, err := range []error{
		setpointv1.RegisterRecommendationServiceHandlerClient(ctx, mux, setpointv1.NewRecommendationServiceClient(g.conn)),
		setpointv1.RegisterTargetServiceHandlerClient(ctx, mux, setpointv1.NewTargetServiceClient(g.conn)),
		setpointv1.RegisterSimulationServiceHandlerClient(ctx, mux, setpointv1.NewSimulationServiceClient(g.conn)),
		setpointv1.RegisterOverrideServiceHandlerClient(ctx, mux, setpointv1.NewOverrideServiceClient(g.conn)),
		setpointv1.RegisterFleetServiceHandlerClient(ctx, mux, setpointv1.NewFleetServiceClient(g.conn)),
		setpointv1.RegisterOperationsServiceHandlerClient(ctx, mux, setpointv1.NewOperationsServiceClient(g.conn)),
	} {
		if err != nil {
			return nil, fmt.Errorf("register gateway: %w", err)
		}
	}
	return g.table(mux), nil
}

// table returns what serves each path. Whatever a call's path decides is decided once, here.
func (g *Gateway) table(mux *runtime.ServeMux) *table {
	t, fast := new(table), g.newFastPath(mux)
	admitted := func(contract integration.Contract, next http.Handler) http.Handler {
		guard, authorization := g.options.Guard, func(r *http.Request) ([]string, error) { return g.authorization(r, contract) }
		return inCallersForm(contract, guard.LimitREST(mux, guard.AuthenticateREST(mux, authorization, next)))
	}
	for _, r := range routesOf(int64(g.options.MaxRequestBytes)) {
		at, verb := t.at(r.template)
		served := at.ends[verb]
		if served == nil {
			served = make(map[string]http.Handler)
			at.ends[verb] = served
		}
		delete(served, "")
		served[r.method] = admitted(r.contract, g.received(&r, mux, fast))
		if r.method == http.MethodGet && r.kind != streamed { // which has no end to wait for
			served[http.MethodHead] = served[r.method]
		}
		served[""] = admitted(r.contract, RefuseMethod(slices.Sorted(maps.Keys(served))...))
	}
	lost := http.HandlerFunc(t.refuseLost)
	t.root.lost = admitted(nil, lost)
	for name, contract := range integration.Contracts {
		at, _ := t.at(integrationsPath + "/" + name)
		at.lost = admitted(contract, lost)
	}
	return t
}

// authorization returns the credentials of a REST call: its own, or else those of a
// session.
func (g *Gateway) authorization(r *http.Request, contract integration.Contract) ([]string, error) {
	values := r.Header.Values("Authorization")
	if contract != nil {
		values = withPassword(values)
	}
	if len(values) == 0 && g.options.Session != nil {
		return g.options.Session(r)
	}
	return values, nil
}

// answerError sends an error as a google.rpc.Status. For an invalid body it lists all
// violations, by their paths in the body.
func answerError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	var invalidJSON *restjson.Error
	switch decodeErr := restjson.DecodeError(r); {
	case errors.As(decodeErr, &invalidJSON):
		violations := make([]validation.Violation, len(invalidJSON.Violations))
		for i, v := range invalidJSON.Violations {
			violations[i] = validation.Violation{Field: v.Field, Description: v.Description}
		}
		err = admission.ChargeUnread(r.Context(), apierror.InvalidWithin(violations, apierror.MaxBodyDetails))
	case decodeErr != nil:
		err = admission.ChargeUnread(r.Context(), ofBody(decodeErr))
	default:
		method, _ := runtime.RPCMethod(ctx)
		err = apierror.Within(err, bodies()[method])
	}
	if field, problem, ok := badParameter(err); ok {
		err = apierror.InvalidField(field, problem)
	}
	if other := (*runtime.HTTPStatusError)(nil); errors.As(err, &other) {
		calls.NoteRESTError(r.Context(), other.Err) // it hides the code
		runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, err)
		return
	}
	admission.AnswerStatus(mux, w, r, status.Convert(err))
}

// unparsed matches the gateway's message for an invalid URL parameter.
var unparsed = regexp.MustCompile(`^(?:parsing field|type mismatch, parameter:) "?([a-z_]+)"?[:,] (.*)$`)

// badParameter returns what is wrong with a call by an error of the gateway, and the URL parameter, if it is that.
func badParameter(err error) (field, problem string, ok bool) {
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument || len(s.Details()) > 0 {
		return "", "", false
	}
	found := unparsed.FindStringSubmatch(s.Message())
	if found == nil {
		return "", s.Message(), true
	}
	problem = found[2]
	if parts := unconverted.FindStringSubmatch(problem); parts != nil {
		problem = parts[2] + ": must be " + map[string]string{"Int": "a whole number", "Uint": "a whole number of at least 0", "Bool": "true or false", "parsing time": `a time such as "2030-01-31T12:00:00Z"`}[parts[1]]
		if strings.HasSuffix(found[2], strconv.ErrRange.Error()) {
			problem += " of 32 bits"
		}
	}
	return jsonName(found[1]), "Invalid value: " + problem, true
}

// unconverted matches the errors of packages strconv and time for what is in no form of a type.
var unconverted = regexp.MustCompile(`^(?:strconv\.Parse)?(Int|Uint|Bool|parsing time)(?:: parsing)? ("(?:[^"\\]|\\.)*")`)

// jsonName turns a field's name into that of JSON: page_size into pageSize.
func jsonName(name string) string {
	words := strings.Split(name, "_")
	for i := 1; i < len(words); i++ {
		if words[i] != "" {
			words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
		}
	}
	return strings.Join(words, "")
}

// checkJSON refuses a body whose message would take too much memory.
func checkJSON(body []byte, message protoreflect.MessageDescriptor) error {
	if excess := cost.Of(message).JSON(body, cost.BudgetOf(len(body))); excess != nil {
		return apierror.Excessive(excess)
	}
	return nil
}

// ofBody returns the error for a body that could not be read.
func ofBody(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		err = apierror.OverLimit("maxRequestBytes", int(tooLarge.Limit), fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
		// The gateway's status for the code, 429, would invite a retry.
		return &runtime.HTTPStatusError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: err}
	case isRefusal(err):
		return err
	}
	return status.Error(codes.InvalidArgument, "the body could not be read to its end")
}

// isRefusal reports whether an error of reading a body is already an error of the API.
func isRefusal(err error) bool {
	_, is := status.FromError(err)
	return err != nil && is
}
