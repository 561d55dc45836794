package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/integration"
)

// Calls of other systems' contracts become GetRecommendation in the gateway, with its
// authentication, limits, metrics and log. inCallersForm converts every error to the form that
// the caller expects.

// asking serves a contract's calls.
func asking(mux *runtime.ServeMux, conn grpc.ClientConnInterface, contract integration.Contract) http.Handler {
	client := setpointv1.NewRecommendationServiceClient(conn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cluster := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		answer, err := ask(mux, client, contract, r, cluster)
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
	})
}

// ask reads a contract's request and gets the recommendation.
func ask(mux *runtime.ServeMux, client setpointv1.RecommendationServiceClient, contract integration.Contract, r *http.Request, cluster string) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, admission.ChargeUnread(r.Context(), ofBody(err))
	}
	question, violations := contract.Read(cluster, body)
	if err := apierror.InvalidWithin(violations, apierror.MaxBodyDetails); err != nil {
		return nil, admission.ChargeUnread(r.Context(), err)
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

// withPassword returns the credentials of a contract's call. Its callers may have no place for a token
// but a URL, as its password (https://name:token@host), which HTTP clients send as Basic.
func withPassword(values []string) []string {
	if len(values) != 1 || len(values[0]) > 2*auth.MaxTokenBytes {
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

// inCallersForm converts errors to the form that callers of a contract expect, if there is one.
func inCallersForm(contract integration.Contract, next http.Handler) http.Handler {
	if contract == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
