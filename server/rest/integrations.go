package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/integration"
)

// Calls of other systems' contracts become GetRecommendation in the gateway, with its
// authentication, limits, metrics and log. inCallersForm converts every error to the form that
// the caller expects.

// Paths of the contracts: /v1/integrations/{contract}/clusters/{cluster}.
const (
	integrationsPrefix = "/v1/integrations/"
	clusterPath        = "/clusters/{cluster}"
)

// integrationRoutes are the paths of the contracts.
func integrationRoutes() (routes []restRoute) {
	for name := range integration.Contracts {
		routes = append(routes, restRoute{method: http.MethodPost, path: pathPattern(integrationsPrefix + name + "/clusters/*")})
	}
	return routes
}

// integrationPaths describes the paths of the contracts for messages.
func integrationPaths() string {
	names := slices.Sorted(maps.Keys(integration.Contracts))
	return integrationsPrefix + "{" + strings.Join(names, ", ") + "}" + clusterPath
}

// contractOf returns the contract of a path, nil for other paths.
func contractOf(path string) integration.Contract {
	rest, ok := strings.CutPrefix(path, integrationsPrefix)
	if !ok {
		return nil
	}
	name, _, _ := strings.Cut(rest, "/")
	return integration.Contracts[name]
}

// registerIntegrations adds the contracts to the gateway.
func registerIntegrations(mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
	client := setpointv1.NewRecommendationServiceClient(conn)
	for name, contract := range integration.Contracts {
		if err := mux.HandlePath(http.MethodPost, integrationsPrefix+name+clusterPath, integrated(mux, client, contract)); err != nil {
			return err
		}
	}
	return nil
}

// integrated serves a contract's calls.
func integrated(mux *runtime.ServeMux, client setpointv1.RecommendationServiceClient, contract integration.Contract) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
		answer, err := ask(mux, client, contract, r, parameters["cluster"])
		var body []byte
		if err == nil {
			body, err = json.Marshal(answer)
		}
		if err != nil {
			_, marshaler := runtime.MarshalerForRequest(mux, r)
			answerError(runtime.NewServerMetadataContext(r.Context(), runtime.ServerMetadata{}), mux, marshaler, w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

// ask reads a contract's request and gets the recommendation.
func ask(mux *runtime.ServeMux, client setpointv1.RecommendationServiceClient, contract integration.Contract, r *http.Request, cluster string) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, ofBody(err)
	}
	question, violations := contract.Read(cluster, body)
	if err := apierror.InvalidWithin(violations, apierror.MaxBodyDetails); err != nil {
		return nil, err
	}
	noteQuestion(r.Context(), &question)
	ctx, err := runtime.AnnotateContext(r.Context(), mux, r, setpointv1.RecommendationService_GetRecommendation_FullMethodName)
	if err != nil {
		return nil, err
	}
	response, err := client.GetRecommendation(ctx, &setpointv1.GetRecommendationRequest{
		Target: question.Key.String(), CurrentReplicas: question.Current, MinReplicas: question.Min, MaxReplicas: question.Max,
	})
	if err != nil {
		return nil, err
	}
	return contract.Answer(question, response.GetRecommendation()), nil
}

// maxBody is the maximum size of a call's body.
func (g *Gateway) maxBody(r *http.Request) int64 {
	most := int64(g.options.MaxRequestBytes)
	if contractOf(r.URL.Path) != nil {
		return min(most, integration.MaxBody)
	}
	return most
}

// authorizationOf returns the credentials of a REST call. Callers of contracts may have no
// place for a token but a URL, as its password (https://name:token@host), which HTTP clients
// send as Basic.
func authorizationOf(r *http.Request) []string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 || contractOf(r.URL.Path) == nil || len(values[0]) > 2*auth.MaxTokenBytes {
		return values
	}
	scheme, encoded, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Basic") {
		return values
	}
	pair, err := base64.StdEncoding.DecodeString(encoded)
	_, token, ok := bytes.Cut(pair, []byte(":"))
	if err != nil || !ok {
		return values
	}
	return []string{"Bearer " + string(token)}
}

// inCallersForm converts errors to the form that callers of contracts expect.
func inCallersForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contract := contractOf(r.URL.Path)
		if contract == nil {
			next.ServeHTTP(w, r)
			return
		}
		worded := &wordedWriter{ResponseWriter: w, contract: contract}
		next.ServeHTTP(worded, r.WithContext(context.WithValue(r.Context(), questionKey{}, worded)))
		worded.end()
	})
}

type questionKey struct{}

// noteQuestion records a caller's request, for an error response.
func noteQuestion(ctx context.Context, q *integration.Question) {
	if w, ok := ctx.Value(questionKey{}).(*wordedWriter); ok {
		w.question = q
	}
}

// wordedWriter buffers an error response.
type wordedWriter struct {
	http.ResponseWriter
	contract integration.Contract
	question *integration.Question
	// code is the error's, 0 for other responses, and kept its google.rpc.Status in
	// JSON.
	code int
	kept bytes.Buffer
}

// WriteHeader implements http.ResponseWriter, as does Write.
func (w *wordedWriter) WriteHeader(code int) {
	if code >= http.StatusBadRequest {
		w.code = code
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write buffers an error.
func (w *wordedWriter) Write(b []byte) (int, error) {
	if w.code != 0 {
		return w.kept.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// end sends the error, if there is one.
func (w *wordedWriter) end() {
	if w.code == 0 {
		return
	}
	said := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{}
	if json.Unmarshal(w.kept.Bytes(), &said) != nil || said.Message == "" {
		said.Code, said.Message = int(codes.Unknown), http.StatusText(w.code)
	}
	code, answer := w.contract.Refuse(w.question, integration.Problem{Status: w.code, Code: said.Code, Message: said.Message})
	body, err := json.Marshal(answer)
	if err != nil {
		code, body = http.StatusInternalServerError, nil
	}
	w.Header().Del("Content-Length")
	w.Header().Set("Content-Type", "application/json")
	w.ResponseWriter.WriteHeader(code)
	_, _ = w.ResponseWriter.Write(body)
}

// Unwrap is for http.ResponseController.
func (w *wordedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher, which the gateway asks for.
func (w *wordedWriter) Flush() {
	if w.code == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}
