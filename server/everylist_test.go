package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// listsIn returns the paths of fields to each list and map of a message, in its messages too.
func listsIn(md protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor) (all [][]protoreflect.FieldDescriptor) {
	for _, step := range path {
		if step.ContainingMessage() == md {
			return nil // it contains itself
		}
	}
	for i := range md.Fields().Len() {
		f := md.Fields().Get(i)
		to := append(path[:len(path):len(path)], f)
		if f.IsList() || f.IsMap() {
			all = append(all, to)
		}
		if f.Message() != nil && !f.IsMap() {
			all = append(all, listsIn(f.Message(), to)...)
		}
	}
	return all
}

// ofElements is how many elements a list has.
type ofElements struct {
	name string
	// last is how many the last list has at most, each how many those around it; 0: as many as there
	// is room for.
	last, around int
}

func (o ofElements) of(f protoreflect.FieldDescriptor, last bool) int {
	n := o.last
	if !last {
		n = o.around
	}
	if n < 0 { // as many as its rule allows
		rules := validation.RulesOf(f)
		switch rules.WhichType() {
		case validate.FieldRules_Repeated_case:
			return int(rules.GetRepeated().GetMaxItems())
		case validate.FieldRules_Map_case:
			return int(rules.GetMap().GetMaxPairs())
		}
		return 100
	}
	return n
}

// wireLists encodes lists of empty elements at a path, in about that many bytes.
func wireLists(path []protoreflect.FieldDescriptor, o ofElements, room int) (data []byte) {
	f, last := path[0], len(path) == 1
	var content []byte
	if !last {
		inner := room
		if o.of(f, false) != 1 && f.IsList() {
			inner = min(room, 400)
		}
		content = wireLists(path[1:], o, inner)
	}
	times := 1
	if f.IsList() || f.IsMap() {
		times = o.of(f, last)
	}
	for n := 0; n == 0 || (times == 0 || n < times) && len(data) < room; n++ {
		switch {
		case f.IsMap():
			key := protowire.AppendTag(nil, 1, protowire.BytesType)
			key = protowire.AppendString(key, fmt.Sprintf("%x", n))
			if f.MapKey().Kind() != protoreflect.StringKind {
				key = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(n))
			}
			data = protowire.AppendBytes(protowire.AppendTag(data, f.Number(), protowire.BytesType), key)
		case f.Message() != nil || f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind:
			data = protowire.AppendBytes(protowire.AppendTag(data, f.Number(), protowire.BytesType), content)
		case f.Kind() == protoreflect.DoubleKind:
			data = protowire.AppendFixed64(protowire.AppendTag(data, f.Number(), protowire.Fixed64Type), 0)
		default:
			data = protowire.AppendVarint(protowire.AppendTag(data, f.Number(), protowire.VarintType), 0)
		}
	}
	return data
}

// jsonLists is wireLists as JSON: the value of the message's only member.
func jsonLists(path []protoreflect.FieldDescriptor, o ofElements, room int) string {
	f, last := path[0], len(path) == 1
	empty := "0"
	switch {
	case !last:
		inner := room
		if o.of(f, false) != 1 && f.IsList() {
			inner = min(room, 400)
		}
		empty = jsonLists(path[1:], o, inner)
	case f.IsMap() && f.MapValue().Message() == nil, f.Kind() == protoreflect.StringKind, f.Kind() == protoreflect.BytesKind:
		empty = `""`
	case f.Message() != nil:
		empty = "{}"
	}
	var b strings.Builder
	b.WriteString(`{"` + f.JSONName() + `":`)
	if !f.IsList() && !f.IsMap() {
		return b.String() + empty + "}"
	}
	open, end := "[", "]"
	if f.IsMap() {
		open, end = "{", "}"
	}
	b.WriteString(open)
	times := o.of(f, last)
	for n := 0; n == 0 || (times == 0 || n < times) && b.Len() < room; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		if f.IsMap() {
			fmt.Fprintf(&b, `"%x":`, n)
		}
		b.WriteString(empty)
	}
	return b.String() + end + "}"
}

// Whatever list of whatever message is full of empty elements, over gRPC and REST, it costs no more
// than its bytes allow: of every method that is registered, in whatever message the list is.
func TestCostOfEveryList(t *testing.T) {
	measures(t)
	s := servertest.Start(t)
	conn := s.Dial(t, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	const room = 2 << 20
	lists := 0
	for _, m := range everyMethod(t, s) {
		routes := servertest.Routes(m, servertest.Web)
		for _, path := range listsIn(m.Input(), nil) {
			lists++
			names := make([]string, len(path))
			nested := false
			for i, f := range path {
				names[i] = f.JSONName()
				nested = nested || i < len(path)-1 && f.IsList()
			}
			shapes := []ofElements{{"one list", 0, 1}, {"as many as allowed", -1, 1}}
			if nested {
				shapes = append(shapes, ofElements{"many lists", 0, 0}, ofElements{"as many lists as allowed", 0, -1})
			}
			for _, shape := range shapes {
				t.Run(fmt.Sprintf("%s/%s/%s", m.Name(), strings.Join(names, "."), shape.name), func(t *testing.T) {
					data := wireLists(path, shape, room)
					checkCost(t, len(data), func() bool { return callOnce(t.Context(), conn, m, data) == nil })
					if len(routes) == 0 || !routes[0].Body {
						return
					}
					body := []byte(jsonLists(path, shape, room))
					checkCost(t, len(body), func() bool { return postTo(t, s, routes[0], body) == http.StatusOK })
				})
			}
		}
	}
	if lists < 60 {
		t.Errorf("only %d lists", lists)
	}
}

// postTo sends a body to a route, and returns the status.
func postTo(t *testing.T, s *servertest.Service, b servertest.Route, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), b.Method, s.URL+b.Path, strings.NewReader(string(body)))
	fatal.If(t, err)
	a := s.MustSend(t, req)
	return a.Code
}
