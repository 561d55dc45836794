package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// received serves the calls of a route. It reads the whole body of a call first; while the call waits
// for its body it holds no place.
func (g *Gateway) received(route *route, mux *runtime.ServeMux, fast *fastPath) http.Handler {
	call, serve := fast.calls[route.rpc], g.serving(route, mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.PostForm, r.Method = noForm, route.method // HEAD is GET to the gateway; net/http sends no body
		if field, bad := badText(r.URL); bad {
			admission.AnswerStatus(mux, w, r, status.Convert(apierror.InvalidField(field, "Invalid value: is not UTF-8")))
			return
		}
		if err := route.checkParameters(r); err != nil {
			admission.AnswerStatus(mux, w, r, status.Convert(err))
			return
		}
		if r.Body == nil || r.Body == http.NoBody {
			admission.RESTConnectionOf(r).Know()
			serve(w, r, 0)
			return
		}
		if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" && route.contract == nil {
			Refuse(w, r, http.StatusUnsupportedMediaType, apierror.InvalidField("Content-Encoding", fmt.Sprintf("Unsupported value: %q: send the body as it is", apierror.Clip(encoding))))
			return
		}
		ticket := limit.TicketOf(r.Context())
		if ticket != nil {
			ticket.Wait()
		}
		data, err := g.options.Guard.ReadBody(w, r, route.maxBody)
		switch {
		case err == nil:
			admission.RESTConnectionOf(r).Know()
			r.Body = restjson.Whole(data)
		case errors.Is(err, admission.ErrCut) && g.options.Guard.Limiter != nil:
			admission.HangUp(w)
			admission.AnswerRefusal(mux, w, r, g.options.Guard.Limiter.Refuse(limit.Unfinished))
			return
		default:
			r.Body = io.NopCloser(failing{err}) // the error is sent where the JSON is parsed
		}
		if ticket != nil {
			if refusal := ticket.Arrived(); refusal.Refused() {
				admission.HangUp(w)
				admission.AnswerRefusal(mux, w, r, refusal)
				return
			}
		}
		if route.bare && (err != nil || !slices.Contains(nothing, string(bytes.TrimSpace(data)))) {
			admission.AnswerStatus(mux, w, r, status.Convert(apierror.InvalidField("body", "not supported: parameters go into the URL, and "+route.takes())))
			return
		}
		if err == nil && call != nil {
			if fast.answer(call, w, r, data) {
				r.Body = http.NoBody
				admission.FreeBody(data)
				return
			}
			g.options.Requests.Metrics.Slow.RestUnusual.Inc()
		}
		serve(w, r, len(data))
	})
}

// nothing is what some clients send where there is no body.
var nothing = []string{"", "{}", "null"}

// noForm keeps the gateway from reading parameters out of a body that curl calls a form: it is JSON, whose texts may
// have any & ; and %.
var noForm = url.Values{}

// badText returns the part of a URL that is not UTF-8, which messages cannot contain.
func badText(u *url.URL) (field string, bad bool) {
	if !utf8.ValidString(u.Path) {
		return "target", true
	}
	if u.RawQuery == "" {
		return "", false
	}
	for name, values := range u.Query() {
		if !utf8.ValidString(name) {
			return "query", true
		}
		for _, value := range values {
			if !utf8.ValidString(value) {
				return name, true
			}
		}
	}
	return "", false
}

// failing is a body that can't be read.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
