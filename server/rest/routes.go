package rest

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/server/apierror"
)

// restRoute is a method of HTTP and the paths of the contract that it is served at.
type restRoute struct {
	method string
	path   *regexp.Regexp
	// parameters are the fields that its URLs may have as parameters, nil for a contract of another
	// project.
	parameters []protoreflect.FieldDescriptor
}

// restRoutes are the contract's routes; the gateway does not expose its own list.
var restRoutes = sync.OnceValue(func() (routes []restRoute) {
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto,
		setpointv1.File_setpoint_v1_target_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto,
		setpointv1.File_setpoint_v1_operations_service_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				rule, _ := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
				add := func(method, template string) {
					routes = append(routes, restRoute{method, pathPattern(template), parametersOf(methods.Get(j).Input(), template, rule.GetBody())})
				}
				switch pattern := rule.GetPattern().(type) {
				case *annotations.HttpRule_Get:
					add(http.MethodGet, pattern.Get)
				case *annotations.HttpRule_Post:
					add(http.MethodPost, pattern.Post)
				case *annotations.HttpRule_Put:
					add(http.MethodPut, pattern.Put)
				case *annotations.HttpRule_Delete:
					add(http.MethodDelete, pattern.Delete)
				}
			}
		}
	}
	return append(routes, integrationRoutes()...)
})

// parametersOf returns the fields of a request that are neither in the path nor in the body.
func parametersOf(request protoreflect.MessageDescriptor, template, body string) []protoreflect.FieldDescriptor {
	parameters := []protoreflect.FieldDescriptor{}
	for i := range request.Fields().Len() {
		fd := request.Fields().Get(i)
		if name := string(fd.Name()); body != "*" && body != name && !strings.Contains(template, "{"+name+"=") {
			parameters = append(parameters, fd)
		}
	}
	return parameters
}

// checkParameters refuses parameters of a URL that no field of the call has, which the gateway would
// ignore.
func checkParameters(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	at := slices.IndexFunc(restRoutes(), func(route restRoute) bool {
		return route.method == r.Method && route.parameters != nil && route.path.MatchString(r.URL.Path)
	})
	if at < 0 {
		return nil
	}
	var names []string
	for _, fd := range restRoutes()[at].parameters {
		names = append(names, fd.JSONName(), string(fd.Name()))
	}
	for _, given := range slices.Sorted(maps.Keys(r.URL.Query())) {
		field := given
		if end := strings.IndexAny(given, ".["); end >= 0 {
			field = given[:end]
		}
		switch close, ok := spelling.Closest(field, names); {
		case slices.Contains(names, field):
		case ok:
			return apierror.InvalidField(apierror.Clip(given), fmt.Sprintf("unknown parameter, did you mean %q?", close))
		case len(names) == 0:
			return apierror.InvalidField(apierror.Clip(given), "unknown parameter: this call takes none")
		default:
			return apierror.InvalidField(apierror.Clip(given), "unknown parameter: there are "+strings.Join(names, ", "))
		}
	}
	return nil
}

// targetPattern is the prefix of expressions for paths below a target.
const targetPattern = `^/v1/clusters/[^/]+/namespaces/[^/]+/targets/[^/]+`

// afterTarget lists what may follow the name of a target in a path, for messages.
var afterTarget = sync.OnceValue(func() string {
	var suffixes []string
	for _, r := range restRoutes() {
		if suffix, ok := strings.CutPrefix(r.path.String(), targetPattern); ok && suffix != "$" {
			suffixes = append(suffixes, strings.TrimSuffix(suffix, "$"))
		}
	}
	slices.Sort(suffixes)
	suffixes = slices.Compact(suffixes)
	last := len(suffixes) - 1
	return "nothing, " + strings.Join(suffixes[:last], ", ") + " or " + suffixes[last]
})

// variables matches the variables of a template, as in {name=a/*}.
var variables = regexp.MustCompile(`\{\w+=([^}]*)\}`)

// pathPattern turns a template of google.api.http into a regular expression. A colon in the last
// segment begins a verb.
func pathPattern(template string) *regexp.Regexp {
	template = regexp.QuoteMeta(variables.ReplaceAllString(template, "$1"))
	if start, ok := strings.CutSuffix(template, `\*`); ok {
		template = start + `[^/:]+`
	}
	return regexp.MustCompile("^" + strings.ReplaceAll(template, `\*`, `[^/]+`) + "$")
}

// allowedAt returns the methods that are served at a path of the contract, sorted.
func allowedAt(path string) []string {
	var methods []string
	for _, r := range restRoutes() {
		if r.path.MatchString(path) {
			methods = append(methods, r.method)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// misdirected returns the status of a call whose path ends in a verb that is not served, or not by
// its method; 0 for other calls. The gateway would take the verb for a part of a target's name.
func misdirected(r *http.Request) int {
	if strings.LastIndexByte(r.URL.Path, ':') < strings.LastIndexByte(r.URL.Path, '/') {
		return 0
	}
	switch allowed := allowedAt(r.URL.Path); {
	case len(allowed) > 0 && !slices.Contains(allowed, r.Method):
		return http.StatusMethodNotAllowed
	case len(allowed) == 0 && strings.HasPrefix(r.URL.Path, targetsPrefix):
		return http.StatusNotFound
	}
	return 0
}

// targetsPrefix begins the paths of targets and their namespaces.
const targetsPrefix = "/v1/clusters/"

// notServed returns the error for a method that is not served where others are.
func notServed(r *http.Request, allowed []string) error {
	return status.Error(codes.Unimplemented, fmt.Sprintf("%s is not served at %s: use %s; see /docs",
		apierror.Clip(r.Method), apierror.Clip(r.URL.Path), strings.Join(allowed, " or ")))
}

// RefuseMethod responds to methods other than GET and HEAD at read-only paths.
func RefuseMethod(w http.ResponseWriter, r *http.Request) {
	allowed := []string{http.MethodGet, http.MethodHead}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusMethodNotAllowed)
	if body, err := protojson.Marshal(status.Convert(notServed(r, allowed)).Proto()); err == nil {
		_, _ = w.Write(body)
	}
}
