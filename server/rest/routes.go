package rest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/integration"
)

// kind is how the calls of a route are served.
type kind int

const (
	_ kind = iota // unary
	// list responses may be large although the call is not.
	list
	// streamed responses take as long as they take.
	streamed
)

// route is a method of HTTP and the paths that it is served at, with all that is known of its calls.
type route struct {
	method string
	// template is the path, with * for a segment that it leaves open. A colon in the last segment
	// begins a verb.
	template string
	kind     kind
	// rpc is the method of gRPC that it becomes.
	rpc string
	// parameters are the names of what URLs may have beside the path. Those of integrations are
	// ignored.
	parameters []string
	// body is the field of the request that is the body, as JSON has it; "" if that is the request itself, or none.
	body string
	// bare calls have no body.
	bare    bool
	maxBody int64
	// contract is that of an integration, nil for others.
	contract integration.Contract
}

// routesOf returns the routes of the contract and of the integrations.
func routesOf(maxBody int64) (routes []route) {
	protoregistry.GlobalFiles.RangeFilesByPackage(setpointv1.File_setpoint_v1_recommendation_service_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				rule, _ := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
				for _, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					if r, ok := routeOf(methods.Get(j), binding); ok {
						r.maxBody = maxBody
						routes = append(routes, r)
					}
				}
			}
		}
		return true
	})
	for name, contract := range integration.Contracts {
		routes = append(routes, route{
			method: http.MethodPost, template: integrationsPath + "/" + name + "/clusters/*",
			rpc: setpointv1.RecommendationService_GetRecommendation_FullMethodName, maxBody: min(maxBody, integration.MaxBody), contract: contract,
		})
	}
	return routes
}

// bodies returns the field that is the body, by the method of gRPC.
var bodies = sync.OnceValue(func() map[string]string {
	fields := make(map[string]string)
	for _, r := range routesOf(0) {
		fields[r.rpc] = r.body
	}
	return fields
})

// variables matches the variables of a template of google.api.http, as in {name=a/*}.
var variables = regexp.MustCompile(`\{\w+=([^}]*)\}`)

func routeOf(method protoreflect.MethodDescriptor, rule *annotations.HttpRule) (r route, ok bool) {
	pattern := rule.ProtoReflect().WhichOneof(rule.ProtoReflect().Descriptor().Oneofs().ByName("pattern"))
	if pattern == nil {
		return r, false
	}
	r.method = strings.ToUpper(string(pattern.Name()))
	template := rule.ProtoReflect().Get(pattern).String()
	r.template = variables.ReplaceAllString(template, "$1")
	r.rpc = "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	r.bare = rule.GetBody() == ""
	r.parameters = parametersOf(method.Input(), template, rule.GetBody())
	if field := method.Input().Fields().ByName(protoreflect.Name(rule.GetBody())); field != nil {
		r.body = field.JSONName()
	}
	switch answer := method.Output().Fields(); {
	case method.IsStreamingServer():
		r.kind = streamed
	case answer.ByName("next_page_token") != nil, answer.ByName("target_spec") != nil:
		r.kind = list
	}
	return r, true
}

// parametersOf returns the names of the fields of a request that are neither in the path nor in the
// body, as JSON has them and as the contract does.
func parametersOf(request protoreflect.MessageDescriptor, template, body string) (names []string) {
	for i := range request.Fields().Len() {
		fd := request.Fields().Get(i)
		if name := string(fd.Name()); body != "*" && body != name && !strings.Contains(template, "{"+name+"=") {
			names = append(names, fd.JSONName(), name)
		}
	}
	return slices.Compact(names)
}

// table is what is served at each path: the tree of the templates' segments.
type table struct{ root node }

// node is a segment of paths.
type node struct {
	// segments are the nodes below it; that of * is for all others but an empty one.
	segments map[string]*node
	// ends serve the paths that end here, by their verb with its colon, and by method; "" are all
	// other methods.
	ends map[string]map[string]http.Handler
	// follows are the ends of templates after this segment that leave none open.
	follows []string
	// lost serves paths below this segment at which nothing is served; nil: as above it.
	lost http.Handler
}

// at returns the node of a template, which it creates if need be, and the verb.
func (t *table) at(template string) (at *node, verb string) {
	at = &t.root
	for verb = template; strings.HasPrefix(verb, "/"); {
		segment := firstOf(verb)
		if at.segments[segment] == nil {
			if at.segments == nil {
				at.segments = make(map[string]*node)
			}
			at.segments[segment] = &node{ends: make(map[string]map[string]http.Handler)}
		}
		at, verb = at.segments[segment], verb[1+len(segment):]
		if verb != "" && !strings.Contains(verb, "*") && !slices.Contains(at.follows, verb) {
			at.follows = append(at.follows, verb)
			slices.Sort(at.follows)
		}
	}
	return at, verb
}

// firstOf returns the first segment of a path, which begins with a slash. A colon ends only the last.
func firstOf(path string) string {
	if end := strings.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : 1+end]
	}
	segment, _, _ := strings.Cut(path[1:], ":")
	return segment
}

// find follows a path as far as there are segments, and returns the rest of it. It does not allocate.
func (t *table) find(path string) (at *node, rest string, lost http.Handler) {
	at, rest, lost = &t.root, path, t.root.lost
	for strings.HasPrefix(rest, "/") {
		segment := firstOf(rest)
		next := at.segments[segment]
		if next == nil && segment != "" {
			next = at.segments["*"]
		}
		if next == nil {
			return at, rest, lost
		}
		at, rest = next, rest[1+len(segment):]
		if at.lost != nil {
			lost = at.lost
		}
	}
	return at, rest, lost
}

// ServeHTTP implements http.Handler.
func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, verb, handler := t.find(r.URL.Path)
	if served := at.ends[verb]; served[r.Method] != nil {
		handler = served[r.Method]
	} else if served != nil {
		handler = served[""]
	}
	handler.ServeHTTP(w, r)
}
