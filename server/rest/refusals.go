package rest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/integration"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// Refuse sends an error with that status of HTTP, without reading the body.
func Refuse(w http.ResponseWriter, r *http.Request, code int, err error) {
	calls.NoteRESTError(r.Context(), err)
	w.Header().Set("Content-Type", "application/json")
	if r.ContentLength != 0 {
		admission.HangUp(w)
	}
	w.WriteHeader(code)
	if body, err := new(restjson.Marshaler).Marshal(status.Convert(err).Proto()); err == nil {
		_, _ = w.Write(body)
	}
}

// RefuseMethod responds to calls of other methods than the allowed ones.
func RefuseMethod(allowed ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		Refuse(w, r, http.StatusMethodNotAllowed, status.Errorf(codes.Unimplemented, "%s is not served at %s: use %s%s; see /docs",
			apierror.Clip(r.Method), apierror.Clip(r.URL.Path), strings.Join(allowed, " or "), listedElsewhere(r)))
	})
}

// listedElsewhere says where the overrides of a place are listed: with all of its cluster. Empty: it is another call.
func listedElsewhere(r *http.Request) string {
	place, overrides := strings.CutSuffix(r.URL.Path, "/overrides")
	rest, inCluster := strings.CutPrefix(place, clustersPath+"/")
	cluster, _, within := strings.Cut(rest, "/")
	if r.Method != http.MethodGet || !overrides || !inCluster || !within {
		return ""
	}
	return fmt.Sprintf("; overrides are listed by GET %s/%s/overrides, and with ?resource=%s only those that act there", clustersPath, apierror.Clip(cluster), apierror.Clip(strings.TrimPrefix(place, "/v1/")))
}

// Beginnings of the contract's paths: of targets and their namespaces, and of integrations.
const (
	clustersPath     = "/v1/clusters"
	integrationsPath = "/v1/integrations"
)

// refuseLost responds to calls at whose path nothing is served.
func (t *table) refuseLost(w http.ResponseWriter, r *http.Request) {
	path, meant := r.URL.Path, ""
	at, rest, _ := t.find(path)
	if close, ok := spelling.Closest(rest, at.follows); ok {
		meant = fmt.Sprintf("; did you mean %q?", apierror.Clip(strings.TrimSuffix(path, rest)+close))
	}
	var err error
	switch {
	case strings.HasPrefix(path, clustersPath+"/"):
		err = apierror.InvalidField("target", fmt.Sprintf("Invalid value: %q: must be clusters/{cluster}/namespaces/{namespace}/targets/{target}, "+
			"no segment empty or with a slash, followed by %s; see /docs%s", strings.TrimPrefix(path, "/v1/"), t.afterTarget(), meant))
	case strings.HasPrefix(path, integrationsPath+"/"):
		names := slices.Sorted(maps.Keys(integration.Contracts))
		err = status.Errorf(codes.NotFound, "nothing is served at %s; it must be %s/{%s}/clusters/{cluster}", apierror.Clip(path), integrationsPath, strings.Join(names, ", "))
	default:
		err = status.Errorf(codes.NotFound, "nothing is served at %s; see /docs%s", apierror.Clip(path), meant)
	}
	Refuse(w, r, runtime.HTTPStatusFromCode(status.Code(err)), err)
}

// afterTarget lists what may follow the name of a target in a path.
func (t *table) afterTarget() string {
	at, _, _ := t.find(clustersPath + "/*/namespaces/*/targets/*")
	last := len(at.follows) - 1
	return "nothing, " + strings.Join(at.follows[:last], ", ") + " or " + at.follows[last]
}

// checkParameters refuses what the gateway would ignore: parameters of a URL that no field of the call has, values of one
// beside its last, and a version in a header.
func (route *route) checkParameters(r *http.Request) error {
	if route.contract != nil {
		return nil
	}
	if r.Header.Get("If-Match") != "" {
		return apierror.InvalidField("If-Match", "not supported: send the version of a stored spec as its etag, in the body or with DELETE as ?etag=")
	}
	if r.Header.Get("If-None-Match") != "" && r.Method != http.MethodGet { // of GET it is a hint, which may be ignored
		return apierror.InvalidField("If-None-Match", "not supported: what exists is replaced only on condition of its etag, in the body or with DELETE as ?etag=")
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return apierror.InvalidField("query", "Invalid value: "+err.Error())
	}
	for _, given := range slices.Sorted(maps.Keys(query)) {
		if name := jsonName(given); len(query[given]) > 1 || name != given && query.Has(name) {
			return apierror.InvalidField(apierror.Clip(name), "given more than once")
		}
		field := given
		if end := strings.IndexAny(given, ".["); end >= 0 {
			field = given[:end]
		}
		switch close, ok := spelling.Closest(field, route.parameters); {
		case slices.Contains(route.parameters, field):
			if route.method == http.MethodDelete && query.Get(given) == "" { // all are conditions
				return apierror.InvalidField(given, "Required value: without a condition leave the parameter out")
			}
		case ok:
			return apierror.InvalidField(apierror.Clip(given), fmt.Sprintf("unknown parameter, did you mean %q?", close))
		default:
			return apierror.InvalidField(apierror.Clip(given), "unknown parameter: "+route.takes())
		}
	}
	return nil
}

// takes says which parameters there are.
func (route *route) takes() string {
	if len(route.parameters) == 0 {
		return "this call takes none"
	}
	return "there are " + strings.Join(route.parameters, ", ")
}
